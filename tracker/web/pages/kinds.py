"""The pages there are, in the order of the menu."""

from __future__ import annotations

from tracker.web.pages.cheapest import CHEAPEST
from tracker.web.pages.estimate import ESTIMATE
from tracker.web.pages.even import EVEN
from tracker.web.pages.health import ALERTS, PROVIDERS
from tracker.web.pages.past import HISTORY

KINDS = (CHEAPEST, HISTORY, EVEN, ESTIMATE, PROVIDERS, ALERTS)
