"""Forms of texts: every text has exactly one, the first of the table that matches it, and none raises or warns."""

import re
import warnings

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.form_columns import column_of, detail_of, markers_of
from lookalike.schema.storage import to_array, to_numbers
from lookalike.schema.text_forms import (
    AFFIXES,
    BOOLEANS,
    FORMS,
    NAMED,
    OFFSETS,
    affix_of,
    form_of,
    number_of,
    offset_of,
)

HOSTILE = [
    None, "", " ", "\x00", "1\x002", "9" * 5000, "1e400", "-1e-400", "1e99999", "١٢٣", "\u200f12", "12\u202e", "😀",
    "$", "%", "€€5", "$$5", "--5", "+-5", "$-", "1,,234", ",", ".", ",,,", "0" * 400, "," * 3000, "1" + ",000" * 2000,
    "inf", "-inf", "nan", "NaN", "0x10", "1_000", "2014-02-30", "0000-00-00", "9999-12-31", "99:99:99", "24:00",
    "31 Feb 2014",
    "13 okt 2014", "13\nOct\n2014", "a\nb", "%Y-%m-%d", "[", "(", "\\", "²", "½", "１２", "− 5", "1/1/1/1", "1:2:3:4",
    "\ufffd", "T", "Z", "e5", "5e", ".e5", "kr", "1 kr 2", "12 12", "1 2 3", "1\u202f2", "'", "'1", "1'", "1:05 XM",
]  # fmt: skip


def counted(texts):
    """Rows by form, a hundred for each text."""
    counts = {}
    for place in form_of(pa.array(texts, pa.string())):
        counts[FORMS[place]] = counts.get(FORMS[place], 0.0) + 100.0
    return counts


def column_for(texts, **facts):
    """The column that discovery would make of these texts, with what the second questions tell."""
    array, counts = pa.array(texts, pa.string()), counted(texts)
    if detail_of(counts) == "affix":
        facts["prefix"], facts["suffix"] = AFFIXES[np.bincount(affix_of(array)).argmax()]
    if detail_of(counts) == "offset":
        facts["zone"] = OFFSETS[np.bincount(offset_of(array)).argmax()]
    return column_of("x", counts, storage="string", **facts)


def there_and_back(column, texts):
    numbers, readable = to_numbers(column, pa.array(texts, pa.string()))
    assert readable.all()
    scale = 1 if column.tick in (None, 1) else 10**column.decimals
    ticks = numbers if scale == 1 else np.rint(numbers * scale).astype(np.int64)
    return to_array(column, ticks, ~readable, pa.string()).to_pylist()


def test_names_are_unique_and_the_last_form_is_text():
    assert len(NAMED) == len(FORMS)
    assert FORMS[-1].name == "text"
    assert len(set(AFFIXES)) == len(AFFIXES)
    assert AFFIXES[-1] == ("", "")
    assert len(set(OFFSETS)) == len(OFFSETS)


@given(st.lists(st.text("0123459.,'-+/: $€%\u00a0TZeEUSDkr" + "OctMayPM"), max_size=5))
@example(["0", "-0", "05", "1,234", "1.234", "+1.5", "1 234,5", "$ 5", "5 €", "15.6%", "1/5/2014", "13 May 2014"])
@example(["05/06/2014", "13/06/2014", "06/13/2014", "5/6/2014", "1:05 PM", "13:05", "2014-10", "10/2014", "1e5"])
def test_a_text_has_the_first_form_that_matches(texts):
    def first(text):
        exact = [place for place, form in enumerate(FORMS) if form.family in ("missing", "word", "boolean")]
        known = {FORMS[place].text: place for place in exact}
        if text in known:
            return known[text]
        trimmed = text.strip()
        rest = range(len(exact), len(FORMS))
        return next(place for place in rest if re.fullmatch(FORMS[place].pattern, trimmed))

    assert form_of(pa.array(texts, pa.string())).tolist() == [first(text) for text in texts]


def test_hostile_texts_have_a_form_an_affix_and_an_offset_without_a_warning():
    array = pa.array(HOSTILE, pa.string())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert form_of(array).max() < len(FORMS)
        assert affix_of(array).max() < len(AFFIXES)
        assert offset_of(array).max() < len(OFFSETS)
    assert FORMS[form_of(pa.array(["9" * 5000]))[0]].name == "text"
    raw = pa.array([b"\xff1", b"5"], pa.binary())
    bad = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    assert [FORMS[place].name for place in form_of(bad)] == ["text", "whole"]
    assert form_of(pa.array([], pa.string())).shape == (0,)


