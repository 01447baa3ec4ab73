"""What a firing makes of a configuration that changes while it lasts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.alert.world import QUICK, World, load, play, rule
from tracker.alert.rules import Rule


@pytest.mark.parametrize(
    "changes", [{"exit_percent": 40}, {"keep_firing": "1h"}, {"min_duration": "1h"}]
)
def test_a_firing_goes_on_under_another_margin_to_clear_or_wait(
    world: World, changes: dict[str, Any]
) -> None:
    """The advice for a rule that speaks too often must not make it speak."""
    quick = QUICK | {"cooldown": "2h"}
    play(world, rule(**quick), "c")
    play(world, rule(**quick | changes), "cccd", start=5)
    ended = [] if "min_duration" not in changes else [("resolved", "log")]
    assert world.notices() == [("fired", "log"), *ended]
    assert world.row()["version"] == 1
    assert world.row()["definition"]["exit"] == ("1.4" if "exit_percent" in changes else "1.02")


@pytest.mark.parametrize(
    ("channels", "existing", "told"),
    [
        (["new"], {"log", "new"}, ["new", "ops"]),  # ops is called new now
        (["ops", "new"], {"log", "new", "ops"}, ["ops"]),  # one more
        (["new"], {"log", "new", "ops"}, ["ops"]),  # another one
        (["ops"], {"log"}, ["ops"]),
        (["new"], None, ["ops"]),
    ],
)
@pytest.mark.parametrize("edit", [{}, {"regions": ["eu"]}])
def test_an_end_reaches_somebody_when_a_channel_was_renamed(
    world: World, channels: list[str], existing: set[str] | None, told: list[str],
    edit: dict[str, Any],
) -> None:  # fmt: skip
    def wanted(names: list[str], **more: Any) -> Rule:
        loaded, problems = load(
            channels=("log", "ops", "new"),
            r={"when": "price(H100) < 3", "channels": names} | QUICK | more,
        )
        assert problems == ()
        return loaded[0]

    play(world, wanted(["ops"]), "c")
    play(world, wanted(channels, **edit), "d", start=5, channels=existing)
    kind = "closed" if edit else "resolved"
    assert world.notices()[0] == ("fired", "ops")
    assert sorted(world.notices()[1:]) == [(kind, channel) for channel in told]
