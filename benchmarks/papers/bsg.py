"""The figures and tables of the plausible-deniability paper (Bindschaedler, Shokri, Gunter 2017), on Adult.

    python -m benchmarks.papers bsg run [--only models distances large_models ...]
    python -m benchmarks.papers bsg document

The paper's table (ACS 2013, 1.5 million rows) is not at hand; Adult holds the same eleven columns and 30 times fewer
rows; bsg_large.py simulates one of its size. `run` stores one JSON line per experiment and repeat in
benchmarks/results/bsg.jsonl and does not repeat what is there, unless `--again` is given; `document` writes
docs/reproductions/bsg.md and its plots from them. Everything here is NOT PRIVATE: noise is repeatable, and rows from
seeds are made with the paper's k = 50 and no account of how many.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.optimize import minimize
from scipy.special import expit

import lookalike
from benchmarks.common import parser_of, results_of, stored
from benchmarks.papers import bsg_document
from benchmarks.runs import marginal_distance, table_of
from lookalike.evaluate.classifiers import classifier_results, distinguishing_game, features_of
from lookalike.measurements import NoisyMarginal
from lookalike.models.bayes_net import BayesNet
from lookalike.privacy.row_level.prefixes import PrefixCounts
from lookalike.privacy.row_level.seed_price import SeedBudget, SeedTest, paper_price
from lookalike.privacy.row_level.seeded_rows import SeededRows
from lookalike.schema.domain import Domain

RESULTS = results_of("bsg")
COLUMNS = ("age", "workclass", "education", "marital-status", "occupation", "relationship", "race", "sex")
COLUMNS += ("hours-per-week", "native-country", "income")
OMEGAS = ("11", "10", "9", "9-11", "5-11")
DELTA, K = 1e-9, 50
REPEATS = 5


def data(repeat: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, Domain]:
    """Codes to learn from, other real rows, rows to test on: 60, 20 and 20 per cent."""
    table, schema = table_of("adult")
    codes = np.column_stack([table[name].to_numpy() for name in COLUMNS]).astype(np.int32)
    codes = codes[np.random.default_rng([repeat, 5]).permutation(len(codes))]
    a, b = int(0.6 * len(codes)), int(0.8 * len(codes))
    return codes[:a], codes[a:b], codes[b:], Domain.of({name: schema.domain.size(name) for name in COLUMNS})


def learn(codes: np.ndarray, domain: Domain, repeat: int, epsilon: float = 1.0, **settings: Any) -> Any:
    """A fitted model of the method bsg, or of another."""
    table = pa.table({name: codes[:, i] for i, name in enumerate(domain.names)})
    sizes = dict(zip(domain.names, domain.sizes, strict=True))
    given = {"method": "bsg", "epsilon": epsilon, "delta": DELTA, "seed": repeat, **settings}
    noise = np.random.default_rng([repeat, 9])
    return lookalike.synthesize(table, schema=sizes, insecure_rng=noise, rows=1, **given).fitted.model


def synthetics(codes: np.ndarray, domain: Domain, repeat: int) -> dict[str, np.ndarray]:
    """The paper's synthetic tables, as many rows as the real one each, and two of ours."""
    rng, rows = np.random.default_rng([repeat, 3]), len(codes)
    network = learn(codes, domain, repeat)
    made = {"marginals": learn(codes, domain, repeat, method="independent").sample(rows, rng)}
    made["omega 11"] = network.sample(rows, rng)
    for omega in OMEGAS[1:]:
        made[f"omega {omega}"] = seeded(network, codes, domain, omega, rows, repeat)
    histogram = learn(codes, domain, repeat, omega=7, seeds="histogram")
    made["histogram of 4"] = histogram.sample(rows, rng)
    return made


