"""scikit-learn style classes: settings in the constructor, `fit(table, schema)`, `sample(n)`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

from lookalike.errors import SchemaError
from lookalike.pipeline import synthesize
from lookalike.privacy.kernel.neighbours import Neighbours
from lookalike.privacy.ledger import Ledger
from lookalike.release import FittedModel, Spent
from lookalike.schema.schema import Schema
from lookalike.synthesizers import default_settings

RUN_SETTINGS = ("epsilon", "delta", "neighbours", "ledger", "seed")


class TableSynthesizer:
    """A method as an estimator. Subclasses name the method; their settings are the method's own.

    After `fit`: `fitted_` (the model), `schema_`, `spent_` (every charge). Fitting again spends again.
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
        """All settings, as scikit-learn's `clone` expects them."""
        return {name: getattr(self, name) for name in (*RUN_SETTINGS, *default_settings(self.method))}

    def set_params(self, **params: Any) -> Self:
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise SchemaError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}.")
            setattr(self, name, value)
        return self

    def fit(self, table: Any, schema: Schema | str | Path | dict[str, Any]) -> Self:
        """Learn a model of `table` through the door, spending epsilon and delta."""
        settings = {name: getattr(self, name) for name in default_settings(self.method)}
        run = {name: getattr(self, name) for name in RUN_SETTINGS}
        release = synthesize(table, schema=schema, method=self.method, rows=1, **run, **settings)
        self.fitted_: FittedModel = release.fitted
        self.schema_: Schema = release.schema
        self.spent_: Spent = release.spent
        return self

    def sample(self, rows: int | None = None, *, seed: int | None = None) -> Any:
        """Synthetic rows in the frame type that was fitted. Free: no data is touched."""
        return self.fitted_.sample(rows, seed=seed)

    def save(self, path: str | Path) -> None:
        self.fitted_.save(path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.get_params().items())})"

    def _repr_html_(self) -> str:
        return self.fitted_._repr_html_() if hasattr(self, "fitted_") else f"<code>{self!r}</code>"


class Auto(TableSynthesizer):
    """The method that suits the columns and the budget."""

    method = "auto"


class Mosaic(TableSynthesizer):
    """Sets worth their price, carried by weighted rows."""

    method = "mosaic"


class Independent(TableSynthesizer):
    """Independent columns."""

    method = "independent"


class MST(TableSynthesizer):
    """A maximum spanning tree of noisy pairs."""

    method = "mst"


class AIM(TableSynthesizer):
    """Rounds of choosing, measuring and fitting, for a workload."""

    method = "aim"


class MWEMPGM(TableSynthesizer):
    """A fixed number of rounds with a graphical model."""

    method = "mwem-pgm"


class MWEM(TableSynthesizer):
    """Multiplicative weights on the whole of a small domain."""

    method = "mwem"


class PrivSyn(TableSynthesizer):
    """Dense pairs, made consistent, and rows updated until they fit."""

    method = "privsyn"


class PrivMRF(TableSynthesizer):
    """A Markov random field over many small marginals."""

    method = "privmrf"


class PPSyn(TableSynthesizer):
    """Rounds that measure groups of cells."""

    method = "ppsyn"


class BSG(TableSynthesizer):
    """A private Bayesian network, with or without seeds."""

    method = "bsg"


class PrivBayes(TableSynthesizer):
    """A Bayesian network of families chosen one after another."""

    method = "privbayes"


class PBPGM(TableSynthesizer):
    """The families of PrivBayes, fitted all together."""

    method = "pb-pgm"


class PriView(TableSynthesizer):
    """Views that hold every pair of columns, whatever the data."""

    method = "priview"


class DPCopula(TableSynthesizer):
    """A Gaussian copula with noisy margins."""

    method = "dp-copula"


class RAP(TableSynthesizer):
    """Rows of distributions, moved by gradients towards chosen marginals."""

    method = "rap"


class FEM(TableSynthesizer):
    """Rows that follow the perturbed leader of drawn queries."""

    method = "fem"


class DualQuery(TableSynthesizer):
    """Rows that answer queries drawn by multiplicative weights."""

    method = "dualquery"


class DPWGAN(TableSynthesizer):
    """A generator network, taught by a critic through noisy gradients."""

    method = "dp-wgan"


class PATEGAN(TableSynthesizer):
    """A generator network, taught by a student of noisy votes."""

    method = "pate-gan"
