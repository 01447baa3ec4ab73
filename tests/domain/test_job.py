"""Jobs as people write them: what is read, what is refused and in which words."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.catalogue import catalogue
from tracker.domain.gpu import UnknownGpu
from tracker.domain.job import (
    MAX_HOURS,
    Basis,
    Job,
    JobError,
    NoEstimate,
    RuntimeEstimate,
    RuntimeHours,
    runtime_for,
)
from tracker.domain.job_text import job_from_text, job_from_toml, parse_hours

BERT = Path(__file__).resolve().parents[2] / "tracker" / "data" / "jobs" / "bert-large.toml"


@dataclass(frozen=True)
class Part:
    key: str


@dataclass(frozen=True)
class Spec:
    gpu: Part


@dataclass
class FakeCatalogue:
    """Speeds are the project's own inventions; only that they differ matters."""

    speeds: dict[str, str] = field(
        default_factory=lambda: {
            "A100-SXM-80GB": "1",
            "A100-SXM-40GB": "0.8",
            "A100-PCIE-40GB": "0.75",
            "A100-80GB": "0.9",
            "H100-SXM-80GB": "1",
            "H100-PCIE-80GB": "0.7",
            "H100-80GB": "0.7",
            "RTX4090-24GB": "1",
            "RTX4090D-24GB": "1",
        }
    )
    references: tuple[str, ...] = ("A100-SXM-80GB", "H100-SXM-80GB", "RTX4090-24GB")
    open_forms: tuple[str, ...] = ("A100-80GB", "H100-80GB")

    def select(self, query: str) -> frozenset[str]:
        words = query.upper().split("-")
        found = {
            key
            for key in self.speeds
            if key.split("-")[0] == words[0].replace(" ", "")
            and set(words[1:]) <= set(key.split("-"))
        }
        if not found:
            raise UnknownGpu(query, ("A100", "H100"))
        return frozenset(found)

    def reference(self, family: str) -> Spec | None:
        keys = [key for key in self.references if key.split("-")[0] == family]
        return Spec(Part(keys[0])) if keys else None

    def spec(self, key: str) -> Spec | None:
        return Spec(Part(key)) if key in self.speeds and key not in self.open_forms else None

    def relative_speed(self, key: str) -> Decimal | None:
        return Decimal(self.speeds[key]) if key in self.speeds else None


CATALOGUE = FakeCatalogue()
WORDS = st.sampled_from(["", "A100", "hours", "gpus", "note", "x\ny", "12", "-1", "\u00e9 \u4e2d"])


def job(**hours: RuntimeHours) -> Job:
    return Job("j", {name.replace("_", "-"): entry for name, entry in hours.items()})


def h(hours: str, **more: Any) -> RuntimeHours:
    return RuntimeHours(Decimal(hours), **more)


# --- the hours of one GPU -------------------------------------------------------------------


def test_a_familys_hours_hold_for_its_reference_part_as_given() -> None:
    given_hours = h("12", basis=Basis.PUBLISHED, note="from a guide", source="a guide")
    got = runtime_for(job(A100=given_hours), "A100-SXM-80GB", CATALOGUE)
    assert got == RuntimeEstimate(Decimal(12), Basis.PUBLISHED, "from a guide", False, 1, "a guide")


def test_another_part_of_the_family_is_scaled_and_says_from_what() -> None:
    got = runtime_for(job(A100=h("12", basis=Basis.PUBLISHED)), "A100-PCIE-40GB", CATALOGUE)
    assert isinstance(got, RuntimeEstimate)
    assert got.hours == 16
    assert got.basis is Basis.SCALED
    assert got.note == ("12 h on A100-SXM-80GB (published), A100-PCIE-40GB at 0.75 times its speed")


def test_an_exact_entry_beats_the_familys() -> None:
    both = job(A100=h("12"), A100_PCIE_40GB=h("20", basis=Basis.MEASURED))
    got = runtime_for(both, "A100-PCIE-40GB", CATALOGUE)
    assert isinstance(got, RuntimeEstimate)
    assert (got.hours, got.basis) == (Decimal(20), Basis.MEASURED)


def test_an_open_form_factor_gets_the_slowest_part_and_is_marked() -> None:
    got = runtime_for(job(H100=h("7")), "H100-80GB", CATALOGUE)
    assert isinstance(got, RuntimeEstimate)
    assert (got.hours, got.basis) == (Decimal(10), Basis.SCALED)
    assert "form factor not stated" in (got.note or "")


