"""The command as a user runs it: its own process, the embedded PostgreSQL, the real pace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise

import pytest

from tests.support import clouds
from tests.support.clouds import FIVE, case, expected_rows, recorded_rows
from tests.support.fixtures import ROOT
from tests.support.pg import reachable_folder
from tests.support.replay import ReplayServer
from tracker import registry
from tracker.store.embedded import Embedded

_GPUCOST = "from tracker.cli.main import main; main()"


@pytest.mark.e2e
def test_a_first_poll_on_a_fresh_machine_keeps_every_hosts_pace(server: ReplayServer) -> None:
    with reachable_folder() as folder:
        run = subprocess.run(
            [sys.executable, "-c", _GPUCOST, "poll", "-o", "json"],
            cwd=folder, text=True, capture_output=True, timeout=300, check=False,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(folder),
                 "GPUCOST_DATA_DIR": str(folder / "data"), **clouds.environment(server)},
        )  # fmt: skip
        assert (run.returncode, run.stderr) == (0, "")
        rows = json.loads(run.stdout)["rows"]
        assert {row["provider"]: row["status"] for row in rows} == dict.fromkeys(FIVE, "complete")
        embedded = Embedded(folder / "data")
        assert not embedded.status().running, "the server stops with its last user"
        with embedded.running() as url:
            for provider in FIVE:
                assert recorded_rows(url, case(provider)) == expected_rows(case(provider))
    for provider, path in (("vastai", "/api/v0/bundles/"), ("azure", "/api/retail/prices")):
        times = [r.at for r in server.requests if r.path == path]
        assert len(times) == len(case(provider).payloads())
        gap = registry.load(provider).min_seconds_between_requests
        assert all(later - earlier > gap - 0.5 for earlier, later in pairwise(times))
