"""Attacks on a release, with people who are not in the table as control, beside what epsilon allows. NOT PRIVATE.

Every attack is tried on people of the private table and on people who are not in it. What it gains from a person's
being in the table is the difference; that an attack succeeds on both means that it learns about the population, which
is what a release is for. Differential privacy bounds the difference, whatever the attacker knows: `Guarantee.most`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from lookalike.errors import InputError
from lookalike.evaluate.membership import (
    CONFIDENCE,
    FALSE_ALARMS,
    MAX_ROWS,
    SHADOW,
    Release,
    View,
    all_scores,
    auc,
    column_distance,
    distances,
    guessed,
    in_chunks,
    shadow_scores,
    unusual,
)
from lookalike.measurements import NoisyMarginal
from lookalike.privacy.kernel.accounting import Budget, check_delta, check_epsilon
from lookalike.privacy.run import Spent
from lookalike.schema.domain import Domain

MAX_TARGETS = 1_000
"""People of each side that are attacked; of more, random ones."""
MIN_CONTROL = 40
_UNUSUAL = 0.1
_LINKED_WITHIN, _KNOWN, _PREDICATE = 10, 3, 4
_PREDICATES, _TRIES = 500, 4_000

Numbers = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What differential privacy allows any attack to gain from a person's being in the table.

    Attributes:
        mu: the parameter of Gaussian DP, where the run claims it: a smaller bound than epsilon and delta alone.

    >>> guarantee = Guarantee(1.0, 1e-5, 0.268)
    >>> round(guarantee.most(0.01), 3), round(guarantee.most_auc, 3)
    (0.02, 0.575)
    """

    epsilon: float
    delta: float
    mu: float | None = None

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)

    @classmethod
    def of(cls, spent: Spent) -> Guarantee | None:
        """Return the guarantee of a run; None where it has none."""
        if not spent.private:
            return None
        gaussian = spent.accounting == "gdp" and spent.threshold_delta == 0
        mu = math.sqrt(2 * Budget(spent.epsilon, spent.delta, "gdp").rho) if gaussian else None
        return cls(spent.epsilon, spent.delta, mu)

    def replaced(self) -> Guarantee:
        """Return the guarantee for replacing a row: one is removed, then one added."""
        epsilon = min(2 * self.epsilon, 1000.0)
        delta = min(self.delta * (1 + math.exp(min(self.epsilon, 500.0))), 1 - 1e-12)
        return Guarantee(epsilon, delta, None if self.mu is None else 2 * self.mu)

    def most(self, chance: float) -> float:
        """Return the largest chance of success on people in the table, given that on people who are not in it.

        Gaussian DP: Phi(Phi^-1(chance) + mu). Else the smaller of e^epsilon chance + delta and
        1 - e^-epsilon (1 - delta - chance). Both are concave, so that they hold for averages over people.
        """
        if self.mu is not None:
            return float(ndtr(ndtri(chance) + self.mu))
        tail = math.exp(-self.epsilon)
        return min(1.0, chance / tail + self.delta, 1 - tail * (1 - self.delta - chance))

    @property
    def most_auc(self) -> float:
        """The largest area under the curve of true over false alarms."""
        if self.mu is not None:
            return float(ndtr(self.mu / math.sqrt(2)))
        knee = (1 - self.delta) / (1 + math.exp(min(self.epsilon, 700.0)))
        alarms = np.array([0.0, knee, 1 - self.delta, 1.0])
        return float(np.trapezoid([self.most(alarm) for alarm in alarms], alarms))


@dataclass(frozen=True, slots=True, eq=False)
class Attacked:
    """The release and the people that are attacked.

    Attributes:
        members: codes of the private table.
        control: codes of people of the same population who are not in it.
        synth: codes of the synthetic rows.
        domain: names and sizes of the columns.
        ordered: columns whose codes have an order.
        guarantee: what the release claims; None for a release without a guarantee, or an unknown one.
        coins: each person was put into the table by a separate coin toss. Else a fixed number was chosen, and one
            who is in it took the place of another: the bound is that of replacing a row.
        measurements: noisy marginals of the run, if they are published.
        rows: about the number of private rows; by default the number of synthetic ones.
        release: makes a release like this one of control rows, for shadow models.
        shadows: number of such releases.
    """

    members: np.ndarray
    control: np.ndarray
    synth: np.ndarray
    domain: Domain
    ordered: Collection[str] = ()
    guarantee: Guarantee | None = None
    coins: bool = False
    measurements: Sequence[NoisyMarginal] = ()
    rows: float | None = None
    release: Release | None = None
    shadows: int = 0

    def __post_init__(self) -> None:
        if len(self.control) < MIN_CONTROL or len(self.members) < MIN_CONTROL // 2:
            raise InputError(
                f"Attacks need at least {MIN_CONTROL} rows that were not synthesised and {MIN_CONTROL // 2} that were; "
                f"there are {len(self.control)} and {len(self.members)}. Set more rows aside before the release."
            )

    @property
    def bound(self) -> Guarantee | None:
        return self.guarantee if self.guarantee is None or self.coins else self.guarantee.replaced()


