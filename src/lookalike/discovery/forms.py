"""Finds the kind, format, missing markers and magnitude of a column in noisy counts of classes of values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from lookalike.discovery.grids import LIKELY, SIGNIFICANT, SURE, plausible, visible
from lookalike.schema import times
from lookalike.schema.binned import Binned, Continuous, Datetime, Number
from lookalike.schema.classes import AXES, Affixes, Offsets, ValueClasses
from lookalike.schema.columns import Categorical, Column, Identifier, Undeclared, measured
from lookalike.schema.form_columns import column_of, detail_of, markers_of
from lookalike.schema.probes import Probe
from lookalike.schema.text_forms import AFFIXES, FORMS, MAX_PLACES, NAMED, OFFSETS, Form

MOSTLY = 0.9
"""Share of the values that must be written as numbers, or as times of one format, to make the column one."""
CERTAIN, SOME = 5.7, 4.5
"""Standard deviations by which a form must stand out: among all, of which there are many, or among a few."""

_MOSTLY_NUMBERS = 0.6
"""Share of the columns that must be numbers to take one of which nothing is seen for numbers, too."""
_COMMON = ("whole", "whole.0", *(f"places {k}" for k in range(1, MAX_PLACES + 1)), "float", "%Y-%m-%d", "text")
"""Forms that are looked for where none stands out among all."""
_MANY_COLUMNS, _USUAL = 30, 0.05
"""Where forms stand out in this many columns of texts, only those of this share of them are looked for elsewhere."""
NUMBER_AXES = ("power", "float", "decimal", "whole")
"""Axes of numbers, the coarsest first."""
_BY_CHANCE = 0.001
"""Chance that a further form seems to stand out in some column of a table, for each form that is looked for."""


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Noisy counts of the classes of one column's values.

    Attributes:
        probe: the classes.
        counts: their noisy counts.
        stddev: standard deviation of the noise.
        usual: forms that are looked for where none stands out among all.
        default: the form of values where none of these does either.
        beside: standard deviations by which a further form must stand out in the cells where most values are.
        spread: whether its values must lie in many cells, since nothing else would hide them: they are numbers.
    """

    probe: ValueClasses
    counts: np.ndarray
    stddev: float
    usual: tuple[str, ...] = _COMMON
    default: str = ""
    beside: float = LIKELY
    spread: bool = False
    _seen: dict[float, dict[str, np.ndarray]] = field(default_factory=dict)
    _likely: dict[tuple[str, ...], dict[str, float]] = field(default_factory=dict)

    def of(self, form: str) -> np.ndarray:
        """Counts of a form's cells."""
        return self.counts[self.probe.starts[form]]

    def seen(self, form: str, limit: float = SURE) -> np.ndarray:
        """Which of the form's cells belong to blocks that stand out from the noise."""
        if limit not in self._seen:
            self._seen[limit] = self._all_seen(limit)
        return self._seen[limit][form]

    def _all_seen(self, limit: float) -> dict[str, np.ndarray]:
        found: dict[str, np.ndarray] = {}
        for axis in {form.axis for form in self.probe.forms}:
            names = [form.name for form in self.probe.forms if form.axis == axis]
            counts = np.array([self.of(name) for name in names])
            found.update(zip(names, visible(counts, np.full(counts.shape, self.stddev), limit), strict=True))
        return found

    def mass(self, form: str, limit: float = SURE) -> float:
        """Rows of the form in cells that stand out; 0 where none does."""
        return float(self.of(form)[self.seen(form, limit)].sum())

    def plausible_mass(self, form: str, limit: float) -> float:
        """Rows of the form in cells of plausible numbers that stand out; all cells of what is no number."""
        axis = next(own.axis for own in self.probe.forms if own.name == form)
        own = plausible(AXES[axis]) if axis in NUMBER_AXES else np.ones(len(AXES[axis]), dtype=bool)
        counts = self.of(form)[own]
        return float(counts[visible(counts, np.full(len(counts), self.stddev), limit)].sum())

    def masses(self, forms: Iterable[str], limit: float = SURE) -> dict[str, float]:
        """Rows of each form that stands out."""
        found = {form: self.mass(form, limit) for form in forms if form in self.probe.starts}
        return {form: rows for form, rows in found.items() if rows > 0}

    def most_likely(self, forms: Iterable[str]) -> dict[str, float]:
        """Rows of each form that stands out clearly; where none does, of the one that stands out most."""
        names = tuple(forms)
        if names not in self._likely:
            self._likely[names] = self.masses(names, CERTAIN) or self._most_of([n for n in self.usual if n in names])
        return self._likely[names]

    def _most_of(self, names: list[str]) -> dict[str, float]:
        """Rows of the form that stands out most, at the strictest limit at which one does."""
        for limit in (SURE, SOME, LIKELY, 3.0):
            some = [name for name in names if limit >= SOME or not self.spread or NAMED[name].is_number]
            masses = {name: self.plausible_mass(name, limit) for name in some}
            best = max(some, key=lambda name: masses[name], default="")
            if masses.get(best, 0.0) > 0:
                return {best: masses[best]}
        return {}


