"""All kinds of models by name, for reading them back."""

from __future__ import annotations

from typing import Any

import numpy as np

from lookalike.errors import ModelFileError
from lookalike.estimate.graphical import GraphicalModel
from lookalike.generate.bayes_net import BayesNet
from lookalike.generate.copula import GaussianCopula
from lookalike.generate.dense import DenseModel
from lookalike.generate.model import Model
from lookalike.generate.network import NetworkModel
from lookalike.generate.prefix_histogram import PrefixHistogram
from lookalike.generate.refine import RefinedModel
from lookalike.generate.relaxed_rows import RelaxedRows
from lookalike.generate.reweighted import ReweightedModel
from lookalike.generate.rows_model import GumRows, ReleasedRows, RowsModel
from lookalike.generate.stored import Stored

KINDS: dict[str, type[Model]] = {
    model.kind: model
    for model in (
        DenseModel,
        GraphicalModel,
        BayesNet,
        RefinedModel,
        RowsModel,
        GumRows,
        ReleasedRows,
        PrefixHistogram,
        ReweightedModel,
        GaussianCopula,
        RelaxedRows,
        NetworkModel,
    )
}


def stored_model(stored: Stored) -> Model:
    """Return the model of a model file."""
    kind = stored.text("kind")
    if kind not in KINDS:
        raise ModelFileError(f"its model is of kind {kind[:50]!r}; this version knows {', '.join(KINDS)}")
    return KINDS[kind].from_stored(stored)


def model_from_parts(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Model:
    """Return the model that `taken_apart` took apart."""
    return stored_model(Stored(meta, dict(arrays)))
