"""What a whole poll leaves behind: next to nothing that waits for the collector of cycles."""

from __future__ import annotations

import pytest

from tests.support import clouds
from tests.support.garbage import left
from tests.support.lab import Lab
from tests.support.replay import Answer, ReplayServer
from tracker import registry
from tracker.provider import ProviderConfig

pytestmark = pytest.mark.anyio

TIMES = 5
A_POLL = 20.0  # objects; it was hundreds for every request that failed

FAULTS = {
    "good": None,
    "500": Answer(b"no", 500),
    "401": Answer(b'{"error": "who are you?"}', 401),
    "html": Answer(b"<html>We are busy</html>", 200, {"content-type": "text/html"}),
    "empty": Answer(b"[]"),
    "strange": Answer(b'{"data": 1}'),
    "truncated": Answer(b'[{"id": 1}, {"id"'),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", clouds.FIVE)
async def test_a_poll_leaves_next_to_nothing(
    lab: Lab, server: ReplayServer, monkeypatch: pytest.MonkeyPatch, name: str, fault: str
) -> None:
    if (answer := FAULTS[fault]) is not None:
        monkeypatch.setattr(server, "answer", lambda _: answer)
    provider = registry.load(name)
    config: ProviderConfig = lab._app.provider_config(provider)

    async def poll() -> int:
        lab.clock.passed += 3600
        outcome = await lab.collector.poll(provider, config)
        return outcome.requests

    assert await left(poll, TIMES) < A_POLL
