"""A log-linear model over the measured attribute sets: what estimation returns and generation draws from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from lookalike.generate.tree_rows import tree_rows
from lookalike.schema.domain import Clique, Domain
from lookalike.tables.cliques import clique_mask
from lookalike.tables.contraction import Network
from lookalike.tables.plan import ContractionPlan
from lookalike.tables.planner import make_plan


class GraphicalModel:
    """p(x) proportional to exp(sum of potentials), with exact marginals of any set and rows on demand.

    Attributes in no potential are uniform and independent of all others. The model is a function of noisy measurements
    and public facts only.

    Attributes:
        domain: all attributes.
        potentials: one table per attribute set, in domain order; -inf marks impossible cells.
        total: the number of rows the model stands for; marginals sum to it.
        plan: how the model is evaluated.
    """

    kind: ClassVar[str] = "graphical"

    def __init__(
        self,
        domain: Domain,
        potentials: Mapping[Clique, np.ndarray],
        total: float,
        plan: ContractionPlan | None = None,
        *,
        network: Network | None = None,
    ) -> None:
        self.domain = domain
        self.potentials = dict(potentials)
        self.total = float(total)
        self.plan = plan if plan is not None else make_plan(domain, self.potentials)
        self._network = network

    @property
    def cliques(self) -> list[Clique]:
        """The attribute sets that carry a potential."""
        return list(self.potentials)

    @property
    def network(self) -> Network:
        """The evaluated network of the model's own plan."""
        if self._network is None:
            self._network = evaluated(self.plan, self.potentials)
        return self._network

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        """Expected counts of any attribute set, measured or not, with axes in domain order; they sum to `total`."""
        return self.marginals([attrs])[0]

    def marginals(self, sets: Sequence[Iterable[str]]) -> list[np.ndarray]:
        """Expected counts of several attribute sets."""
        return [self.total * self._probabilities(self.domain.canonical(attrs)) for attrs in sets]

    def sample(self, rows: int, rng: np.random.Generator, *, independent: bool = False) -> np.ndarray:
        """Rows of codes; see `lookalike.generate.tree_rows` for how and with what guarantee."""
        return tree_rows(self.network, rows, rng, independent=independent)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """JSON values and arrays from which `from_parts` makes the same model, plan included."""
        meta = {
            "names": list(self.domain.names),
            "sizes": list(self.domain.sizes),
            "total": self.total,
            "cliques": [list(clique) for clique in self.potentials],
            "plan": self.plan.to_json(),
        }
        return meta, {f"potential_{i}": table for i, table in enumerate(self.potentials.values())}

    @classmethod
    def from_parts(cls, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> GraphicalModel:
        """The model that `to_parts` took apart."""
        domain = Domain(tuple(meta["names"]), tuple(int(size) for size in meta["sizes"]))
        potentials = {tuple(clique): arrays[f"potential_{i}"] for i, clique in enumerate(meta["cliques"])}
        return cls(domain, potentials, float(meta["total"]), ContractionPlan.from_json(domain, meta["plan"]))

    def _probabilities(self, clique: Clique) -> np.ndarray:
        covered = {name for leaf in self.plan.leaves for name in leaf}
        known = tuple(name for name in clique if name in covered)
        table = self._covered_probabilities(known) if known else np.ones(())
        free = self.domain.cells([name for name in clique if name not in covered])
        wide = table.reshape([self.domain.size(name) if name in covered else 1 for name in clique])
        return np.broadcast_to(wide / free, self.domain.shape(clique)).copy()

    def _covered_probabilities(self, clique: Clique) -> np.ndarray:
        network = self.network
        mask = clique_mask(self.domain, clique)
        if not any(mask & other == mask for other in network.layout.leaf_masks):
            network = evaluated(make_plan(self.domain, [*self.plan.leaves, clique]), self.potentials)
        leaf = next(i for i, other in enumerate(network.layout.leaf_masks) if mask & other == mask)
        names = network.plan.leaves[leaf]
        table = network.unpack(leaf, network.marginals)
        return table.sum(axis=tuple(axis for axis, name in enumerate(names) if name not in clique))


def evaluated(plan: ContractionPlan, potentials: Mapping[Clique, np.ndarray]) -> Network:
    """A network of the plan after one sweep at the given potentials, each of which lies in some leaf of the plan."""
    domain = plan.domain
    tables = [np.zeros(domain.shape(leaf)) for leaf in plan.leaves]
    for clique, table in potentials.items():
        leaf = next(i for i, names in enumerate(plan.leaves) if set(clique) <= set(names))
        shape = [domain.size(name) if name in clique else 1 for name in plan.leaves[leaf]]
        tables[leaf] += table.reshape(shape)
    network = Network(plan)
    flat = np.concatenate([network.pack(leaf, table) for leaf, table in enumerate(tables)] or [np.zeros(0)])
    impossible = np.isneginf(flat)
    if impossible.any():
        network = Network(plan, impossible=impossible)
        flat[impossible] = 0.0
    network.sweep(flat)
    return network