def seeded(network: BayesNet, codes: np.ndarray, domain: Domain, omega: str, rows: int, repeat: int) -> np.ndarray:
    """Rows from seeds that pass Privacy Test 1 with k = 50, omega drawn per row: the paper's rows, no guarantee."""
    low, _, high = omega.partition("-")
    kept = tuple(len(domain) - number for number in range(int(low), int(high or low) + 1))
    counted = NoisyMarginal((), np.array(float(len(codes))), 1.0)
    request = SeededRows(network, rows, kept, SeedTest(K, 1.0), counted, deterministic=True)
    return request.release(codes, domain, np.random.default_rng([repeat, 4]))


# Figures 1 and 2.


def most_likely(model: BayesNet, codes: np.ndarray, name: str) -> np.ndarray:
    """The value of a column that the model finds likeliest given all others."""
    place, scores = model.domain.position(name), []
    for value in range(model.domain.size(name)):
        asked = codes.copy()
        asked[:, place] = value
        scores.append(model.log_probabilities(asked).sum(axis=1))
    return np.argmax(scores, axis=0)


def models(repeat: int) -> dict[str, Any]:
    """Share of right guesses by column: network without noise, at epsilon 1 and 0.1; marginals; random; forest."""
    train, _, test, domain = data(repeat)
    return accuracies(train, test[:4000], domain, repeat)


def accuracies(
    train: np.ndarray, asked: np.ndarray, domain: Domain, repeat: int, methods: Sequence[str] = ("bsg",)
) -> dict[str, Any]:
    """Share of right guesses by column and model; models of other methods than the first have its name in theirs."""
    from sklearn.ensemble import RandomForestClassifier

    networks, fitted = {"none": 1000.0, "1": 1.0, "0.1": 0.1}, dict[str, Any]()
    for method in methods:
        for name, epsilon in networks.items():
            key = f"model {name}" if method == methods[0] else f"{method} {name}"
            fitted[key] = learn(train, domain, repeat, epsilon, method=method)
    answer: dict[str, Any] = {}
    for i, name in enumerate(domain.names):
        truth = asked[:, i]
        right = {key: float((most_likely(model, asked, name) == truth).mean()) for key, model in fitted.items()}
        right["marginals"] = float((np.bincount(train[:, i]).argmax() == truth).mean())
        right["random"] = 1 / domain.sizes[i]
        forest = RandomForestClassifier(n_estimators=30, min_samples_leaf=2, random_state=0)
        forest.fit(np.delete(train, i, axis=1)[:15_000], train[:15_000, i])
        right["forest"] = float((forest.predict(np.delete(asked, i, axis=1)) == truth).mean())
        answer[name] = right
    return answer


# Figures 3 and 4.


def distances(repeat: int) -> dict[str, Any]:
    """Total variation distance of every column and every pair from other real rows."""
    train, others, _, domain = data(repeat)
    tables = {"reals": train, **synthetics(train, domain, repeat)}
    answer: dict[str, Any] = {}
    for ways in (1, 2):
        for name, table in tables.items():
            chosen = combinations(range(len(domain)), ways)
            found = [marginal_distance(table, others, c, [domain.sizes[i] for i in c]) for c in chosen]
            answer[f"{name}/{ways}"] = [round(value, 5) for value in found]
    return answer


# Tables 3, 4 and 5.


def classifiers(repeat: int) -> dict[str, Any]:
    """Accuracy and agreement of a tree, a forest and boosting on income (Table 3)."""
    train, others, test, domain = data(repeat)
    answer: dict[str, Any] = {}
    for name, table in {"reals": others, **synthetics(train, domain, repeat)}.items():
        results = classifier_results(train, table, test, domain, "income", max_rows=len(others), seed=repeat)
        answer[name] = {r.name: [r.accuracy_synth, r.agreement] for r in results}
    return answer


