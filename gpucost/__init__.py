"""What whole GPU jobs cost, from Python. See docs/python.md.

>>> import gpucost
>>> prices = gpucost.open()                                    # doctest: +SKIP
>>> prices.cheapest("bert-large", gpu=["H100"]).ways[0]        # doctest: +SKIP
"""

from tracker import __version__
from tracker.app.library import Prices, open
from tracker.app.library_types import (
    BadQuestion,
    Cheapest,
    Comparison,
    Estimate,
    GpucostError,
    History,
    Point,
    Series,
    Unavailable,
    Way,
)

__all__ = [
    "BadQuestion",
    "Cheapest",
    "Comparison",
    "Estimate",
    "GpucostError",
    "History",
    "Point",
    "Prices",
    "Series",
    "Unavailable",
    "Way",
    "__version__",
    "open",
]
