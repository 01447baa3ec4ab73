"""The shipped GPU catalogue, read once."""

from functools import cache

from tracker import data
from tracker.domain.gpu import Catalogue


@cache
def catalogue() -> Catalogue:
    return Catalogue.from_toml(data.text("gpus.toml"), data.text("aliases.toml"))
