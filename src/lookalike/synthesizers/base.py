"""The base class of methods: settings, a split of the budget, a fit through the door; and all methods by name."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar, TypeVar, dataclass_transform

import numpy as np

from lookalike.errors import BudgetError, SchemaError
from lookalike.measurements import NoisyMarginal
from lookalike.models.model import Model
from lookalike.privacy.kernel.accounting import Accounting
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.schema.domain import Domain
from lookalike.synthesizers.split import Split

Progress = Callable[[str, float], None]
"""A function that is called with what is being done and the fraction of the whole that is finished."""


def with_passes(progress: Progress | None) -> tuple[Progress, Callable[[float], None]]:
    """Return two functions: one reports the progress of a run, the other how far a pass over its rows is."""
    reached, show = 0.0, progress or (lambda message, fraction: None)

    def report(message: str, fraction: float) -> None:
        nonlocal reached
        reached = fraction
        show(message, fraction)

    return report, lambda part: show(f"reading rows: {part:.0%} of a pass", reached)


def between(report: Progress, first: float, last: float) -> Progress:
    """Return the progress function of a part of a run, whose 0 and 1 are two fractions of the whole."""
    return lambda message, fraction: report(message, first + (last - first) * fraction)


@dataclass(frozen=True, slots=True)
class MethodInfo:
    """What users and reviewers need to know about a method.

    Attributes:
        title: its name as papers write it.
        paper: where it comes from.
        good_for: when to use it.
        corrected: what was changed to make it private.
        page: the page that shows how its settings were tuned.
        sets_per_column: about how many sets of several columns it measures per column, if its plan leaves that open.
        rank: place in listings, smallest first.
        is_paper_variant: whether it follows its paper to the letter, beside a variant of ours; listed after all others.
        draws: whether its models are fitted to noisy counts alone and can be drawn anew; see `models.redraws`.
    """

    title: str
    paper: str
    good_for: str
    corrected: str
    page: str
    sets_per_column: float
    rank: int
    is_paper_variant: bool
    draws: bool


class Method(ABC):
    """A method. Subclasses are registered by `@method`, which makes them frozen dataclasses of their settings."""

    __slots__ = ()

    name: ClassVar[str]
    accounting: ClassVar[Accounting]
    info: ClassVar[MethodInfo]

    @abstractmethod
    def split(self, domain: Domain, rho: float) -> Split:
        """Divide rho among the steps of a run on a domain; raises an error where the settings do not suit it."""

    @abstractmethod
    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        """Fit a model to the table behind the door; every step spends at most what `split` gives it."""

    def chosen(self, domain: Domain) -> Method:
        """Return the method that runs: this one, unless it chooses among others."""
        return self

    def informed(self, known: Sequence[NoisyMarginal]) -> Method:
        """Return the method for a table whose columns were counted before, with noise, as by discovery.

        It is the same method, unless it then spends less on columns. It may depend on which columns are known, never on
        their counts.
        """
        return self

    def reason(self, domain: Domain) -> str | None:
        """Return why another method was chosen; None for a method that runs itself."""
        return None

    def check_rows(self, rows: int | None) -> None:
        """Refuse a number of rows that a run with these settings cannot make; None is the method's own number."""
        return


METHODS: dict[str, type[Method]] = {}
"""All registered methods by name, in the order of listings. The name is the same in files, commands and reports."""

M = TypeVar("M", bound=Method)
T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def method(
    name: str,
    *,
    title: str,
    paper: str,
    good_for: str,
    corrected: str,
    page: str,
    accounting: Accounting = "gdp",
    sets_per_column: float = 1.0,
    rank: int = 100,
    is_paper_variant: bool = False,
    draws: bool = False,
) -> Callable[[type[M]], type[M]]:
    """Make a class a frozen dataclass of its settings and register it under `name`; see `MethodInfo`.

    `accounting` is "gdp" where every step is Gaussian, which has an exact curve, and "zcdp" for mixtures.
    """

    def register(cls: type[M]) -> type[M]:
        if name in METHODS and METHODS[name].__qualname__ != cls.__qualname__:
            raise SchemaError(f"There is a method {name!r} already: {METHODS[name].__qualname__}.")
        made = dataclass(frozen=True, slots=True)(cls)
        made.name, made.accounting = name, accounting
        places = (sets_per_column, rank, is_paper_variant, draws)
        made.info = MethodInfo(title, paper, good_for, corrected, page, *places)
        listed = sorted({**METHODS, name: made}.items(), key=_place)
        METHODS.clear()
        METHODS.update(listed)
        return made

    return register


def _place(item: tuple[str, type[Method]]) -> tuple[bool, int]:
    info = item[1].info
    return info.is_paper_variant, info.rank


# Every setting says where its default comes from.


def paper(default: T, where: str = "") -> T:
    """Mark a setting whose default is that of the method's paper, or of what `where` names."""
    return _marked(default, "paper", where)


