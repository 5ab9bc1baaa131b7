"""What a target column is worth: AUC of classifiers trained on synthetic rows, and the distances of all marginals.

    python -m benchmarks.accuracy target run [--tables adult crashes] [--repeats 3]
    python -m benchmarks.accuracy target document

`mosaic` runs without and with `target`, and classifiers are trained on the synthetic rows, and on the training rows for
comparison; they are tested on the 20 % of the real rows that nothing else saw. `run` appends to
benchmarks/results/target.jsonl and never repeats a run that is there; `document` writes the generated part of
docs/target.md. NOT PRIVATE: the numbers compare with real rows.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.accuracy import held_out_tables
from benchmarks.common import DOCS, Line, add_grid, append, markdown, parser_of, replace_parts, results_of, stored
from benchmarks.runs import TABLES, table_of
from lookalike.evaluate.classifiers import features_of, without_column
from lookalike.evaluate.marginals import TablePair, distances_of, random_cliques
from lookalike.schema import codec
from lookalike.schema.domain import Domain

RESULTS = results_of("target")
TARGETS = {"adult": "income", "crashes": "dead", "survey": "collegeed"}
"""Binary columns; adult had a part in choosing the setting `target_worth`, the others had none."""
CLASSIFIERS = ("boosting", "logistic")


def areas(train: np.ndarray, test: np.ndarray, domain: Domain, target: str) -> dict[str, float]:
    """The area under the ROC curve of both classifiers, trained on one table and tested on the other."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    place = domain.position(target)
    trees = [without_column(codes, domain, target) for codes in (train, test)]
    flags = [features_of(codes, domain, without=target) for codes in (train, test)]
    makers: dict[str, tuple[Any, Any]] = {
        "boosting": (HistGradientBoostingClassifier(random_state=0), trees),
        "logistic": (LogisticRegression(max_iter=300), flags),
    }
    found = {}
    for name, (model, features) in makers.items():
        model.fit(features[0], train[:, place])
        found[name] = round(float(roc_auc_score(test[:, place], model.predict_proba(features[1])[:, 1])), 5)
    return found


def compared(table: str, repeat: int, epsilon: float) -> list[Line]:
    """Runs without and with the target on one split of the rows, and the classifiers of the training rows."""
    import lookalike

    rows, schema = table_of(table) if table in TABLES else held_out_tables.table_of(table)
    order = np.random.default_rng([repeat, 17]).permutation(rows.num_rows)
    most, domain, target = int(0.8 * rows.num_rows), schema.domain, TARGETS[table]
    train, test = (codec.encode(schema, rows.take(part)) for part in (order[:most], order[most:]))
    lines = [{"kind": "real rows", "auc": areas(train, test, domain, target)}]
    for kind, setting in (("no target", None), ("target", target)):
        start = time.process_time()
        given = {"schema": schema, "epsilon": epsilon, "method": "mosaic", "seed": repeat, "target": setting}
        release = lookalike.synthesize(rows.take(order[:most]), **given)
        seconds = round(time.process_time() - start, 1)
        synth = codec.encode(schema, release.table)
        pair = TablePair(train, synth, domain)
        tvd = {str(k): round(distances_of(pair, random_cliques(domain, k)).mean, 6) for k in (3, 5)}
        lines.append({"kind": kind, "auc": areas(synth, test, domain, target), "tvd": tvd, "cpu_seconds": seconds})
    return [{"table": table, "target": target, "epsilon": epsilon, "repeat": repeat, **line} for line in lines]


def run(tables: Sequence[str], epsilons: Sequence[float], repeats: int) -> None:
    """Run what is not stored yet."""
    done = {(line["table"], line["epsilon"], line["repeat"]) for line in stored(RESULTS)}
    for repeat in range(repeats):
        for table in tables:
            for epsilon in epsilons:
                if (table, epsilon, repeat) not in done:
                    for line in compared(table, repeat, epsilon):
                        append(RESULTS, line)
                        print(line, flush=True)


def shown(results: Sequence[Line]) -> list[str]:
    """Means with standard errors, one row per table, epsilon and kind."""
    rows = []
    for key in dict.fromkeys((line["table"], line["epsilon"], line["kind"]) for line in results):
        own = [line for line in results if (line["table"], line["epsilon"], line["kind"]) == key]
        cells = [_mean([line["auc"][name] for line in own]) for name in CLASSIFIERS]
        distances = [_mean([line["tvd"][k] for line in own]) if "tvd" in own[0] else "" for k in ("3", "5")]
        rows.append([f"{key[0]}, {own[0]['target']}", f"{key[1]:g}", key[2], len(own), *cells, *distances])
    return markdown(["table, target", "epsilon", "rows", "runs", *CLASSIFIERS, "3-way", "5-way"], rows)


def _mean(values: Sequence[float]) -> str:
    error = f" ±{np.std(values, ddof=1) / len(values) ** 0.5:.4f}" if len(values) > 1 else ""
    return f"{np.mean(values):.4f}{error}"


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__, "run", "document")
    add_grid(parser, tables=TARGETS, epsilons=(1.0,), repeats=3)
    given = parser.parse_args(arguments)
    if given.action == "run":
        run(given.tables, given.epsilons, given.repeats)
    else:
        replace_parts(DOCS / "target.md", {"target": shown(stored(RESULTS))})