def private(repeat: int) -> dict[str, Any]:
    """Logistic regression and SVM on income: private ones on real rows, plain ones on synthetic rows (Table 4)."""
    train, _, test, domain = data(repeat)
    (features, signs), (asked, truth) = prepared(train, domain), prepared(test, domain)
    made = synthetics(train, domain, repeat)
    rng = np.random.default_rng([repeat, 19])
    answer: dict[str, Any] = {}

    def accuracy(weights: np.ndarray) -> float:
        return float(np.mean(np.where(asked @ weights > 0, 1.0, -1.0) == truth))

    def perturbed(how: Callable[..., np.ndarray], loss: str, regularisation: float) -> float:
        return float(np.mean([accuracy(how(features, signs, regularisation, loss, rng)) for _ in range(3)]))

    for loss in ("LR", "SVM"):
        tried = {r: accuracy(erm(features, signs, r, loss)) for r in (1e-3, 1e-4, 1e-5, 1e-6)}
        best = max(tried, key=lambda r: tried[r])
        answer[f"{loss} non-private"] = tried[best]
        for name, how in (("output", output_perturbed), ("objective", objective_perturbed)):
            answer[f"{loss} {name}"] = perturbed(how, loss, best)
            answer[f"{loss} {name}, own lambda"] = max(perturbed(how, loss, r) for r in (1e-1, 1e-2, 1e-3, 1e-4))
        for name, table in made.items():
            answer[f"{loss} {name}"] = accuracy(erm(*prepared(table, domain), best, loss))
    return answer


def prepared(codes: np.ndarray, domain: Domain) -> tuple[Any, np.ndarray]:
    """One-hot features of norm 1 at most, and the sign of the income."""
    features = features_of(codes, domain, without="income") / np.sqrt(len(domain) - 1)
    return features.tocsr(), np.where(codes[:, domain.position("income")] == 1, 1.0, -1.0)


HUBER = 0.5


def erm(
    features: Any, signs: np.ndarray, regularisation: float, loss: str, linear: np.ndarray | None = None
) -> np.ndarray:
    """Minimiser of mean loss + regularisation/2 |w|^2 + linear.w/n: logistic loss, or the hinge smoothed by Huber."""
    n, width = features.shape
    tilt = np.zeros(width) if linear is None else linear / n

    def value(weights: np.ndarray) -> tuple[float, np.ndarray]:
        z = signs * (features @ weights)
        if loss == "LR":
            losses, slopes = np.logaddexp(0, -z), -expit(-z)
        else:
            gap = 1 + HUBER - z
            losses = np.where(z < 1 - HUBER, 1 - z, np.where(gap > 0, gap**2 / (4 * HUBER), 0.0))
            slopes = np.where(z < 1 - HUBER, -1.0, np.where(gap > 0, -gap / (2 * HUBER), 0.0))
        total = losses.mean() + regularisation / 2 * weights @ weights + tilt @ weights
        return float(total), features.T @ (slopes * signs / n) + regularisation * weights + tilt

    return minimize(value, np.zeros(width), jac=True, method="L-BFGS-B", options={"maxiter": 200}).x


def output_perturbed(features: Any, signs: np.ndarray, r: float, loss: str, rng: np.random.Generator) -> np.ndarray:
    """Algorithm 1 of Chaudhuri, Monteleoni and Sarwate (2011) at epsilon 1."""
    return erm(features, signs, r, loss) + noise(features.shape[1], 2 / (len(signs) * r), rng)


def objective_perturbed(features: Any, signs: np.ndarray, r: float, loss: str, rng: np.random.Generator) -> np.ndarray:
    """Algorithm 2 of the same at epsilon 1; c bounds the loss's second derivative."""
    n, c = len(signs), 0.25 if loss == "LR" else 1 / (2 * HUBER)
    left = 1.0 - 2 * np.log1p(c / (n * r))
    if left <= 0:
        r, left = c / (n * np.expm1(0.25)), 0.5
    return erm(features, signs, r, loss, noise(features.shape[1], 2 / left, rng))


def noise(width: int, scale: float, rng: np.random.Generator) -> np.ndarray:
    """A vector of random direction whose norm has a gamma distribution."""
    direction = rng.normal(size=width)
    return direction / np.linalg.norm(direction) * rng.gamma(width, scale)


