"""Money: exact decimals outside the store, integer micro-USD inside it.

A price for a whole machine and a price for one GPU are different types, so that one is never
taken for the other: multiply or divide by the GPU count explicitly.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from tracker.domain.bounds import readable

MICRO = Decimal(1_000_000)

# Hours in a month as price lists count them: 365 days x 24 h / 12. Providers that bill a
# different month (Vast.ai uses 720 for disk) convert in their own parser.
HOURS_PER_MONTH = Decimal(730)


def parse_decimal(value: Any) -> Decimal:
    """Return *value* (text, int or Decimal) as a finite Decimal.

    Floats are refused: they have already lost the provider's digits. Raises ValueError on text
    that is not a plain number (thousands separators included), on NaN, on infinity and on an
    exponent beyond 60 either way.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise ValueError(f"not a decimal number: {value!r}")
    try:
        number = Decimal(value.strip() if isinstance(value, str) else value)
    except InvalidOperation:
        raise ValueError(f"not a decimal number: {value!r}") from None
    if not number.is_finite():
        raise ValueError(f"not a finite number: {value}")
    return readable(number)


def to_micro_usd(usd: Decimal) -> int:
    """USD to integer micro-USD, half to even (the unit of every price column)."""
    return round(usd * MICRO)  # of a Decimal: an int, half to even


def from_micro_usd(micro_usd: int) -> Decimal:
    """Integer micro-USD back to USD, exactly."""
    return Decimal(micro_usd).scaleb(-6)


@dataclass(frozen=True, slots=True, order=True)
class PerGpuHour:
    """USD for one GPU for one hour."""

    usd: Decimal

    def for_machine(self, gpu_count: Decimal | int) -> PerMachineHour:
        """The price of a machine with *gpu_count* such GPUs."""
        return PerMachineHour(self.usd * gpu_count)


@dataclass(frozen=True, slots=True, order=True)
class PerMachineHour:
    """USD for a whole rentable machine for one hour, all its GPUs included."""

    usd: Decimal

    def per_gpu(self, gpu_count: Decimal | int) -> PerGpuHour:
        """This price divided among the machine's GPUs. *gpu_count* must be > 0."""
        return PerGpuHour(self.usd / gpu_count)