def attack(attacked: Attacked, *, seed: int = 0, progress: Callable[[str, float], None] | None = None) -> Numbers:
    """Return how well each attack does on members and on control rows, as plain numbers.

    Half of the control rows, at random, are the attacker's reference; the others are attacked.
    """
    rng = np.random.default_rng([seed, 29])
    order = rng.permutation(len(attacked.control))
    half = len(order) // 2
    reference, held = order[:half], order[half:]
    ordered = frozenset(attacked.domain.position(name) for name in attacked.ordered)
    rows = attacked.rows or float(len(attacked.synth))
    domain, control = attacked.domain, attacked.control
    view = View(attacked.synth, control[reference], domain, ordered, rows, attacked.measurements)
    sides = _some(attacked.members, rng), _some(control[held], rng)
    step = progress or (lambda message, done: None)
    step("attacks: membership", 0.0)
    release = None if attacked.release is None else (lambda chosen, make=attacked.release: make(reference[chosen]))
    membership = _membership(view, sides, attacked.bound, release, attacked.shadows, seed)
    step("attacks: disclosure", 0.6)
    disclosure = [*_disclosure(view, sides, attacked.bound, rng), _singling_out(view, attacked.members, control, rng)]
    found: Numbers = {
        "rows": {"members": len(sides[0]), "control": len(sides[1]), "reference": half},
        "guarantee": None if attacked.guarantee is None else asdict(attacked.guarantee),
        "coins": attacked.coins, "membership": membership, "disclosure": disclosure,
        "closest": _closest_records(view, attacked.members, control, rng),
    }  # fmt: skip
    return found


def _some(rows: np.ndarray, rng: np.random.Generator, count: int = MAX_TARGETS) -> np.ndarray:
    return rows if len(rows) <= count else rows[rng.choice(len(rows), count, replace=False)]


# Membership.


def _membership(
    view: View, sides: tuple[np.ndarray, np.ndarray], bound: Guarantee | None, release: Release | None, shadows: int,
    seed: int,
) -> list[Numbers]:  # fmt: skip
    targets, count = np.concatenate(sides), len(sides[0])
    scores = all_scores(view, targets, seed)
    if release is not None and shadows:
        scores[SHADOW] = shadow_scores(view, scores, release, shadows, seed=seed)
    strange = unusual(view, targets, seed)
    odd = strange >= np.quantile(strange, 1 - _UNUSUAL)
    found = []
    for name, values in scores.items():
        figures = guessed(values[:count], values[count:])
        few = odd[:count].sum() < 2 or odd[count:].sum() < 2
        rare = math.nan if few else auc(values[:count][odd[:count]], values[count:][odd[count:]])
        limits = {"auc_most": None if bound is None else bound.most_auc}
        for alarm in FALSE_ALARMS:
            limits[f"found_most_at_{alarm:g}"] = None if bound is None else bound.most(alarm)
        found.append({"name": name, **figures, "auc_unusual": None if math.isnan(rare) else rare, **limits})
    return found


# Disclosure.


@dataclass(slots=True)
class _Tried:
    """Successes on members and on control rows, by attack."""

    hits: dict[str, list[np.ndarray]] = field(default_factory=dict)

    def add(self, name: str, hit: np.ndarray) -> None:
        self.hits.setdefault(name, []).append(hit)


