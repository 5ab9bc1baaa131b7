"""A small release made by hand: schema, model, account and recorded noise, without any table."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from lookalike.measurements import NoisyMarginal
from lookalike.models.graphical import GraphicalModel, fit
from lookalike.models.intervals import ErrorBars
from lookalike.privacy.kernel.accounting import Charge
from lookalike.schema.binned import Integer
from lookalike.schema.columns import Categorical, Ordinal
from lookalike.schema.schema import Schema

SCHEMA = Schema(
    (
        Integer("age", minimum=0, maximum=99, bins=20, provenance={"bounds": "assumed"}),
        Categorical("sex <b>", ("F & f", "M"), missing=("?",)),
        Ordinal("level", ("low", "mid", "high")),
        Categorical("town", tuple(f"town {i}" for i in range(30)), outside="other"),
    )
)


@dataclass(frozen=True)
class Account:
    """The account of a run, as a release carries it."""

    method: str = "mst"
    settings: dict[str, Any] = field(default_factory=lambda: {"oneway_share": 0.2})
    epsilon: float = 1.0
    epsilon_spent: float = 0.98
    public: str = ""
    delta: float = 1e-5
    accounting: str = "gdp"
    neighbours: str = "adding or removing one row"
    charges: tuple[Charge, ...] = (
        Charge("one-way marginals", "gaussian", 4, Fraction(1, 100), "stddev 10"),
        Charge("pairs of the tree", "gaussian", 2, Fraction(2, 100), "stddev 12"),
    )
    private: bool = True


def measurements(seed: int = 0) -> list[NoisyMarginal]:
    """Noisy counts of all columns and two pairs."""
    rng = np.random.default_rng(seed)
    domain = SCHEMA.domain
    cliques = [*((name,) for name in domain.names), ("age", "sex <b>"), ("sex <b>", "level")]
    found = []
    for clique in cliques:
        shape = domain.shape(clique)
        found.append(NoisyMarginal(clique, np.rint(2000 / np.prod(shape) * rng.random(shape) * 2), 10.0))
    return found


def bars() -> ErrorBars:
    return ErrorBars(SCHEMA.domain, measurements())


def model(seed: int = 0) -> GraphicalModel:
    return fit(SCHEMA.domain, measurements(seed), total=2000.0, iterations=30)