@pytest.mark.parametrize(
    ("gpu", "says"),
    [
        ("RTX4090-24GB", "no hours given for RTX4090-24GB (given: A100)"),
        ("RTX4090D-24GB", "no hours given"),
        ("A100-SLICE", "slice"),
        ("A100-PCIE-80GB", "not known"),  # a part whose speed the catalogue does not have
    ],
)
def test_without_an_entry_there_is_no_estimate(gpu: str, says: str) -> None:
    got = runtime_for(job(A100=h("12")), gpu, CATALOGUE)
    assert isinstance(got, NoEstimate)
    assert says in got.reason


def test_a_lower_bound_and_its_caveat_stay_with_scaled_hours() -> None:
    entry = h("48", lower_bound=True, gpus=2, note="count not given")
    got = runtime_for(job(A100=entry), "A100-SXM-40GB", CATALOGUE)
    assert isinstance(got, RuntimeEstimate)
    assert (got.hours, got.lower_bound, got.gpus) == (Decimal(60), True, 2)
    assert (got.note or "").endswith("; count not given")


def test_a_familys_hours_need_a_reference_part() -> None:
    got = runtime_for(job(RTX4090D=h("48")), "RTX4090D-24GB", CATALOGUE)
    assert isinstance(got, NoEstimate)
    assert "reference part" in got.reason


@given(st.decimals("0.01", "87600", places=2), st.sampled_from(sorted(CATALOGUE.speeds)))
def test_a_slower_part_never_takes_less_than_the_reference(hours: Decimal, gpu: str) -> None:
    families = {key: RuntimeHours(hours) for key in ("A100", "H100", "RTX4090")}
    got = runtime_for(Job("j", families), gpu, CATALOGUE)
    if isinstance(got, RuntimeEstimate):
        assert got.hours >= hours
        assert (got.basis is Basis.SCALED) == (gpu not in CATALOGUE.references)


# --- hours typed on a command line ----------------------------------------------------------


def test_hours_as_typed() -> None:
    got = parse_hours("A100=12, h100=4.5,RTX 4090=48", CATALOGUE)
    assert dict(got) == {"A100": h("12"), "H100": h("4.5"), "RTX4090": h("48")}


def test_a_name_for_several_parts_means_each_and_the_narrower_name_wins() -> None:
    got = parse_hours("A100-40GB=20,A100=12,A100-PCIE-40GB=24", CATALOGUE)
    assert dict(got) == {"A100": h("12"), "A100-SXM-40GB": h("20"), "A100-PCIE-40GB": h("24")}
    assert got == parse_hours("A100-PCIE-40GB=24,A100=12,A100-40GB=20", CATALOGUE)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "'' is not GPU=HOURS"),
        ("A100", "'A100' is not GPU=HOURS"),
        ("A100=12,", "'' is not GPU=HOURS"),
        ("A100=", "is not GPU=HOURS"),
        ("B100=3", "did you mean A100, H100?"),
        ("A100=0", "more than 0 hours"),
        ("A100=-1", "more than 0 hours"),
        ("A100=nan", "not a finite number"),
        ("A100=1,5", "'5' is not GPU=HOURS"),
        ("A100=12m", "not a decimal number: '12m'"),
        ("A100=87601", "more than ten years"),
        ("A100=1e999999", "out of range"),
        ("A100=12,a100=13", "both mean A100"),
        ("A100-SXM=12,A100-40GB=13", "both mean A100-SXM-40GB"),
    ],
)
def test_hours_that_cannot_be_meant_are_refused(text: str, says: str) -> None:
    with pytest.raises(JobError) as caught:
        parse_hours(text, CATALOGUE)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


# --- a job's file ---------------------------------------------------------------------------

FULL = """
name = "my-job"
title = "My job"
description = "What it does"
gpus_needed = 2
min_vram_gb = 40
disk_gb = 200.5
egress_gb = 10
setup_hours = 0.25

[hours]
A100-SXM-80GB = 12.75

[hours.H100]
hours = 4
gpus = 4
basis = "measured"
lower_bound = true
note = "bf16"
source = "run 17"
"""


