"""Values made up within codes: whole numbers with a zero, rounding, shapes of bins, identifiers."""

import numpy as np
import pyarrow as pa
import pytest

from lookalike.errors import SchemaError
from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.codec import encode_column
from lookalike.schema.columns import Identifier
from lookalike.schema.decode import decode_column
from lookalike.schema.draw import draw_numbers, places_within_bins
from lookalike.schema.schema import Schema


def test_whole_numbers_written_with_a_zero_are_written_so_again():
    column = Continuous("x", minimum=-3, maximum=12, bins=3, decimals=0, least_decimals=1, storage="string")
    codes = encode_column(column, pa.array(["-3.0", "12.0", "5.0"]))
    texts = decode_column(column, codes, rng=np.random.default_rng(0)).to_pylist()
    assert all(text.endswith(".0") and -3 <= float(text) <= 12 for text in texts)
    assert encode_column(column, pa.array(texts)).tolist() == codes.tolist()


def test_times_are_rounded_to_whole_hours_where_the_column_says_so():
    column = Datetime(
        "x", minimum="2024-01-01T00:00:00", maximum="2024-12-31T00:00:00", format="%Y-%m-%d %H:%M:%S", bins=4,
        rounding=((60, 0.25), (3600, 0.75)),
    )  # fmt: skip
    ticks = draw_numbers(column, np.repeat(np.arange(4), 5000), np.random.default_rng(0))
    assert np.all(ticks % 60 == 0)
    assert np.mean(ticks % 3600 == 0) == pytest.approx(0.75 + 0.25 / 60, abs=0.015)


def test_values_within_a_bin_follow_its_shape():
    column = Integer("x", minimum=0, maximum=99, bins=(0, 50), shape=((0, 90.0), (1, 10.0), (25, 0.0), (50, 0.0)))
    drawn = draw_numbers(column, np.repeat([0, 1], 20_000), np.random.default_rng(0))
    assert np.mean(drawn[:20_000] == 0) == pytest.approx(0.9, abs=0.01)
    assert drawn[:20_000].max() <= 24
    assert set(drawn[20_000:].tolist()) == set(range(50, 100))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": ((0, 1.0),)}, "miss the edge of a bin"),
        ({"shape": ((0, 1.0), (50, -1.0))}, "negative weights"),
        ({"rounding": ((0, 1.0),)}, "rounding step below 1"),
    ],
)
def test_bad_shapes(changes, message):
    with pytest.raises(SchemaError, match=message):
        Integer("x", minimum=0, maximum=99, bins=(0, 50), **changes)


def test_pieces_between_two_ticks_are_refused():
    with pytest.raises(SchemaError, match="a piece of its shape that holds no number with 1 decimals"):
        Continuous("x", minimum=0, maximum=1, decimals=1, bins=1, shape=((0, 1.0), (0.11, 1.0), (0.12, 1.0)))


def test_identifiers_are_made_up_and_distinct():
    rng = np.random.default_rng(0)
    column = Identifier("x", pattern="K-##@@", missing=("?",), storage="string")
    assert encode_column(column, pa.array(["anything", "?", None])).tolist() == [0, 1, 1]
    texts = decode_column(column, np.array([0] * 5000 + [1]), rng=rng).to_pylist()
    assert texts[-1] == "?"
    assert len(set(texts)) == 5001
    assert all(text[:2] == "K-" and text[2:4].isdigit() and text[4:].isalpha() for text in texts[:-1])
    numbers = decode_column(Identifier("x", pattern="####", storage="int64"), np.zeros(10_000, int), rng=rng)
    assert sorted(numbers.to_pylist()) == list(range(10_000))
    with pytest.raises(SchemaError, match="at least four"):
        Identifier("x", pattern="##")


def coupled(correlation: float, rows: int = 20_000) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Codes of two normal variables in eight bins each, and places within these."""
    rng = np.random.default_rng(3)
    normal = rng.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], rows)
    codes = np.searchsorted([-1.5, -1, -0.5, 0, 0.5, 1, 1.5], normal)
    columns = [Integer(name, minimum=0, maximum=799, bins=8) for name in ("a", "b")]
    return codes, places_within_bins(Schema(tuple(columns)), codes, rng)


def test_places_within_bins_follow_columns_that_the_bins_depend_on():
    codes, places = coupled(0.95)
    middle = (codes == 4).all(axis=1)
    assert np.corrcoef(places["a"][middle], places["b"][middle])[0, 1] > 0.08
    last = (codes == 7).all(axis=1)
    assert np.corrcoef(places["a"][last], places["b"][last])[0, 1] > 0.5


def test_places_within_bins_of_independent_columns_are_independent():
    codes, places = coupled(0.0)
    for a, b in ((4, 4), (7, 7), (0, 7)):
        chosen = (codes[:, 0] == a) & (codes[:, 1] == b)
        assert abs(np.corrcoef(places["a"][chosen], places["b"][chosen])[0, 1]) < 4 / np.sqrt(chosen.sum())


def test_places_are_spread_evenly_within_every_bin():
    codes, places = coupled(0.95)
    for number in range(8):
        own = np.sort(places["a"][codes[:, 0] == number])
        assert own == pytest.approx((np.arange(len(own)) + 0.5) / len(own))
    assert places["a"].min() >= 0
    assert places["a"].max() < 1


def test_missing_and_constant_columns_have_no_say():
    columns = (Integer("a", minimum=0, maximum=99, bins=4, missing=("",)), Integer("b", minimum=5, maximum=5, bins=1))
    codes = np.column_stack([np.arange(50) % 5, np.zeros(50, dtype=int)])
    assert places_within_bins(Schema(columns), codes, np.random.default_rng(0)) == {}
    both = (columns[0], Integer("c", minimum=0, maximum=99, bins=4))
    places = places_within_bins(Schema(both), np.column_stack([codes[:, 0], codes[:, 0] % 4]), np.random.default_rng(0))
    assert all(np.isfinite(place).all() for place in places.values())
