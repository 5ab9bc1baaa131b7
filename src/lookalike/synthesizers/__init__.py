"""All methods by name. One spelling serves file, command line and report."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from lookalike.errors import SchemaError
from lookalike.synthesizers.aim import AIM
from lookalike.synthesizers.auto import Auto
from lookalike.synthesizers.base import MethodInfo, PlannedStep, Synthesizer
from lookalike.synthesizers.bsg import BSG
from lookalike.synthesizers.dp_copula import DPCopula
from lookalike.synthesizers.dp_wgan import DPWGAN
from lookalike.synthesizers.dualquery import DualQuery
from lookalike.synthesizers.fem import FEM
from lookalike.synthesizers.independent import Independent
from lookalike.synthesizers.mosaic import Mosaic
from lookalike.synthesizers.mst import MST
from lookalike.synthesizers.mwem import MWEM
from lookalike.synthesizers.mwem_pgm import MWEMPGM
from lookalike.synthesizers.papers.dualquery import DualQueryPaper
from lookalike.synthesizers.papers.fem import FEMPaper
from lookalike.synthesizers.papers.ppsyn import PPSynPaper
from lookalike.synthesizers.papers.privbayes import PBPGMPaper, PrivBayesPaper
from lookalike.synthesizers.papers.privmrf import PrivMRFPaper
from lookalike.synthesizers.papers.rap import RAPPaper
from lookalike.synthesizers.pate_gan import PATEGAN
from lookalike.synthesizers.ppsyn import PPSyn
from lookalike.synthesizers.privbayes import PBPGM, PrivBayes
from lookalike.synthesizers.priview import PriView
from lookalike.synthesizers.privmrf import PrivMRF
from lookalike.synthesizers.privsyn import PrivSyn
from lookalike.synthesizers.rap import RAP

_CLASSES = (
    Auto, Mosaic, Independent, MST, AIM, PrivMRF, PrivSyn, PPSyn, PBPGM, PrivBayes, PriView, MWEMPGM, MWEM, BSG,
    DPCopula, RAP, FEM, DualQuery, DPWGAN, PATEGAN,
    PrivMRFPaper, PPSynPaper, PBPGMPaper, PrivBayesPaper, RAPPaper, FEMPaper, DualQueryPaper,
)  # fmt: skip

METHODS: dict[str, type[Synthesizer]] = {method.name: method for method in _CLASSES}


def create(name: str, settings: dict[str, Any]) -> Synthesizer:
    """The method of that name with the given settings, or an error that lists what there is."""
    if name not in METHODS:
        raise SchemaError(f"There is no method {name!r}; the methods are {', '.join(METHODS)}.")
    known = default_settings(name)
    for setting in settings:
        if setting not in known:
            raise SchemaError(f"{name} has no setting {setting!r}; it has {', '.join(known) or 'none'}.")
        _check_type(name, setting, settings[setting], known[setting])
    return METHODS[name](**settings)


def default_settings(name: str) -> dict[str, Any]:
    """The settings of a method and their defaults."""
    return settings_of(METHODS[name]())


def _check_type(method: str, setting: str, value: Any, default: Any) -> None:
    """A setting has the type of its default; a whole number may stand for a decimal, anything for a None."""
    if setting == "workload" and isinstance(value, str | list | tuple):
        return
    allowed = (int, float) if type(default) is float else type(default)
    if default is not None and (not isinstance(value, allowed) or isinstance(value, bool) != isinstance(default, bool)):
        expected = type(default).__name__
        raise SchemaError(f"{method}: setting {setting} is {value!r}; it must be a {expected} such as {default!r}.")


def settings_of(synthesizer: Synthesizer) -> dict[str, Any]:
    return {field.name: getattr(synthesizer, field.name) for field in fields(synthesizer)}  # type: ignore[arg-type]


__all__ = [
    "METHODS", "MethodInfo", "PlannedStep", "Synthesizer", "create", "default_settings", "settings_of",
]  # fmt: skip
