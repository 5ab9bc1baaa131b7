"""All measures of a synthetic table against the real one, as plain numbers. NOT PRIVATE."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from lookalike.evaluate.attacks import attack_rows
from lookalike.evaluate.classifiers import classifier_results, distinguishing_game, private_reference, svm_errors
from lookalike.evaluate.marginals import (
    MAX_COUNTED_CELLS,
    CountedPair,
    TablePair,
    distances_of,
    random_cliques,
    range_errors,
)
from lookalike.evaluate.measures import (
    column_shapes,
    copies,
    group_errors,
    k_marginal_score,
    pair_association,
    pair_trends,
    sample_equivalent,
)
from lookalike.report.columns import chart_of
from lookalike.schema.bins import Binned
from lookalike.schema.columns import Ordinal
from lookalike.schema.conditions import parse_question
from lookalike.schema.schema import Schema

NOTICE = "NOT PRIVATE: computed from the real rows without noise. Do not publish."
_RANGE_SETS = {3: 210, 5: 37}
_WORST = 10

_MAX_COUNTED_ORDER = 3
"""Columns of the widest marginals that are compared of tables outside memory."""

Numbers = dict[str, Any]
Steps = dict[str, Callable[[], Any]]
Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Measures of a synthetic table as plain JSON values, stamped NOT PRIVATE.

    Attributes:
        numbers: the measures by kind, always with `notice` and `private` (False).
    """

    numbers: Numbers

    def __post_init__(self) -> None:
        if self.numbers.get("private") is not False or "notice" not in self.numbers:
            raise ValueError("an evaluation must carry the notice that it is not private")

    def __getitem__(self, key: str) -> Any:
        return self.numbers[key]

    def __contains__(self, key: object) -> bool:
        return key in self.numbers

    def to_json(self, *, indent: int | None = 2) -> str:
        return json.dumps(self.numbers, indent=indent, allow_nan=False)

    def table(self) -> list[tuple[str, str, str]]:
        """Return measure, value and notes of every measure, for printing."""
        return list(_table_rows(self.numbers))


@dataclass(frozen=True, slots=True)
class Settings:
    """What to measure.

    Attributes:
        orders: numbers of columns of the marginals to compare.
        sets: maximum number of marginals per order.
        group_by: column by whose values errors are also measured.
        questions: counts to compare, as in `lookalike query`.
        target: column for classifiers to predict; without it none are trained.
        svm: also train an SVM for every column (slow).
        epsilon: budget of the private classifiers that are trained for reference.
        ordered: columns whose codes have an order; None takes ordinal, number and time columns that are never missing.
        seed: seed of the choice of marginals, ranges and rows.
    """

    orders: tuple[int, ...] = (1, 2, 3, 4, 5)
    sets: int = 300
    group_by: str | None = None
    questions: tuple[str, ...] = ()
    target: str | None = None
    svm: bool = False
    epsilon: float = 1.0
    ordered: Collection[str] | None = None
    seed: int = 0


