"""Charts: well-formed, escaped, and true to their numbers."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from lookalike.report.charts import bars, density, heat_map, histogram, lines
from lookalike.report.columns import number_axis
from lookalike.report.page import standalone
from lookalike.schema.binned import Continuous, Datetime, Integer

SVG = "{http://www.w3.org/2000/svg}"


def test_bars_are_proportional_and_whiskers_end_at_the_interval():
    root = ElementTree.fromstring(bars(["a", "<b>"], [10.0, 40.0], [5.0, 30.0], [15.0, 50.0], title="t & t"))
    widths = [float(rect.get("width")) for rect in root.iter(f"{SVG}rect")]
    assert widths[1] == pytest.approx(4 * widths[0], abs=0.4)
    left = float(next(root.iter(f"{SVG}rect")).get("x"))
    path = list(root.iter(f"{SVG}path"))[1].get("d")
    end = float(path.split("H")[1].split("M")[0])
    assert end - left == pytest.approx(50 / 40 * widths[1], abs=0.3)
    assert [text.text for text in root.iter(f"{SVG}text")][2] == "<b>"
    assert root.get("aria-label") == "t & t"


def test_one_lone_row_is_not_a_long_bar():
    def width(reach: float) -> float:
        root = ElementTree.fromstring(bars(["missing"], [0.0], beside=[1.0], reach=reach))
        return float(list(root.iter(f"{SVG}rect"))[1].get("width"))

    assert width(100.0) == pytest.approx(width(0.0) / 100, abs=0.1)


def test_second_series_and_empty_charts():
    root = ElementTree.fromstring(bars(["a"], [10.0], beside=[20.0]))
    one, two = (float(rect.get("width")) for rect in root.iter(f"{SVG}rect"))
    assert two == pytest.approx(2 * one, abs=0.2)
    for chart in (bars([], []), histogram([], []), heat_map([], [], []), bars(["a"], [0.0])):
        ElementTree.fromstring(chart)


def test_histogram_heights():
    root = ElementTree.fromstring(histogram([str(i) for i in range(20)], list(range(20)), beside=[1.0] * 20))
    heights = [float(rect.get("height")) for rect in root.iter(f"{SVG}rect")]
    assert heights[10] == pytest.approx(heights[19] * 10 / 19, abs=0.2)
    assert "19" in [text.text for text in root.iter(f"{SVG}text")]


def test_heat_map_shades_by_value_and_leaves_the_diagonal():
    root = ElementTree.fromstring(
        heat_map(["a", "b"], ["a", "b"], [[1, 0.5], [0.5, 1]], marks=[[0, 1], [1, 0]], diagonal=False)
    )
    shades = [float(rect.get("fill-opacity")) for rect in root.iter(f"{SVG}rect")]
    assert shades == [0.5, 0.5]
    assert len(list(root.iter(f"{SVG}circle"))) == 2


def test_lines_place_points_on_a_logarithmic_axis():
    root = ElementTree.fromstring(
        lines({"one": [(0.1, 1, 0.1), (1, 2, math.nan), (10, 4, 0)]}, x_title="x", y_title="y")
    )
    points = next(root.iter(f"{SVG}polyline")).get("points").split()
    xs = [float(point.split(",")[0]) for point in points]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)
    assert len(list(root.iter(f"{SVG}path"))) == 2


def test_densities_have_areas_in_proportion_to_counts_on_a_true_axis():
    column = Integer("x", minimum=0, maximum=99, bins=(0, 10, 50))
    counts = [100.0, 100.0, 200.0]
    axis = number_axis(column, np.array(counts))
    assert axis["edges"] == [0, 10, 50, 100]
    root = ElementTree.fromstring(density(axis, column.labels(), counts, title="x"))
    boxes = [(float(rect.get("width")), float(rect.get("height"))) for rect in root.iter(f"{SVG}rect")]
    areas = [(width + 1) * height for width, height in boxes]
    assert areas[0] == pytest.approx(areas[1], rel=0.05)
    assert areas[2] == pytest.approx(2 * areas[0], rel=0.05)
    assert boxes[1][0] == pytest.approx(4 * boxes[0][0], rel=0.1)
    assert [text.text for text in root.iter(f"{SVG}text")][1:] == ["0", "20", "40", "60", "80", "100"]


def test_long_tails_are_cut_and_counted():
    column = Continuous("x", minimum=0.0, maximum=1e6, bins=(0.0, 1.0, 2.0, 3.0))
    axis = number_axis(column, np.array([500.0, 400.0, 99.0, 1.0]))
    assert axis["edges"] == [0, 1, 2, 3]
    assert axis["beyond"] == [0, pytest.approx(0.001)]


def test_axes_of_times_and_of_single_points():
    column = Datetime("day", minimum="2020-01-01", maximum="2020-12-31", bins="month")
    axis = number_axis(column, np.ones(12))
    assert axis["ticks"][0][1] == "2020-01-01"
    assert axis["unit_text"] == "30 days"
    assert number_axis(Continuous("x", minimum=2.0, maximum=2.0, bins=1), np.ones(1)) is None


@pytest.mark.parametrize("edges", [(-5.0, 0.0, 5e-324, 5.0), (0.0, 5e-324, 5.0), (0.0, 1.0, float(np.nextafter(1, 2)))])
def test_a_number_with_a_bin_of_its_own_leaves_the_unit_of_the_others(edges: tuple[float, ...]) -> None:
    column = Continuous("x", minimum=edges[0], maximum=10.0, bins=edges)
    axis = number_axis(column, np.ones(column.size))
    assert axis is not None
    assert axis["unit"] in (1.0, 2.0, 5.0, 10.0)


def test_an_axis_of_no_length_is_not_drawn() -> None:
    column = Continuous("x", minimum=0.0, maximum=1e-322, bins=(0.0, 5e-324))
    assert number_axis(column, np.ones(column.size)) is None


def test_the_rest_of_many_values_does_not_flatten_the_others():
    root = ElementTree.fromstring(bars(["a", "75 others"], [10.0, 9000.0], rest=True))
    (rect,) = root.iter(f"{SVG}rect")
    assert float(rect.get("width")) > 150
    assert "9,000 together" in [text.text for text in root.iter(f"{SVG}text")]


def test_many_lines_fit_their_legend():
    series = {f"a method with a long name {i}": [(0.1, 12345.0, 1.0), (1, 2, 0)] for i in range(20)}
    root = ElementTree.fromstring(lines(series, x_title="x", y_title="y"))
    _, _, width, height = map(float, root.get("viewBox").split())
    for text in root.iter(f"{SVG}text"):
        assert float(text.get("y")) <= height
        assert float(text.get("x")) + 6 * len(text.text) * (text.get("text-anchor") == "start") <= width + 10


def test_small_numbers_beside_an_axis_have_room_and_no_exponent():
    root = ElementTree.fromstring(lines({"one": [(0.9, 1.4e-4, 0.0), (1, 2e-5, 0.0)]}, x_title="x", y_title="y"))
    beside = [text for text in root.iter(f"{SVG}text") if text.get("text-anchor") == "end"]
    assert [text.text for text in beside] == ["0", "0.00005", "0.0001", "0.00015"]
    assert all(float(text.get("x")) >= 6 * len(text.text) for text in beside)
    assert {"0.9", "1"} <= {text.text for text in root.iter(f"{SVG}text")}


def test_a_chart_as_a_file_needs_no_style_sheet_and_no_variables():
    text = standalone(lines({"one": [(0.1, 1, 0.1), (1, 2, 0.1)]}, x_title="x", y_title="y"))
    root = ElementTree.fromstring(text)
    assert "var(" not in text
    assert "--" not in text
    assert "svg .whisker { stroke: #" in root.findtext(f"{SVG}style")
    assert len(list(root.iter(f"{SVG}path"))) == 2
