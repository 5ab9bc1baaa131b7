"""The templates and number formats of all pages, which need no network and are complete without script."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from lookalike.report.charts import amount, bars, density, heat_map, histogram


def render(template: str, **values: Any) -> str:
    """Return the page of a template of this package, with the style sheet in it."""
    shared = {"style": style_sheet(), "script": _file("search.js"), "script_digest": script_digest()}
    return environment("lookalike.report").get_template(template).render(**shared, **values)


@cache
def script_digest() -> str:
    """Return the SHA-256 of the script of the report, as a Content-Security-Policy names it."""
    return base64.b64encode(hashlib.sha256(_file("search.js").encode()).digest()).decode()


@cache
def style_sheet() -> Markup:
    """Return the style sheet, which needs no escapes: it holds no text of users."""
    return _file("style.css") + _file("charts.css")


def standalone(chart: Markup) -> str:
    """Return a chart as a separate file, in light colours and without variables, which few programs support."""
    light = dict(re.findall(r"(--[\w-]+): ([^;]+);", _file("style.css").partition("}")[0]))
    rules = re.sub(r"var\((--[\w-]+)\)", lambda found: light[found[1]], _file("charts.css"))
    at = chart.index(">") + 1
    page = Markup('<rect width="100%" height="100%" fill="{}"/>').format(light["--page"])
    return str(chart[:at] + Markup("<style>\n{}</style>").format(Markup(rules)) + page + chart[at:])


@cache
def _file(name: str) -> Markup:
    return Markup(files("lookalike.report").joinpath(f"templates/{name}").read_text(encoding="utf-8"))


@cache
def environment(package: str) -> jinja2.Environment:
    """Return what renders the templates of a package, with the number formats and charts that all pages share."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": "{:,.0f}".format,
        "small": "{:.4g}".format,
        "percent": lambda value, digits=1: f"{value:.{digits}%}",
        "odds": _odds,
        "power": _power,
        "amount": amount,
        "capitalised": lambda text: text[:1].upper() + text[1:],
    }
    environment.globals |= {"bars": bars, "density": density, "histogram": histogram, "heat_map": heat_map}
    environment.globals["version"] = version("lookalike")
    return environment


def _power(value: float) -> str:
    """Return a small number as people write it.

    >>> _power(1e-5), _power(2.5e-10), _power(0.001)
    ('1e-5', '2.5e-10', '0.001')
    """
    return f"{value:g}".replace("e-0", "e-")


def _odds(value: float) -> str:
    """Return a small probability in words.

    >>> _odds(1e-5)
    '1 in 100,000'
    """
    return f"1 in {1 / value:,.0f}" if 0 < value < 0.5 else f"{value:g}"
