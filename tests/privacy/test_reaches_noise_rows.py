"""What reaches the noise of thresholds and of the releases that look at rows, over neighbours of tiny tables.

Thresholds are found by what they let through: the noise is a constant, and the smallest one with which a value of one
person alone is told gives the probability that real noise tells it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import norm

from lookalike.errors import BudgetError, BudgetExceededError
from lookalike.measurements import NoisyMarginal
from lookalike.pipeline import synthesize
from lookalike.privacy.kernel.accounting import Budget, Neighbours
from lookalike.privacy.kernel.door import GuardedTable, open_table
from lookalike.privacy.ledger import REPRODUCIBLE, SYSTEM_ENTROPY, Ledger
from lookalike.privacy.row_level.critic_sums import CriticSums
from lookalike.privacy.row_level.rows import OccurringCells, RandomParts
from lookalike.privacy.row_level.seed_price import SeedTest
from lookalike.privacy.row_level.seeded_rows import SeededRows
from lookalike.schema.columns import Categorical, Identifier
from lookalike.schema.schema import Schema
from tests.privacy import test_critic_sums as critic_case
from tests.privacy import test_rows as rows_case
from tests.privacy import test_teacher_votes as votes_case
from tests.privacy.spies import RELATIONS, Tape, check_paid, listening, neighbouring, persons, share_used

GDP = Budget(1.0, 1e-5, "gdp")
THRESHOLDS = Budget(20.0, 0.5, "gdp", 0.2)


def door_to(
    table: pa.Table, schema: Schema | None, budget: Budget, tape: Tape, neighbours: Neighbours, **more: Any
) -> GuardedTable:
    tape.ledger = Ledger(None, "t")
    noise = REPRODUCIBLE if "insecure_rng" in more else SYSTEM_ENTROPY
    run = tape.ledger.begin(method="m", schema="s", budget=budget, neighbours=neighbours, noise=noise)
    return open_table(table, schema, budget, run, neighbours=neighbours, **more)


def coded(sizes: dict[str, int], codes: np.ndarray) -> tuple[pa.Table, Schema]:
    return pa.table({name: codes[:, i] for i, name in enumerate(sizes)}), Schema.from_sizes(sizes)


def tells(release: Callable[[Tape], bool]) -> tuple[float, int]:
    """The stddev of the noise, and the smallest constant in its place with which `release` tells of a person."""
    low, high = 0, 1 << 12
    while high - low > 1:
        middle = (low + high) // 2
        tape = Tape(shift=middle)
        with listening(tape):
            told = release(tape)
        low, high = (low, middle) if told else (middle, high)
    return tape.draws[-1].scale, high


def chance(release: Callable[[Tape], bool]) -> float:
    """The probability that rounded Gaussian noise makes `release` tell."""
    stddev, least = tells(release)
    return float(norm.sf((least - 0.5) / stddev))


# Frequent values of open columns.


def frequent(
    values: Sequence[Sequence[str]], stddev: float, probability: float, tape: Tape, neighbours: Neighbours
) -> list[dict[str, float]]:
    """Frequent values of as many open columns as there are lists of texts."""
    table = pa.table({f"c{i}": list(texts) for i, texts in enumerate(values)})
    door = door_to(table, None, THRESHOLDS, tape, neighbours)
    return door.frequent(table.column_names, stddev, probability, step="v")


@pytest.mark.parametrize(("relation", "rows"), RELATIONS)
def test_values_of_one_person_are_told_as_rarely_as_delta_pays_for(relation: str, rows: int) -> None:
    """All values of three columns that only one person holds, who has as many values as rows, or a single one."""
    neighbours, columns, used = Neighbours(relation, rows), 3, 0.0  # type: ignore[arg-type]
    for stddev in (4.0, 4.25, 400.0):
        for copies in {1, rows}:
            own = [f"mine {i // copies}" for i in range(rows)]
            charged: list[float] = []

            def told(tape: Tape, own=own, charged=charged, stddev=stddev) -> bool:
                found = frequent([[*own, *["all"] * 9]] * columns, stddev, 2e-10, tape, neighbours)
                assert tape.ledger is not None
                charged[:] = [sum(charge.delta for charge in tape.ledger.runs()[0].charges)]
                return any(text.startswith("mine") for texts in found for text in texts)

            passing = -math.expm1(columns * (rows // copies) * math.log1p(-chance(told)))
            paid = charged[0] / (1 + math.exp(THRESHOLDS.epsilon))
            assert 0 < passing <= paid
            used = max(used, passing / paid)
    assert used > 0.4


@pytest.mark.parametrize(("relation", "rows"), RELATIONS)
def test_counts_of_frequent_values_are_paid_for(relation: str, rows: int) -> None:
    def run(codes: np.ndarray, tape: Tape) -> Any:
        texts = [[["x", "y", "z"][code] for code in codes[:, i]] for i in range(2)]
        return frequent(texts, 30.0, 1e-10, tape, Neighbours(relation, rows))  # type: ignore[arg-type]

    base = np.repeat(np.array([(0, 0), (1, 1), (2, 2)]), 3000, axis=0)
    tapes = neighbouring(run, base, persons([(0, 0), (1, 2), (2, 1)], rows))
    assert check_paid(tapes, relation)[""] > 0.999
    assert all(draw.private for draw in tapes[0].draws)
    assert [set(found) for found in tapes[0].result] == [{"x", "y", "z"}] * 2


def test_thresholds_together_do_not_overdraw_delta() -> None:
    tape = Tape(shift=0)
    with listening(tape):
        door = door_to(pa.table({"c": ["x"] * 9}), None, THRESHOLDS, tape, Neighbours())
        part = 0.4 * THRESHOLDS.threshold_delta / (1 + math.exp(THRESHOLDS.epsilon))
        door.frequent(["c"], 100.0, part, step="v")
        door.frequent(["c"], 100.0, part, step="v")
        with pytest.raises(BudgetExceededError, match="threshold delta"):
            door.frequent(["c"], 100.0, part, step="v")


# Histograms of the cells that occur.

SIZES = {"a": 3, "b": 4}


def histogram(codes: np.ndarray, budget: Budget, tape: Tape, before: float = 60.0) -> Any:
    door = door_to(*coded(SIZES, codes), budget, tape, Neighbours())
    door.measure([("a",)], before, step="m")
    return door.release_rows(OccurringCells(("b", "a"), 0.3), step="h")


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_noise_and_threshold_of_a_histogram_share_delta(epsilon: float) -> None:
    """delta of all Gaussian releases together, by their exact curve, and of a cell that one row alone holds."""
    budget = Budget(epsilon, 1e-5, "gdp")
    base = np.array([(0, 0)] * 40 + [(1, 2)] * 30)
    tapes = neighbouring(lambda codes, tape: histogram(codes, budget, tape), base, [np.array([(1, 2)])])
    check_paid(tapes)
    mu = math.sqrt(sum(1 / draw.scale**2 for draw in tapes[0].draws))
    gaussian = norm.sf(epsilon / mu - mu / 2) - math.exp(epsilon) * norm.sf(epsilon / mu + mu / 2)
    lone = np.vstack([base, [(2, 3)]])

    def told(tape: Tape) -> bool:
        cells, _ = histogram(lone, budget, tape)
        return [3, 2] in cells.tolist()

    threshold = (1 + math.exp(epsilon)) * chance(told)
    assert gaussian + threshold <= budget.delta
    assert gaussian + threshold > (0.9 if epsilon <= 1 else 0.7) * budget.delta  # little noise: few thresholds differ
    assert len(tapes[0].draws) == 2


def test_histograms_and_parts_refuse_neighbours_that_they_are_not_priced_for() -> None:
    for neighbours in (Neighbours("replace"), Neighbours("add-remove", 2)):
        door = door_to(*coded(SIZES, np.zeros((5, 2), dtype=np.int32)), GDP, Tape(), neighbours)
        for act in (
            lambda door=door: door.release_rows(OccurringCells(("a",)), step="h"),
            lambda door=door: door.parts(RandomParts((0.5, 0.5)), step="p"),
        ):
            with pytest.raises(BudgetError, match="one row"):
                act()


# Critics and teachers.


def heard(listener: Any) -> Any:
    return [np.array(told) for told in listener.heard]


@pytest.mark.parametrize(
    ("relation", "rows", "batches"), [*((*r, 1) for r in RELATIONS), ("add-remove", 1, 3), ("replace", 2, 3)]
)
def test_sums_of_clipped_gradients_are_paid_for(relation: str, rows: int, batches: int) -> None:
    """Of a row all steps of its batch change, for several ways to deal out batches; some gradients are clipped."""
    sizes = dict(zip(critic_case.DOMAIN.names, critic_case.DOMAIN.sizes, strict=True))
    cells, used = np.array(critic_case.CELLS), 0.0
    for seed, critic in enumerate(critic_case.critics()[: 6 if batches > 1 else 2]):
        norm = int(0.7 * critic.norms(cells).max())

        def run(codes: np.ndarray, tape: Tape, critic=critic, norm=norm, seed=seed) -> Any:
            listener = critic_case.Listener(critic, norm)
            more = {"neighbours": Neighbours(relation, rows), "insecure_rng": np.random.default_rng(seed)}  # type: ignore[arg-type]
            door = door_to(*coded(sizes, codes), GDP, tape, **more)
            tape.step = "counts"
            door.measure([("a",)], 50.0 * rows, step="m")
            tape.step = "gradients"
            door.release_rows(CriticSums(listener, 5, batches), step="g")
            return heard(listener)

        tapes = neighbouring(run, cells[:4], [np.array([cell] * rows) for cell in cells])
        used = max(used, check_paid(tapes, relation)["gradients"])
    # Replaced rows' gradients are seldom opposite, and rows of a person seldom in the same batch.
    assert used > (0.9 if rows == 1 and relation == "add-remove" else 0.2)


@pytest.mark.parametrize(("relation", "rows"), RELATIONS)
def test_counts_of_votes_are_paid_for(relation: str, rows: int) -> None:
    """Teachers that have lost or won all their rows change their votes most."""
    sizes = dict(zip(votes_case.DOMAIN.names, votes_case.DOMAIN.sizes, strict=True))

    def run(codes: np.ndarray, tape: Tape) -> Any:
        listener = votes_case.Listener()
        more = {"neighbours": Neighbours(relation, rows), "insecure_rng": np.random.default_rng(3)}  # type: ignore[arg-type]
        door = door_to(*coded(sizes, codes), GDP, tape, **more)
        door.release_rows(votes_case.request(listener, rounds=3, teachers=3, lessons=6), step="v")
        return heard(listener)

    tapes = neighbouring(run, votes_case.ALL[:2], persons(votes_case.CELLS, rows)[:20])
    used = check_paid(tapes, relation)[""]
    assert used > 0.01
    moved = [np.abs(d.exact - e.exact).max() for t in tapes[1:] for d, e in zip(t.draws, tapes[0].draws, strict=True)]
    assert 1 <= max(moved) <= rows


# Rows from seeds.


def seeded(codes: np.ndarray, tape: Tape, rows: int = 300) -> Any:
    domain = rows_case.DOMAIN
    budget = Budget(1.0, 1e-5, "gdp")
    sizes = dict(zip(domain.names, domain.sizes, strict=True))
    door = door_to(*coded(sizes, codes), budget, tape, Neighbours(), insecure_rng=np.random.default_rng(0))
    (counted,) = door.measure([()], 40.0, step="n")
    test = SeedTest(400, 1.0, seeded_share=0.8)
    request = SeededRows(rows_case.network(), rows, (2,), test, counted)
    settled = request.priced(door.domain, budget, tape.charged, Neighbours())
    door.release_rows(request, step="r")
    return settled.test.epsilon0


def test_numbers_of_plausible_seeds_get_the_noise_that_was_priced() -> None:
    """The count of every candidate is of the rows that agree with its seed, and gets noise of scale 1 / epsilon0."""
    codes = np.repeat(np.array([(0, 0, 0), (1, 1, 0), (2, 0, 1), (3, 1, 1)]), [20000, 15000, 9000, 300], axis=0)
    tape = Tape()
    with listening(tape):
        epsilon0 = seeded(codes.astype(np.int32), tape)
    counted, tested = tape.draws
    assert counted.kind == "gaussian"
    assert tested.kind == "geometric"
    assert tested.scale * epsilon0 == pytest.approx(1.0, rel=1e-12)
    assert tested.exact is not None
    assert set(np.unique(tested.exact)) <= {20000, 15000, 9000, 300}
    assert tested.charged == Budget(1.0, 1e-5, "gdp").rho
    grown = Tape()
    with listening(grown):
        seeded(np.vstack([codes, [(3, 1, 1)]]).astype(np.int32), grown)
    assert grown.draws[1].scale != 0
    assert set(np.unique(grown.draws[1].exact)) <= {20000, 15000, 9000, 301}  # type: ignore[arg-type]


def test_seeds_are_priced_together_with_what_was_spent_before() -> None:
    """What was spent on the same rows leaves less for the seeds: from some point on they are refused."""
    counted, budget = NoisyMarginal((), np.array(45_000.0), 40.0), Budget(1.0, 1e-5, "gdp")
    request = SeededRows(rows_case.network(), 300, (2,), SeedTest(400, 1.0), counted)
    request.priced(rows_case.DOMAIN, budget, budget.rho / 100, Neighbours())
    with pytest.raises(BudgetExceededError):
        request.priced(rows_case.DOMAIN, budget, budget.rho * 99 / 100, Neighbours())


def test_what_rows_are_used_for_is_drawn_anew_in_every_run() -> None:
    """Batches of a critic and seeds of released rows: without noise, only that chance tells two runs apart."""
    codes = np.repeat(np.array(critic_case.CELLS, dtype=np.int32), 40, axis=0)
    sums = []
    for _ in range(2):
        listener = critic_case.Listener(critic_case.critics()[0], 1000)
        with listening(Tape(shift=0)):
            CriticSums(listener, 3, 3, stddev=1.0).release(codes, critic_case.DOMAIN, None)
        sums.append(np.array(listener.heard))
    assert not np.array_equal(*sums)
    request = SeededRows(rows_case.network(), 200, (1,), SeedTest(2, 1.0), rows_case.COUNTED)
    made = []
    for _ in range(2):
        with listening(Tape(shift=0)):
            made.append(request.release(rows_case.table(), rows_case.DOMAIN, None))
    assert not np.array_equal(*made)


# Parts, views and persons.


def test_parts_are_disjoint_fresh_and_cannot_be_spent_twice() -> None:
    rows, shares, dealt = 400, (0.3, 0.4), []
    table, schema = coded({"row": rows}, np.arange(rows)[:, None])
    for _ in range(2):
        tape = Tape(shift=0)
        with listening(tape):
            door = door_to(table, schema, GDP, tape, Neighbours())
            parts = door.parts(RandomParts(shares), step="split")
            noise = [part.stddev_for(part.remaining) for part in parts]
            counts = [p.measure([("row",)], s, step="m")[0].values for p, s in zip(parts, noise, strict=True)]
            for spender in (door, *parts):
                with pytest.raises(BudgetExceededError):
                    spender.measure([("row",)], 1e5, step="m")
        dealt.append(np.array(counts))
        assert tape.ledger is not None
        assert tape.ledger.runs()[0].rho == GDP.rho
        # exp(epsilon) = 1 + sum of shares * (exp(e) - 1), delta = d * sum of shares
        epsilon = math.log1p(math.expm1(GDP.epsilon) / sum(shares))
        for stddev in noise:
            mu = 1 / stddev
            delta = norm.sf(epsilon / mu - mu / 2) - math.exp(epsilon) * norm.sf(epsilon / mu + mu / 2)
            assert 0.99 * GDP.delta / sum(shares) < delta <= GDP.delta / sum(shares) * (1 + 1e-9)
    assert all((counts.sum(axis=0) <= 1).all() for counts in dealt), "a row is in two parts"
    assert not np.array_equal(*dealt)
    for share, size in zip(shares, dealt[0].sum(axis=1), strict=True):
        assert abs(size - share * rows) < 6 * math.sqrt(rows / 4)


@pytest.mark.parametrize(("relation", "rows"), RELATIONS)
def test_views_by_another_schema_are_paid_for(relation: str, rows: int) -> None:
    texts = ["x", "y", "z"]
    other = Schema((Categorical("c", values=("x", "y"), outside="other"),))

    def run(codes: np.ndarray, tape: Tape) -> Any:
        table = pa.table({"c": [texts[code] for code in codes[:, 0]]})
        door = door_to(table, None, GDP, tape, Neighbours(relation, rows))  # type: ignore[arg-type]
        released = [door.encoded(other).measure([("c",)], s, step="m")[0].values for s in (200.0, 300.0)]
        spent = float(GDP.rho) * (1 - 1e-12) - door.encoded(other).remaining
        assert spent == pytest.approx(float(GDP.rho) - door.remaining) == pytest.approx(float(tape.charged))
        return released

    tapes = neighbouring(run, np.array([[0], [1], [2]]), persons([(0,), (1,), (2,)], rows))
    assert check_paid(tapes, relation)[""] > 0.999


def test_views_share_one_budget_with_their_table() -> None:
    tape = Tape(shift=0)
    with listening(tape):
        door = door_to(*coded(SIZES, np.zeros((5, 2), dtype=np.int32)), GDP, tape, Neighbours())
        view = door.coarsened({"b": np.array([0, 0, 1, 1])})
        view.measure([("b",)], view.stddev_for(view.remaining * 0.75), step="m")
        assert door.remaining == view.remaining == pytest.approx(float(GDP.rho) / 4, rel=1e-6)
        with pytest.raises(BudgetExceededError):
            door.measure([("a",)], door.stddev_for(float(GDP.rho) / 2), step="m")


@pytest.mark.parametrize("by_schema", [False, True], ids=["by argument", "by schema"])
@pytest.mark.parametrize(("relation", "rows"), RELATIONS)
def test_persons_with_more_rows_than_allowed_are_paid_for(relation: str, rows: int, by_schema: bool) -> None:
    """A person with 8 rows of one kind, against nobody and against persons of other kinds."""
    who = Identifier("who", person=True, max_rows=rows) if by_schema else Identifier("who")
    schema = Schema((who, Categorical("c", values=("x", "y", "z"))))
    neighbours = Neighbours(relation, 1 if by_schema else rows)  # type: ignore[arg-type]
    person = {} if by_schema else {"person": "who"}

    def run(codes: np.ndarray, tape: Tape) -> Any:
        tape.ledger = Ledger(None, "t")
        table = pa.table({"who": [f"p{i}" for i in codes[:, 0]], "c": [("x", "y", "z")[i] for i in codes[:, 1]]})
        common = {"schema": schema, **person, "neighbours": neighbours, "ledger": tape.ledger, "seed": 0}
        return synthesize(table, method="independent", **common).table.to_pydict()

    base = np.array([(person, person % 3) for person in range(6) for _ in range(rows)])
    tapes = neighbouring(run, base, [np.array([(9, kind)] * 8) for kind in range(3)])
    used = check_paid(tapes, relation)[""]
    assert used > 0.999 or relation == "replace"
    assert share_used(tapes, relation) > 0.6 or rows > 1
