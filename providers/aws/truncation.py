"""Whether a price list in CSV ends too early, where neither its length nor its last row tells.

The transfer is checked by the client: fewer bytes than announced, or a gzip stream without its
end, are a failed download. A list in JSON has brackets to close. A CSV that was cut at a line's end
before it was sent has nothing of the kind, and no index of AWS's says how many rows a file has.

What tells is the order: AWS writes its rows by SKU, upwards, and SKUs are drawn evenly from 16
characters of A-Z and 2-9. After *n* of them in order, the last of a whole list lies within some
n-ths of the end of all SKUs. (Where rows are in no order this says nothing. A poll with far fewer
offers than the last one is refused for that, whatever its file looks like.)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise

# I and O do not occur in SKUs seen; L has not been seen either, which makes no difference here.
_ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
_DIGITS = 6  # of a SKU: finer than 1 in 10^9

ENOUGH = 50  # SKUs: with fewer, the end of a whole list may lie anywhere
# A whole list of n SKUs has a gap of more than 14/n at its end once in a million (e to the -14).
GAPS = 14


def ends_early(skus: Iterable[str]) -> bool:
    """Whether rows with these SKUs, in the file's order, are the beginning of a longer list.

    False also where nothing can be said: few SKUs, or no order. Rows may have been left out as
    long as it is not by their SKU's beginning. With n SKUs a list is found out that lacks more
    than about 14/n of its rows.
    """
    distinct = list(dict.fromkeys(skus))
    if len(distinct) < ENOUGH or any(one > other for one, other in pairwise(distinct)):
        return False
    return (1 - _position(distinct[-1])) * len(distinct) > GAPS


def _position(sku: str) -> float:
    """Where a SKU lies among all SKUs, from 0 to 1."""
    position, share = 0.0, 1.0
    for character in sku[:_DIGITS]:
        share /= len(_ALPHABET)
        position += share * bisect_left(_ALPHABET, character)
    return position
