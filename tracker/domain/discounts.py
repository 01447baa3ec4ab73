"""Typed discounts, checked against what exists: one that can never apply must not go unseen."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from decimal import Decimal

from tracker.domain.gpu import Catalogue, UnknownGpu
from tracker.domain.normalize import clean_text
from tracker.domain.offer import Discount

Refused = tuple[str, str]  # a stable reason, and which discount

_MAX_PERCENT = Decimal(100)


def resolve(
    discounts: Iterable[Discount], catalogue: Catalogue, sellers: Collection[str]
) -> tuple[tuple[Discount, ...], list[Refused]]:
    """The discounts with ``gpu`` as a family or a key, and those that can never apply.

    What covers a whole family stays one discount; other words (``H100 SXM``) become one discount
    for each key they cover. *sellers* are the names that an offer may be of.
    """
    resolved: list[Discount] = []
    refused: list[Refused] = []
    for discount in discounts:
        d = _clean(discount)
        if not (d.percent.is_finite() and 0 < d.percent < _MAX_PERCENT):
            refused.append(("discount outside 0 to 100 percent", _sample(d, "")))
        elif d.provider not in sellers:
            near = difflib.get_close_matches(d.provider, sellers, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]}?" if near else ""
            refused.append(("discount for an unknown provider", _sample(d, hint)))
        else:
            try:
                gpus = _gpus(d.gpu, catalogue)
            except UnknownGpu as error:
                refused.append(("discount for an unknown GPU", _sample(d, f"; {error}")))
                continue
            resolved += [replace(d, gpu=gpu) for gpu in gpus]
    return tuple(resolved), refused


def _gpus(words: str | None, catalogue: Catalogue) -> Sequence[str | None]:
    if words is None:
        return [None]
    keys = catalogue.select(words)
    families = {gpu.family for gpu in map(catalogue.gpu, keys) if gpu is not None}
    if len(keys) > 1 and len(families) == 1 and keys == catalogue.select(*families):
        return list(families)
    return sorted(keys)


def _clean(d: Discount) -> Discount:
    gpu, note = d.gpu and clean_text(d.gpu), d.note and clean_text(d.note)
    return replace(d, provider=clean_text(d.provider), gpu=gpu, note=note)


def _sample(d: Discount, hint: str) -> str:
    return f"{d.percent} % off {d.provider} {d.gpu or ''}".strip()[:100] + hint[:100]
