"""Arithmetic of discovery, without data: forms of texts, bins from noisy counts, shapes, identifiers, drafts."""

import numpy as np
import pyarrow as pa
import pytest

from lookalike.discovery import binning
from lookalike.discovery.forms import decided
from lookalike.errors import SchemaError
from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.codec import decode_column, encode_column
from lookalike.schema.columns import Categorical, Identifier, Undeclared
from lookalike.schema.draw import draw_numbers
from lookalike.schema.probes import TEXT_FORMS, GridProbe, Nulls, Places, Resolution, Roundness, TextForm, form_probe
from lookalike.schema.storage import draft

ODD = ["", None, "\x00", "😀", "9" * 50, "-1e400", "nan", "inf", "2024-02-30", "31/12/2024", " 7 ", "a,b", "0x10"]


@pytest.mark.parametrize(
    "probe",
    [
        TextForm("x"),
        GridProbe("x", base=Integer("x"), edges=np.array([-5, 0, 5])),
        GridProbe("x", base=Datetime("x"), edges=np.array([0, 10])),
        Roundness("x", base=Continuous("x", decimals=2), steps=(1, 5, 10)),
        Nulls("x"),
    ],
    ids=lambda probe: type(probe).__name__,
)
def test_probes_take_every_text(probe):
    codes = encode_column(probe, pa.array(ODD, type=pa.string()))
    assert codes.min() >= 0
    assert codes.max() < probe.size


def test_probes_of_typed_columns_take_every_value():
    floats = pa.array([0.0, -0.0, 1.5, 0.1, 1 / 3, np.inf, -np.inf, np.nan, None, 1e300])
    assert encode_column(Places("x"), floats).tolist() == [0, 0, 1, 1, 7, 0, 0, 8, 8, 0]
    stamps = pa.array([0, 86_400_000_000, 3_600_000_000, 1, None, -(2**62)], pa.timestamp("us"))
    assert encode_column(Resolution("x"), stamps).tolist()[:5] == [0, 0, 1, 5, 6]


def test_text_forms():
    texts = {"12": "whole", "007": "padded 3", "1.50": "places 2", "1e5": "float", "?": "marker ?", "x": "text"}
    times = {
        "2024-01-05": "%Y-%m-%d",
        "25/12/2024": "%d/%m/%Y",
        "12/25/2024": "%m/%d/%Y",
        "05/06/2024": "either %m/%d/%Y",
    }
    expected = {**texts, **times, "2024-01-05T10:11:12+02:00": "%Y-%m-%dT%H:%M:%S%:z"}
    codes = encode_column(TextForm("x"), pa.array(list(expected)))
    assert [TEXT_FORMS[code] for code in codes] == list(expected.values())


def decide(values, noise=1.0):
    probe = TextForm("x")
    array = pa.array(values)
    counts = np.bincount(encode_column(probe, array), minlength=probe.size).astype(float)
    return decided(Undeclared("x", storage="string"), probe, counts, noise)


@pytest.mark.parametrize(
    ("values", "kind", "facts"),
    [
        (["1", "22", "?"], Integer, {"missing": ("?",)}),
        (["1.50", "2.25"], Continuous, {"decimals": 2, "least_decimals": None}),
        (["1.5", "2.25", "3"], Continuous, {"decimals": 2, "least_decimals": 0}),
        (["1.123456789", "2.5"], Continuous, {"decimals": None}),
        (["1.0", "22.0", ""], Continuous, {"decimals": 0, "least_decimals": 1}),
        (["1.0", "2.5"], Continuous, {"decimals": 1, "least_decimals": None}),
        (["1.0", "2.25"], Continuous, {"decimals": 2, "least_decimals": 1}),
        (["1.0", "2"], Integer, {}),
        (["1,50", "2,25", "3"], Continuous, {"decimals": 2, "least_decimals": 0, "comma": True}),
        (["1,5", "2,5"], Continuous, {"decimals": 1, "least_decimals": None, "comma": True}),
        (["1,5", "2.5"], Categorical, {}),
        (["007", "042"], Categorical, {}),
        (["2024-01-05", ""], Datetime, {"format": "%Y-%m-%d", "missing": ("",)}),
        (["05/06/2024", "25/12/2024"], Datetime, {"format": "%d/%m/%Y"}),
        (["05/06/2024", "12/25/2024"], Datetime, {"format": "%m/%d/%Y"}),
        (["2024-01-05 10:30", "2024-01-05 10:31"], Datetime, {"format": "%Y-%m-%d %H:%M", "resolution": "minute"}),
        (["yes", "no", "NA", "?"], Categorical, {"missing": ("?", "NA")}),
        (["1", "two"], Categorical, {}),
    ],
)
def test_kinds_by_how_values_are_written(values, kind, facts):
    column, _ = decide(values * 100)
    assert type(column) is kind
    assert {name: getattr(column, name) for name in facts} == facts


