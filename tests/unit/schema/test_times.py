"""Times as texts: English names in any locale, dates that exist, offsets, and every known format there and back."""

import locale
import warnings
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike.schema import times
from lookalike.schema.binned import Datetime
from lookalike.schema.storage import to_array, to_numbers
from lookalike.schema.text_forms import FORMS, form_of

FORMATS = sorted({form.format for form in FORMS if form.format})
MICRO = timedelta(microseconds=1)


def micros(*parts):
    return (datetime(*parts) - datetime(1970, 1, 1)) // MICRO


@given(st.data())
def test_every_format_of_the_table_comes_back_as_it_was(data):
    format = data.draw(st.sampled_from(FORMATS))
    when = data.draw(st.datetimes(datetime(1969, 1, 1), datetime(2068, 12, 31)))
    zone = times.offset_zone(data.draw(st.sampled_from(["+01:00", "-03:30", "UTC"])))
    text = times.written(np.array([(when - datetime(1970, 1, 1)) // MICRO]), format, zone)
    found, readable = times.read(text, format, zone)
    assert readable.all()
    assert times.written(found, format, zone).equals(text)
    named = FORMS[form_of(text)[0]]
    assert named.family == "time"
    # One text may fit several formats; the first of the table must read and write it alike.
    again, readable = times.read(text, named.format, zone)
    assert readable.all()
    assert times.written(again, named.format, zone).equals(text)


@given(st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 31)))
def test_codes_write_what_python_writes(when):
    format = "%Y %y %m %d %b %B %a %A %H %I %M %S %f %p"
    found = times.written(np.array([(when - datetime(1970, 1, 1)) // MICRO]), format)
    assert found.to_pylist() == [when.strftime(format)]


@pytest.mark.parametrize(
    ("format", "text", "wanted"),
    [
        ("%d %b %Y", "13 Oct 2014", micros(2014, 10, 13)),
        ("%d %b %Y", "3 OCTOBER 2014", micros(2014, 10, 3)),
        ("%b %-d, %Y", "Oct 03, 2014", micros(2014, 10, 3)),
        ("%d-%b-%y", "01-Jan-69", micros(1969, 1, 1)),
        ("%d-%b-%y", "31-Dec-68", micros(2068, 12, 31)),
        ("%Y-%m", "2014-10", micros(2014, 10, 1)),
        ("%H:%M:%S", "02:02:23", micros(1970, 1, 1, 2, 2, 23)),
        ("%-I:%M %p", "12:05 am", micros(1970, 1, 1, 0, 5)),
        ("%-I:%M %p", "12:05 PM", micros(1970, 1, 1, 12, 5)),
        ("%H:%M:%S.%f", "00:00:00.5", 500_000),
        ("%Y%m%d%H", "2014101317", micros(2014, 10, 13, 17)),
        ("%Y-%m-%dT%H:%M%:z", "2014-10-13T12:00+01:00", micros(2014, 10, 13, 11)),
        ("%Y-%m-%dT%H:%M%z", "2014-10-13T12:00-0330", micros(2014, 10, 13, 15, 30)),
        ("%Y-%m-%dT%H:%M%:z", "2014-10-13T12:00Z", micros(2014, 10, 13, 12)),
        ("%d %b %Y", "31 Feb 2014", None),
        ("%d %b %Y", "29 Feb 2015", None),
        ("%d %b %Y", "0 Feb 2015", None),
        ("%d %b %Y", "13 Okt 2014", None),
        ("%m/%Y", "13/2014", None),
        ("%H:%M", "24:00", None),
        ("%H:%M:%S", "71:12:00", None),
        ("%-I:%M %p", "13:05 PM", None),
        ("%-I:%M %p", "0:05 PM", None),
        ("%d %b %Y", None, None),
    ],
)
def test_reading(format, text, wanted):
    found, readable = times.read(pa.array([text], pa.string()), format, UTC)
    assert readable.tolist() == [wanted is not None]
    assert wanted is None or found.tolist() == [wanted]


@pytest.mark.parametrize("name", ["de_DE.UTF-8", "fr_FR.UTF-8", "C"])
def test_names_are_english_in_any_locale(name):
    before = locale.setlocale(locale.LC_TIME)
    try:
        locale.setlocale(locale.LC_TIME, name)
    except locale.Error:
        pytest.skip(f"no locale {name}")
    try:
        column = Datetime("x", format="%d %b %Y")
        numbers, readable = to_numbers(column, pa.array(["13 Oct 2014", "13 Dec 2014"]))
        assert readable.all()
        assert to_array(column, numbers, ~readable, pa.string()).to_pylist() == ["13 Oct 2014", "13 Dec 2014"]
    finally:
        locale.setlocale(locale.LC_TIME, before)


def test_several_offsets_become_the_one_of_the_column():
    texts = pa.array(["2014-10-13T12:00:00+01:00", "2014-10-13T12:00:00-05:00"])
    column = Datetime("x", format="%Y-%m-%dT%H:%M:%S%:z", zone="+01:00")
    numbers, readable = to_numbers(column, texts)
    written = to_array(column, numbers, ~readable, pa.string()).to_pylist()
    assert written == ["2014-10-13T12:00:00+01:00", "2014-10-13T18:00:00+01:00"]


@given(st.datetimes(datetime(1990, 1, 1), datetime(2030, 1, 1), timezones=st.just(ZoneInfo("Europe/Paris"))))
def test_a_named_zone_has_the_offset_of_each_time(when):
    when = when.astimezone(UTC).astimezone(ZoneInfo("Europe/Paris")).replace(microsecond=0)
    if when.fold:
        return  # the hour that comes twice is written as its first
    column = Datetime("x", format="%Y-%m-%dT%H:%M:%S%:z", zone="Europe/Paris")
    text = when.isoformat()
    numbers, readable = to_numbers(column, pa.array([text]))
    assert to_array(column, numbers, ~readable, pa.string()).to_pylist() == [text]


@pytest.mark.parametrize("zone", ["UTC", "+14:00", "Europe/Paris", "America/New_York"])
def test_times_at_the_ends_of_the_calendar_never_fail(zone):
    texts = [f"{year}-{rest}{offset}" for year in ("0001", "9999") for rest in ("01-01T00:00:00", "12-31T23:59:59")
             for offset in ("+14:00", "-14:00", "+99:99")]  # fmt: skip
    column = Datetime("x", format="%Y-%m-%dT%H:%M:%S%:z", zone=zone)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        numbers, readable = to_numbers(column, pa.array(texts))
        assert readable.all()
        assert len(to_array(column, numbers.clip(-(10**11), 10**11), ~readable, pa.string())) == len(texts)


def test_formats_with_other_codes_go_through_python():
    column = Datetime("x", format="%Y day %j")
    assert not times.known(column.format)
    numbers, readable = to_numbers(column, pa.array(["2014 day 286", "none"]))
    assert readable.tolist() == [True, False]
    assert to_array(column, numbers[:1], ~readable[:1], pa.string()).to_pylist() == ["2014 day 286"]
