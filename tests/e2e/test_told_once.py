"""From a provider's answer to a message on somebody's screen: real processes, real servers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.stage import CHEAP, DEAR, RULE, Stage, assert_told_once, staged

pytestmark = pytest.mark.e2e

PATIENT = """every = "1s"
min_duration = "2s"
min_count = 2
keep_firing = "1s"
"""


def test_a_crossing_is_told_once_by_webhook_and_once_by_mail(folder: Path) -> None:
    with staged(folder, rule=PATIENT, make=Stage) as stage, stage.daemon() as daemon:
        daemon.says("leading as")
        stage.ask(CHEAP)
        stage.waiting_for("fired", 1, daemon)
        stage.ask(DEAR)
        stage.waiting_for("resolved", 1, daemon)
        assert_told_once(stage, stage.url(), 2, Counter())
        assert daemon.stop() == 0
        assert not stage.embedded.status().running
        fired, resolved = stage.hook.bodies
        mails = [mail.content for mail in stage.mail.mails]
    assert [body["events"][0]["kind"] for body in (fired, resolved)] == ["fired", "resolved"]
    event = fired["events"][0]
    assert (event["rule"], event["when"]) == (RULE, "cost(H100) < cost(A100)")
    sides = event["left"], event["right"]
    assert [side["job_cost_usd"] for side in sides] == ["12", "14.4"]  # 4 h at 3.00, 12 h at 1.20
    assert [side["price_usd_per_hour"] for side in sides] == ["3", "1.2"]
    assert event["break_even_usd_per_gpu_hour"] == "3.6"
    assert [mail["X-Gpucost-Event"] for mail in mails] == [fired["event_id"], resolved["event_id"]]
    for mail, body in zip(mails, (fired, resolved), strict=True):
        assert mail["Subject"] == body["subject"]
        plain = mail.get_body(("plain",))
        assert plain is not None
        assert body["text"].split() == plain.get_content().split()
    assert not daemon.lines("ERROR|WARNING|Traceback")
