"""A poll that suddenly brings many times the usual number of offers: a market, or a broken feed?

Rows repeated under new ids, a filter that a provider dropped, or a page of another product bring
offers by the thousand that nobody has seen before, so that no gate on a single price has anything
to compare them with. A provider that really grows does so at its next poll too.
"""

from __future__ import annotations

from typing import NamedTuple

TIMES = 5
MORE = 500
AGREES = 0.8  # a poll of this part of the size has confirmed it


class Sizes(NamedTuple):
    """How many offers polls of a source bring, those held back included only in ``latest``.

    ``usual``: the median of its complete polls; None for too few of them. ``latest``: of its latest
    poll that is not in quick succession with the one that is judged; None: there is none.
    """

    usual: int | None = None
    latest: int | None = None


def surge(offers: int, sizes: Sizes) -> str | None:
    """What makes a poll of so many *offers* a surge that no poll has confirmed yet; or None.

    More than TIMES the usual and more than MORE on top, where the poll before had not so many.
    """
    usual = sizes.usual
    if usual is None or offers <= usual * TIMES or offers <= usual + MORE:
        return None
    if sizes.latest is not None and sizes.latest >= offers * AGREES:
        return None
    return f"new in a poll of {offers:,} offers where {usual:,} are usual"
