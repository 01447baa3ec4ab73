"""What /status says of a provider that has long been silent."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.cli.harness import polled, record
from tests.support.offers import make_offer
from tracker.app import App
from tracker.daemon.service import Daemon
from tracker.daemon.status import DaemonStatus

DAY = 24 * 60


def status_of(url: str, config: Path) -> dict[str, Any]:
    """/status of a daemon with this configuration that polls one provider and leads nothing."""
    app = App(config)
    daemon = SimpleNamespace(
        database=SimpleNamespace(link=SimpleNamespace(url=url)), holder="here", term=None,
        stopping=False, outages=SimpleNamespace(reasons={}), reload_error=None, doubts=(),
        plan=SimpleNamespace(app=app, polled={"vastai": None}, left_out=(), problems=()),
    )  # fmt: skip
    (row,) = DaemonStatus(cast(Daemon, daemon)).status()["providers"]
    return cast(dict[str, Any], row)


@pytest.mark.parametrize(
    ("setting", "retired"),
    [("", False), ("retired_after_days = 7", True), ("retired_after_days = 11", False)],
)
def test_who_is_retired_is_what_the_settings_say(
    database_url: str, tmp_path: Path, setting: str, retired: bool
) -> None:
    poll = polled("vastai", [make_offer("o", "2.00", source="vastai")], 10 * DAY)
    record(database_url, poll)
    config = tmp_path / "gpucost.toml"
    config.write_text(f"[quality]\n{setting}\n")
    row = status_of(database_url, config)
    assert (row["stale"], row["retired"]) == (True, retired)