def tuned(default: T, where: str = "") -> T:
    """Mark a setting whose default was found by experiments, on the method's page unless `where` names another."""
    return _marked(default, "tuned", where)


def choice(default: T) -> T:
    """Mark a setting that depends on what the user wants; no value is more accurate than another."""
    return _marked(default, "choice", "")


def _marked(default: Any, origin: str, where: str) -> Any:
    return dataclasses.field(default=default, metadata={"origin": origin, "where": where})


def setting_fields(cls: type[Method]) -> tuple[dataclasses.Field[Any], ...]:
    """Return the settings of a method as dataclass fields."""
    return dataclasses.fields(cls)  # type: ignore[arg-type]


def origins(cls: type[Method]) -> dict[str, str]:
    """Return where the default of each setting comes from, such as "tuned: docs/mosaic.md"; "" if it is not marked."""
    found = {}
    for field in setting_fields(cls):
        origin, where = field.metadata.get("origin", ""), field.metadata.get("where", "")
        where = where or {"tuned": cls.info.page, "paper": cls.info.paper}.get(origin, "")
        found[field.name] = f"{origin}: {where}" if where else origin
    return found


# Checks of settings.


def check_shares(*shares: float) -> None:
    """Check that shares of a budget are positive and leave something for the last step."""
    if any(not share > 0 for share in shares) or sum(shares) >= 1:
        listed = ", ".join(f"{share:g}" for share in shares)
        raise BudgetError(f"The shares of the budget are {listed}; each must be positive and their sum below 1.")


def check_positive(**settings: float | None) -> None:
    """Check settings that must be above 0, by name; None leaves a setting to the method."""
    for name, value in settings.items():
        if value is not None and not 0 < value < math.inf:
            raise BudgetError(f"{name} is {value}; it must be a positive number.")


def check_choice(setting: str, value: str, choices: tuple[str, ...]) -> None:
    """Check a setting that names one of a few alternatives."""
    if value not in choices:
        raise SchemaError(f"{setting} is {value!r}; it must be one of {', '.join(choices)}.")


def check_target(method: Method, domain: Domain) -> None:
    """Refuse a target that is not among the columns, before anything is spent."""
    target = settings_of(method).get("target")
    if target is not None and target not in domain:
        near = get_close_matches(target, domain.names, 1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise SchemaError(
            f"The target is {target!r}; it must be a column with values: {', '.join(domain.names)}.{meant}"
        )


def check_draws(method: Method, generator: str) -> None:
    """Refuse several tables of a method or a generator whose models cannot be drawn anew, before anything is spent."""
    if not method.info.draws or generator != "model":
        able = ", ".join(name for name, known in METHODS.items() if known.info.draws)
        raise SchemaError(
            f"Several tables need a model that is fitted to noisy counts alone; {method.name} with the generator "
            f"{generator} has none. Choose one of {able} and the generator model."
        )


# Methods by name.

_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,), "float": (int, float), "str": (str,), "bool": (bool,), "None": (type(None),),
}  # fmt: skip
_PLAIN_NAMES = {"int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false", "None": "null"}


def create(name: str, settings: dict[str, Any]) -> Method:
    """Return the method of that name with the given settings; raises an error that lists the valid names."""
    if name not in METHODS:
        near = get_close_matches(str(name), METHODS, 1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise SchemaError(f"There is no method {name!r}; the methods are {', '.join(METHODS)}.{meant}")
    known = {field.name: field for field in setting_fields(METHODS[name])}
    for setting, value in settings.items():
        if setting not in known:
            raise SchemaError(f"{name} has no setting {setting!r}; it has {', '.join(known) or 'none'}.")
        _check_type(name, setting, value, str(known[setting].type), known[setting].default)
    return METHODS[name](**settings)


def _check_type(method: str, setting: str, value: Any, annotation: str, default: Any) -> None:
    """Check the type of a value by its setting's annotation, or by the default where the annotation is not listed."""
    if setting == "workload" and isinstance(value, str | list | tuple):
        return
    names = [name for name in annotation.split(" | ") if name in _TYPES] or [type(default).__name__]
    allowed = tuple(kind for name in names for kind in _TYPES.get(name, (type(default),)))
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        expected = " or ".join(_PLAIN_NAMES.get(name, name) for name in names)
        was = f"{method}: setting {setting} is {value!r}"
        raise SchemaError(f"{was}; it must be {expected}. The default is {default!r}.")


def default_settings(name: str) -> dict[str, Any]:
    """Return the settings of a method and their defaults."""
    return {field.name: field.default for field in setting_fields(METHODS[name])}


def settings_of(method: Method) -> dict[str, Any]:
    """Return the settings of a method and their values."""
    return {field.name: getattr(method, field.name) for field in setting_fields(type(method))}