def _disclosure(
    view: View, sides: tuple[np.ndarray, np.ndarray], bound: Guarantee | None, rng: np.random.Generator
) -> Iterator[Numbers]:
    """Yield the figures of linkability, inference and attribute disclosure."""
    synth = rng.permutation(_some(view.synth, rng, MAX_ROWS))
    width = len(view.domain)
    order = rng.permutation(width)
    halves = order[: width // 2], order[width // 2 :]
    secrets = [column for column in range(width) if view.domain.sizes[column] > 1]
    known = {secret: rng.permutation([c for c in range(width) if c != secret])[:_KNOWN] for secret in secrets}
    tried = _Tried(), _Tried()
    for side, of_side in zip(sides, tried, strict=True):
        for part in in_chunks(side, len(synth)):
            if width > 1:
                of_side.add("linkability", _linked(view, part, synth, halves))
            whole = distances(part, synth, view)
            for secret in secrets if width > 1 else ():
                name = view.domain.names[secret]
                rest = whole - column_distance(secret, part[:, secret], synth[:, secret], view)
                of_side.add(f"inference: {name}", synth[rest.argmin(axis=1), secret] == part[:, secret])
                guesses = _commonest(part, synth, known[secret], secret, view.domain)
                of_side.add(f"attribute disclosure: {name}", guesses == part[:, secret])
    found = [{name: np.concatenate(hits) for name, hits in of_side.hits.items()} for of_side in tried]
    for kind in ("linkability", "inference", "attribute disclosure"):
        one, other = ({n: h for n, h in side.items() if n.split(":")[0] == kind} for side in found)
        yield from _kind(kind, one, other, bound)


def _kind(
    kind: str, members: dict[str, np.ndarray], control: dict[str, np.ndarray], bound: Guarantee | None
) -> Iterator[Numbers]:
    """Yield the figures of an attack: over all columns, and of the column where members and control differ most."""
    if not members:
        return
    one, other = (np.stack(list(side.values())).mean(axis=0) for side in (members, control))
    pairs = {name.split(": ")[-1]: [float(s[name].mean()) for s in (members, control)] for name in members}
    yield {"name": kind, "worst": False, "by_column": pairs, **_rates(one, other, bound)}
    if len(members) > 1:
        worst = max(members, key=lambda name: members[name].mean() - control[name].mean())
        sides = members[worst].astype(float), control[worst].astype(float)
        yield {"name": worst, "worst": True, **_rates(*sides, bound, tried=len(members))}


def _rates(members: np.ndarray, control: np.ndarray, bound: Guarantee | None, tried: int = 1) -> Numbers:
    """Return both rates, the interval of their difference, the excess risk, and the largest rate that is allowed.

    The interval of the worst of several columns is as wide as holds for all of them at once (Bonferroni).
    """
    one, other = float(members.mean()), float(control.mean())
    error = math.sqrt(members.var() / len(members) + control.var() / len(control))
    width = float(ndtri(1 - (1 - CONFIDENCE) / (2 * tried))) * error
    return {
        "members": one, "control": other, "difference_low": one - other - width, "difference_high": one - other + width,
        "gained": one - other > width, "risk": max(0.0, (one - other) / (1 - other)) if other < 1 else 0.0,
        "members_most": None if bound is None else bound.most(other),
    }  # fmt: skip


def _linked(view: View, targets: np.ndarray, synth: np.ndarray, halves: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Whether one of the closest synthetic rows by one half of the columns is one of those by the other half."""
    within = min(_LINKED_WITHIN, len(synth)) - 1
    near = [
        np.argpartition(distances(targets, synth, view, list(half)), within, axis=1)[:, : within + 1] for half in halves
    ]
    return (near[0][:, :, None] == near[1][:, None, :]).any(axis=(1, 2))


def _commonest(targets: np.ndarray, synth: np.ndarray, known: np.ndarray, secret: int, domain: Domain) -> np.ndarray:
    """Return the commonest secret among the synthetic rows that agree in the known columns; of all where none does."""
    keys, size = np.zeros(len(synth) + len(targets), dtype=np.int64), domain.sizes[secret]
    for column in known:
        keys = keys * domain.sizes[column] + np.concatenate([synth[:, column], targets[:, column]])
    cells, places = np.unique(keys, return_inverse=True)
    flat = np.bincount(places[: len(synth)] * size + synth[:, secret], minlength=len(cells) * size)
    counts = flat.reshape(len(cells), size)
    guesses = np.where(counts.any(axis=1), counts.argmax(axis=1), np.bincount(synth[:, secret]).argmax())
    return guesses[places[len(synth) :]]


def _singling_out(view: View, members: np.ndarray, control: np.ndarray, rng: np.random.Generator) -> Numbers:
    """Return how often a description that fits one synthetic row fits exactly one row of a table.

    Both tables have the same number of rows, since that decides how often a description is unique by chance. Epsilon
    bounds each person's part in it, but no useful rate for a whole table.
    """
    synth = _some(view.synth, rng, MAX_ROWS)
    rows = min(len(members), len(control), MAX_ROWS)
    tables = _some(members, rng, rows), _some(control, rng, rows)
    middle = np.median(synth, axis=0)
    hits: list[tuple[bool, bool]] = []
    for _ in range(_TRIES):
        columns = rng.permutation(len(view.domain))[:_PREDICATE]
        row = synth[rng.integers(len(synth))]
        if _fitting(synth, columns, row, middle, view) == 1:
            hits.append(tuple(_fitting(table, columns, row, middle, view) == 1 for table in tables))  # pyright: ignore[reportArgumentType]
        if len(hits) == _PREDICATES:
            break
    sides = np.array(hits, dtype=float).reshape(-1, 2)
    if not len(sides):
        return {"name": "singling out", "worst": False, "predicates": 0, "members": None}
    rates = _rates(sides[:, 0], sides[:, 1], None)
    return {"name": "singling out", "worst": False, "predicates": len(sides), **rates}


def _fitting(table: np.ndarray, columns: np.ndarray, row: np.ndarray, middle: np.ndarray, view: View) -> int:
    """Return how many rows fit a description: the row's values, or "at least", "at most" them in ordered columns."""
    for column in columns:
        values = table[:, column]
        if column not in view.ordered:
            table = table[values == row[column]]
        else:
            table = table[values >= row[column] if row[column] > middle[column] else values <= row[column]]
    return len(table)


def _closest_records(view: View, members: np.ndarray, control: np.ndarray, rng: np.random.Generator) -> Numbers:
    """Return the median distance of synthetic rows from the closest row of each table, and the share closer to members.

    It proves nothing: a release that changes one column of every row is far from all of them and hides nobody, and
    independent draws from a few common cells equal real rows.
    """
    rows = min(len(members), len(control), MAX_ROWS)
    chosen = _some(view.synth, rng)
    near = []
    for table in (_some(members, rng, rows), _some(control, rng, rows)):
        parts = in_chunks(chosen, rows)
        near.append(np.concatenate([distances(part, table, view).min(axis=1) for part in parts]))
    closer = np.mean(near[0] < near[1]) + np.mean(near[0] == near[1]) / 2
    medians = {"to_members": float(np.median(near[0])), "to_control": float(np.median(near[1]))}
    return {**medians, "closer_to_members": float(closer)}


# Printing.


def attack_rows(found: Numbers) -> Iterator[tuple[str, str, str]]:
    """Yield for printing: the attack, its success, and that on control rows or by chance, with what epsilon allows."""
    for one in found["membership"]:
        most = "" if one["auc_most"] is None else f"; epsilon allows {one['auc_most']:.3f}"
        alarms = f"; finds {one['found_at_0.01']:.1%} of members with 1% false alarms"
        limit = "" if one["found_most_at_0.01"] is None else f", allowed {one['found_most_at_0.01']:.1%}"
        chance = f"{_verdict(one)} (0.5 is guessing; {one['auc_low']:.3f} to {one['auc_high']:.3f})"
        yield f"membership by {one['name']}, AUC", f"{one['auc']:.3f}", chance + most + alarms + limit
    for one in found["disclosure"]:
        if one["members"] is None:
            yield one["name"], "none", "no description that fits one synthetic row alone was found"
            continue
        most = "" if one["members_most"] is None else f"; epsilon allows {one['members_most']:.1%}"
        interval = f"difference {one['difference_low']:+.1%} to {one['difference_high']:+.1%}"
        mark = " (of all columns the largest difference)" if one["worst"] else ""
        yield (
            one["name"] + mark,
            f"{one['members']:.1%}",
            f"{_verdict(one)}: control {one['control']:.1%}, {interval}{most}",
        )

    near = found["closest"]
    medians = f"median distance {near['to_members']:.3g}, from control {near['to_control']:.3g}"
    share = f"{near['closer_to_members']:.1%}"
    yield "synthetic rows closer to members than to control", share, f"{medians}; 50% by chance; proves nothing"


def _verdict(one: Numbers) -> str:
    return "MORE than by chance" if one["gained"] else "not more than by chance"
