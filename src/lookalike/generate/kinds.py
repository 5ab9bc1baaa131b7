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
from lookalike.generate.network_model import NetworkModel
from lookalike.generate.prefix_histogram import PrefixHistogram
from lookalike.generate.refine import RefinedModel
from lookalike.generate.relaxed_rows import RelaxedRows
from lookalike.generate.released_rows import ReleasedRows
from lookalike.generate.reweighted import ReweightedModel
from lookalike.generate.row_set import RowSet
from lookalike.generate.rows_model import RowsModel
from lookalike.generate.views_model import ViewsModel

KINDS: dict[str, type[Model]] = {
    model.kind: model
    for model in (
        DenseModel,
        GraphicalModel,
        BayesNet,
        RefinedModel,
        RowsModel,
        ReleasedRows,
        PrefixHistogram,
        ReweightedModel,
        ViewsModel,
        GaussianCopula,
        RelaxedRows,
        RowSet,
        NetworkModel,
    )
}


def model_from_parts(kind: str, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Model:
    """The model that `to_parts` took apart."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise ModelFileError(f"its model is of kind {str(kind)[:50]!r}; this version knows {', '.join(KINDS)}")
    return KINDS[kind].from_parts(meta, arrays)
