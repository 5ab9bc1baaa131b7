"""AUC of gradient boosting that is trained on synthetic rows and tested on real rows that no run saw.

`python -m benchmarks.real_tables downstream` is not a command: `run` calls it. Targets: adult `income` is `>50K`; ACTG
`cens` is 1; a flight of nycflights13 is late if `arr_delay` is above 0, predicted without departure delays and the
times that give them away. A fifth of the rows, drawn with a fixed seed, is for testing; rows without a target are left
out of both parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.real_tables.kinds import column_of, number_of

SPLIT_SEED = 20_261_116
MAX_VALUES = 200


@dataclass(frozen=True, slots=True)
class Target:
    """What is predicted.

    Attributes:
        column: the column that holds it.
        positive: whether a text of it is the event.
        without: columns that are not used to predict.
    """

    column: str
    positive: Callable[[str], bool]
    without: tuple[str, ...] = ()


TARGETS = {
    "adult": Target("income", lambda text: text.strip() == ">50K"),
    "actg": Target("cens", lambda text: number_of(text) == 1),
    "flights": Target("arr_delay", lambda text: number_of(text) > 0, ("dep_delay",)),
}


def split(real: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Four fifths of the rows for training, the others for testing."""
    order = np.random.default_rng(SPLIT_SEED).permutation(len(real))
    cut = len(real) // 5
    return real.iloc[np.sort(order[cut:])], real.iloc[np.sort(order[:cut])]


class Features:
    """Numbers of a table for the classifier, by the kinds and frequent values of the real training rows."""

    def __init__(self, train: pd.DataFrame, target: Target) -> None:
        self.target = target
        self.known: dict[str, list[str]] = {}
        self.kinds: dict[str, str] = {}
        for name in train.columns.drop([target.column, *target.without]):
            kind = column_of(train[name]).kind
            if kind in ("number", "time"):
                self.kinds[name] = kind
            elif kind != "text":
                self.known[name] = list(train[name].value_counts().index[:MAX_VALUES])

    def of(self, table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Features, and the target, of the rows that have one."""
        table = table[~column_of(table[self.target.column]).missing]
        parts = [column_of(table[name], kind).values for name, kind in self.kinds.items()]
        for name, values in self.known.items():
            codes = pd.Categorical(table[name], categories=values).codes.astype(float)
            parts.append(np.where(codes < 0, np.nan, codes))
        return np.column_stack(parts), table[self.target.column].map(self.target.positive).to_numpy(dtype=bool)

    @property
    def categorical(self) -> list[bool]:
        return [False] * len(self.kinds) + [True] * len(self.known)


def auc(train: pd.DataFrame, made: pd.DataFrame, test: pd.DataFrame, target: Target) -> float | None:
    """AUC on `test` of a classifier trained on `made`; None where the synthetic target is constant."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    features = Features(train, target)
    inputs, wanted = features.of(made.set_axis(train.columns, axis=1))
    if wanted.all() or not wanted.any():
        return None
    model = HistGradientBoostingClassifier(categorical_features=features.categorical, random_state=0)
    seen, truth = features.of(test)
    return round(float(roc_auc_score(truth, model.fit(inputs, wanted).predict_proba(seen)[:, 1])), 4)
