"""The internal report: stamped on every screen, in its title and in its file's name."""

from __future__ import annotations

import numpy as np
import pytest

from lookalike.evaluate.evaluation import Settings, evaluate_codes
from lookalike.evaluate.report import internal_name, internal_report

from .releases import SCHEMA
from .test_public import Tags


@pytest.fixture(scope="module")
def evaluation():
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(0)
    real, synth = (
        np.column_stack([rng.integers(0, size, 200) for size in SCHEMA.domain.sizes]).astype(np.int32) for _ in "rs"
    )
    questions = ("count where age < 50 and level = low",)
    return evaluate_codes(
        real, synth, SCHEMA, Settings(group_by="level", target="level", svm=True, questions=questions)
    )


def test_page_is_stamped_and_complete(evaluation):
    page = internal_report(evaluation)
    tags = Tags(page)
    assert tags.open == []
    assert "<title>NOT PRIVATE" in page
    assert page.count("NOT PRIVATE") >= 3
    assert 'class="stamp"' in page
    assert ".stamp {\n  position: sticky" in page
    for text in ("Worst 3-way", "Errors by level", "forest", "Linear SVM", "count where age &lt; 50", "14 others"):
        assert text in page, text
    assert not {name for name, _ in tags.found} & {"script", "img", "iframe"}


def test_cheap_evaluation_has_no_empty_sections():
    codes = np.zeros((20, 4), dtype=np.int32)
    page = internal_report(evaluate_codes(codes, codes, SCHEMA))
    assert "Classifiers" not in page
    assert "Errors by" not in page


def test_file_name_always_says_so():
    assert internal_name("out/adult.html").name == "adult.NOT-PRIVATE.html"
    assert internal_name("plain").name == "plain.NOT-PRIVATE.html"
    assert internal_name("a.NOT-PRIVATE.html").name == "a.NOT-PRIVATE.html"
