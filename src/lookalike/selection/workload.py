"""Workloads: which marginals a user wants to be accurate, and how much each one matters."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.errors import InputError, ModelTooLargeError, SchemaError
from lookalike.guards import MAX_WORKLOAD_SETS
from lookalike.schema.documents import Reader
from lookalike.schema.domain import ColumnSet, Domain

WorkloadSpec = str | Sequence[Any]
"""A text such as "all-3way" or "target:income", or a list of column lists, texts and {columns | sets, weight}."""

_NAMED = re.compile(r"(?:all-(?P<all>\d+)way|target(?:-(?P<order>\d+)way)?:(?P<target>.+))", re.DOTALL)
_HINT = 'Write "all-3way", "target:COLUMN", "target-2way:COLUMN", or a list of lists of columns.'


@dataclass(frozen=True, slots=True)
class Workload:
    """Marginals with weights, each marginal once. Public: it depends on the schema and the user's wishes only.

    Attributes:
        cliques: the marginals, in domain order.
        weights: how much each one matters, positive.
    """

    cliques: tuple[ColumnSet, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.cliques:
            raise SchemaError(f"The workload is empty. {_HINT}")
        if len(self.cliques) != len(self.weights):
            raise SchemaError(f"The workload has {len(self.cliques)} marginals but {len(self.weights)} weights.")
        for clique, weight in zip(self.cliques, self.weights, strict=True):
            if not 0 < weight < math.inf:
                raise SchemaError(f"The workload's weight of {', '.join(clique)} is {weight}; it must be positive.")

    def closure(self, domain: Domain) -> list[ColumnSet]:
        """Return every non-empty subset of a marginal of the workload, small ones first, each in domain order."""
        if sum(2 ** len(clique) for clique in self.cliques) > 64 * MAX_WORKLOAD_SETS:
            raise _too_many("The parts of the workload", sum(2.0 ** len(clique) for clique in self.cliques))
        found = {part for clique in self.cliques for k in range(len(clique)) for part in combinations(clique, k + 1)}
        if len(found) > MAX_WORKLOAD_SETS:
            raise _too_many("The parts of the workload", len(found))
        return sorted(found, key=lambda part: (len(part), [domain.position(name) for name in part]))

    def relevance(self, domain: Domain, candidates: Sequence[ColumnSet]) -> np.ndarray:
        """Return w_r = sum over the workload's marginals s of weight_s * |r & s| for each candidate r (AIM, 3.1)."""
        # |r & s| is a sum over the columns of r, so one number per column is enough.
        share = np.zeros(len(domain))
        for clique, weight in zip(self.cliques, self.weights, strict=True):
            for name in clique:
                share[domain.position(name)] += weight
        return np.array([sum(share[domain.position(name)] for name in clique) for clique in candidates])


def as_workload(spec: WorkloadSpec, domain: Domain) -> Workload:
    """Return the workload that a setting describes.

    "all-3way" means every set of 3 columns, of all columns where there are fewer; "target:income" every set of 3 with
    the column income in it, "target-2way:income" every pair. In a list, each entry is a list of columns, such a text,
    or a mapping with `columns` or `sets` and a `weight`; weights of repeated sets add up.

    >>> domain = Domain(("a", "b", "c"), (2, 2, 2))
    >>> as_workload("target-2way:b", domain).cliques
    (('a', 'b'), ('b', 'c'))
    >>> as_workload(["all-1way", {"columns": ["c", "a"], "weight": 3}], domain).weights
    (1.0, 1.0, 1.0, 3.0)
    """
    totals: dict[ColumnSet, float] = {}
    for entry in [spec] if isinstance(spec, str) else _listed(spec):
        cliques, weight = _entry(entry, domain)
        for clique in cliques:
            totals[clique] = totals.get(clique, 0.0) + weight
    return Workload(tuple(totals), tuple(totals.values()))


def read_workload(text: str) -> WorkloadSpec:
    """Return a workload of the command line: the text itself, or the content of the YAML or JSON file of that name."""
    path = Path(text)
    if path.suffix.lower() not in (".json", ".yaml", ".yml"):
        if not _NAMED.fullmatch(text):
            raise InputError(f"The workload {text!r} is not known. {_HINT} Files end in .yaml, .yml or .json.")
        return text
    reader, where = Reader(InputError), f"The workload file {path}"
    content = reader.text(path)
    is_json = path.suffix.lower() == ".json"
    loaded = reader.json(content, where) if is_json else reader.yaml(content, where, texts=False)[0]
    return loaded if isinstance(loaded, str) else _listed(loaded)


def _listed(spec: Any) -> list[Any]:
    if not isinstance(spec, list | tuple):
        raise SchemaError(f"A workload cannot be a {type(spec).__name__}. {_HINT}")
    return list(spec)


def _entry(entry: Any, domain: Domain) -> tuple[list[ColumnSet], float]:
    if isinstance(entry, str):
        return _named(entry, domain), 1.0
    if isinstance(entry, list | tuple):
        return [_clique(entry, domain)], 1.0
    if not isinstance(entry, Mapping) or len({"columns", "sets"} & set(entry)) != 1 or set(entry) - {
        "columns", "sets", "weight",
    }:  # fmt: skip
        raise SchemaError(f"The workload entry {entry!r} needs either 'columns' or 'sets', and may have a 'weight'.")
    weight = entry.get("weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        raise SchemaError(f"The weight of the workload entry {entry!r} is {weight!r}; it must be a positive number.")
    if "sets" in entry:
        return _named(str(entry["sets"]), domain), float(weight)
    return [_clique(entry["columns"], domain)], float(weight)


def _clique(columns: Any, domain: Domain) -> ColumnSet:
    if not isinstance(columns, list | tuple) or not columns or not all(isinstance(name, str) for name in columns):
        raise SchemaError(f"The workload entry {columns!r} is not a list of column names.")
    if len(set(columns)) != len(columns):
        raise SchemaError(f"The workload entry {columns!r} names a column twice.")
    return domain.canonical(columns)


def _named(text: str, domain: Domain) -> list[ColumnSet]:
    match = _NAMED.fullmatch(text)
    if match is None:
        raise SchemaError(f"The workload {text!r} is not known. {_HINT}")
    order = min(int(match["all"] or match["order"] or 3), len(domain))
    if order < 1:
        raise SchemaError(f"The workload {text!r} has sets of 0 columns; the minimum is 1, as in all-1way.")
    names: Iterable[str] = domain.names
    target = match["target"]
    if target is not None:
        domain.position(target)
        names, order = [name for name in domain.names if name != target], order - 1
    wanted = math.comb(len(list(names)), order)
    if wanted > MAX_WORKLOAD_SETS:
        raise _too_many(f"The workload {text!r}", wanted)
    chosen = combinations(names, order)
    return [domain.canonical((*rest, target)) for rest in chosen] if target is not None else list(chosen)


def _too_many(what: str, number: float) -> ModelTooLargeError:
    remedy = "Ask for smaller sets, or list the sets you need."
    return ModelTooLargeError(what, number, MAX_WORKLOAD_SETS, "marginals", remedy)
