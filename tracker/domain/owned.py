"""GPUs that one owns: the tables ``[[own]]`` and ``[energy]`` of gpucost.toml, checked.

    price of an hour = watts x PUE x $/kWh / 1000 + wear        of the whole machine

``watts`` is what the machine draws under full load; not given it is taken as in training, TDP x 0.9
for each GPU, and 22.5 % on top for the host (tracker.domain.energy).
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, localcontext
from typing import Any, NamedTuple

from tracker.domain.bounds import bounded
from tracker.domain.energy import HOST, LOAD_SHARE, Load
from tracker.domain.exact import EXACT, BadFigure, plain
from tracker.domain.money import PerMachineHour
from tracker.domain.ownership import electricity_price
from tracker.domain.terms import OWN

__all__ = [
    "OWN", "Owned", "Site", "check_grid", "check_kwh_price", "check_pue", "check_watts",
    "machine_watts", "owned_from_tables", "site_from_table",
]  # fmt: skip

# What is outside is in another unit (cents, kilowatts, per cent), or cannot be.
MAX_USD_PER_KWH = Decimal(2)
MAX_PUE = Decimal(3)
MAX_GRID_G_PER_KWH = Decimal(2000)
_MAX_WEAR_USD = Decimal(1000)
_MAX_GPUS, _MAX_MACHINES, _MAX_NAME = 1024, 10_000, 60
# Watts of a whole machine against the TDP of its GPUs.
_LEAST_OF_TDP, _MOST_OF_TDP = Decimal("0.2"), Decimal(4)

_KEYS = ("gpu", "count", "machines", "name", "usd_per_kwh", "pue", "watts", "wear_usd_per_hour")
_SITE_KEYS = ("pue", "grid_g_per_kwh")


class Owned(NamedTuple):
    """``machines`` alike, each with ``gpus`` of ``gpu``. ``watts`` of a whole machine at full load,
    None: not given. ``wear_usd_per_hour`` (>= 0) is set aside for every hour of a machine."""

    name: str
    gpu: str
    gpus: int
    machines: int
    usd_per_kwh: Decimal
    pue: Decimal
    watts: Decimal | None = None
    wear_usd_per_hour: Decimal = Decimal(0)

    def price(self, tdp_w: Decimal | None) -> PerMachineHour:
        """What an hour of a machine costs. Exact.

        Raises BadFigure where neither the watts nor the TDP of the GPU are known, and for watts
        that a machine with such GPUs cannot draw.
        """
        watts = self.watts
        if watts is None:
            if tdp_w is None:
                raise BadFigure(f"watts: no source gives the power of {self.gpu}; give them")
            watts = machine_watts(tdp_w, self.gpus)
        else:
            check_watts(watts, tdp_w, self.gpus)
        with localcontext(EXACT):
            hour = electricity_price(watts, self.usd_per_kwh, self.pue).usd
            return PerMachineHour(hour + self.wear_usd_per_hour)

    def counts(self) -> tuple[int, ...]:
        """How many of a machine's GPUs a job may take: 1, 2, 4... and all of them."""
        return (*(1 << n for n in range(10) if 1 << n < self.gpus), self.gpus)


class Site(NamedTuple):
    """Where a job runs, as far as its energy goes: None is not known, and then left out."""

    pue: Decimal | None = None
    grid_g_per_kwh: Decimal | None = None

    @property
    def known(self) -> bool:
        """Whether it says anything."""
        return self.pue is not None or self.grid_g_per_kwh is not None


def machine_watts(tdp_w: Decimal, gpus: int) -> Decimal:
    """What a machine with *gpus* GPUs of that TDP is taken to draw at full load. Exact."""
    with localcontext(EXACT):
        return tdp_w * LOAD_SHARE[Load.TRAINING] * HOST * gpus


def check_watts(watts: Decimal, tdp_w: Decimal | None, gpus: int) -> None:
    """Raises BadFigure for watts that a machine with such GPUs cannot draw at full load."""
    if tdp_w is None:
        return
    with localcontext(EXACT):
        low, high = (tdp_w * gpus * part for part in (_LEAST_OF_TDP, _MOST_OF_TDP))
    if not low <= watts <= high:
        raise BadFigure(
            f"watts: {plain(watts)} for the whole machine, whose {gpus} GPUs may draw "
            f"{plain(tdp_w * gpus)}; is it per GPU, or in another unit?"
        )


