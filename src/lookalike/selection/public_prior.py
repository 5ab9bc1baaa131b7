"""What a public table adds to noisy marginals: more measurements, each with the variance that it has shown to deserve.

The table's counts have a sampling error, since its rows are finitely many, and an unknown bias, since its rows may be
of other people. Both are expressed by one number, its *effective rows* n: the squared error of its counts of a marginal
is spread / n, where spread / n is the sampling error of n unbiased rows. The noisy marginals of the run tell n, at no
further cost: E |noisy - public|^2 = numbers * stddev^2 + spread / n. A biased table has few effective rows, so its
counts get a large variance and do no harm. All of this works on released numbers and public rows only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from lookalike.measurements import CellTable, Contrasts, NoisyMarginal, averaged, completed
from lookalike.models.graphical import GraphicalModel, fit
from lookalike.models.model import Model
from lookalike.models.weighted_rows import ReweightedModel, SupportSettings
from lookalike.schema.domain import ColumnSet, Domain, counted
from lookalike.selection.grouping import visible_groups
from lookalike.selection.model_size import FittingSets, tree_first
from lookalike.selection.pair_selection import pair_matrix
from lookalike.selection.steps import scored_pairs

# Chosen on adult at epsilon 0.1; docs/laboratory/public_tables.md.
MIN_WEIGHT = 0.25
"""Weight of the public table in what was measured below which the method's own model is better left as it is."""
MIN_SIGNAL = 1.5
"""A pair that was not measured is taken from the public table if its columns depend on each other so clearly: mean
squared distance from independence, in variances of the public counts."""
MAX_SETS = 60
"""Maximum number of such pairs, those with the largest distance from independence first."""
_MAX_PAIRS, _MAX_PAIR_CELLS = 5000, 20_000
_NETWORK_MS = 2.0
_SUPPORT = 80_000
_SINGLE = 0.1
"""Factor of the penalty on single columns, as for small budgets of mosaic: public tables pay there."""
_SWEEPS, _MIN_SHARE = 8, 1e-9

Zeros = Mapping[ColumnSet, np.ndarray]


@dataclass(frozen=True, slots=True)
class Informed:
    """A model of a run with a public table.

    Attributes:
        model: fitted to the noisy marginals and the public table; the method's own where the table is not used.
        weight: weight of the public table's counts against the noisy ones, from 0 to 1, over all measured sets.
        rows: its effective rows.
    """

    model: Model
    weight: float
    rows: float

    @property
    def used(self) -> bool:
        return self.weight >= MIN_WEIGHT

    @property
    def note(self) -> str:
        """What became of the public table, for the user."""
        worth = f"as precise as {self.rows:,.0f} rows without bias would be"
        if self.used:
            return f"The public table was used: its counts are about {worth}, a weight of {self.weight:.0%}."
        return (
            f"The public table was not used: its counts are about {worth}, a weight of {self.weight:.0%} against what "
            f"was measured, and below {MIN_WEIGHT:.0%} it may do more harm than good."
        )


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """A noisy marginal beside the counts of the public table.

    Attributes:
        measured: the noisy marginal.
        difference: the noisy counts minus the public ones; of contrasts the measured part alone.
        numbers: number of independent numbers that were measured.
        spread: squared sampling error of the public counts, times the number of unbiased rows.
    """

    measured: NoisyMarginal
    difference: np.ndarray
    numbers: int
    spread: float

    @classmethod
    def of(cls, measured: NoisyMarginal, counts: np.ndarray) -> Comparison:
        """Compare with the public counts of the marginal, scaled to the number of private rows.

        >>> noisy = NoisyMarginal(("a",), np.array([70.0, 30.0]), 2.0)
        >>> Comparison.of(noisy, np.array([60.0, 40.0])).excess
        192.0
        """
        shape = measured.contrasts or measured.values.shape
        sums = CellTable(measured.attrs, shape, measured.groups).sums(counts).reshape(measured.values.shape)
        difference, numbers, part = measured.values - sums, measured.cells, 1.0
        if measured.contrasts is not None:
            contrasts = Contrasts(measured.contrasts)
            difference, numbers = contrasts.of(difference), max(contrasts.dimensions, 1)
            part = numbers / max(measured.cells - 1, 1)
        return cls(measured, difference, numbers, part * _spread(sums))

    @property
    def noise(self) -> float:
        """Expected squared error of the noisy numbers."""
        return self.numbers * self.measured.stddev**2

    @property
    def excess(self) -> float:
        """Squared difference beyond the noise: an unbiased estimate of the squared error of the public counts."""
        return float(np.square(self.difference).sum()) - self.noise

    def averaged(self, error: float) -> NoisyMarginal:
        """The mean of the noisy and the public counts by inverse variance; `error` is the latter's squared error."""
        share = self.noise / (self.noise + error)
        values = self.measured.values - share * self.difference
        return replace(self.measured, values=values, stddev=self.measured.stddev * (1 - share) ** 0.5)