def test_a_single_odd_value_changes_nothing():
    plain, _ = decide(["1"] * 1000, noise=20.0)
    for odd in ODD:
        assert decide(["1"] * 1000 + [odd], noise=20.0)[0] == plain


def noisy_grid(values, edges, high, stddev, seed=0):
    counts = np.bincount(np.searchsorted(edges, values, side="right") - 1, minlength=len(edges))
    noise = np.random.default_rng(seed).normal(0, stddev, len(edges))
    return binning.measured(binning.Grid(edges, high, np.empty(0), 0.0, 1), counts + noise, stddev)


def test_spikes_are_separate_pieces_and_empty_ends_are_dropped():
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.integers(20, 60, 8000), np.full(3000, 40)])
    grid = noisy_grid(values, np.arange(0, 100), 99.0, 20.0)
    occupied = binning.occupied(grid, 11_000.0)
    assert abs(occupied.edges[0] - 20) <= 1
    assert abs(occupied.high - 59) <= 1
    edges, weights = binning.pieces_of(occupied)
    at = edges.tolist().index(40)
    assert edges[at + 1] == 41
    assert abs(weights[at] - 3200) < 100
    bins = binning.bins_of(edges, weights, 8, 100.0)
    assert 41 in bins
    assert {39, 40} & set(bins.tolist())
    assert 6 <= len(bins) <= 12


@pytest.mark.parametrize("seed", range(20))
def test_rows_thinly_spread_over_many_cells_are_not_cut_down_to_the_one_that_stands_out(seed):
    values = np.random.default_rng(seed).integers(100, 200, 3000)
    grid = noisy_grid(values, np.arange(0, 400), 399.0, 12.0, seed)
    occupied = binning.occupied(grid, 3000.0)
    inside = (values >= occupied.edges[0]) & (values <= occupied.high)
    assert inside.mean() > 0.8


@pytest.mark.parametrize(
    ("place", "deviations", "reached"),
    [(90, 4.2, False), (90, 6.0, True), (43, 4.2, True), (10, 4.2, False), (10, 6.0, True), (36, 4.2, True)],
)
def test_a_range_reaches_an_isolated_cell_only_where_it_is_significant(place, deviations, reached):
    counts = np.zeros(120)
    counts[38:41] = 10_000.0
    counts[place] = deviations * 100.0
    grid = binning.measured(binning.Grid(np.arange(120), 119, np.empty(0), 0.0, 1), counts, 100.0)
    occupied = binning.occupied(grid, 30_000.0)
    assert (place in occupied.edges) == reached
    assert {38, 39, 40} <= set(occupied.edges.tolist())


def test_rows_far_away_are_kept_where_the_rest_is_not_nearly_all():
    counts = np.zeros(120)
    counts[[40, 80]] = 520.0, 420.0
    grid = binning.measured(binning.Grid(np.arange(120), 119, np.empty(0), 0.0, 1), counts, 100.0)
    occupied = binning.occupied(grid, 2000.0)
    assert {40, 80} <= set(occupied.edges.tolist())


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