def game(repeat: int) -> dict[str, Any]:
    """How often a tree and a forest tell real rows from synthetic ones (Table 5)."""
    train, others, _, domain = data(repeat)
    tables = {"reals": train, **synthetics(train, domain, repeat)}
    return {name: distinguishing_game(others, table, max_rows=9000, seed=repeat) for name, table in tables.items()}


# Figures 5 and 6, and the price.


def passing(repeat: int) -> dict[str, Any]:
    """Share of candidates that pass Test 2 with epsilon0 = 1, exact, by k and omega (Figure 6); gamma plays no part."""
    train, _, _, domain = data(repeat)
    order = learn(train, domain, repeat).order
    columns = [domain.position(name) for name in order]
    prefixes = PrefixCounts(train[:, columns], domain.shape(order))
    everyone = np.arange(len(train))
    answer: dict[str, Any] = {"order": list(order), "rows": len(train)}
    for k in (10, 25, 50, 100, 150, 200, 250):
        share = {}
        for omega in range(1, len(domain) + 1):
            seeds = prefixes.of_rows(everyone, np.full(len(train), len(domain) - omega))
            share[omega] = float(np.exp(SeedTest(k, 1.0).log_pass(seeds.astype(float))).mean())
        ranges = {str(omega): share[omega] for omega in range(4, 12)}
        for low in (5, 9):
            ranges[f"{low}-11"] = float(np.mean([share[omega] for omega in range(low, 12)]))
        answer[str(k)] = ranges
    return answer


def price(repeat: int) -> dict[str, Any]:
    """The k that N rows need at epsilon 1: the paper's theorem composed, tight constants composed, and our account."""
    answer: dict[str, Any] = {}
    for n in (27_000, 735_000):
        for rows in (1, 100, 10_000, 100_000):
            account = SeedBudget(n, 0.0, 1.0, DELTA)
            answer[f"{n}/{rows}"] = {
                "paper": _composed_k(rows, n, 4.0, tight=False),
                "tight": _composed_k(rows, n, 1.0, tight=True),
                "ours": account.min_k(SeedTest(2, 1.0), rows),
            }
    return answer


def _composed_k(rows: int, n: int, gamma: float, *, tight: bool) -> int | None:
    """Least k, over t and epsilon0, for which `rows` rows fit into (1, 1e-9) by composing one row's (epsilon, delta).

    Composition: delta adds up (half of it), epsilon by zCDP or plainly, whichever is less. The failures that the paper
    leaves out are left out here too.
    """
    best = None
    for each in np.geomspace(1 / rows, 1.0, 400):
        plain, rho = rows * each, rows * each**2 / 2
        if min(plain, rho + 2 * np.sqrt(rho * np.log(2 / DELTA))) > 1:
            continue
        for share in (0.3, 0.5, 0.7, 0.9):
            t = max(1, int(np.ceil(gamma / np.expm1(each * (1 - share)))))
            allowed = DELTA / 2 / rows * (2 * (n + 1) if tight else 1)
            k = t + int(np.ceil(max(0.0, -np.log(min(1.0, allowed))) / (each * share)))
            paper = paper_price(SeedTest(max(k, 2), each * share, gamma=gamma), t)
            if paper[0] <= each * (1 + 1e-9) and (best is None or k < best):
                best = k
    return best


SIZES = {
    "age": 80, "workclass": 8, "education": 24, "marital": 5, "occupation": 25, "relationship": 18,
    "race": 5, "sex": 2, "hours": 100, "birth": 8, "income": 2,
}  # fmt: skip


