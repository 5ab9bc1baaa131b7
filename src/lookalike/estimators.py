"""Classes in the style of scikit-learn: settings in the constructor, `fit(table, schema)`, `sample(n)`.

There is one for every registered method, named like the class of the method: `lookalike.MST(epsilon=1.0)`.
"""

from __future__ import annotations

from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from lookalike.errors import InputError, SchemaError
from lookalike.pipeline import synthesize
from lookalike.privacy.kernel.accounting import Neighbours
from lookalike.privacy.ledger import Ledger
from lookalike.release import FittedModel, Spent
from lookalike.schema.schema import Schema
from lookalike.synthesizers import METHODS, default_settings

RUN_SETTINGS = ("epsilon", "delta", "neighbours", "ledger", "seed")


class TableSynthesizer:
    """A method as an estimator, with the settings of every run and those of the method.

    `fit` sets `fitted_` (the model), `schema_` and `spent_` (every charge). Fitting again spends again.
    """

    method: ClassVar[str]

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        neighbours: Neighbours | None = None,
        ledger: Ledger | str | Path | None = None,
        seed: int | None = None,
        **settings: Any,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.neighbours = neighbours
        self.ledger = ledger
        self.seed = seed
        known = default_settings(self.method)
        for name, value in {**known, **settings}.items():
            if name not in known:
                raise SchemaError(f"{self.method} has no setting {name!r}; it has {', '.join(known) or 'none'}.")
            setattr(self, name, value)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all settings, as `clone` of scikit-learn expects them."""
        return {name: getattr(self, name) for name in (*RUN_SETTINGS, *default_settings(self.method))}

    def set_params(self, **params: Any) -> Self:
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise SchemaError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}.")
            setattr(self, name, value)
        return self

    def fit(self, table: Any, schema: Any = None) -> Self:
        """Fit a model of `table`, spending epsilon and delta.

        Args:
            table: a frame or a path, as for `synthesize`; also a NumPy array, whose columns are then x0, x1, ...
            schema: public facts about the columns, as for `synthesize`; without it they are discovered inside the
                budget. Anything that is not a schema is taken for the target, as pipelines of scikit-learn pass it, and
                becomes one more column.
        """
        if not (schema is None or isinstance(schema, Schema | str | Path | dict)):
            table, schema = _with_target(table, schema)[0], None
        table = _as_frame(table)
        settings = {name: getattr(self, name) for name in default_settings(self.method)}
        run = {name: getattr(self, name) for name in RUN_SETTINGS}
        release = synthesize(table, schema=schema, method=self.method, rows=1, **run, **settings)
        self.fitted_: FittedModel = release.fitted
        self.schema_: Schema = release.schema
        self.spent_: Spent = release.spent
        return self

    def fit_resample(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return synthetic features and target in place of real ones, as pipelines of imbalanced-learn call it.

        Rows and targets are made together by one model; the real ones are not passed on.
        """
        together, target = _with_target(X, y)
        made = self.fit(together).sample()
        features, labels = made.drop(columns=[target]), made[target]
        return (features.to_numpy(), labels.to_numpy()) if isinstance(X, np.ndarray) else (features, labels)

    def __sklearn_tags__(self) -> Any:
        """Say to scikit-learn that this is neither a classifier nor a regressor and needs no target."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def sample(self, rows: int | None = None, *, seed: int | None = None) -> Any:
        """Return synthetic rows in the type of frame that was fitted. Costs nothing: no data is read."""
        return self.fitted_.sample(rows, seed=seed)

    def save(self, path: str | Path) -> None:
        self.fitted_.save(path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.get_params().items())})"

    def _repr_html_(self) -> str:
        return self.fitted_._repr_html_() if hasattr(self, "fitted_") else f"<code>{self!r}</code>"


def _as_frame(table: Any) -> Any:
    """Return the table; a NumPy array as a pandas frame with columns x0, x1, ..."""
    if not isinstance(table, np.ndarray):
        return table
    import pandas as pd

    if table.ndim != 2:
        raise InputError(f"The array has {table.ndim} axes; a table has 2. Reshape it.")
    return pd.DataFrame(table, columns=pd.Index([f"x{i}" for i in range(table.shape[1])]))


def _with_target(table: Any, target: Any) -> tuple[Any, str]:
    """Return a pandas frame with one more column for the target, and the name of that column."""
    import pandas as pd

    frame = pd.DataFrame(_as_frame(table))
    name = str(getattr(target, "name", None) or "target")
    while name in frame.columns:
        name += "_"
    values = np.asarray(target)
    if values.shape != (len(frame),):
        raise InputError(f"The target has shape {values.shape}; it must have one value for each of {len(frame)} rows.")
    return frame.assign(**{name: values}), name


def estimator_of(method: str) -> type[TableSynthesizer]:
    """Return the estimator class of a registered method, created at first use."""
    cls = METHODS[method]
    if cls.__name__ not in globals():
        facts = {"method": method, "__doc__": cls.__doc__, "__module__": __name__, "__signature__": _signature(method)}
        globals()[cls.__name__] = type(cls.__name__, (TableSynthesizer,), facts)
    return globals()[cls.__name__]


def estimator_names() -> dict[str, str]:
    """Return the names of all estimator classes, each with the name of its method."""
    return {cls.__name__: name for name, cls in METHODS.items()}


def _signature(method: str) -> Signature:
    """Return the parameters of an estimator for help and editors: those of every run, then those of the method."""
    run = [p for p in signature(TableSynthesizer.__init__).parameters.values() if p.name in RUN_SETTINGS]
    own = [Parameter(name, Parameter.KEYWORD_ONLY, default=value) for name, value in default_settings(method).items()]
    return Signature([*run, *own])


def __getattr__(name: str) -> Any:
    if name not in estimator_names():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return estimator_of(estimator_names()[name])
