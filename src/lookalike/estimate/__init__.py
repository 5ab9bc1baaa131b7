"""From noisy marginals to a model: pure post-processing, which never sees the data."""

from __future__ import annotations

from lookalike.estimate.fitting import fit
from lookalike.estimate.graphical import GraphicalModel

__all__ = ["GraphicalModel", "fit"]