def check_kwh_price(name: str, usd: Decimal) -> None:
    """Raises BadFigure for a price of a kWh that is not above 0, or too high to be in dollars."""
    if not (usd.is_finite() and 0 < usd <= MAX_USD_PER_KWH):
        raise BadFigure(
            f"{name}: {plain(usd, 6)} must be above 0 and at most {MAX_USD_PER_KWH}: dollars, not "
            "cents"
        )


def check_pue(name: str, pue: Decimal) -> None:
    """Raises BadFigure for a PUE outside 1 to 3."""
    if not (pue.is_finite() and 1 <= pue <= MAX_PUE):
        raise BadFigure(f"{name}: {plain(pue)} must be from 1 to {MAX_PUE} (1.3: 30 % on top)")


def check_grid(name: str, grams: Decimal) -> None:
    """Raises BadFigure for a grid's factor outside 0 to 2,000 g/kWh."""
    if not (grams.is_finite() and 0 <= grams <= MAX_GRID_G_PER_KWH):
        raise BadFigure(f"{name}: {plain(grams)} must be from 0 to {MAX_GRID_G_PER_KWH} g per kWh")


# --- tables ---------------------------------------------------------------------------------


def owned_from_tables(tables: object) -> tuple[Owned, ...]:
    """The tables ``[[own]]``. Raises BadFigure naming the table and the key."""
    if not isinstance(tables, list | tuple) or not all(isinstance(t, Mapping) for t in tables):
        raise BadFigure("must be written as [[own]]")
    found: list[Owned] = []
    for number, table in enumerate(tables, 1):
        try:
            one = _owned(table)
        except BadFigure as error:
            raise BadFigure(f"table {number}: {error}") from None
        if one.name in {other.name for other in found}:
            raise BadFigure(f"table {number}: there are two called {one.name}; give each a name")
        found.append(one)
    return tuple(found)


def site_from_table(table: object) -> Site:
    """The table ``[energy]``. Raises BadFigure naming the key."""
    if not isinstance(table, Mapping):
        raise BadFigure("must be a table")
    _known(table, _SITE_KEYS)
    pue, grid = _number(table, "pue"), _number(table, "grid_g_per_kwh")
    if pue is not None:
        check_pue("pue", pue)
    if grid is not None:
        check_grid("grid_g_per_kwh", grid)
    return Site(pue, grid)


def _owned(table: Mapping[str, Any]) -> Owned:
    _known(table, _KEYS)
    gpu = table.get("gpu")
    if not isinstance(gpu, str) or not gpu:
        raise BadFigure('gpu: must name the GPU, such as "RTX4090-24GB"')
    kwh = _number(table, "usd_per_kwh")
    if kwh is None:
        raise BadFigure("usd_per_kwh: must be given, in dollars")
    check_kwh_price("usd_per_kwh", kwh)
    pue = _number(table, "pue")
    check_pue("pue", pue := Decimal(1) if pue is None else pue)
    watts = _number(table, "watts")
    if watts is not None and watts <= 0:
        raise BadFigure(f"watts: {plain(watts)} must be above 0")
    wear = _number(table, "wear_usd_per_hour") or Decimal(0)
    if not 0 <= wear <= _MAX_WEAR_USD:
        raise BadFigure(f"wear_usd_per_hour: {plain(wear)} must be from 0 to {_MAX_WEAR_USD}")
    gpus = _whole(table, "count", _MAX_GPUS)
    name = table.get("name", f"{gpus} x {gpu}")
    if not isinstance(name, str) or not name.strip() or len(name) > _MAX_NAME:
        raise BadFigure(f"name: must be text of at most {_MAX_NAME} characters")
    machines = _whole(table, "machines", _MAX_MACHINES)
    return Owned(name, gpu, gpus, machines, kwh, pue, watts, wear)


def _known(table: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    for key in table:
        if key not in keys:
            import difflib

            near = difflib.get_close_matches(str(key), keys, n=1, cutoff=0.0)[0]
            raise BadFigure(f'unknown key "{key}", did you mean "{near}"?')


def _number(table: Mapping[str, Any], key: str) -> Decimal | None:
    value = table.get(key)
    if value is None:
        return None
    try:
        # A float of JSON or TOML by its shortest text, which is what was typed.
        number = bounded(Decimal(str(value))) if not isinstance(value, bool) else None
    except (ValueError, ArithmeticError):
        number = None
    if number is None or not number.is_finite() or abs(number) > 10**9:
        raise BadFigure(f"{key}: must be a number")
    return number


def _whole(table: Mapping[str, Any], key: str, most: int) -> int:
    value = table.get(key, 1)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise BadFigure(f"{key}: must be a whole number from 1 to {most:,}")
    return value
