"""What a firing makes of a configuration that changes while it lasts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.alert.world import QUICK, World, play, rule


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