def evaluate_codes(
    real: np.ndarray,
    synth: np.ndarray,
    schema: Schema,
    settings: Settings | None = None,
    *,
    test: np.ndarray | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Return all measures of two integer-coded tables.

    Args:
        real: codes of the real rows that were synthesised.
        synth: codes of the synthetic rows.
        schema: the columns.
        settings: what to measure.
        test: codes of real rows that were not synthesised, to test classifiers on. By default a fifth of the real rows,
            which classifiers are then not trained on; the synthetic table was still made from them.
        progress: called with the current measure and the fraction done.
    """
    settings = settings or Settings()
    pair = TablePair(real, synth, schema.domain)
    ordered = ordered_columns(schema) if settings.ordered is None else frozenset(settings.ordered)
    steps: Steps = {
        "histograms": lambda: _histograms(pair, schema),
        "marginals": lambda: _marginals(pair, settings),
        "association": lambda: _association(pair, ordered),
        "ranges": lambda: _ranges(pair, settings.seed),
        "copies": lambda: asdict(copies(pair)),
    }
    if settings.group_by is not None:
        steps["groups"] = lambda: _groups(pair, schema, str(settings.group_by), settings.seed)
    if settings.questions:
        steps["questions"] = lambda: _questions(pair, schema, settings.questions)
    if settings.target is not None or settings.svm:
        train, unseen = (real, test) if test is not None else _split(real, settings.seed)
        steps |= _classifier_steps(train, pair.synth, unseen, schema, settings)
    return _measured(pair, steps, progress)


def evaluate_counts(
    pair: CountedPair, schema: Schema, settings: Settings | None = None, *, progress: Progress | None = None
) -> Evaluation:
    """Return the measures that follow from counts of up to three columns, for tables outside memory.

    Range queries, copies of rows, shares of a sample, groups, questions and classifiers need rows, and are left out.
    """
    settings = settings or Settings()
    settings = replace(settings, orders=tuple(order for order in settings.orders if order <= _MAX_COUNTED_ORDER))
    ordered = ordered_columns(schema) if settings.ordered is None else frozenset(settings.ordered)
    steps: Steps = {
        "marginals": lambda: _marginals(pair, settings),
        "histograms": lambda: _histograms(pair, schema),
        "association": lambda: _association(pair, ordered),
    }
    return _measured(pair, steps, progress)


def _measured(pair: TablePair | CountedPair, steps: Steps, progress: Progress | None) -> Evaluation:
    rows = {"real": pair.real_rows, "synth": pair.synth_rows}
    numbers: Numbers = {"notice": NOTICE, "private": False, "rows": rows, "seconds": {}}
    for number, (name, step) in enumerate(steps.items()):
        if progress:
            progress(name, number / len(steps))
        start = time.process_time()
        numbers[name] = step()
        numbers["seconds"][name] = round(time.process_time() - start, 3)
    return Evaluation(numbers)


def ordered_columns(schema: Schema) -> frozenset[str]:
    """Return the columns whose codes have an order throughout."""
    return frozenset(c.name for c in schema.columns if isinstance(c, Ordinal | Binned) and not c.missing)


def _histograms(pair: TablePair | CountedPair, schema: Schema) -> Numbers:
    found = {}
    for position, column in enumerate(schema.columns):
        if isinstance(pair, CountedPair):
            counts = [side.tolist() for side in pair.counts((column.name,))]
        else:
            sides = (codes[:, position] for codes in (pair.real, pair.synth))
            counts = [np.bincount(codes, minlength=column.size).tolist() for codes in sides]
        drawn = {"labels": column.labels(), **chart_of(column, np.array(counts[0]))}
        found[column.name] = {**drawn, "real": counts[0], "synth": counts[1]}
    return found


def _marginals(pair: TablePair | CountedPair, settings: Settings) -> Numbers:
    found: Numbers = {}
    for k in settings.orders:
        if k > len(pair.domain):
            continue
        cliques = random_cliques(pair.domain, k, settings.sets, settings.seed)
        if isinstance(pair, CountedPair):
            cliques = [clique for clique in cliques if pair.domain.cells(clique) <= MAX_COUNTED_CELLS]
        if not cliques:
            continue
        result = distances_of(pair, cliques)
        found[str(k)] = {
            "mean": result.mean,
            "worst": result.worst,
            "sets": len(cliques),
            "score": k_marginal_score(result.mean),
            "sample_equivalent": None
            if isinstance(pair, CountedPair)
            else sample_equivalent(pair, cliques, result.mean, settings.seed),
            "worst_sets": [{"attrs": list(attrs), "distance": value} for attrs, value in result.ranked()[:_WORST]],
        }
    return found


def _association(pair: TablePair | CountedPair, ordered: Collection[str]) -> Numbers:
    found = pair_association(pair)
    shapes = column_shapes(pair, ordered)
    trends = pair_trends(pair_association(pair, ordered), pair.domain, ordered)
    upper = np.triu_indices(len(pair.domain), 1)
    return {
        "names": list(pair.domain.names),
        "mean_difference": found.mean_difference,
        "worst_difference": found.worst_difference,
        "real": found.real.round(6).tolist(),
        "synth": found.synth.round(6).tolist(),
        "distances": found.distances.round(6).tolist(),
        "column_shapes": {"mean": float(np.mean(list(shapes.values()))), "columns": shapes},
        "pair_trends": {"mean": float(trends[upper].mean()) if len(upper[0]) else None},
    }


def _ranges(pair: TablePair, seed: int) -> Numbers:
    found = {}
    for k, sets in _RANGE_SETS.items():
        if k <= len(pair.domain):
            result = range_errors(pair, k, sets, seed=seed)
            means = {name: getattr(result, name) for name in ("mean_squared", "mean_absolute", "mean_relative")}
            found[str(k)] = {**means, "queries": len(result.queries)}
    return found


def _groups(pair: TablePair, schema: Schema, column: str, seed: int) -> Numbers:
    labels = schema[column].labels()
    rows = [{"label": labels[error.code], **asdict(error)} for error in group_errors(pair, column, seed=seed)]
    return {"column": column, "rows": rows}


def _questions(pair: TablePair, schema: Schema, texts: Sequence[str]) -> list[Numbers]:
    found = []
    for text in texts:
        question = parse_question(text, schema)
        places = [pair.domain.position(name) for name in question.attrs]
        if not places:
            counts = [float(pair.real_rows), float(pair.synth_rows)]
        else:
            counts = [float(question.weights[tuple(codes[:, places].T)].sum()) for codes in (pair.real, pair.synth)]
        shares = [counts[0] / pair.real_rows, counts[1] / pair.synth_rows]
        found.append({"text": text, "real": counts[0], "synth": counts[1], "share_difference": shares[1] - shares[0]})
    return found


def _split(codes: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng([seed, 23]).permutation(len(codes))
    cut = max(1, round(0.8 * len(codes)))
    return codes[order[:cut]], codes[order[cut:]] if cut < len(codes) else codes


def _classifier_steps(
    train: np.ndarray, synth: np.ndarray, test: np.ndarray, schema: Schema, settings: Settings
) -> dict[str, Callable[[], Any]]:
    domain, seed = schema.domain, settings.seed
    steps: dict[str, Callable[[], Any]] = {"distinguishing": lambda: distinguishing_game(train, synth, seed=seed)}
    if (target := settings.target) is not None:
        steps["classifiers"] = lambda: {
            "target": target,
            "results": [asdict(r) for r in classifier_results(train, synth, test, domain, target, seed=seed)],
        }
        # The commonest value could be predicted well by always guessing it; the second commonest is a fair target.
        positive = int(np.argsort(-np.bincount(train[:, domain.position(target)], minlength=2), kind="stable")[1])
        steps["private_reference"] = lambda: {
            "target": target,
            "positive": schema[target].labels()[positive],
            **asdict(
                private_reference(train, synth, test, domain, target, epsilon=settings.epsilon, positive=positive)
            ),
        }
    if settings.svm:
        steps["svm"] = lambda: {"real": svm_errors(train, test, domain), "synth": svm_errors(synth, test, domain)}
    return steps


def _table_rows(numbers: Numbers) -> Iterator[tuple[str, str, str]]:
    if missing := numbers.get("left_out"):
        listed = ", ".join(missing[:6]) + (" and others" if len(missing) > 6 else "")
        yield "columns of one table only", f"{len(missing):,}", f"not compared: {listed}"
    for k, found in numbers["marginals"].items():
        share = found["sample_equivalent"]
        sample = "" if share is None else f"like a {share:.1%} sample; "
        meaning = f"{sample}worst {found['worst']:.4f}; score {found['score']:.0f}"
        yield f"{k}-way marginals, mean distance", f"{found['mean']:.4f}", meaning
    association = numbers["association"]
    worst = f"worst pair {association['worst_difference']:.3f}"
    yield "association, mean difference of Cramer's V", f"{association['mean_difference']:.4f}", worst
    yield "column shapes", f"{association['column_shapes']['mean']:.4f}", "1 means equal"
    if association["pair_trends"]["mean"] is not None:
        yield "pair trends", f"{association['pair_trends']['mean']:.4f}", "1 means equal"
    for k, found in numbers.get("ranges", {}).items():
        meaning = f"mean absolute {found['mean_absolute']:.5f} of all rows, {found['queries']} queries"
        yield f"{k}-way range queries, mean squared", f"{found['mean_squared']:.3e}", meaning
    if rows := numbers.get("copies"):
        found_share = (
            f"{rows['unique_real_rows_found']:.1%} of the real rows that occur once are among them; proves nothing"
        )
        yield "synthetic rows equal to a real row", f"{rows['rows_equal_to_real']:.1%}", found_share
    if "attacks" in numbers:
        yield from attack_rows(numbers["attacks"])
    for question in numbers.get("questions", ()):
        yield question["text"], f"{question['synth']:,.0f}", f"real {question['real']:,.0f}"
    for rule in numbers.get("rules", ()):
        yield f"rows that break: {rule['text']}", f"{rule['synth']:,}", f"real {rule['real']:,}"
    for group in numbers.get("groups", {}).get("rows", ()):
        distance = "none" if group["distance_2"] is None else f"{group['distance_2']:.4f}"
        meaning = f"share {group['synth_share']:.2%}, real {group['real_share']:.2%}"
        yield f"2-way distance where {numbers['groups']['column']} is {group['label']}", distance, meaning
    yield from _classifier_rows(numbers)


def _classifier_rows(numbers: Numbers) -> Iterator[tuple[str, str, str]]:
    for name, accuracy in numbers.get("distinguishing", {}).items():
        yield f"distinguished from real rows by a {name}", f"{accuracy:.1%}", "50% is guessing"
    for result in numbers.get("classifiers", {}).get("results", ()):
        meaning = f"trained on real {result['accuracy_real']:.1%}, agreement {result['agreement']:.1%}"
        yield f"accuracy of a {result['name']} trained on it", f"{result['accuracy_synth']:.1%}", meaning
    if reference := numbers.get("private_reference"):
        meaning = (
            f"real {reference['non_private']:.1%}; private at epsilon {reference['epsilon']:g}: output "
            f"{reference['output_perturbation']:.1%}, objective {reference['objective_perturbation']:.1%}"
        )
        yield "accuracy of logistic regression", f"{reference['synthetic']:.1%}", meaning
    if svm := numbers.get("svm"):
        real, synth = (float(np.mean(list(svm[side].values()))) for side in ("real", "synth"))
        yield "SVM, mean error over columns", f"{synth:.4f}", f"trained on real {real:.4f}"
