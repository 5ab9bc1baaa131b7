"""What anonymeter says of a release: prints one JSON line for the tables of a folder.

Runs in an environment of its own, where this package need not be installed: anonymeter 1.1.0 needs numpy below 2.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

ATTACKS, COLUMNS, NEIGHBOURS = 300, 4, 10
PLACES = (0, 1, 4, 9)
"""Columns that are inferred, by position; all would take an hour."""


def main(folder: Path) -> dict[str, Any]:
    import pandas
    from anonymeter.evaluators import (  # pyright: ignore[reportMissingImports]
        InferenceEvaluator,
        LinkabilityEvaluator,
        SinglingOutEvaluator,
    )

    ori, control, syn = (pandas.read_csv(folder / f"{name}.csv") for name in ("members", "control", "synth"))
    names = list(ori.columns)
    common = {"ori": ori, "syn": syn, "control": control}
    halves = names[: len(names) // 2], names[len(names) // 2 :]
    singled = SinglingOutEvaluator(**common, n_attacks=ATTACKS, n_cols=COLUMNS, max_attempts=20_000, seed=0)
    linked = LinkabilityEvaluator(**common, aux_cols=halves, n_attacks=ATTACKS, n_neighbors=NEIGHBOURS)
    found = {
        "singling out": rates(singled.evaluate(mode="multivariate")),
        "linkability": rates(linked.evaluate(n_jobs=1)),
    }
    inferred = []
    for secret in (names[place] for place in PLACES):
        known = [name for name in names if name != secret]
        attack = InferenceEvaluator(**common, aux_cols=known, secret=secret, regression=False, n_attacks=ATTACKS)
        inferred.append(rates(attack.evaluate(n_jobs=1)))
    found["inference"] = {side: sum(one[side] for one in inferred) / len(inferred) for side in inferred[0]}
    return found


def rates(evaluator: Any) -> dict[str, float]:
    """The success rates on members and control rows, and the risk that anonymeter derives from them."""
    results = evaluator.results()
    return {
        "members": results.attack_rate.value, "control": results.control_rate.value, "risk": results.risk().value,
    }  # fmt: skip


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(main(Path(sys.argv[1]))))
