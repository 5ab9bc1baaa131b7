import numpy as np
import pytest

from lookalike.errors import SchemaError
from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.columns import MAX_CODES, Categorical, Ordinal, measured


def test_codes_are_values_then_other_then_missing():
    column = Categorical("c", values=("a", "b"), missing=("?", ""), outside="other")
    assert column.size == 5
    assert column.other_code == 2
    assert [column.missing_code("?"), column.missing_code("")] == [3, 4]
    assert column.labels() == ["a", "b", "other", "missing (?)", "missing"]


def test_null_falls_back_to_the_first_marker():
    assert Categorical("c", values=("a",), missing=("?",), outside="absorb").missing_code("") == 1
    assert Categorical("c", values=("a",)).missing_code("") is None


def test_coded_column_has_one_bin_per_code():
    column = Integer.coded("a", 5)
    assert column.size == 5
    assert column.edges.tolist() == [0, 1, 2, 3, 4]
    assert column.labels() == ["0", "1", "2", "3", "4"]


def test_equal_bins_of_integers_differ_by_at_most_one():
    first, last = Integer("i", minimum=-3, maximum=19, bins=7).tick_ranges()
    assert first[0] == -3
    assert last[-1] == 19
    assert np.array_equal(first[1:], last[:-1] + 1)
    assert set((last - first + 1).tolist()) == {3, 4}


def test_bins_never_exceed_the_number_of_integers():
    assert Integer("i", minimum=1, maximum=3, bins=32).regular == 3


def test_decimal_ticks_are_exact_at_edges():
    column = Continuous("d", minimum=0, maximum=1, decimals=2, bins=(0, 0.29, 0.57, 0.58))
    first, last = column.tick_ranges()
    assert first.tolist() == [0, 29, 57, 58]
    assert last.tolist() == [28, 56, 57, 100]


def test_month_bins_start_at_the_minimum_and_at_month_starts():
    column = Datetime("t", minimum="2024-01-15", maximum="2024-03-02", bins="month")
    assert [column.external(edge) for edge in column.edges] == ["2024-01-15", "2024-02-01", "2024-03-01"]


def test_resolution_follows_the_format():
    assert Datetime("t", format="%d/%m/%Y %H:%M").resolution == "minute"
    assert Datetime("t", format="%Y-%m-%dT%H:%M:%S.%f%z").resolution == "microsecond"


def test_open_facts_are_named_and_have_no_size():
    column = Categorical("c")
    assert column.open_facts == ("values",)
    with pytest.raises(SchemaError, match="leaves values open"):
        _ = column.size
    assert Integer("i", minimum=0).open_facts == ("bounds",)


def test_measured_marks_facts():
    column = measured(Integer("i"), "bounds", minimum=0, maximum=7)
    assert column.fact("bounds") == "measured"
    assert column.fact("missing") == "public"


def test_columns_that_say_the_same_are_equal():
    assert Integer("i", minimum="0", maximum=9.0, provenance={"bins": "public"}) == Integer("i", minimum=0, maximum=9)
    assert Datetime("t", minimum="01.02.2024", maximum="2024-03-01", format="%d.%m.%Y").minimum == "2024-02-01"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Categorical("c", values=("a", "a")), "lists the value 'a' twice"),
        (lambda: Categorical("c", values=()), "lists no values"),
        (lambda: Categorical("c", values=("a", "?"), missing=("?",)), "among its values"),
        (lambda: Categorical("c", values=("a",), missing=("?", "?")), r"marker '\?' twice"),
        (lambda: Categorical("c", values=("a",), outside="clamp"), "cannot clamp"),
        (
            lambda: Categorical("c", values=tuple(map(str, range(1_000_000)))),
            f"1,000,000 codes; the limit is {MAX_CODES:,}",
        ),
        (lambda: Ordinal("c", values=("a",), provenance={"bounds": "public"}), "marks 'bounds'"),
        (lambda: Integer("i", minimum=0, maximum=9, provenance={"bounds": "guessed"}), "marks 'bounds' as 'guessed'"),
        (lambda: Integer("i", minimum=9, maximum=0), "minimum 9 above maximum 0"),
        (lambda: Integer("i", minimum=0.5, maximum=3), "has 0.5 as a bound"),
        (lambda: Integer("i", minimum=0, maximum="many"), "has 'many' as a bound"),
        (lambda: Integer("i", minimum=0, maximum=9, bins=0), "has bins 0"),
        (lambda: Integer("i", minimum=0, maximum=9, bins=(0, 5, 5)), "lower edges that rise"),
        (lambda: Integer("i", minimum=0, maximum=9, bins=(1, 5)), "lower edges that rise"),
        (lambda: Integer("i", minimum=0, maximum=10**9, bins=10**6), "1,000,000 bins"),
        (lambda: Integer("i", minimum=0, maximum=9, outside="other"), "no catch-all"),
        (lambda: Continuous("d", minimum=0, maximum=float("inf")), "has inf as a bound"),
        (lambda: Continuous("d", minimum=0, maximum=1, decimals=1, bins=(0, 0.01, 0.02)), "a bin that holds no number"),
        (lambda: Continuous("d", minimum=0, maximum=1e9, decimals=12), "asks for 12 decimals"),
        (lambda: Datetime("t", minimum="2024-13-01", maximum="2025-01-01"), "has '2024-13-01' as a bound"),
        (lambda: Datetime("t", minimum="2024-01-01", maximum="2025-01-01", bins="decade"), "has bins 'decade'"),
        (lambda: Datetime("t", zone="Mars/Base"), "time zone 'Mars/Base'"),
        (lambda: Datetime("t", resolution="fortnight"), "resolution 'fortnight'"),
    ],
)
def test_mistakes_are_refused_with_a_remedy(make, message):
    with pytest.raises(SchemaError, match=message):
        make()


def test_the_label_of_the_catch_all_is_never_a_value():
    assert Categorical("c", values=("a", "other")).other_label == "other values"
    assert Categorical("c", values=("other", "other values", "(other)"), missing=("*",)).other_label == "*" * 13
    with pytest.raises(SchemaError, match="label of its catch-all"):
        Categorical("c", values=("a", "b"), other_label="a")
