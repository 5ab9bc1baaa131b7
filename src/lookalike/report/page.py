"""Templates and number formats that all pages share. Pages are one file each: no script, no network, no fonts to
fetch.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from lookalike.report import charts


def render(template: str, **values: Any) -> str:
    """The page of a template in this package, with the style sheet inside it."""
    return _environment().get_template(template).render(style=style_sheet(), version=version("lookalike"), **values)


@cache
def style_sheet() -> Markup:
    """The style sheet, safe to put between style tags: it is ours, not a user's."""
    return Markup(files("lookalike.report").joinpath("templates/style.css").read_text(encoding="utf-8"))


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lookalike.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": _count,
        "percent": _percent,
        "small": _small,
        "odds": _odds,
        "amount": charts.amount,
    }
    environment.globals |= {"bars": charts.bars, "histogram": charts.histogram, "heat_map": charts.heat_map}
    return environment


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _percent(value: float, digits: int = 1) -> str:
    return f"{value:.{digits}%}"


def _odds(value: float) -> str:
    """A small probability in words.

    >>> _odds(1e-5)
    '1 in 100,000'
    """
    return f"1 in {1 / value:,.0f}" if 0 < value < 0.5 else f"{value:g}"


def _small(value: float) -> str:
    """A number of any size in four digits."""
    return f"{value:.4g}"
