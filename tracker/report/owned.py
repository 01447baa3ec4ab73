"""GPUs that one owns, as offers beside the rented ones: born of the configuration at the read side.

Nothing of them is recorded: they have no history, no poll and no alert. An hour costs electricity
and the wear set aside (tracker.domain.owned); the machine itself is paid for already.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING

from tracker.domain.exact import EXACT, BadFigure, plain, ratio_up
from tracker.domain.gpu import UnknownGpu
from tracker.domain.money import MICRO
from tracker.domain.owned import OWN, Owned, machine_watts
from tracker.report.asked import Asked
from tracker.store.reads import StoredOffer

if TYPE_CHECKING:
    from tracker.domain.gpu import Catalogue

PAST = "of your own, known for now only"

_LONG = timedelta(days=3650)  # what one owns is not stale: nobody has to confirm it
_ZERO = Decimal(0)
_LEAST_DIGITS = 4


def owned_offers(
    machines: Iterable[Owned], catalogue: Catalogue, now: datetime
) -> tuple[StoredOffer, ...]:
    """An offer for each kind of machine, and for the shares of it that a job may take.

    A share costs its part of the whole machine's hour. Raises BadFigure naming what cannot be.
    """
    return tuple(
        _offer(owned, gpus, catalogue, now) for owned in machines for gpus in owned.counts()
    )


def beside_rented(
    asked: Asked, owned: Sequence[StoredOffer], gpu_keys: Collection[str] | None, *, past: bool
) -> Asked:
    """*asked* with the offers *owned*, of *gpu_keys* (None: of all GPUs).

    In an answer about the *past* they are counted and left out: what one owned then is not known.
    """
    if not owned:
        return asked
    wanted = [o for o in owned if gpu_keys is None or o.gpu_key in gpu_keys]
    left_out = asked.left_out.copy()
    if past and wanted:
        left_out[PAST] += len(wanted)
    return asked._replace(
        offers=asked.offers if past else [*asked.offers, *wanted],
        total=asked.total + len(owned),
        left_out=left_out,
        prepared=asked.prepared if past or not wanted else None,  # what is kept has none of them
    )


def pues(machines: Iterable[Owned]) -> dict[str, Decimal]:
    """The PUE of each offer that ``owned_offers`` makes, by its id."""
    return {_id(owned, gpus): owned.pue for owned in machines for gpus in owned.counts()}


def is_owned(offer: StoredOffer) -> bool:
    """Whether *offer* is a machine that one owns."""
    return offer.source == OWN


def find_owned(
    reference: str, machines: Iterable[Owned], catalogue: Catalogue, now: datetime
) -> tuple[StoredOffer, str] | None:
    """The offer that *reference* means, as in ``reads.find_offer``, and the way to its price."""
    digits, name = reference.lower(), reference.removeprefix(f"{OWN}/")
    for owned in machines:
        for offer in owned_offers([owned], catalogue, now):
            by_key = len(digits) >= _LEAST_DIGITS and offer.key.hex().startswith(digits)
            if by_key or offer.native_id == name:
                share = "" if offer.gpu_count == owned.gpus else f"; {offer.native_id}: its share"
                return offer, why(owned, catalogue) + share
    return None


def why(owned: Owned, catalogue: Catalogue) -> str:
    """The way to the price of an hour, in a line."""
    spec = catalogue.spec(owned.gpu)
    tdp = spec.tdp_w if spec is not None else None
    if owned.watts is not None:
        watts = f"{plain(owned.watts)} W"
    else:
        drawn = machine_watts(tdp or _ZERO, owned.gpus)
        watts = f"{plain(drawn)} W ({owned.gpus} x {plain(tdp or _ZERO)} W TDP x 0.9 x 1.225)"
    wear = f" + ${plain(owned.wear_usd_per_hour, 6)} wear" if owned.wear_usd_per_hour else ""
    return (
        f"{watts} x PUE {plain(owned.pue)} x ${plain(owned.usd_per_kwh, 6)}/kWh / 1,000{wear}"
        f" = ${plain(owned.price(tdp).usd, 6)} per machine-hour"
    )


def _offer(owned: Owned, gpus: int, catalogue: Catalogue, now: datetime) -> StoredOffer:
    gpu, spec = catalogue.gpu(owned.gpu), catalogue.spec(owned.gpu)
    if gpu is None or spec is None:
        raise BadFigure(f"{owned.name}: gpu: {_which(owned.gpu, catalogue)}")
    try:
        usd = owned.price(spec.tdp_w).usd
        usd = ratio_up(EXACT.multiply(usd, gpus), Decimal(owned.gpus))
    except BadFigure as error:
        raise BadFigure(f"{owned.name}: {error}") from None
    digest = hashlib.sha256(f"{OWN}\0{owned.name}\0{owned.gpu}\0{gpus}".encode())
    return StoredOffer(
        offer_id=0,  # of no table
        key=digest.digest()[:16],
        native_id=_id(owned, gpus),
        gpu_key=gpu.key,
        gpu_family=gpu.family,
        form_factor=gpu.form_factor,
        vram_gb=gpu.vram_gb,
        is_slice=False,
        gpu_count=Decimal(gpus),
        market="on_demand",
        tier="dedicated",
        price_kind="fixed",
        currency="USD",
        price_unit="machine_hour",
        region=None,
        country=None,
        interconnect=None,
        vcpus=None,
        ram_gib=None,
        dedicated=True,
        datacenter=None,
        upstream=None,
        billing_increment_seconds=1,
        minimum_seconds=None,
        commitment_hours=None,
        commitment_unknown=False,
        disk_included_gb=None,
        disk_usd_per_gb_hour=_ZERO,  # one's own disk and line cost nothing by the hour
        egress_usd_per_gb=_ZERO,
        price_native=usd,
        price_micro_usd=int((usd * MICRO).to_integral_value(ROUND_CEILING)),
        fx_rate=None,
        fx_date=None,
        availability="yes",
        # Shares of one machine are no machines beside it.
        stock_count=owned.machines if gpus == owned.gpus else 1,
        stock_label="yours",
        disk_gb=None,
        network_down_mbps=None,
        network_up_mbps=None,
        reliability=None,
        interruption_percent_max=None,
        max_duration_hours=None,
        valid_as_of=None,
        expires_at=None,
        fallback=False,
        valid_from=now,
        flags=(),
        provider=OWN,
        source=OWN,
        marketplace=False,
        default_tiers=(),
        seen_at=now,
        stale_at=now + _LONG,
    )


def _id(owned: Owned, gpus: int) -> str:
    return owned.name if gpus == owned.gpus else f"{owned.name}, {gpus} of {owned.gpus}"


def _which(name: str, catalogue: Catalogue) -> str:
    """What to write instead of a name that is no single part."""
    try:
        found = catalogue.select(name)
    except UnknownGpu as error:
        return str(error)
    keys = sorted(key for key in found if catalogue.spec(key) is not None)
    return f"{name} may be several; name one of {', '.join(keys)}"
