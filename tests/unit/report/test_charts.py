"""Charts: well-formed, escaped, and true to their numbers."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree

import pytest

from lookalike.report.page import bars, heat_map, histogram, lines

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