def test_every_key_of_a_job_is_read_exactly() -> None:
    assert job_from_text(FULL, CATALOGUE) == Job(
        name="my-job",
        title="My job",
        description="What it does",
        hours={
            "A100-SXM-80GB": h("12.75", gpus=2),
            "H100": h(
                "4", gpus=4, basis=Basis.MEASURED, lower_bound=True, note="bf16", source="run 17"
            ),
        },
        gpus_needed=2,
        min_vram_gb=Decimal(40),
        disk_gb=Decimal("200.5"),
        egress_gb=Decimal(10),
        setup_hours=Decimal("0.25"),
    )


def test_what_a_job_does_not_say_is_one_gpu_and_nothing_else() -> None:
    got = job_from_toml({"name": "j", "hours": {"A100": 12}})
    assert got == Job("j", {"A100": h("12")}, title="j")
    assert got.min_vram_gb is None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"gpu_needed": 2}, "gpu_needed: unknown key; did you mean 'gpus_needed'?"),
        ({"zzz": 2}, "zzz: unknown key; known: name, title"),
        ({"name": "My Job"}, "name: 'My Job' must be lower-case"),
        ({"name": 3}, "name: 3 is not text"),
        ({"hours": {}}, "hours: give at least one GPU"),
        ({"hours": 12}, "hours: must be a table"),
        ({"hours": {"A100": 0}}, "hours.A100: 0 h; a job takes more than 0 hours"),
        ({"hours": {"A100": True}}, "hours.A100: not a decimal number: True"),
        ({"hours": {"A100": 1.5}}, "hours.A100: not a decimal number: 1.5"),
        ({"hours": {"A100": Decimal("inf")}}, "hours.A100: not a finite number"),
        ({"hours": {"A100": 90000}}, "more than ten years"),
        ({"hours": {"A 100!": 1}}, "unknown GPU 'A 100!'; did you mean A100"),
        ({"hours": {"A100": {"gpus": 1}}}, "hours.A100: hours is missing"),
        ({"hours": {"A100": {"hour": 1}}}, "hours.A100.hour: unknown key; did you mean 'hours'?"),
        ({"hours": {"A100": {"hours": 1, "basis": "guess"}}}, "is none of published, measured"),
        ({"hours": {"A100": {"hours": 1, "basis": "scaled"}}}, "is none of published, measured"),
        ({"hours": {"A100": {"hours": 1, "lower_bound": 1}}}, "1 is not true or false"),
        ({"hours": {"A100": {"hours": 1, "gpus": 0}}}, "hours.A100.gpus: 0 is not between"),
        (
            {"gpus_needed": 4, "hours": {"A100": {"hours": 1, "gpus": 2}}},
            "hours.A100.gpus: 2, but the job needs 4 GPUs",
        ),
        ({"gpus_needed": 0}, "gpus_needed: 0 is not between 1 and"),
        ({"gpus_needed": 16**5000}, "gpus_needed: a number of thousands of digits is not between"),
        ({"disk_gb": 16**5000}, "disk_gb: a number of thousands of digits is out of range"),
        ({"title": 16**5000}, "title: a number of thousands of digits is not text"),
        ({"gpus_needed": "2"}, "gpus_needed: '2' is not a whole number"),
        ({"gpus_needed": True}, "gpus_needed: True is not a whole number"),
        ({"disk_gb": -1}, "disk_gb: -1 is not between 0 and"),
        ({"disk_gb": Decimal("1e999999")}, "disk_gb: 1E+999999 is out of range"),
        ({"egress_gb": "many"}, "egress_gb: not a decimal number: 'many'"),
        ({"setup_hours": 1000}, "setup_hours: 1000 is not between 0 and 720"),
        ({"min_vram_gb": -4}, "min_vram_gb: -4 is not between"),
        ({"title": "x" * 3000}, "title: longer than 2000 characters"),
        ({"title": "a\0b"}, "title: has a character that cannot be stored: U+0000"),
        ({"description": "\udfff"}, "description: has a character that cannot be stored"),
        ({"limits": {"regions": ["a\0b"]}}, "limits.regions: a word has a character that cannot"),
        ({"a\nb": 1}, "a b: unknown key"),
    ],
)
def test_a_mistake_in_a_job_is_named(change: dict[str, Any], says: str) -> None:
    with pytest.raises(JobError) as caught:
        job_from_toml({"name": "j", "hours": {"A100": 12}} | change, CATALOGUE)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_a_catalogue_only_the_spelling_of_a_gpu_is_checked() -> None:
    assert list(job_from_toml({"name": "j", "hours": {"a100-sxm-80gb": 1}}).hours) == [
        "A100-SXM-80GB"
    ]
    with pytest.raises(JobError, match="not a GPU name"):
        job_from_toml({"name": "j", "hours": {"A 100": 1}})


