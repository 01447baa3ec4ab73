"""What stands beside a bill: energy, CO2, work for each kWh, and for text that is generated the
price of a unit of it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from tracker.domain.cost import Bill
from tracker.domain.energy import NO_PUE, Load, co2_kg, energy, per_watt, work_per_kwh
from tracker.domain.exact import EXACT, plain, ratio_up
from tracker.domain.gpu import Catalogue
from tracker.domain.job import Job, RuntimeEstimate
from tracker.domain.owned import Site
from tracker.domain.runtime.types import Inference, Training
from tracker.domain.terms import OWN

if TYPE_CHECKING:
    from tracker.report.cheapest import CheapestReport, Row

_MILLION = Decimal(1_000_000)


class Beside(NamedTuple):
    """None: not known, or not of this kind of job. USD are of the bill as far as it is known.

    ``kwh`` is of the GPUs used and their host while the job runs, between ``low_kwh`` and
    ``high_kwh``, which also span the range of the hours. ``co2_kg``: where the grid's factor is
    given. ``work_per_kwh`` counts ``work`` (tokens; of inference those put out). Prompts are paid
    for with the output.
    """

    kwh: Decimal | None = None
    low_kwh: Decimal | None = None
    high_kwh: Decimal | None = None
    energy_assumptions: tuple[str, ...] = ()
    usd_per_request: Decimal | None = None
    usd_per_million_output: Decimal | None = None
    co2_kg: Decimal | None = None
    work: str | None = None
    work_per_kwh: Decimal | None = None

    @property
    def work_per_watt(self) -> Decimal | None:
        """The work per second for each watt."""
        return None if self.work_per_kwh is None else per_watt(self.work_per_kwh)


def beside(bill: Bill, estimate: RuntimeEstimate, gpu_key: str, job: Job, catalogue: Catalogue) -> (
    Beside | None
):  # fmt: skip
    """For *job* on *gpu_key*; None for a job that does not say what it computes."""
    if job.task is None:
        return None
    workload = job.task.workload
    found = Beside()
    if isinstance(workload, Training | Inference):
        load = Load.TRAINING if isinstance(workload, Training) else Load.DECODE
        found = _with_work(_energy(estimate, gpu_key, catalogue, load), job.task.units)
    if not isinstance(workload, Inference):
        return found
    output = Decimal(workload.output_tokens)
    requests = job.task.units["requests"]
    return found._replace(
        usd_per_request=ratio_up(bill.at_least_usd, requests),
        usd_per_million_output=(
            ratio_up(EXACT.multiply(bill.at_least_usd, _MILLION), EXACT.multiply(requests, output))
            if output
            else None
        ),
    )


def _with_work(found: Beside, units: Mapping[str, Decimal]) -> Beside:
    tokens = units.get("tokens")
    if not found.kwh or not tokens:
        return found
    return found._replace(work="tokens", work_per_kwh=work_per_kwh(tokens, found.kwh))


def at_site(
    report: CheapestReport, site: Site | None, own_pue: Mapping[str, Decimal]
) -> CheapestReport:
    """*report* with the energy of its rows as it is at *site*: PUE and CO2.

    Machines that one owns stand where *own_pue* says, by the name of the machine.
    """
    if (site is None or not site.known) and not own_pue:
        return report
    place = site or Site()

    def there(row: Row) -> Row:
        if row.beside is None or row.beside.kwh is None:
            return row
        pue = own_pue.get(row.offer.native_id) if row.offer.source == OWN else None
        here = place if pue is None else place._replace(pue=pue)
        return row._replace(beside=_at(row.beside, here))

    pair = report.comparison
    if pair is not None:
        pair = pair._replace(left=there(pair.left), right=there(pair.right))
    return report._replace(
        rows=tuple(map(there, report.rows)),
        best_by_gpu=tuple(map(there, report.best_by_gpu)),
        comparison=pair,
    )


def _at(found: Beside, site: Site) -> Beside:
    """The same energy with the building's share, and its CO2."""
    if site.pue is not None:
        pue = site.pue
        kwh, low, high = (
            None if value is None else EXACT.multiply(value, pue)
            for value in (found.kwh, found.low_kwh, found.high_kwh)
        )
        work = None if found.work_per_kwh is None else ratio_up(found.work_per_kwh, pue)
        said = tuple(text for text in found.energy_assumptions if text != NO_PUE)
        found = found._replace(
            kwh=kwh, low_kwh=low, high_kwh=high, work_per_kwh=work,
            energy_assumptions=(*said, f"PUE {plain(pue)}"),
        )  # fmt: skip
    if found.kwh is None:
        return found
    return found._replace(co2_kg=co2_kg(found.kwh, site.grid_g_per_kwh))


def _energy(estimate: RuntimeEstimate, gpu_key: str, catalogue: Catalogue, load: Load) -> Beside:
    spec = catalogue.spec(gpu_key)
    watts, hours = spec.tdp_w if spec is not None else None, estimate.hours
    low_hours = hours if estimate.low_hours is None else estimate.low_hours
    high_hours = hours if estimate.high_hours is None else estimate.high_hours
    return _kwh(watts, max(1, estimate.gpus), (hours, low_hours, high_hours), load)


@lru_cache(maxsize=1024)  # the offers of one GPU and count have the same
def _kwh(
    watts: Decimal | None, gpus: int, of_hours: tuple[Decimal, Decimal, Decimal], load: Load
) -> Beside:
    point, low, high = (energy(watts, gpus, hours, load) for hours in of_hours)
    if point is None or low is None or high is None:
        return Beside()
    return Beside(point.kwh, low.low_kwh, high.high_kwh, point.assumptions)
