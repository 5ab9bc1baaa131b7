"""The public report: says what it must, from the release alone, and is one self-contained page."""

from __future__ import annotations

import ast
import base64
import hashlib
import inspect
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from lookalike import report
from lookalike.measurements import NoisyMarginal
from lookalike.models.graphical import fit
from lookalike.models.intervals import ErrorBars
from lookalike.report.pairs import corrected_v
from lookalike.report.public import About, public_numbers, public_report
from lookalike.schema.binned import Integer
from lookalike.schema.columns import Identifier
from lookalike.schema.constraints import Sum
from lookalike.schema.schema import Schema

from .releases import SCHEMA, Account, bars, model


@pytest.fixture(scope="module")
def numbers():
    return public_numbers(SCHEMA, model(), Account(), bars())


@pytest.fixture(scope="module")
def page(numbers):
    return public_report(numbers)


class Tags(HTMLParser):
    """All tags and attributes, and whether every tag that was opened was closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "br", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_is_well_formed_and_self_contained(page):
    tags = Tags(page)
    assert tags.open == []
    names = {name for name, _ in tags.found}
    assert not names & {"img", "iframe", "object", "embed"}
    assert [name for name, _ in tags.found].count("script") == 1
    for name, attrs in tags.found:
        for attribute, value in attrs.items():
            assert not attribute.startswith("on")
            if attribute in ("src", "href"):
                assert str(value).startswith(("#", "data:")), (name, value)
    assert "default-src 'none'" in page
    script = page.split("<script>")[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    assert "fetch" not in script
    assert "http" not in script
    assert not re.search(r"url\(|@import", page)


def test_says_what_a_reader_must_know(page):
    for text in (
        "0.98",
        "1 in 100,000",
        "adding or removing one row",
        "pairs of the tree",
        "McKenna",
        "Corrected here",
        "stddev 12",
        "assumed",
        "2 of 6",
    ):
        assert text in page, text


def test_names_are_escaped(page):
    assert "sex <b>" not in page
    assert "sex &lt;b&gt;" in page
    assert "F &amp; f" in page


def test_anchors_exist(page):
    tags = Tags(page)
    ids = {attrs["id"] for _, attrs in tags.found if "id" in attrs}
    assert {str(a["href"])[1:] for n, a in tags.found if n == "a"} <= ids


def test_numbers_are_plain_and_intervals_hold_the_answers(numbers):
    json.dumps(numbers, allow_nan=False)
    age = next(column for column in numbers["columns"] if column["name"] == "age")
    assert age["chart"] == "density"
    assert age["axis"]["edges"][0] == 0
    assert all(low <= value <= high for low, value, high in zip(age["low"], age["counts"], age["high"], strict=True))
    town = next(column for column in numbers["columns"] if column["name"] == "town")
    assert town["labels"][-1] == "14 others"
    assert sum(town["counts"]) == pytest.approx(2000, rel=0.1)
    assert len(town["low"]) == len(town["labels"])
    assert numbers["association"]["pairs_measured"] == 2


def test_interval_of_the_rest_is_that_of_its_sum(numbers):
    town = next(column for column in numbers["columns"] if column["name"] == "town")
    shown = set(town["labels"])
    weights = [0.0 if label in shown else 1.0 for label in SCHEMA["town"].labels()]
    answer = bars().answer(("town",), np.array(weights), town["counts"][-1], 2000.0)
    assert (town["low"][-1], town["high"][-1]) == (pytest.approx(answer.low), pytest.approx(answer.high))


def test_without_recorded_noise_there_are_no_error_bars():
    page = public_report(public_numbers(SCHEMA, model(), Account(), ErrorBars(SCHEMA.domain, [])))
    assert 'class="whisker"' not in page
    assert "privacy noise" not in page


def test_reproducible_noise_is_stamped():
    page = public_report(public_numbers(SCHEMA, model(), Account(private=False), bars()))
    assert "NOT PRIVATE" in page
    assert "NOT PRIVATE" not in public_report(public_numbers(SCHEMA, model(), Account(), bars()))


def test_same_release_same_page():
    one, two = (public_report(public_numbers(SCHEMA, model(), Account(), bars())) for _ in range(2))
    assert one == two


def test_guarantee_table_is_bayes_rule(numbers):
    before, after = numbers["guarantee"]["before"], numbers["guarantee"]["after"]
    factor = numbers["guarantee"]["factor"]
    for prior, posterior in zip(before, after, strict=True):
        assert posterior / (1 - posterior) == pytest.approx(factor * prior / (1 - prior), rel=1e-3)
        assert posterior >= factor * prior / (factor * prior + 1 - prior)


def test_the_report_cannot_open_a_table():
    """By construction: no module of the package imports sources, the door or a reader, and nothing takes a table."""
    folder = Path(inspect.getfile(report)).parent
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom | ast.Import):
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
                for name in names:
                    assert not name.startswith(
                        ("lookalike.sources", "lookalike.privacy", "lookalike.evaluate.real_data")
                    )
    taken = set(inspect.signature(public_numbers).parameters)
    assert taken == {"schema", "model", "spent", "bars", "rows", "published", "about"}


def test_the_guarantee_is_the_configured_epsilon_also_where_it_is_infinite_or_huge():
    """What charges add up to may depend on noisy answers; what is promised is what was configured."""
    one = public_numbers(SCHEMA, model(), Account(epsilon_spent=0.2), bars())
    assert one["guarantee"]["factor"] == pytest.approx(np.e)
    for account in (Account(epsilon_spent=float("inf"), private=False), Account(epsilon=1000.0)):
        page = public_report(public_numbers(SCHEMA, model(), account, bars()))
        assert not re.search(r"\b(nan|inf)\b", page)


def test_the_report_says_how_values_within_bins_are_made():
    def sentence(**more):
        schema = Schema((Integer("age", minimum=0, maximum=99, bins=20, **more), Integer("n", minimum=0, maximum=9)))
        limits = _limits_of(schema)
        return next(text for text in limits if "Within a bin" in text)

    plain = sentence()
    assert "drawn at random, evenly over the bin." in plain
    shape = tuple((edge, 1.0 + edge) for edge in range(0, 100, 5))
    shaped = sentence(shape=shape, rounding=((10, 0.4), (1, 0.6)))
    assert "those of age by the weights of smaller intervals in the schema, all others evenly" in shaped
    assert "those of age are then rounded" in shaped
    assert "spread evenly" not in shaped


def _limits_of(schema):
    flat = [NoisyMarginal((name,), np.full(schema.domain.size(name), 10.0), 1.0) for name in schema.names]
    fitted = fit(schema.domain, flat)
    return public_numbers(schema, fitted, Account(), ErrorBars(schema.domain, flat))["limits"]


def test_every_column_is_there_and_can_be_searched():
    many = Schema(tuple(Integer(f"c{i:03d}", minimum=0, maximum=1, bins=2) for i in range(90)))
    flat = [NoisyMarginal((name,), np.full(2, 10.0), 1.0) for name in many.names]
    page = public_report(public_numbers(many, fit(many.domain, flat), Account(), ErrorBars(many.domain, flat)))
    cards = [attrs for name, attrs in Tags(page).found if name == "details" and attrs.get("class") == "column"]
    assert [card["data-name"] for card in cards] == list(many.names)
    assert "open" in cards[0]
    assert "open" not in cards[-1]


def test_publisher_and_method_are_named():
    about = About("Town <survey>", "The Office", "ask@office.example", "2024-05-06")
    page = public_report(public_numbers(SCHEMA, model(), Account(method="auto"), bars(), about=about))
    for text in (
        "Town &lt;survey&gt;",
        "The Office",
        "ask@office.example",
        "2024-05-06",
        "Mosaic",
        "Auto chose mosaic",
    ):
        assert text in page, text


def test_agreement_of_published_rows_with_the_intervals(numbers):
    sizes = SCHEMA.domain.sizes
    same = np.zeros((100, len(sizes)), dtype=np.int32)
    found = public_numbers(SCHEMA, model(), Account(), bars(), published=same)
    assert found["agreement"] < 0.9
    assert any("outside the interval" in text for text in found["limits"])
    rows = model().sample(2000, np.random.default_rng(0))
    better = public_numbers(SCHEMA, model(), Account(), bars(), published=rows)
    assert better["agreement"] > found["agreement"]
    assert numbers["agreement"] is None


def test_persons_are_explained():
    person = Identifier("who", pattern="####", person=True, max_rows=4, repeats=(4.0, 3.0, 2.0, 1.0))
    schema = Schema((person, Integer("n", minimum=0, maximum=9, bins=10)))
    assert any("At most 4 rows of each person" in text for text in _limits_of(schema))


def test_strongest_pairs_are_the_strongest_also_where_they_have_many_values():
    schema = Schema(
        (
            Integer("a", minimum=0, maximum=39, bins=40),
            Integer("b", minimum=0, maximum=39, bins=40),
            Integer("c", minimum=0, maximum=1, bins=2),
        )
    )
    equal = np.eye(40) * 50
    weak = np.tile([26.0, 24.0], (40, 1)) + np.arange(40)[:, None] % 2
    counts = [NoisyMarginal(("a", "b"), equal, 1.0), NoisyMarginal(("a", "c"), weak, 1.0)]
    found = public_numbers(schema, fit(schema.domain, counts), Account(), ErrorBars(schema.domain, counts))
    first = found["pairs"][0]
    assert {first["rows"], first["columns"]} == {"a", "b"}
    assert first["merged"]
    assert first["row_labels"][0].startswith("0 to ")
    assert len(first["shares"]) <= 16


def test_association_by_chance_alone_is_none():
    rng = np.random.default_rng(0)
    counts = rng.multinomial(2000, np.full(1500, 1 / 1500)).reshape(50, 30).astype(float)
    assert corrected_v(counts, 2000) < 0.05
    assert corrected_v(np.eye(50) * 40, 2000) > 0.95


def test_columns_whose_rows_contradict_the_estimates_are_named() -> None:
    domain = SCHEMA.domain
    measured = [
        NoisyMarginal((name,), np.full(size, 6000 / size), 10.0)
        for name, size in zip(domain.names, domain.sizes, strict=True)
    ]
    fitted, noise = fit(domain, measured, total=6000.0), ErrorBars(domain, measured)
    right = np.column_stack([np.arange(6000) % size for size in domain.sizes])
    wrong = right.copy()
    wrong[:, 0] = 0
    pages = [public_numbers(SCHEMA, fitted, Account(), noise, published=rows)["limits"] for rows in (right, wrong)]
    said = [[line for line in page if "outside the interval" in line] for page in pages]
    assert said[0] == []
    assert len(said[1]) == 1
    assert said[1][0].startswith("Of age, more than one in ten")


def test_computed_columns_have_their_rule_and_no_chart() -> None:
    """Their one code and its bounds say nothing about the values that the rule gives them."""
    hour = Integer("hour", minimum=0, maximum=23, bins=24)
    clock = Integer("clock", minimum=0, maximum=1, bins=1, derived=True)
    schema = Schema((hour, clock), constraints=(Sum("clock", ("hour",), (100,)),))
    measured = [NoisyMarginal(("hour",), np.full(24, 100.0), 5.0), NoisyMarginal(("clock",), np.array([2400.0]), 5.0)]
    numbers = public_numbers(
        schema,
        fit(schema.domain, measured),
        Account(),
        ErrorBars(schema.domain, measured),
        published=np.zeros((9, 2), int),
    )
    page = public_report(numbers)
    assert "integer, computed" in page
    assert "by the rule “always: clock = 100*hour”" in page
    assert "bounds: 0 to 1 " not in page
    assert numbers["association"]["names"] == ["hour"]
