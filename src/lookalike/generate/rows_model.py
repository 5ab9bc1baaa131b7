"""A model that is a set of synthetic rows: what GUM makes of consistent marginals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from lookalike.estimate.consistency import ConsistentMarginals, make_consistent
from lookalike.generate.cell_order import cell_codes
from lookalike.generate.initial_rows import draw_given, forest_rows, independent_rows, peel_leaves
from lookalike.generate.model import Parts
from lookalike.generate.raking import Raking, raked_rows
from lookalike.generate.row_update import GumSchedule, update_rows
from lookalike.generate.stored import LARGEST_COUNT, LARGEST_TOTAL, Stored
from lookalike.schema.domain import Domain
from lookalike.tables.measurement import NoisyMarginal

Start = Literal["independent", "tree", "raked"]


@dataclass(frozen=True, slots=True)
class GumSettings:
    """How rows are made from marginals.

    Attributes:
        start: rows that GUM starts from. "independent" is the paper's: every column on its own. "tree" follows the
            pairs of a spanning tree. "raked" takes rows of that tree by weights that fit all marginals.
        schedule: GUM's sweeps. After a raked start they are made only if the pool could not carry the fit: sweeps on
            rows that fit already would only follow the noise.
        raking: settings of the "raked" start.
        append: draw attributes that hang on a single pair at the end, given the other one of the pair.
    """

    start: Start = "raked"
    schedule: GumSchedule = field(default_factory=lambda: GumSchedule(sweeps=5, settle=True))
    raking: Raking = field(default_factory=Raking)
    append: bool = True

    @classmethod
    def of_paper(cls) -> GumSettings:
        """GUM as the paper has it: independent start, 50 sweeps, no stopping."""
        return cls(start="independent", schedule=GumSchedule())

    @classmethod
    def from_stored(cls, stored: Stored) -> GumSettings:
        sweeps, pool = stored.part("schedule"), stored.part("raking")
        schedule = GumSchedule(
            sweeps.whole("sweeps", 0, 1000),
            sweeps.number("decay", 0.0, 1.0),
            sweeps.whole("decay_every", 1, 10_000),
            sweeps.numbers("duplicate", 0.0, 1.0),
            sweeps.value("settle", bool),
        )
        raking = Raking(
            pool.whole("pool_factor", 1, 1000),
            pool.whole("max_codes", 0, 200_000_000),
            pool.whole("sweeps", 1, 1000),
            pool.number("smoothing", 0.0, 1000.0),
        )
        return cls(stored.choice("start", get_args(Start)), schedule, raking, stored.value("append", bool))


def generate_rows(
    targets: ConsistentMarginals, rows: int, rng: np.random.Generator, settings: GumSettings | None = None
) -> np.ndarray:
    """Codes of `rows` rows whose marginals are near the targets: start, GUM sweeps, appended attributes."""
    settings = settings or GumSettings()
    targets = targets.maximal()
    core, leaves = peel_leaves(targets) if settings.append else (targets, {})
    if settings.start == "raked":
        core_codes, fit = raked_rows(core, rows, rng, settings.raking)
        if not fit.carried:
            core_codes = update_rows(core_codes, fit.smoothed, rng, settings.schedule)
    else:
        make_rows = forest_rows if settings.start == "tree" else independent_rows
        core_codes = update_rows(make_rows(core, rows, rng), core, rng, settings.schedule)
    codes = np.empty((rows, len(targets.domain)), np.int32, order="F")
    for column, name in enumerate(core.domain.names):
        codes[:, targets.domain.position(name)] = core_codes[:, column]
    for name, (anchor, table) in leaves.items():
        anchor_codes = codes[:, targets.domain.position(anchor)]
        codes[:, targets.domain.position(name)] = draw_given(anchor_codes, table, rng)
    return codes


@dataclass(frozen=True, slots=True, eq=False)
class RowsModel:
    """The distribution of a set of synthetic rows, with the marginals they were made from.

    Attributes:
        codes: the rows, in random order.
        targets: consistent marginals, from which any other number of rows is made afresh.
        settings: how.
    """

    kind: ClassVar[str] = "rows"

    codes: np.ndarray
    targets: ConsistentMarginals
    settings: GumSettings

    @property
    def domain(self) -> Domain:
        return self.targets.domain

    @property
    def total(self) -> float:
        return self.targets.total

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        """The rows' histogram, scaled to `total`."""
        clique = self.domain.canonical(attrs)
        shape = self.domain.shape(clique)
        cells = cell_codes(self.codes, [self.domain.position(name) for name in clique], shape)
        return (np.bincount(cells, minlength=self.domain.cells(clique)) * (self.total / len(self.codes))).reshape(shape)

    def marginals(self, cliques: Sequence[Iterable[str]], /) -> list[np.ndarray]:
        return [self.marginal(clique) for clique in cliques]

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """The rows themselves, in a random order, if that many are wanted; else rows made afresh from the targets."""
        if rows == len(self.codes):
            return np.asfortranarray(self.codes[rng.permutation(rows)].astype(np.int32))
        return generate_rows(self.targets, rows, rng, self.settings)

    def to_parts(self) -> Parts:
        meta = {
            "names": list(self.domain.names),
            "sizes": list(self.domain.sizes),
            "total": self.total,
            "cliques": [list(clique) for clique in self.targets.cliques],
            "stddevs": list(self.targets.stddevs),
            "settings": asdict(self.settings),
        }
        smallest = np.min_scalar_type(max(self.domain.sizes) - 1)
        tables = {f"table_{i}": table for i, table in enumerate(self.targets.tables)}
        return meta, {"codes": self.codes.astype(smallest), **tables}

    @classmethod
    def from_parts(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> RowsModel:
        """The model that `to_parts` took apart."""
        stored = Stored(meta, arrays)
        domain, total = stored.domain(), stored.total()
        cliques = stored.cliques("cliques", domain)
        tables = tuple(
            stored.table(f"table_{i}", domain.shape(clique), 0.0, LARGEST_TOTAL) for i, clique in enumerate(cliques)
        )
        agree = all(abs(float(table.sum()) - total) <= 1e-3 * max(1.0, total) for table in tables)
        stored.require(agree, "has tables of another total than its own")
        targets = ConsistentMarginals(domain, cliques, tables, stored.numbers("stddevs", 0.0, LARGEST_COUNT), total)
        return cls(stored.codes("codes", domain.sizes), targets, GumSettings.from_stored(stored.part("settings")))


def gum_model(
    domain: Domain,
    measurements: Iterable[NoisyMarginal],
    *,
    rng: np.random.Generator,
    total: float | None = None,
    rows: int | None = None,
    settings: GumSettings | None = None,
) -> RowsModel:
    """Rows from any method's noisy marginals: consistency first, then as many rows as the estimated total.

    For models too dense for a graphical model, or with hundreds of columns. Marginals of attribute sets that no
    measurement covers are only as good as what the covered ones imply.
    """
    targets = make_consistent(domain, measurements, total=total)
    settings = settings or GumSettings()
    rows = max(1, round(targets.total)) if rows is None else rows
    return RowsModel(generate_rows(targets, rows, rng, settings), targets, settings)
