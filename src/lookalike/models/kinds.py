"""All kinds of models by name, to read them from files."""

from __future__ import annotations

from typing import Any

import numpy as np

from lookalike.errors import ModelFileError
from lookalike.models.bayes_net import BayesNet, PrefixHistogram
from lookalike.models.copula import GaussianCopula
from lookalike.models.dense import DenseModel
from lookalike.models.graphical import GraphicalModel
from lookalike.models.model import Model
from lookalike.models.network import NetworkModel
from lookalike.models.refine import RefinedModel
from lookalike.models.relaxed_rows import RelaxedRows
from lookalike.models.rows import GumRows, ReleasedRows, RowsModel
from lookalike.models.stored import Stored
from lookalike.models.weighted_rows import ReweightedModel

_MODELS: list[type[Model]] = [DenseModel, GraphicalModel, BayesNet, RefinedModel, RowsModel, GumRows, ReleasedRows]
_MODELS += [PrefixHistogram, ReweightedModel, GaussianCopula, RelaxedRows, NetworkModel]
KINDS = {model.kind: model for model in _MODELS}


def stored_model(stored: Stored) -> Model:
    """Return the model of a model file."""
    kind = stored.text("kind")
    if kind not in KINDS:
        raise ModelFileError(f"its model is of kind {kind[:50]!r}; this version reads {', '.join(KINDS)}")
    return KINDS[kind].from_stored(stored)


def model_from_parts(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Model:
    """Return the model that `taken_apart` took apart."""
    return stored_model(Stored(meta, dict(arrays)))