def made_table(rows: int, seed: int = 0) -> tuple[np.ndarray, Domain]:
    """Made rows with the columns of the paper's Table 1, from a random network."""
    rng, domain = np.random.default_rng(seed), Domain.of(SIZES)
    order = ("sex", "income", "race", "marital", "workclass", "birth", "relationship", "education", "occupation")
    order += ("age", "hours")
    parents = [order[max(0, i - 2) : i] for i in range(len(order))]
    tables = [
        rng.dirichlet(np.full(domain.size(name), 0.5), size=tuple(domain.size(p) for p in ps))
        for name, ps in zip(order, parents, strict=True)
    ]
    network = BayesNet(domain, float(rows), order, tuple(parents), tuple(tables), {})
    return network.sample(rows, rng), domain


def speed(repeat: int) -> dict[str, Any]:
    """CPU seconds to learn from a million rows and to release rows from seeds, system entropy included (Figure 5)."""
    codes, domain = made_table(1_000_000)
    start = time.process_time()
    network = learn(codes, domain, repeat)
    answer: dict[str, Any] = {"learning": round(time.process_time() - start, 2)}
    counted = NoisyMarginal((), np.array(1e6), 1.0)
    for omega, kept in (("9", (2,)), ("5-11", tuple(range(7)))):
        for mixture in (False, True):
            test = SeedTest(K, 1.0, gamma=2.0 if mixture else 1.0, seeded_share=0.999)
            for rows in (10_000, 100_000, 1_000_000, 2_000_000):
                request = SeededRows(network, rows, kept, test, counted, mixture=mixture)
                start = time.process_time()
                made = request.release(codes, domain, None)
                cpu = round(time.process_time() - start, 2)
                name = f"omega {omega}, {'mixture' if mixture else 'drawn'}, {rows}"
                answer[name] = cpu
                assert len(made) == rows
    prefixes = PrefixCounts(codes[:, [domain.position(n) for n in network.order]], domain.shape(network.order))
    shares = [
        np.exp(
            SeedTest(K, 1.0).log_pass(prefixes.of_rows(np.arange(1_000_000), np.full(1_000_000, kept)).astype(float))
        ).mean()
        for kept in range(7)
    ]
    answer["pass rate omega 9"] = float(shares[2])
    answer["pass rate omega 5-11"] = float(np.mean(shares))
    return answer


EXPERIMENTS: dict[str, Callable[[int], dict[str, Any]]] = {
    f.__name__: f for f in (passing, price, speed, models, distances, game, private, classifiers)
}


LARGE = ("large_shape", "large_speed", "large_variants", "large_distances", "large_private", "large_models")
"""Experiments of bsg_large.py, at the size of the paper's table."""
ONCE = ("price", "speed", "large_shape")
"""Experiments without noise that matters."""


def repeats_of(name: str, repeats: int) -> int:
    """How often an experiment is made."""
    return 1 if name in ONCE else repeats


def experiment(name: str) -> Callable[[int], dict[str, Any]]:
    """The experiment of that name."""
    from benchmarks.papers import bsg_large

    return getattr(bsg_large, name) if name in LARGE else EXPERIMENTS[name]


def run(names: Sequence[str], repeats: int, *, again: bool = False) -> None:
    """Run experiments that are not stored yet, or all of them again."""
    lines = stored(RESULTS)
    for name in names:
        for repeat in range(repeats_of(name, repeats)):
            if not again and any((line["experiment"], line["repeat"]) == (name, repeat) for line in lines):
                continue
            start = time.process_time()
            result = experiment(name)(repeat)
            cpu = round(time.process_time() - start, 1)
            lines = [line for line in lines if (line["experiment"], line["repeat"]) != (name, repeat)]
            lines.append({"experiment": name, "repeat": repeat, "cpu_seconds": cpu, "result": result})
            RESULTS.write_text("".join(json.dumps(line) + "\n" for line in lines))
            print(f"{name} #{repeat}: {cpu} CPU s", flush=True)


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__, "run", "document")
    parser.add_argument("--only", nargs="+", default=[*EXPERIMENTS, *LARGE])
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--again", action="store_true", help="repeat what is stored, too")
    given = parser.parse_args(arguments)
    if given.action == "run":
        run(given.only, given.repeats, again=given.again)
    else:
        bsg_document.write(stored(RESULTS))
