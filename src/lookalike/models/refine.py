"""Undo a merge of values: marginals and rows over the original codes from a model over merged codes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from lookalike.models.model import Model
from lookalike.sampling.draws import draw_given
from lookalike.schema.domain import Domain
from lookalike.stored import Stored


@dataclass(frozen=True, slots=True, eq=False)
class RefinedModel:
    """A model of merged values, with the share of each original value in its merged value.

    Given the merged value, the original value is independent of all other columns: the merge lost that dependence.

    Attributes:
        domain: the fine domain.
        coarse: the model, over the same names with fewer values.
        maps: for each merged column, the coarse code of every fine code.
        shares: for each merged column, the share of every fine code in its coarse code, adding up to 1 per coarse code.
    """

    kind: ClassVar[str] = "refined"

    domain: Domain
    coarse: Model
    maps: Mapping[str, np.ndarray]
    shares: Mapping[str, np.ndarray]

    def __post_init__(self) -> None:
        if self.domain.names != self.coarse.domain.names:
            raise ValueError("the coarse and the fine domain must have the same columns in the same order")
        for name, fine in zip(self.domain.names, self.domain.sizes, strict=True):
            mapping, coarse = self.maps.get(name), self.coarse.domain.size(name)
            if (mapping is None and fine != coarse) or (mapping is not None and mapping.shape != (fine,)):
                raise ValueError(f"column {name!r} has {fine} values and {coarse} merged ones; its map does not fit")
            if mapping is not None:
                sums = np.bincount(mapping, weights=self.shares[name], minlength=coarse)
                if len(sums) != coarse or not np.allclose(sums, 1.0):
                    raise ValueError(f"the shares of column {name!r} do not add up to 1 for every merged value")

    @classmethod
    def of(
        cls, domain: Domain, coarse: Model, maps: Mapping[str, np.ndarray], counts: Mapping[str, np.ndarray]
    ) -> Model:
        """Return `coarse` refined by (noisy) counts of the fine values; `coarse` itself where nothing was merged."""
        if not maps:
            return coarse
        shares = {name: split_shares(mapping, counts[name]) for name, mapping in maps.items()}
        return cls(domain, coarse, dict(maps), shares)

    @property
    def total(self) -> float:
        return self.coarse.total

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        return self.marginals([attrs])[0]

    def marginals(self, cliques: Sequence[Iterable[str]], /) -> list[np.ndarray]:
        cliques = [self.domain.canonical(clique) for clique in cliques]
        return [self._expanded(c, table) for c, table in zip(cliques, self.coarse.marginals(cliques), strict=True)]

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Return rows of the coarse model, each merged value divided among its fine ones in proportion."""
        codes = np.asfortranarray(self.coarse.sample(rows, rng)).copy(order="F")
        for name, mapping in self.maps.items():
            table = np.zeros((self.coarse.domain.size(name), mapping.size))
            table[mapping, np.arange(mapping.size)] = self.shares[name]
            column = self.domain.position(name)
            codes[:, column] = draw_given(codes[:, column], table, rng)
        return codes

    @classmethod
    def from_stored(cls, stored: Stored) -> Self:
        # Imported late, since the list of kinds imports this class.
        from lookalike.models.archive import stored_model

        domain, coarse = stored.domain(), stored_model(stored.part("coarse"))
        merged, stored_shares = stored.part("maps"), stored.part("shares")
        maps, shares = {}, {}
        for name in merged.meta:
            stored.require(name in domain and name in coarse.domain, f"merges {name!r}, a column it does not have")
            maps[name] = merged.labels(name, domain.shape([name]), coarse.domain.size(name))
            shares[name] = stored_shares.table(name, domain.shape([name]), 0.0, 1.0 + 1e-9)
        return cls(domain, coarse, maps, shares)

    def _expanded(self, clique: tuple[str, ...], table: np.ndarray) -> np.ndarray:
        for axis, name in enumerate(clique):
            if name in self.maps:
                shares = self.shares[name].reshape([-1 if i == axis else 1 for i in range(len(clique))])
                table = np.take(table, self.maps[name], axis=axis) * shares
        return table


def split_shares(mapping: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return each fine value's share of its merged value by its count; equal shares where no count is positive.

    >>> split_shares(np.array([0, 1, 1]), np.array([50.0, 3.0, -1.0]))
    array([1., 1., 0.])
    """
    weights = np.maximum(counts, 0.0)
    sums = np.bincount(mapping, weights=weights)[mapping]
    sizes = np.bincount(mapping)[mapping]
    return np.where(sums > 0, weights / np.where(sums > 0, sums, 1.0), 1.0 / sizes)
