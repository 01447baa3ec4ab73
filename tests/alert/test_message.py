"""A notice in words: the sentence of each kind, all its figures, templates, bounds, no secrets."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.alert.outbox_world import RULE, context, side
from tracker.alert import template as templates
from tracker.alert import words
from tracker.alert.message import notice
from tracker.notify import Notice
from tracker.telemetry import Redactor

FIRING = {"since": "2026-03-01T09:00:00Z", "duration_seconds": 10_800, "best": "0.88",
          "worst": "0.97"}  # fmt: skip


def made(*contexts: dict[str, Any], limit: int = 16_000, own: str | None = None,
         secrets: tuple[str, ...] = ()) -> Notice:  # fmt: skip
    return notice(
        contexts, "message-1", redactor=Redactor(secrets), max_characters=limit,
        templates=None if own is None else {RULE: own},
    )  # fmt: skip


def test_what_a_firing_says() -> None:
    found = made(context())
    assert found.event_id == "message-1"
    assert found.subject == (
        "gpucost: BERT-Large on H100 costs $10.76, 9.1 % less than on A100 ($11.83)."
    )
    assert found.text.splitlines() == [
        "BERT-Large on H100 costs $10.76, 9.1 % less than on A100 ($11.83).",
        "",
        "H100: $10.76 for 4 h at $2.69/h, 1 x H100-SXM-80GB at runpod (secure, on demand,"
        " US-KS-2), seen 2 min before, offer runp01",
        "A100: $11.83 for 10 h at $1.18/h, 1 x A100-SXM-80GB at vastai (secure, on demand,"
        " US-KS-2), seen 2 min before, offer vast01",
        "Ratio: 0.909 (margin 9.1 %); fires at 0.98 or below, clears at 1.02 or above",
        "Break-even: H100 at $2.9575 per GPU-hour",
        "Estimate: H100 4 h (published, mlperf-2024); A100 10 h (published, mlperf-2024)",
        f'Rule: "H100 job cheaper than A100 job", {RULE} (version 1, event 1):'
        " cost(H100) < cost(A100), rank auto",
        "At: 2026-03-01T12:00:00Z",
        "Reproduce: gpucost cheapest bert-large --gpu H100,A100",
        "Reproduce: gpucost explain runp01",
        "Reproduce: gpucost explain vast01",
        "Event: event-1",
    ]
    assert found.data["events"] == [context()]


def test_a_secret_that_is_a_word_of_the_notice_garbles_nothing() -> None:
    plain = made(context())
    names = ("gpucost", RULE, "bert-large", "on_demand", "runpod", "H100", "cheap")
    for secrets in (*((name,) for name in names), names):
        found = made(context(), secrets=secrets)
        assert (found.subject, found.text, found.data) == (plain.subject, plain.text, plain.data)


def test_any_other_secret_is_hidden_beside_them() -> None:
    told = context() | {"title": "see hunter2 and bert-large-x9f3k2"}
    found = made(told, secrets=("gpucost", "hunter2", "bert-large-x9f3k2"), own="{{ title }}")
    assert found.text.startswith("see *** and ***")
    assert found.data["events"][0]["title"] == "see *** and ***"


MERGED = {"event_ids": ["event-0"], "fired": context()}
BACK = {"value": "1.05", "left": side("H100", "runpod", "3.10", "12.40"), "firing": FIRING}


@pytest.mark.parametrize(
    ("kind", "more", "sentence"),
    [
        ("fired", {"left": side("H100", "x", "2.69", "10.76", lower_bound=True)},
         "BERT-Large on H100 costs at least $10.76, 9.1 % less than on A100 ($11.83)."),
        ("fired", {"value": "1"}, "BERT-Large on H100 costs $10.76, as much as on A100 ($11.83)."),
        ("resolved", BACK,
         "Cleared after 3 h: BERT-Large on H100 costs $12.40, 5 % more than on A100 ($11.83)."),
        ("resolved", {**BACK, "merged": MERGED},
         "Fired and cleared after 3 h: BERT-Large on H100 costs $12.40, 5 % more than on A100"
         " ($11.83); it was: BERT-Large on H100 costs $10.76, 9.1 % less than on A100 ($11.83)."),
        ("resolved", {**BACK, "merged": {"event_ids": ["e"], "fired": None}},
         "Cleared after 3 h: BERT-Large on H100 costs $12.40, 5 % more than on A100 ($11.83)."),
        ("reminder", {"firing": FIRING},
         "Still so (for 3 h now): BERT-Large on H100 costs $10.76, 9.1 % less than on A100"
         " ($11.83)."),
        ("still_firing", {"firing": FIRING},
         "A silence has ended, and this goes on: BERT-Large on H100 costs $10.76, 9.1 % less than"
         " on A100 ($11.83)."),
        ("still_firing", {"firing": FIRING, "reason": "its notice had been kept back by silence 3"},
         "A silence has ended, and this goes on: BERT-Large on H100 costs $10.76, 9.1 % less than"
         " on A100 ($11.83)."),
        ("still_firing", {"firing": FIRING, "reason": "its notice had been kept back by cooldown"},
         "The cooldown is over, and this goes on: BERT-Large on H100 costs $10.76, 9.1 % less than"
         " on A100 ($11.83)."),
        ("resolved", {**BACK, "firing": {**FIRING, "until": "2026-03-01T12:00:00Z"}},
         "Cleared after 3 h, at 2026-03-01T12:00:00Z, while a silence kept notices back:"
         " H100 job cheaper than A100 job."),
        ("closed", {"reason": "removed", "firing": {**FIRING, "until": "2026-03-01T12:00:00Z"}},
         f"Rule {RULE} was removed while it was true, for 3 h, at 2026-03-01T12:00:00Z, while a"
         " silence kept notices back."),
        ("closed", {"reason": "edited", "firing": FIRING},
         f"Rule {RULE} was edited while it was true, for 3 h."),
        ("closed", {"reason": "removed", "merged": MERGED},
         f"Rule {RULE} was removed while it was true; it had fired: BERT-Large on H100 costs"
         " $10.76, 9.1 % less than on A100 ($11.83)."),
        ("data_problem", {"health": {"state": "stale", "reason": "vastai has not answered",
                                     "since": "2026-03-01T10:00:00Z"}},
         "H100 job cheaper than A100 job cannot be judged, since 2026-03-01T10:00:00Z: vastai has"
         " not answered; until it can, nothing changes."),
        ("data_ok", {}, "H100 job cheaper than A100 job can be judged again."),
        ("changed", {"label": "H100-SXM-80GB", "previous_label": "A100-SXM-80GB"},
         "The cheapest GPU for BERT-Large is now H100-SXM-80GB, before it was A100-SXM-80GB."),
        ("changed", {"label": "H100", "job": None}, "The cheapest GPU is now H100."),
        ("found", {"found": [side("H100", "vastai", "1.75", "7"), side("H100", "x", "1.9", "8")]},
         "2 new offers: H100-SXM-80GB at vastai for $1.75 per GPU-hour."),
        ("test", {}, f"TEST of rule {RULE}: this notice got through, nothing happened."),
        ("fired", {"when": "cost(H100) < 40", "right": None, "threshold_usd": "40"},
         "BERT-Large on H100 costs $10.76 at runpod, against $40.00."),
        ("fired", {"when": "cost(H100) drops 10% in 7d", "right": None, "value": "0.85"},
         "BERT-Large on H100 costs $10.76 at runpod, 15 % less than before."),
        ("fired", {"when": "price(H100) < 2.70", "right": None, "threshold_usd": "2.7"},
         "H100 costs $2.69 per GPU-hour at runpod, against $2.70."),
        ("fired", {"when": "provider(vastai) stale", "left": None, "right": None,
                   "health": {"state": "stale", "reason": "no answer since 10:00", "since": None}},
         "No fresh prices: provider(vastai) stale (no answer since 10:00)."),
        ("resolved", {"when": "provider(vastai) stale", "title": "provider(vastai) stale",
                      "left": None, "right": None, "value": "3.3463", "firing": FIRING},
         "Cleared after 3 h: the prices of vastai are fresh."),
        ("resolved", {"when": "provider(any) stale", "title": "Prices", "left": None,
                      "right": None, "value": "3.3463", "firing": FIRING},
         "Cleared after 3 h: the prices of every provider are fresh."),
        ("resolved", {"when": "new offer(H100) < 2", "title": "new offer(H100) < 2"},
         "Cleared: new offer(H100) < 2."),
        ("something_new", {}, "H100 job cheaper than A100 job (something_new): cost(H100) <"
         " cost(A100)."),
    ],
)  # fmt: skip
def test_the_sentence_of_each_kind(kind: str, more: dict[str, Any], sentence: str) -> None:
    assert words.sentence(context(kind, **more)) == sentence
    assert made(context(kind, **more)).text.splitlines()[0] == sentence


def test_a_notice_about_a_provider_speaks_of_no_ratio() -> None:
    about = {"when": "provider(vastai) stale", "left": None, "right": None, "value": "3.3463"}
    text = made(context("resolved", **about, firing=FIRING, break_even_usd_per_gpu_hour=None)).text
    assert "\nFreshness: prices hold 3.3 times as long as they are old; at 1 or below" in text
    assert "atio" not in text
    assert "margin" not in text


def test_a_merged_notice_has_the_bills_of_both_moments() -> None:
    text = made(context("resolved", **BACK, merged=MERGED)).text
    assert "H100: $12.40 for 4 h at $2.69" not in text
    assert "\nH100: $12.40 for 4 h at $3.10/h" in text
    assert "\nH100 when it fired: $10.76 for 4 h at $2.69/h" in text
    assert "\nFiring: since 2026-03-01T09:00:00Z, 3 h; best ratio 0.88, worst 0.97" in text


def test_machines_of_several_gpus() -> None:
    eight = side("H100", "aws", "40", "80", gpu_count="8", machines=2,
                 price_usd_per_gpu_hour="5", region=None)  # fmt: skip
    line = made(context(left=eight)).text.splitlines()[2]
    assert line.startswith(
        "H100: $80.00 for 4 h at $40.00/h ($5.00 per GPU-hour), 2 machines of 8 x H100-SXM-80GB"
        " at aws (secure, on demand)"
    )


def test_several_events_in_one_message() -> None:
    other = context("data_ok", event_id="event-2", rule="other", title="Other")
    found = made(context(), other)
    assert found.subject.startswith("gpucost: 2 alerts: BERT-Large on H100 costs")
    assert "Other can be judged again." in found.text
    assert found.text.endswith("\n\nEvents: event-1, event-2")
    assert [event["event_id"] for event in found.data["events"]] == ["event-1", "event-2"]


def test_with_little_room_every_sentence_and_every_id_stays() -> None:
    contexts = [context(event_id=f"event-{n}", title=f"Rule {n}") for n in range(5)]
    found = made(*contexts, limit=600)
    assert len(found.text) <= 600
    assert found.text.count("BERT-Large on H100 costs") == 5
    assert found.text.endswith("Events: event-0, event-1, event-2, event-3, event-4")
    for n in range(5):  # the sentences are the same
        assert f"- Rule {n}: BERT-Large on H100 costs" in found.text


def test_with_little_room_a_rule_without_a_title_goes_by_its_name() -> None:
    untitled = context(title="cost(H100) < cost(A100)")
    ready = context("data_ok", rule="other", title="Other")
    lines = made(untitled, ready, limit=300).text.splitlines()
    assert lines[0].startswith(f"- {RULE}: BERT-Large on H100 costs")
    assert lines[1] == "- Other can be judged again."


@pytest.mark.parametrize("kind", ["fired", "resolved", "reminder", "still_firing"])
def test_the_title_is_in_every_text(kind: str) -> None:
    found = made(context(kind, firing=FIRING, title="H100 below $1.80"))
    assert f'Rule: "H100 below $1.80", {RULE} (version 1' in found.text
    assert "H100 below $1.80" in (found.html or "")
    untitled = made(context(kind, firing=FIRING, title="cost(H100) < cost(A100)"))
    assert f"Rule: {RULE} (version 1" in untitled.text


@given(st.integers(10, 3000), st.integers(1, 30))
@settings(max_examples=25)
def test_no_text_is_longer_than_its_channel_takes(limit: int, events: int) -> None:
    contexts = [context(event_id=f"event-{n}") for n in range(events)]
    assert len(made(*contexts, limit=limit).text) <= limit


PATHS = [(key,) for key in context()] + [
    (name, key) for name in ("left", "right", "job") for key in context()[name]
]
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, "", "nan", "-5", "1e400", [], {}, 7, True, "x\ny\x1b[31m\u202e", "<b>&", {"a": {}}]
)


@given(st.lists(st.tuples(st.sampled_from(PATHS), ODD), max_size=12),
       st.sampled_from(sorted([*words._SENTENCES, "odd"])))  # fmt: skip
def test_a_notice_is_made_of_whatever_there_is(
    changes: list[tuple[tuple[str, ...], Any]], kind: str
) -> None:
    """An older release may have written the context."""
    broken = copy.deepcopy(context(kind, firing=FIRING, merged=MERGED))
    for path, value in changes:
        place = broken
        for key in path[:-1]:
            place = place[key] if isinstance(place.get(key), dict) else {}
        place[path[-1]] = copy.deepcopy(value)
    found = made(broken)
    assert found.subject.isprintable()
    assert found.text.replace("\n", "").isprintable()
    assert "<b>" not in (found.html or "").replace("<b>&amp;", "")


def test_what_a_provider_says_is_no_markup_in_a_mail() -> None:
    evil = side("H100", "<script>alert(1)</script>", "2.69", "10.76", region='"><img src=x>')
    html = made(context(left=evil)).html or ""
    assert "<script>" not in html
    assert "<img" not in html
    assert "&lt;script&gt;" in html


# -- secrets -----------------------------------------------------------------------------------


def test_no_secret_in_any_part_of_a_message() -> None:
    secret = "hook-token-7f&<'\"9e"
    leaking = context(
        title=f"t {secret}", reason=secret, command=f"curl https://x/{secret}",
        health={"state": "error", "reason": f"refused {secret}", "since": None},
        left=side("H100", f"p {secret}", "1", "2", source_url=f"https://x/?a={secret}"),
        explain=[secret], found=[{"provider": secret, secret: secret}],
    )  # fmt: skip
    found = made(leaking, secrets=(secret,))
    assert "hook-token" not in repr(found)


# -- templates ---------------------------------------------------------------------------------


def test_a_rules_own_template() -> None:
    own = "{{ rule }}: {{ left.provider }} {{ left.job_cost_usd }}{{ reason }}\n{{ sentence }}"
    found = made(context(), own=own)
    assert found.text == (
        f"{RULE}: runpod 10.76\n"
        "BERT-Large on H100 costs $10.76, 9.1 % less than on A100 ($11.83).\n\nEvent: event-1"
    )
    assert "<pre" in (found.html or "")


def test_a_template_makes_no_markup_in_a_mail() -> None:
    html = made(context(), own="<b>{{ left.provider }}</b>").html or ""
    assert "&lt;b&gt;runpod" in html


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ("{{ left.providr }}", "has no attribute 'providr'"),
        ("{{ nothing }}", "'nothing' is undefined"),
        ("{% if %}", "line 1:"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "unsafe"),
        ("{{ lines.append(1) }}", "unsafe"),
        ("{% include '/etc/passwd' %}", "no loader"),
        ("{{ 'x' * 10 ** 10 }}", "memory"),
        ("{{ '%099999999999d' % 1 }}", "memory"),
        ("x" * 20_001, "longer than 20000 characters"),
    ],
)  # fmt: skip
def test_a_template_that_fails_gives_the_built_in_text_and_says_so(own: str, said: str) -> None:
    text = made(context(), own=own).text
    lines = text.splitlines()
    assert lines[0] == "BERT-Large on H100 costs $10.76, 9.1 % less than on A100 ($11.83)."
    remark = next(line for line in lines if line.startswith("Remark: "))
    assert "the rule's template failed, this is the built-in text" in remark
    assert said.lower() in remark.lower()
    assert lines[-1] == "Event: event-1"


def test_a_template_that_never_ends_is_ended() -> None:
    loop = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    with pytest.raises(templates.TemplateFailed, match=r"too (long|much)"):
        templates.render(loop, context(), max_characters=100, timeout_s=1.5)


def test_a_template_that_writes_for_ever_is_cut() -> None:
    loop = "{% for a in range(99999) %}{% for b in range(99999) %}xy{% endfor %}{% endfor %}"
    assert templates.render(loop, context(), max_characters=1000) == "xy" * 500


def test_a_template_sees_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPS_TOKEN", "planted-in-the-environment")
    with pytest.raises(templates.TemplateFailed):
        templates.render("{{ environ.OPS_TOKEN }}", {}, max_characters=100)


def test_the_syntax_of_a_template_is_checked_without_running_it() -> None:
    assert templates.check("{{ sentence }}") is None
    assert str(templates.check("\n{% for %}")).startswith("line 2: Expected an expression")
