"""What is said of prices that nobody polled: those of lists, and those that a person typed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from tracker.store.stored import StoredOffer

_NAMED = 5


def not_live(offer: StoredOffer) -> str:
    """What follows an amount by the price of *offer*, in brackets; nothing where it is live."""
    if offer.valid_as_of is None:
        return ""
    return f" ({a_kind([offer])} of {offer.valid_as_of:%Y-%m-%d}, not live)"


def a_kind(offers: Collection[StoredOffer]) -> str:
    """What prices of *offers*, which all have a date, are."""
    kinds = {offer.fallback for offer in offers}
    if len(kinds) > 1:
        return "a list price or a typed one"
    return "a list price" if True in kinds else "a typed price"


def whose(when: str, priced: Iterable[tuple[str, StoredOffer]]) -> Iterator[str]:
    """Which of the *priced* (what it is the price of, and the offer) are not live, where any is;
    *when* begins the sentence."""
    typed = [(name, offer) for name, offer in priced if offer.valid_as_of is not None]
    if not typed:
        return
    named = ", ".join(
        f"{name} ({offer.provider}, read on {offer.valid_as_of})" for name, offer in typed[:_NAMED]
    )
    more = f" and {len(typed) - _NAMED} more" if len(typed) > _NAMED else ""
    yield f"{when} {a_kind([offer for _, offer in typed])}, not live: {named}{more}."
