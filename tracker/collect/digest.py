"""The pure middle of a poll: parse, normalise, judge.

The same call serves a live poll and ``gpucost provider parse`` on a recorded file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracker import registry
from tracker.domain.discounts import resolve
from tracker.domain.findings import Quarantined, UnmappedGpu
from tracker.domain.gpu import Catalogue
from tracker.domain.normalize import FxRate, Unnormalised, normalise
from tracker.domain.offer import Discount, ListedOffer, Offer
from tracker.domain.quality import Assessment, Known, Rules, assess
from tracker.provider import Parsed, Payload, Provider, Rejected

SAMPLE_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Digest:
    """What a poll's payloads amount to, before anything is written."""

    parsed: Parsed
    assessment: Assessment
    rejected: tuple[Rejected, ...]  # by the parser and by normalisation
    unmapped: tuple[UnmappedGpu, ...]
    discounts: tuple[Discount, ...] = ()

    @property
    def accepted(self) -> tuple[Offer, ...]:
        """The offers whose prices may enter history."""
        return self.assessment.accepted

    @property
    def held(self) -> tuple[Quarantined, ...]:
        """The quarantined ones."""
        return self.assessment.held


def digest(
    provider: Provider[Any],
    payloads: Sequence[Payload],
    catalogue: Catalogue,
    *,
    fx: Mapping[str, FxRate],
    known: Known,
    rules: Rules,
    parsed: Parsed | None = None,
    sellers: Collection[str] = (),
) -> Digest:
    """Parse, normalise and judge. Pure (but for the names of the installed providers).

    *sellers*: whom a discount may be of beside those and the sellers in this answer.
    Raises ParseError when the answer as a whole does not have the documented shape.
    """
    parsed = parsed or registry.parse(provider, payloads)
    offers: list[Offer] = []
    rejected = list(parsed.rejected)
    unmapped: dict[str, UnmappedGpu] = {}
    for listed in parsed.offers:
        result = normalise(provider.name, listed, catalogue, fx)
        if isinstance(result, Offer):
            offers.append(result)
        elif result.unmapped:
            _count_unmapped(unmapped, result)
            rejected.append(Rejected("GPU name not in the catalogue", _sample(result.listed)))
        else:
            rejected.append(Rejected(result.reason, _sample(result.listed)))
    discounts: tuple[Discount, ...] = ()
    if parsed.discounts:
        whose = {*sellers, *registry.names(), *(offer.provider for offer in offers)}
        discounts, refused = resolve(parsed.discounts, catalogue, whose)
        rejected += [Rejected(*why) for why in refused]
    assessment = assess(
        offers,
        known,
        catalogue,
        rules,
        marketplace=provider.facts.marketplace,
        complete=parsed.complete,
        beside=len(discounts),
    )
    return Digest(parsed, assessment, tuple(rejected), tuple(unmapped.values()), discounts)


def _count_unmapped(found: dict[str, UnmappedGpu], result: Unnormalised) -> None:
    listed = result.listed
    before = found.get(listed.gpu_name)
    vram = f"{listed.vram_mib} MiB" if listed.vram_mib else ""
    vram = vram or (f"{listed.vram_gb} GB" if listed.vram_gb else "not said")
    found[listed.gpu_name] = UnmappedGpu(
        name=listed.gpu_name,
        vram=before.vram if before else vram,
        sample=before.sample if before else _sample(listed),
        rows=(before.rows if before else 0) + 1,
    )


def _sample(listed: ListedOffer) -> str:
    price = listed.price
    text = (
        f"{listed.source_id}: {listed.gpu_count} x {listed.gpu_name}, "
        f"{price.amount} {price.currency} per {price.unit}, {listed.market} {listed.region or ''}"
    )
    return text[:SAMPLE_LENGTH]