@given(st.lists(st.text() | st.sampled_from(HOSTILE), max_size=6))
def test_no_column_of_a_form_fails_on_any_text(texts):
    array = pa.array([*texts, *HOSTILE], pa.string())
    columns = [
        Integer("x", prefix="$", suffix=" EUR", thousands=" ", plus=True),
        Continuous("x", decimals=2, comma=True, thousands="."),
        *(Datetime("x", format=form) for form in ("%d %b %Y", "%-I:%M %p", "%b-%y", "%Y-%m-%dT%H:%M:%S.%3f%:z")),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for column in columns:
            numbers, readable = to_numbers(column, array)
            assert len(numbers) == len(readable) == len(array)
            assert not readable[array.is_null().to_numpy(zero_copy_only=False)].any()


@pytest.mark.parametrize(
    ("texts", "kind", "facts"),
    [
        (["$221,900.00", "$5.00", "-$1,234.50"], Continuous, {"prefix": "$", "thousands": ",", "decimals": 2}),
        (["€ 1.234,50", "€ 3,00"], Continuous, {"prefix": "€ ", "thousands": ".", "comma": True}),
        (["201.727,27 EUR", "12,00 EUR"], Continuous, {"suffix": " EUR", "thousands": ".", "comma": True}),
        (["1\u202f234,50\u00a0€", "3,00\u00a0€"], Continuous, {"suffix": "\u00a0€", "thousands": "\u202f"}),
        (["USD 12", "USD 1200"], Integer, {"prefix": "USD ", "thousands": ""}),
        (["-$5", "$6"], Integer, {"prefix": "$"}),
        (["+15.6%", "-3.0%", "+0.5%"], Continuous, {"suffix": "%", "plus": True, "decimals": 1}),
        (["15,6 %", "100,0 %"], Continuous, {"suffix": " %", "comma": True}),
        (["1,234", "12", "999,999"], Integer, {"thousands": ","}),
        (["1,234.5", "12.0"], Continuous, {"thousands": ",", "decimals": 1}),
        (["1 234", "12"], Integer, {"thousands": " "}),
        (["1'234.50", "12.00"], Continuous, {"thousands": "'", "decimals": 2}),
        (["1.234", "1.234.567", "12"], Integer, {"thousands": "."}),
        (["1.234", "12.500"], Continuous, {"thousands": "", "decimals": 3}),
        (["1,234", "1,5"], Continuous, {"comma": True, "decimals": 3, "least_decimals": 1}),
        (["+5", "-3"], Integer, {"plus": True}),
        (["40.7128", "-74.0060"], Continuous, {"decimals": 4}),
        (["1999", "2014"], Integer, {}),
        (["13 Oct 2014", "05 May 2014"], Datetime, {"format": "%d %b %Y"}),
        (["Oct 13, 2014", "Oct 3, 2014"], Datetime, {"format": "%b %-d, %Y"}),
        (["13 October 2014", "3 May 2014", "4 June 2014"], Datetime, {"format": "%-d %B %Y"}),
        (["13-OCT-14", "01-JAN-69"], Datetime, {"format": "%d-%^b-%y"}),
        (["2014-10", "1969-12"], Datetime, {"format": "%Y-%m"}),
        (["10/2014"], Datetime, {"format": "%m/%Y"}),
        (["02:02:23"], Datetime, {"format": "%H:%M:%S", "minimum": "00:00", "maximum": "23:59:59"}),
        (["14:05"], Datetime, {"format": "%H:%M", "resolution": "minute"}),
        (["1:05 PM", "12:00 AM"], Datetime, {"format": "%-I:%M %p"}),
        (["1/13/2014", "10/13/2014", "5/6/2014"], Datetime, {"format": "%-m/%-d/%Y"}),
        (["13/1/2014 9:05", "3/1/2014 10:05"], Datetime, {"format": "%-d/%-m/%Y %-H:%M"}),
        (["05/06/2014"], Datetime, {"format": "%m/%d/%Y"}),
        (["2014-10-13T12:00:00+01:00"], Datetime, {"zone": "+01:00"}),
        (["2014-10-13T12:00:00.120Z"], Datetime, {"resolution": "millisecond", "zone": ""}),
    ],
)  # fmt: skip
def test_texts_of_a_form_are_read_and_written_the_same(texts, kind, facts):
    column = column_for(texts)
    assert type(column) is kind
    assert {name: getattr(column, name) for name in facts} == facts
    assert there_and_back(column, texts) == texts


@pytest.mark.parametrize(
    "texts",
    [["($5.00)"], ["25:00:00"], ["1,5", "2.5"], ["007", "042"], ["1/05/2014"], ["9" * 19], ["5-"], ["x"], []],
    ids=str,
)
def test_what_is_text(texts):
    assert column_for(texts) is None


def test_padded_numbers_are_numbers_of_their_width_where_asked():
    column = column_for(["007", "042", "123"], padded=True)
    assert type(column) is Integer
    assert column.width == 3
    assert there_and_back(column, ["007", "042", "123"]) == ["007", "042", "123"]


def test_words_are_missing_markers_of_numbers_only():
    counts = counted(["5", "unknown", "N/A", "not reported"])
    assert type(column_of("x", counts)) is Integer
    assert markers_of(counts, words=True) == ("N/A", "unknown", "not reported")
    assert markers_of(counts, words=False) == ("N/A",)


def test_booleans_in_any_case_have_forms_of_their_own():
    texts = [text for pair in BOOLEANS for text in pair]
    assert [FORMS[place].text for place in form_of(pa.array(texts))] == texts


def test_an_odd_minority_does_not_change_the_column_and_a_majority_does():
    counts = {NAMED["grouped , .2"]: 900.0, NAMED["places 2"]: 90.0, NAMED["text"]: 10.0}
    column = column_of("x", counts)
    assert isinstance(column, Continuous)
    assert column.thousands == ","
    assert column_of("x", {**counts, NAMED["text"]: 1000.0}) is None


@pytest.mark.parametrize(
    ("text", "group", "number"),
    [
        ("-$1,234.50", "money", -1234.5),
        ("$ -5", "money", -5.0),
        ("1.234,50 €", "money", 1234.5),
        ("+15,6 %", "percent", 15.6),
        ("1 234", "whole", 1234.0),
        ("1,234", "whole", 1234.0),
        ("1.234", "decimal", 1.234),
        ("007", "padded", 7.0),
        ("1e3", "float", 1000.0),
        ("1e400", "float", np.inf),
        ("2 Jan 1970", "date", 86_400e6),
        ("1970-01-01 00:00:01", "datetime", 1e6),
        ("Feb 1970", "month", 31 * 86_400e6),
        ("12:01 AM", "clock", 60e6),
        ("31 Feb 2014", "date", np.nan),
        ("unknown", "word unknown", np.nan),
        ("abc", "text", np.nan),
    ],
)
def test_groups_and_numbers_of_forms(text, group, number):
    form = FORMS[form_of(pa.array([text]))[0]]
    assert form.group == group
    np.testing.assert_equal(number_of(pa.array([text, None]), form), [number, np.nan])


def test_groups_are_few():
    singles = {form.group for form in FORMS if form.text or form.family == "missing"}
    assert len({form.group for form in FORMS} - singles) == 11


NUMBERS = [form for form in FORMS if form.is_number and form.decimals is not None and form.name != "whole.0"]


@st.composite
def canonical(draw, form):
    """A text of the form, as a program would write it."""
    places = form.decimals
    digits = draw(st.integers(4 if form.thousands else 1, 15 - places))
    if form.name.endswith(("comma 3", "places 3")):
        digits = draw(st.integers(4, 12))
    elif form.name.endswith("grouped? ,"):
        digits = draw(st.integers(4, 6))
    elif form.name.endswith("grouped? ."):
        digits = draw(st.integers(1, 3))
    elif form.thousands in (",", ".") and not places:
        digits = draw(st.integers(7, 15))
    whole = str(draw(st.integers(10 ** (digits - 1), 10**digits - 1)))
    if form.width:
        return whole[: form.width - 1].rjust(form.width, "0")
    if form.thousands:
        whole = f"{int(whole):,}".replace(",", form.thousands)
    mark = "," if form.comma else "."
    fraction = str(draw(st.integers(1, 10**places - 1))).rjust(places, "0") if places else ""
    prefix, suffix = ("", "")
    if form.family != "plain":
        wanted = [affix for affix in AFFIXES[:-1] if ("%" in affix[1]) == (form.family == "percent")]
        prefix, suffix = draw(st.sampled_from(wanted))
    sign = "+" if form.plus else draw(st.sampled_from(["", "-"]))
    return f"{sign}{prefix}{whole}{mark if places else ''}{fraction}{suffix}"


@given(st.data())
def test_every_form_of_numbers_is_recognized_and_comes_back_as_it_was(data):
    forms = data.draw(st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=8))
    texts = [data.draw(canonical(form)) for form in forms]
    assert [FORMS[place] for place in form_of(pa.array(texts))] == forms
    text = texts[0]
    assert there_and_back(column_for([text], padded=True), [text]) == [text]