def _spread(counts: np.ndarray) -> float:
    """Squared sampling error of counts that are estimated from n rows, times n: N^2 sum p (1 - p), at least N."""
    total = float(counts.sum())
    return max(total * total - float(np.square(counts).sum()), total, 1e-9)


def effective_rows(compared: Sequence[Comparison], at_most: float) -> float:
    """Return the number of unbiased rows that would be as far from the noisy numbers as the public table is.

    The moment estimate sum of spreads / sum of excesses; no more than `at_most`, the rows that there are.
    """
    error = sum(one.excess for one in compared)
    return float(min(at_most, sum(one.spread for one in compared) / max(error, 1e-9)))


class PublicCounts:
    """The marginals of public rows, whose single columns are first corrected by what was measured.

    Attributes:
        columns: noisy counts of single columns, averaged with the public ones.
        independent: the model of independent columns that fits them.
        weights: of the public rows, raked to that model's columns.
    """

    def __init__(
        self, codes: np.ndarray, model: Model, oneways: Sequence[NoisyMarginal], zeros: Zeros, single: float
    ) -> None:
        self.domain, self.codes, self.total = model.domain, codes, model.total
        plain = np.full(len(codes), 1 / len(codes))
        compared = [Comparison.of(m, self._counts(m.attrs, plain)) for m in oneways]
        # Each column shows its own bias; no column with a bias harms another.
        self.columns = [c.averaged(c.spread / effective_rows([c], len(codes))) for c in compared]
        self.independent = fit(self.domain, self.columns, total=self.total, single=single, zeros=zeros)
        self.weights = self._raked(plain)

    def marginal(self, attrs: ColumnSet) -> np.ndarray:
        """Return public counts, scaled to the number of private rows."""
        return self._counts(attrs, self.weights)

    @property
    def effective(self) -> float:
        """The number of rows of equal weight that have the sampling error of the raked ones."""
        return 1.0 / float(np.square(self.weights).sum())

    def _counts(self, attrs: ColumnSet, weights: np.ndarray) -> np.ndarray:
        return self.total * counted(self.domain, self.codes, attrs, weights)

    def _raked(self, weights: np.ndarray) -> np.ndarray:
        wanted = {m.attrs: self.independent.marginal(m.attrs) / self.total for m in self.columns}
        for _ in range(_SWEEPS):
            for (name,), shares in wanted.items():
                column = self.codes[:, self.domain.position(name)]
                held = np.bincount(column, weights, minlength=shares.size)
                shares = np.maximum(shares, _MIN_SHARE)
                weights = weights * np.divide(shares, held, out=np.ones(shares.size), where=held > 0)[column]
        return weights / weights.sum()


class Trust:
    """How far the public table may be trusted, by the measured sets; for each column by the sets that hold it."""

    def __init__(self, compared: Sequence[Comparison], at_most: float) -> None:
        self.rows = effective_rows(compared, at_most)
        holding = {
            name: [c for c in compared if name in c.measured.attrs] for c in compared for name in c.measured.attrs
        }
        self._rows = {name: effective_rows(found, at_most) for name, found in holding.items()}
        self._at_most = at_most
        noise, error = sum(c.noise for c in compared), sum(c.spread for c in compared) / self.rows
        self.weight = noise / (noise + error)

    def rows_of(self, attrs: ColumnSet) -> float:
        """Return the effective rows for a set: those of its least trusted column."""
        return min(self._rows.get(name, self.rows) for name in attrs)

    def averaged(self, compared: Comparison) -> NoisyMarginal:
        """The mean of noisy and public counts of a set, whose error is half its own estimate and half its columns'."""
        expected = compared.spread / self.rows_of(compared.measured.attrs)
        error = max(compared.spread / self._at_most, (max(compared.excess, 0.0) + expected) / 2)
        return compared.averaged(error)


