"""All terms of a calibration from measured rows, and how many rows each rests on."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tools.measurements import Option, Row, options
from tools.physics import PhysicalRow, figures_of, fit_physics, physical_rows
from tools.ratios import fit_ratios, fit_scaling
from tracker.domain.runtime.calibration import Term


@dataclass(frozen=True)
class Sample:
    """Measured rows as the fits need them. ``options``: of every configuration with two GPUs."""

    rows: tuple[Row, ...]
    physical: tuple[PhysicalRow, ...]
    options: tuple[Option, ...]

    @cached_property
    def by_row(self) -> dict[int, PhysicalRow]:
        """The physical row of a measurement, by its identity."""
        return {id(physical.row): physical for physical in self.physical}

    @cached_property
    def ratios(self) -> list[Option]:
        """The options that no formula predicts: fitted as ratios."""
        return [o for o in self.options if not all(id(row) in self.by_row for row in o.rows)]

    def without(self, is_out: Callable[[Row], bool]) -> Sample:
        """The sample without the rows that *is_out* names."""
        return Sample(
            tuple(row for row in self.rows if not is_out(row)),
            tuple(physical for physical in self.physical if not is_out(physical.row)),
            tuple(option for option in self.options if not is_out(option.rows[0])),
        )


def sample_of(rows: Sequence[Row]) -> Sample:
    """The usable rows of GPUs whose figures are known."""
    usable = tuple(row for row in rows if row.usable and row.positive and _known(row.gpu))
    return Sample(usable, tuple(physical_rows(usable)), tuple(options(usable)))


def _known(runtime_key: str) -> bool:
    try:
        figures_of(runtime_key)
    except KeyError:
        return False
    return True


def fit_terms(sample: Sample) -> dict[str, Term]:
    """The terms by ``model:coefficient:scope``."""
    found: dict[str, Term] = {}
    for model in ("training", "inference"):
        rows = [row for row in sample.physical if row.model == model]
        if not rows:
            continue
        values = fit_physics(rows, model)
        counts, groups = _counts(rows)
        for name, value in values.items():
            found[f"{model}:{name}"] = Term(value, counts[name], len(groups[name]))
    # Where nobody measured untuned software, it is assumed half as fast as tuned to a usual degree.
    for name, factor in (("stack", math.log(0.5)), ("launch", 0.0)):
        typical = found.get(f"training:{name}:level/typical", Term(0.0, 0, 0)).log
        found[f"training:{name}:level/naive"] = Term(typical + factor, 0, 0)
    for name in ("prefill", "decode", "weights"):
        typical = found.get(f"inference:{name}:level/typical", Term(0.0, 0, 0)).log
        found[f"inference:{name}:level/naive"] = Term(typical + math.log(0.5), 0, 0)
    ratios = fit_ratios(sample.ratios)
    for name, value in ratios.terms.items():
        found[f"ratio:{name}"] = Term(value, ratios.rows[name], ratios.groups[name])
    for scope, (value, count, of) in fit_scaling(sample.rows).items():
        found[f"scaling:loss:{scope}"] = Term(value, count, of)
    return found


def _counts(rows: Sequence[PhysicalRow]) -> tuple[Counter[str], dict[str, set[str]]]:
    counts: Counter[str] = Counter()
    groups: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        for coefficient, terms in row.fitted.terms.items():
            for term in terms:
                counts[f"{coefficient}:{term}"] += 1
                groups[f"{coefficient}:{term}"].add(row.row.group)
    return counts, groups