def test_text_that_is_not_toml_is_one_line() -> None:
    with pytest.raises(JobError, match="not TOML: ") as caught:
        job_from_text("name = \n[")
    assert "\n" not in str(caught.value)


@given(
    st.dictionaries(
        st.sampled_from(["name", "hours", "gpus_needed", "disk_gb", "title", "min_vram_gb"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | WORDS | st.decimals(),
            lambda inner: st.dictionaries(WORDS, inner, max_size=3) | st.lists(inner, max_size=3),
            max_leaves=4,
        ),
    )
)
def test_junk_is_a_job_error_and_nothing_else(data: dict[str, Any]) -> None:
    try:
        got = job_from_toml(data, CATALOGUE)
    except JobError as error:
        assert "\n" not in str(error)
    else:
        assert all(0 < entry.hours <= MAX_HOURS for entry in got.hours.values())


# --- the built-in job -----------------------------------------------------------------------


def test_bert_large_is_as_published_with_its_caveats() -> None:
    got = job_from_text(BERT.read_text(encoding="utf-8"), CATALOGUE)
    assert got.name == "bert-large"
    assert {gpu: entry.hours for gpu, entry in got.hours.items()} == {
        "A100": 12,
        "H100": 4,
        "RTX4090": 48,
    }
    assert {entry.basis for entry in got.hours.values()} == {Basis.PUBLISHED}
    assert [gpu for gpu, entry in got.hours.items() if entry.lower_bound] == ["RTX4090"]
    assert all(entry.source and entry.note for entry in got.hours.values())


def test_the_real_catalogue_reads_names_as_people_write_them() -> None:
    got = parse_hours("a100=12,H100 SXM5 80GB=4,4090=48", catalogue())
    assert dict(got) == {"A100": h("12"), "H100-SXM-80GB": h("4"), "RTX4090": h("48")}
    with pytest.raises(JobError, match="unknown GPU 'H1000'; did you mean H100"):
        parse_hours("H1000=4", catalogue())
    with pytest.raises(JobError, match="'A100-SLICE' is a slice"):
        parse_hours("A100-SLICE=4", catalogue())


def test_bert_large_on_every_gpu_of_the_real_catalogue() -> None:
    bert = job_from_text(BERT.read_text(encoding="utf-8"), catalogue())
    reference = {"A100-SXM-80GB": 12, "H100-SXM-80GB": 4, "RTX4090-24GB": 48}
    for gpu in (known.key for known in catalogue().gpus()):
        got = runtime_for(bert, gpu, catalogue())
        family = gpu.split("-")[0]
        if family not in bert.hours or catalogue().relative_speed(gpu) is None:
            assert isinstance(got, NoEstimate), gpu
            continue
        assert isinstance(got, RuntimeEstimate), gpu
        assert got.lower_bound == (family == "RTX4090")
        if gpu in reference:
            assert (got.hours, got.basis) == (Decimal(reference[gpu]), Basis.PUBLISHED)
        else:
            assert got.basis is Basis.SCALED
            assert got.hours >= bert.hours[family].hours
            assert ("form factor not stated" in (got.note or "")) == (catalogue().spec(gpu) is None)
    forty = runtime_for(bert, "A100-PCIE-40GB", catalogue())
    assert isinstance(forty, RuntimeEstimate)
    assert forty.hours > 15  # 1,555 of 2,039 GB/s: never the 12 hours of the 80 GB SXM part


def test_a_rate_of_a_job_without_a_workload_says_what_to_give() -> None:
    text = 'name = "j"\n[hours.A100]\ntokens_per_second = 5000\n'
    with pytest.raises(JobError) as caught:
        job_from_text(text)
    assert str(caught.value) == (
        "hours.A100.tokens_per_second: a job without a workload counts no tokens; give hours"
    )