def with_public(model: Model, released: Sequence[NoisyMarginal], codes: np.ndarray, zeros: Zeros) -> Informed:
    """Return the model of a run whose noisy marginals are fitted together with the counts of a public table.

    Args:
        model: the method's own model.
        released: all noisy marginals of the run.
        codes: the rows of the public table.
        zeros: impossible cells, by the rules of the schema.
    """
    measured = _each_once(model, released)
    oneways, sets = ([m for m in measured if (len(m.attrs) == 1) == alone] for alone in (True, False))
    if not oneways or not sets:
        return Informed(model, 0.0, 0.0)
    single = model.settings.single if isinstance(model, ReweightedModel) else _SINGLE
    public = PublicCounts(codes, model, oneways, zeros, single)
    compared = [Comparison.of(m, public.marginal(m.attrs)) for m in sets]
    trust = Trust(compared, public.effective)
    if trust.weight < MIN_WEIGHT:
        return Informed(model, trust.weight, trust.rows)
    pairs = _pair_distances(public)
    known = {m.attrs for m in sets}
    further = _further_pairs(public, trust, {pair: far for pair, far in pairs.items() if pair not in known})
    joint = [*(trust.averaged(c) for c in compared), *further]
    network = _network(public.independent, [*public.columns, *joint], pairs, single)
    settings = SupportSettings(max_rows=_SUPPORT, single=single)
    return Informed(ReweightedModel(network, [*public.columns, *joint], settings), trust.weight, trust.rows)


def _each_once(model: Model, released: Sequence[NoisyMarginal]) -> list[NoisyMarginal]:
    """The noisy marginals, each column set once: repeats averaged, and of several groupings the least noisy."""
    if isinstance(model, ReweightedModel):
        return list(model.measurements)
    kept: dict[ColumnSet, NoisyMarginal] = {}
    for m in sorted(averaged(released), key=lambda m: -m.stddev):
        if m.attrs:
            kept[m.attrs] = completed(m, model.marginal(m.attrs)) if m.contrasts is not None else m
    return list(kept.values())


def _pair_distances(public: PublicCounts) -> dict[ColumnSet, float]:
    """How far every pair of moderate size is from independent in the public table: L1 distances in counts."""
    domain = public.domain
    pairs = [pair for pair in scored_pairs(domain)[:_MAX_PAIRS] if domain.cells(pair) <= _MAX_PAIR_CELLS]
    expected = public.independent.marginals(pairs)
    return {
        pair: float(np.abs(public.marginal(pair) - counts).sum()) for pair, counts in zip(pairs, expected, strict=True)
    }


def _further_pairs(public: PublicCounts, trust: Trust, distances: Mapping[ColumnSet, float]) -> list[NoisyMarginal]:
    """Public counts, with the stddev of their trust, of pairs that were not measured and are clearly dependent."""
    found: list[NoisyMarginal] = []
    for pair in sorted(distances, key=lambda pair: -distances[pair]):
        counts, expected, rows = public.marginal(pair), public.independent.marginal(pair), trust.rows_of(pair)
        groups = visible_groups(expected, (_spread(counts) / rows / counts.size) ** 0.5)
        table = CellTable(pair, counts.shape if groups is None else (int(groups.max()) + 1,), groups)
        sums, beside = table.sums(counts), table.sums(expected)
        variance = _spread(sums) / rows / sums.size
        if float(np.square(sums - beside).mean()) >= MIN_SIGNAL * variance:
            found.append(NoisyMarginal(pair, sums, variance**0.5, groups))
        if len(found) == MAX_SETS:
            break
    return found


def _network(
    independent: GraphicalModel,
    measured: Sequence[NoisyMarginal],
    pairs: Mapping[ColumnSet, float],
    single: float,
) -> GraphicalModel:
    """The network of the sets that fit together, those first that hold the heaviest tree of pairs."""
    domain: Domain = independent.domain
    sets = [m.attrs for m in measured if len(m.attrs) > 1]
    sets.sort(key=lambda attrs: -max(pairs.get(pair, 0.0) for pair in combinations(attrs, 2)))
    inside = FittingSets(domain, _NETWORK_MS)
    inside.offer(tree_first(sets, pair_matrix(domain, list(pairs), np.array(list(pairs.values()))), domain))
    kept = [m for m in measured if len(m.attrs) == 1 or m.attrs in inside.cliques]
    return fit(domain, kept, total=independent.total, single=single, zeros=independent.zeros)
