"""Where the jobs of a ranking run, as far as their energy goes: PUE, CO2 and work for each watt."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

from tracker.domain.energy import NO_PUE, co2_kg, work_per_kwh
from tracker.domain.exact import EXACT, plain
from tracker.domain.owned import Site
from tracker.domain.terms import OWN

if TYPE_CHECKING:
    from tracker.report.beside import Beside
    from tracker.report.cheapest import CheapestReport, Row

_NOWHERE: Mapping[str, Decimal] = {}


def at_site(
    report: CheapestReport, site: Site | None, own_pue: Mapping[str, Decimal] = _NOWHERE
) -> CheapestReport:
    """*report* with the energy of its rows as it is at *site*, its CO2, and the work for a kWh.

    Machines that one owns stand where *own_pue* says, by the id of the offer.
    """
    task = report.job.task
    if task is None:
        return report
    tokens, place = task.units.get("tokens"), site or Site()

    def there(row: Row) -> Row:
        if row.beside is None or row.beside.kwh is None:
            return row
        pue = own_pue.get(row.offer.native_id) if row.offer.source == OWN else None
        here = place if pue is None else place._replace(pue=pue)
        return row._replace(beside=_at(row.beside, here, tokens))

    pair = report.comparison
    if pair is not None:
        pair = pair._replace(left=there(pair.left), right=there(pair.right))
    return report._replace(
        rows=tuple(map(there, report.rows)),
        best_by_gpu=tuple(map(there, report.best_by_gpu)),
        unbeaten=tuple(map(there, report.unbeaten)),
        comparison=pair,
    )


def _at(found: Beside, site: Site, tokens: Decimal | None) -> Beside:
    kwh, low, high, said = found.kwh, found.low_kwh, found.high_kwh, found.energy_assumptions
    if kwh is None or low is None or high is None:
        return found
    if site.pue is not None:
        kwh, low, high = (EXACT.multiply(value, site.pue) for value in (kwh, low, high))
        said = (*(text for text in said if text != NO_PUE), f"PUE {plain(site.pue)}")
    return found._replace(
        kwh=kwh, low_kwh=low, high_kwh=high, energy_assumptions=said,
        co2_kg=co2_kg(kwh, site.grid_g_per_kwh),
        tokens_per_kwh=work_per_kwh(tokens, kwh) if tokens and kwh else None,
    )  # fmt: skip