def test_coarse_grids_cover_all_that_a_type_can_hold():
    for base in (Integer("x"), Continuous("x"), Continuous("x", decimals=2)):
        grid = binning.coarse_grid(base)
        assert np.all(np.diff(grid.edges) > 0)
        assert grid.edges[0] <= -(2**51)
        assert grid.high >= 2**51
    years = binning.coarse_grid(Datetime("x", resolution="second"))
    assert len(years.edges) == 400


def test_combined_counts_agree_with_the_cell_they_were_cut_from():
    old = noisy_grid(np.zeros(0, int), np.array([0, 64]), 127.0, 10.0)
    old = binning.measured(old, np.array([1000.0, 0.0]), 10.0)
    finer, parents = binning.split(old, 64)
    assert len(finer.edges) == 65
    new = binning.measured(finer, np.append(np.full(64, 10.0), 3.0), 10.0)
    merged = binning.combined(old, new, parents)
    assert merged.counts[:64].sum() == pytest.approx((64 * 1000 + 640) / 65)
    assert merged.counts[64] == pytest.approx(1.5)


def test_rounding_shares_are_found_and_reproduced():
    rng = np.random.default_rng(0)
    column = Integer("x", minimum=1, maximum=10_000, bins=1, rounding=((1, 0.2), (10, 0.5), (100, 0.3)))
    drawn = draw_numbers(column, np.zeros(40_000, dtype=int), rng)
    codes = Roundness("x", base=column, steps=(1, 5, 10, 50, 100)).codes(pa.array(drawn))
    counts = np.bincount(codes, minlength=6)[:-1] + rng.normal(0, 20, 5)
    found = dict(binning.rounding_of((1, 5, 10, 50, 100), counts, 20.0))
    assert found[1] == pytest.approx(0.2, abs=0.02)
    assert found[10] == pytest.approx(0.5, abs=0.02)
    assert found[100] == pytest.approx(0.3, abs=0.02)
    even = Roundness("x", base=column, steps=(1, 5)).codes(pa.array(rng.integers(1, 9999, 9999)))
    assert binning.rounding_of((1, 5), np.bincount(even, minlength=3)[:-1].astype(float), 5.0) == ()


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


def test_a_draft_has_names_and_types_only():
    types = pa.schema(
        [
            ("customer_id", pa.int64()), ("text", pa.string()), ("flag", pa.bool_()), ("n", pa.int8()),
            ("f", pa.float32()), ("d", pa.decimal128(9, 2)), ("day", pa.date32()), ("at", pa.timestamp("ms", tz="UTC")),
            ("c", pa.dictionary(pa.int8(), pa.string())), ("nothing", pa.null()),
        ]
    )  # fmt: skip
    schema = draft(types)
    kinds = [Identifier, Undeclared, Categorical, Integer, Continuous, Continuous, Datetime, Datetime]
    assert [type(column) for column in schema.columns] == [*kinds, Categorical, Categorical]
    assert schema["d"].decimals == 2
    assert schema["at"].zone == "UTC"
    assert set(schema.open_facts) == set(schema.names) - {"nothing"}
    assert schema["flag"].open_facts == ("missing",)
    assert type(schema).from_dict(schema.to_dict()) == schema
    with pytest.raises(SchemaError, match="'nested' is stored as list"):
        draft(pa.schema([("nested", pa.list_(pa.int64()))]))


def test_every_drafted_column_has_a_probe():
    assert isinstance(form_probe(Undeclared("x", storage="large_string")), TextForm)
    assert isinstance(form_probe(Integer("x", storage="int64")), Nulls)
    assert isinstance(form_probe(Continuous("x", storage="double")), Places)
    assert isinstance(form_probe(Datetime("x", storage="timestamp[us]")), Resolution)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "uint64", "int64", "string"])
def test_a_grid_has_only_numbers_that_the_type_can_hold(kind: str) -> None:
    grid = binning.coarse_grid(Integer("x", storage=kind))
    low, high = (0, 2**61) if kind == "string" else (np.iinfo(kind).min, np.iinfo(kind).max)
    assert grid.high == min(2**61 - 1, high)
    assert grid.edges[0] == (-(2**60) if kind in ("int64", "string") else low)
    assert (np.diff(grid.edges) > 0).all()