def decided(column: Column, histogram: Histogram, facts: dict[str, Any]) -> tuple[Column, dict[str, float]]:
    """The column with its kind and missing markers, and the estimated rows of each marker.

    Args:
        column: as far as it is known.
        histogram: noisy counts of the classes of its values.
        facts: what stands around its numbers, or the offset of its times, if `open_detail` asked for it.
    """
    forms = text_forms(histogram) if "text" in histogram.probe.starts else {}
    if "text" in histogram.probe.starts:
        if isinstance(column, Undeclared):
            column = _kind(column, forms, facts)
        declared = column.values or () if isinstance(column, Categorical) else ()
        found = markers_of(forms, words=isinstance(column, Binned))
        absent = {form.text: rows for form, rows in forms.items() if form.text in found and form.text not in declared}
    else:
        nulls = histogram.mass("null", SIGNIFICANT)
        absent = {"": nulls} if nulls else {}
    if isinstance(column, Identifier) and not column.person:
        column = _with_digits(column, histogram)
    if isinstance(column, Continuous) and "decimals" in column.open_facts:
        written = "text" in histogram.probe.starts
        found = _text_decimals(column, forms, facts) if written else {"decimals": _float_decimals(histogram)}
        column = measured(column, "decimals", **found)
    if isinstance(column, Datetime) and "second" in histogram.probe.starts:
        units = [unit for unit in times.TICKS if histogram.mass(unit) > 0]
        column = replace(column, resolution=units[-1] if units else "microsecond")
    if "missing" in column.open_facts:
        column = measured(column, "missing", missing=tuple(absent))
    return column, {marker: rows for marker, rows in absent.items() if marker in column.missing}


_VALUES = tuple(form.name for form in FORMS if form.family not in ("missing", "word"))


def text_forms(histogram: Histogram) -> dict[Form, float]:
    """Rows of each form of texts that stands out; where no form of values does, of the most likely, or the default.

    Forms of the kind that most values have need less to stand out: the others are much more numerous.
    """
    markers = [form.name for form in FORMS if form.family in ("missing", "word")]
    found = histogram.most_likely(_VALUES) or ({histogram.default: 1.0} if histogram.default else {})
    if found:
        most = max(found, key=lambda name: found[name])
        near = [form.name for form in FORMS if form.is_number and alike(form, NAMED[most])]
        found = {**found, **_beside(histogram, most, [name for name in near if name not in found])}
    return {NAMED[name]: rows for name, rows in (found | histogram.masses(markers, SOME)).items()}


def alike(one: Form, other: Form) -> bool:
    """Whether numbers of two forms differ in their decimals alone."""
    facts = ("family", "thousands", "plus", "width")
    same = all(getattr(one, fact) == getattr(other, fact) for fact in facts)
    return same and (one.comma == other.comma or 0 in (one.decimals, other.decimals))


def _beside(histogram: Histogram, most: str, names: list[str]) -> dict[str, float]:
    """Rows of the forms that stand out in the cells where most values are: there are few such cells."""
    axes = {form.name: form for form in histogram.probe.forms}
    core = histogram.seen(most, LIKELY)
    found = {}
    for name in names if core.any() else []:
        own = histogram.of(name)[_near(axes[name].axis, axes[most].axis, core)]
        if own.size and own.sum() > histogram.beside * histogram.stddev * np.sqrt(own.size):
            found[name] = float(own.sum())
    return found


def _near(axis: str, other: str, core: np.ndarray) -> np.ndarray:
    """Which cells of an axis overlap with the core cells of another."""
    edges, wanted = AXES[axis], AXES[other]
    ends, stops = np.append(edges[1:], np.inf), np.append(wanted[1:], np.inf)
    before = np.append(0, np.cumsum(core))
    return before[np.searchsorted(wanted, ends)] > before[np.searchsorted(stops, edges, side="right")]


