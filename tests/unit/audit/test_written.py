"""Features of what a run wrote, and the event with the largest epsilon."""

import numpy as np
import pytest

from lookalike.audit.written import Claim, Event, best_event, features, judge, try_pair


def test_everything_becomes_a_number():
    found = features({"rows": 3, "flag": True, "page": "a b a", "list": [1.5, {"x": 2}], "none": None})
    assert found == {
        "rows": 3.0, "flag": 1.0, "page: length": 5.0, "page: a": 2.0, "page: b": 1.0, "list: length": 2.0,
        "list/0": 1.5, "list/1/x": 2.0,
    }  # fmt: skip


def test_the_planted_event_is_found_on_either_side():
    rng = np.random.default_rng(0)
    left = [{"noise": float(rng.normal()), "n": 10.0} for _ in range(20)]
    right = [{"noise": float(rng.normal()), "n": 11.0} for _ in range(20)]
    for one, two in ((left, right), (right, left)):
        event = best_event(one, two, 1e-6)
        assert event.feature == "n"
        assert event.happened(one[0] if event.left else two[0])
        assert not event.happened(two[0] if event.left else one[0])


def test_a_missing_feature_is_below_every_threshold():
    left, right = [{"t: SECRET": 1.0}] * 10, [{}] * 10
    event = best_event(left, right, 0.0)
    assert event == Event("t: SECRET", event.threshold, event.above, event.left)
    assert event.happened({"t: SECRET": 1.0}) != event.happened({})


def test_no_event_where_all_is_the_same():
    assert best_event([{"a": 1.0}] * 5, [{"a": 1.0}] * 5, 0.0) is None
    finding = judge([{"a": 1.0}] * 9, [{"a": 1.0}] * 9, Claim(1.0, 1e-5), 1e-6)
    assert finding.epsilon == 0
    assert not finding.broken


@pytest.mark.parametrize(("scale", "broken"), [(1.0, False), (0.1, True)])
def test_laplace_noise_of_the_right_scale_passes_and_a_tenth_of_it_does_not(scale, broken):
    rng, noise = np.random.default_rng(1), np.random.default_rng(2)
    finding = try_pair(
        lambda: {"count": 10 + noise.laplace(0, scale)},
        lambda: {"count": 11 + noise.laplace(0, scale)},
        Claim(1.0, 0.0),
        runs=300,
        rng=rng,
    )
    assert finding.broken == broken
    assert finding.epsilon <= finding.detectable
