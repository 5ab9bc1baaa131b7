"""Models that are a set of synthetic rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self, get_args

import numpy as np

from lookalike.errors import BudgetError
from lookalike.fitting.consistency import ConsistentMarginals, make_consistent, reconstruct
from lookalike.measurements import NoisyMarginal, completed, spread_over_cells
from lookalike.models.bayes_net import BayesNet
from lookalike.models.model import Model
from lookalike.sampling.row_update import GumSettings, Start, Updates, generate_rows
from lookalike.schema.domain import Domain, counted
from lookalike.stored import MAX_COUNT, MAX_TOTAL, Stored

MAX_CELLS = 100_000
"""Largest marginal that is reconstructed from others; larger ones are counted in the rows."""

_LIMITS = {
    "start": get_args(Start),
    "updates": get_args(Updates),
    "schedule": {"sweeps": (0, 1000), "decay": (0.0, 1.0), "decay_every": (1, 10_000), "duplicate": (0.0, 1.0)},
    "raking": {"pool_factor": (1, 1000), "max_codes": (0, 200_000_000), "sweeps": (1, 1000), "smoothing": (0.0, 1e3)},
}


@dataclass(frozen=True, slots=True, eq=False)
class RowsModel:
    """Rows of equal weight, made from released numbers only.

    Attributes:
        domain: names and sizes of the columns.
        total: estimated number of rows of the private table.
        codes: the rows, columns in domain order.
    """

    kind: ClassVar[str] = "rows"

    domain: Domain
    total: float
    codes: np.ndarray

    def __post_init__(self) -> None:
        if self.codes.ndim != 2 or self.codes.shape[1] != len(self.domain) or not len(self.codes):
            raise ValueError(f"rows of shape {self.codes.shape} for {len(self.domain)} columns")

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        """Return the rows' histogram, scaled to `total`."""
        return counted(self.domain, self.codes, attrs) * (self.total / len(self.codes))

    def marginals(self, cliques: Sequence[Iterable[str]], /) -> list[np.ndarray]:
        return [self.marginal(clique) for clique in cliques]

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Return every row of the set as often as any other, give or take one, in random order."""
        whole, rest = divmod(rows, len(self.codes))
        order = rng.permutation(len(self.codes))
        chosen = np.concatenate([np.tile(order, whole), order[:rest]])
        return np.asfortranarray(self.codes[rng.permutation(chosen)].astype(np.int32))

    @classmethod
    def from_stored(cls, stored: Stored) -> Self:
        domain = stored.domain()
        return cls(domain, stored.total(), stored.codes("codes", domain.sizes))


@dataclass(frozen=True, slots=True, eq=False)
class GumRows(RowsModel):
    """Rows made from consistent marginals; for any other number, new rows are made from the same marginals.

    Attributes:
        targets: the consistent marginals.
        settings: how rows are made from them.
        reconstructed: compute marginals of up to `MAX_CELLS` cells from the targets by maximum entropy, instead of
            counting rows.
    """

    kind: ClassVar[str] = "gum-rows"
    stored_fields: ClassVar[tuple[str, ...]] = ("codes", "targets", "settings", "reconstructed")

    targets: ConsistentMarginals
    settings: GumSettings
    reconstructed: bool = False

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        """Return the marginal of the rows, or the one reconstructed from the targets."""
        clique = self.domain.canonical(attrs)
        if self.reconstructed and self.domain.cells(clique) <= MAX_CELLS:
            return reconstruct(self.targets, clique)
        return RowsModel.marginal(self, clique)

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Return the rows in random order if `rows` is their number, otherwise new rows."""
        if rows == len(self.codes):
            return np.asfortranarray(self.codes[rng.permutation(rows)].astype(np.int32))
        return generate_rows(self.targets, rows, rng, self.settings)

    @classmethod
    def from_stored(cls, stored: Stored) -> Self:
        targets = _stored_targets(stored.part("targets"))
        codes = stored.codes("codes", targets.domain.sizes)
        settings = stored.part("settings").settings(GumSettings, _LIMITS)
        return cls(targets.domain, targets.total, codes, targets, settings, stored.value("reconstructed", bool))


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedRows(RowsModel):
    """Rows that were released one by one at a cost, such as rows made from seeds. `total` is their number.

    No more rows can be made without more budget.

    Attributes:
        network: the model with which the rows were made; it is differentially private too, so it may be published.
    """

    kind: ClassVar[str] = "released-rows"
    stored_fields: ClassVar[tuple[str, ...]] = ("network", "codes")

    network: BayesNet

    def __post_init__(self) -> None:
        """Accept a table without rows, since it may be that none was released."""

    @classmethod
    def of(cls, network: BayesNet, codes: np.ndarray) -> Self:
        return cls(network.domain, float(len(codes)), codes, network)

    @property
    def max_rows(self) -> int:
        """How many rows there are: no more can be made."""
        return len(self.codes)

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        """Return the rows' histogram."""
        return counted(self.domain, self.codes, attrs)

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Return different rows in random order; a BudgetError where more are wanted than were released."""
        if rows > len(self.codes):
            raise BudgetError(
                f"{rows:,} rows were requested, but only {len(self.codes):,} were released from seeds, each at a cost. "
                "Request fewer, raise seeded_rows, or set omega='all' for a model that makes any number."
            )
        return np.asfortranarray(self.codes[rng.permutation(len(self.codes))[:rows]])

    @classmethod
    def from_stored(cls, stored: Stored) -> Self:
        network = BayesNet.from_stored(stored.part("network"))
        return cls.of(network, stored.codes("codes", network.domain.sizes))


def gum_model(
    domain: Domain,
    measurements: Iterable[NoisyMarginal],
    *,
    rng: np.random.Generator,
    total: float | None = None,
    settings: GumSettings | None = None,
    reconstructed: bool = False,
) -> GumRows:
    """Return as many rows as the private table is estimated to have, made from any method's noisy marginals.

    For column sets too many for a graphical model, or hundreds of columns. Marginals of column sets that no measurement
    contains are only as good as the measured ones imply.
    """
    targets = make_consistent(domain, measurements, total=total)
    settings = settings or GumSettings()
    codes = generate_rows(targets, max(1, round(targets.total)), rng, settings)
    return GumRows(domain, targets.total, codes, targets, settings, reconstructed)


def _stored_targets(stored: Stored) -> ConsistentMarginals:
    domain, total = stored.domain(), stored.total()
    cliques = stored.cliques("cliques", domain)
    tables = stored.tables("tables", [domain.shape(clique) for clique in cliques], 0.0, MAX_TOTAL)
    agree = all(abs(float(table.sum()) - total) <= 1e-3 * max(1.0, total) for table in tables)
    stored.require(agree, "has tables whose sum is not its total")
    return ConsistentMarginals(domain, cliques, tables, stored.numbers("stddevs", 0.0, MAX_COUNT), total)


def updated_rows(
    model: Model, released: list[NoisyMarginal], rng: np.random.Generator, *, flows: bool = False
) -> RowsModel:
    """Return rows that fit the released marginals, made by updates or by min-cost flows.

    Contrasts are completed, and sums of groups of cells spread over the cells, by the expected counts of the model.
    """
    counts = [m for m in released if m.contrasts is None and m.groups is None]
    for m in released:
        if m.contrasts is not None or m.groups is not None:
            expected = model.marginal(m.attrs)
            counts.append(replace(spread_over_cells(completed(m, expected), expected), contrasts=None))
    settings = GumSettings.of_flows() if flows else GumSettings()
    return gum_model(model.domain, counts, total=model.total, rng=rng, settings=settings)
