"""Classes of values partition all that a column can hold: every value has one, and none raises an error."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.classes import AXES, SENTINELS, Affixes, Offsets, ValueClasses, class_probe
from lookalike.schema.codec import encode_column
from lookalike.schema.columns import Categorical, Undeclared
from lookalike.schema.probes import GridProbe, Roundness
from lookalike.schema.text_forms import AFFIXES, FORMS, OFFSETS

ODD = ["", None, "\x00", "😀", "9" * 50, "-1e400", "nan", "inf", "2024-02-30", "31/12/2024", " 7 ", "a,b", "0x10"]
TEXTS = ValueClasses("x", kind="text")


def form_and_cell(probe: ValueClasses, code: int) -> tuple[str, float]:
    """The form of a class and the lower edge of its cell."""
    for form in probe.forms:
        cells = probe.starts[form.name]
        if cells.start <= code < cells.stop:
            return form.name, float(AXES[form.axis][code - cells.start])
    raise AssertionError(code)


def classes(probe: ValueClasses, values: pa.Array) -> list[tuple[str, float]]:
    return [form_and_cell(probe, code) for code in encode_column(probe, values).tolist()]


@pytest.mark.parametrize(
    "probe",
    [
        TEXTS,
        Affixes("x"),
        Offsets("x"),
        GridProbe("x", base=Integer("x"), edges=np.array([-5, 0, 5])),
        GridProbe("x", base=Datetime("x"), edges=np.array([0, 10])),
        Roundness("x", base=Continuous("x", decimals=2), steps=(1, 5, 10)),
    ],
    ids=lambda probe: type(probe).__name__,
)
@pytest.mark.parametrize("values", [ODD, []], ids=["odd texts", "no texts"])
def test_probes_take_every_text(probe, values):
    codes = encode_column(probe, pa.array(values, type=pa.string()))
    assert len(codes) == len(values)
    assert np.all((codes >= 0) & (codes < probe.size))


@settings(max_examples=25)
@given(st.lists(st.one_of(st.none(), st.text(), st.floats().map(repr), st.integers().map(str)), max_size=8))
def test_the_class_of_a_text_does_not_depend_on_the_others(texts):
    for probe in (TEXTS, Affixes("x"), Offsets("x")):
        together = encode_column(probe, pa.array(texts, type=pa.string())).tolist()
        alone = [encode_column(probe, pa.array([text], type=pa.string())).item() for text in texts]
        assert together == alone
        assert all(0 <= code < probe.size for code in together)


@given(st.lists(st.one_of(st.none(), st.floats()), max_size=20))
def test_every_float_is_in_the_cell_of_its_size(numbers):
    probe = ValueClasses("x", kind="float")
    for number, (form, edge) in zip(numbers, classes(probe, pa.array(numbers, pa.float64())), strict=True):
        if number is None or np.isnan(number):
            assert form == "null"
        else:
            axis = AXES[next(own.axis for own in probe.forms if own.name == form)]
            after = axis[axis > edge]
            assert edge <= number or edge == axis[0]
            assert not after.size or number < after[0]


def test_classes_of_typed_columns():
    floats = pa.array([0.0, -0.0, 1.5, 0.1, 1 / 3, np.inf, -np.inf, np.nan, None, 1e300])
    expected = ["places 0"] * 2 + ["places 1"] * 2 + ["float"] + ["places 0"] * 2 + ["null"] * 2 + ["places 0"]
    assert [form for form, _ in classes(ValueClasses("x", kind="float"), floats)] == expected
    stamps = pa.array([0, 86_400_000_000, 3_600_000_000, 1, None, -(2**62)], pa.timestamp("us"))
    units = [form for form, _ in classes(ValueClasses("x", kind="stamp"), stamps)]
    assert units[:5] == ["day", "day", "hour", "microsecond", "null"]
    clocks = pa.array([0, 3_600_000_000 * 13 + 60_000_000, None], pa.time64("us"))
    assert classes(ValueClasses("x", kind="clock"), clocks) == [("day", 0.0), ("minute", 13.0), ("null", 0.0)]
    wholes = pa.array([-3, 0, 7, 999, 1000, 2**62, None], pa.int64())
    cells = [edge for _, edge in classes(ValueClasses("x", kind="whole"), wholes)]
    assert cells == [-3.0, 0.0, 7.0, 999.0, 1000.0, 4e18, 0.0]


def test_classes_of_texts():
    texts = {
        "12": ("whole", 12.0),
        "007": ("padded 3", 1.0),
        "1.50": ("places 2", 1.5),
        "1e5": ("float", 1e5),
        "?": ("marker ?", 0.0),
        "x": ("text", 1.0),
        "2024-01-05": ("%Y-%m-%d", 2024.0),
        "25/12/2024": ("%d/%m/%Y", 2024.0),
        "12/25/1987": ("%m/%d/%Y", 1980.0),
        "05/06/2024": ("either %m/%d/%Y", 2024.0),
        "23:15": ("%H:%M", 23.0),
        "$1,234.50": ("money grouped , .2", 1000.0),
        "12.5%": ("percent places 1", 10.0),
        "2024-01-05T10:11:12+02:00": ("%Y-%m-%dT%H:%M:%S%:z", 2024.0),
    }
    assert dict(zip(texts, classes(TEXTS, pa.array(list(texts))), strict=True)) == texts


def test_what_stands_around_numbers_and_offsets():
    affixes = encode_column(Affixes("x"), pa.array(["$5", "5 €", "-£3.20", "7%", "7", "x", None])).tolist()
    assert [AFFIXES[code] for code in affixes] == [("$", ""), ("", " €"), ("£", ""), ("", "%")] + [("", "")] * 3
    times = ["2024-01-05T10:11:12+02:00", "2024-01-05T10:11:12-0530", "2024-01-05", None]
    offsets = encode_column(Offsets("x"), pa.array(times)).tolist()
    assert [OFFSETS[code] for code in offsets] == ["+02:00", "-05:30", "", ""]


def test_axes_rise_and_keep_sentinels_apart():
    for name, edges in AXES.items():
        assert np.all(np.diff(edges) > 0), name
    whole = set(AXES["whole"].tolist())
    assert all({number, number + 1, -number, -number + 1} <= whole for number in SENTINELS)
    assert AXES["whole"][0] <= -(2**59)
    assert AXES["whole"][-1] >= 2**59


def test_every_column_has_a_probe():
    kinds = {
        "large_string": "text", "double": "float", "int64": "whole", "timestamp[us]": "stamp", "date32[day]": "stamp",
        "time64[us]": "clock", "bool": "other", "decimal128(9, 2)": "float",
        "dictionary<values=string, indices=int8, ordered=0>": "text",
    }  # fmt: skip
    assert class_probe(Undeclared("x", storage="large_string")).kind == "text"
    assert {kind: class_probe(Categorical("x", storage=kind)).kind for kind in kinds} == kinds
    assert len(TEXTS.forms) == len(FORMS)
