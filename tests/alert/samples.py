"""What a sample must be, in a few words."""

from __future__ import annotations

from decimal import Decimal

from tests.alert.world import World
from tracker.alert.evaluate import Evaluation
from tracker.alert.rules import Rule
from tracker.domain.rule.types import Health

GOOD, STALE, SUSPECT = Health.GOOD, Health.STALE, Health.SUSPECT
NO_DATA, ERROR = Health.NO_DATA, Health.ERROR
DAY = 24 * 60  # minutes


def healths(world: World, wanted: Rule, *minutes: float) -> list[Health]:
    """The health of a rule's samples at these moments."""
    return [world.look(wanted, m).sample.health for m in minutes]


def good(found: Evaluation) -> Decimal:
    """The value of a sample that must be good."""
    assert found.sample.health is GOOD, found.sample
    assert found.sample.value is not None
    return found.sample.value


def bad(found: Evaluation, health: Health, *words: str) -> None:
    """The sample is of this health, has no value, and says why in these words."""
    assert (found.sample.health, found.sample.value) == (health, None)
    for word in words:
        assert word in (found.sample.reason or ""), found.sample.reason