def with_habits(histograms: Sequence[Histogram], rows: float) -> list[Histogram]:
    """The histograms with the forms to expect of columns of texts of which little can be seen: those of the others.

    A table is mostly written by one program. Where most columns are numbers, one of which nothing is seen is taken for
    numbers as most of the others write them; as is one that holds values, of which no texts are seen: texts lie in few
    cells, numbers may be spread over many.
    """
    texts = [histogram for histogram in histograms if "text" in histogram.probe.starts]
    clear = [found for histogram in texts if (found := histogram.masses(_VALUES, CERTAIN))]
    columns = Counter(name for found in clear for name in found)
    usual = tuple(name for name, number in columns.most_common() if number > max(_USUAL * len(clear), 1))
    known = usual if len(clear) >= _MANY_COLUMNS and usual else _COMMON
    likely = [found for histogram in texts if (found := histogram.most_likely(_VALUES))]
    counted = sum(NAMED[max(found, key=lambda name: found[name])].is_number for found in likely)
    numbers = [name for name in usual if NAMED[name].is_number]
    number, mostly = numbers[0] if numbers else "whole", counted > _MOSTLY_NUMBERS * len(texts)
    limit = max(LIKELY, NormalDist().inv_cdf(1 - _BY_CHANCE / max(len(texts), 1)))

    def with_habit(histogram: Histogram) -> Histogram:
        present, texts = _present(histogram, rows), histogram.of("text")
        noise = histogram.stddev * np.sqrt(len(texts))
        spread = bool(present > LIKELY * noise and texts.sum() < (present - noise) / 2)
        # Where hardly a row holds a value, what seems to stand out a little is noise.
        own = known if present > LIKELY * histogram.stddev else ()
        default = number if mostly or spread else "text"
        return replace(histogram, usual=own, default=default, beside=limit, spread=spread, _likely={})

    return [with_habit(h) if "text" in h.probe.starts else h for h in histograms]


def _present(histogram: Histogram, rows: float) -> float:
    """About how many rows of a column of texts hold no missing marker."""
    return rows - sum(histogram.masses((f.name for f in FORMS if f.family in ("missing", "word")), SOME).values())


def open_detail(column: Column, histogram: Histogram) -> Probe | None:
    """The probe for what stands around a column's numbers or for the offset of its times, where its forms need it."""
    if not isinstance(column, Undeclared):
        return None
    detail = detail_of(text_forms(histogram))
    return Affixes(column.name) if detail == "affix" else Offsets(column.name) if detail == "offset" else None


def detail_facts(probe: Probe, counts: np.ndarray, stddev: float) -> dict[str, Any]:
    """What most values have around their number, or as offset; nothing where that does not stand out."""
    best = int(np.argmax(counts[:-1]))
    if counts[best] < SIGNIFICANT * stddev:
        return {}
    if isinstance(probe, Affixes):
        return dict(zip(("prefix", "suffix"), AFFIXES[best], strict=True))
    return {"zone": OFFSETS[best]}


def _with_digits(column: Identifier, histogram: Histogram) -> Identifier:
    """The identifier with made-up numbers of as many digits as its own, where these are whole numbers."""
    seen = histogram.seen("whole") if "whole" in histogram.probe.starts else np.zeros(0, dtype=bool)
    if not seen.any() or histogram.mass("whole") < histogram.mass(
        "text" if "text" in histogram.probe.starts else "null"
    ):
        return column
    digits = len(str(int(AXES["whole"][np.flatnonzero(seen)[-1]])))
    return replace(column, pattern="#" * max(digits, 4))


def _float_decimals(histogram: Histogram) -> int | None:
    """Decimals that the numbers of a typed column need; None where some need more than the classes distinguish."""
    places = histogram.masses([f"places {k}" for k in range(MAX_PLACES + 1)] + ["float"], SOME)
    return None if "float" in places or not places else max(int(form.split()[-1]) for form in places)


def _text_decimals(column: Continuous, counts: dict[Form, float], facts: dict[str, Any]) -> dict[str, Any]:
    """Decimals of a column of texts that is known to hold numbers, and how these are written."""
    found = _kind(Undeclared(column.name, storage=column.storage), counts, facts)
    if not isinstance(found, Number):
        return {}
    styles = ("prefix", "suffix", "thousands", "plus", "least_decimals", "comma")
    style = {name: getattr(found, name, getattr(column, name)) for name in styles}
    return {"decimals": found.decimals if isinstance(found, Continuous) else 0, **style}


def _kind(column: Undeclared, counts: dict[Form, float], facts: dict[str, Any]) -> Column:
    """A number, time or text, by how at least the share MOSTLY of the values is written."""
    shared: dict[str, Any] = {"outside": "absorb", "storage": column.storage}
    marks = {"missing": "open", "bins": "open"}
    money = any(form.family == "money" for form in counts)
    readable = not money or "prefix" in facts
    found = column_of(column.name, counts, mostly=MOSTLY, provenance=marks, **shared, **facts) if readable else None
    if isinstance(found, Continuous):
        found = measured(found, "decimals")
    return found or Categorical(column.name, provenance={"missing": "open"}, **shared)
