"""A model that does not fit its noisy marginals is reported on the screen, on the page and in the library."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lookalike.measurements import NoisyMarginal
from lookalike.models.graphical import fit
from lookalike.pipeline import synthesize
from lookalike.synthesizers.independent import Independent
from tests.e2e.conftest import Call


@pytest.fixture
def wrong_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The method measures as always, but its model has column c all wrong."""
    measure_and_fit = Independent.fit

    def fit_wrongly(self, door, split, *, rng, progress):
        model = measure_and_fit(self, door, split, rng=rng, progress=progress)
        names = model.domain.names
        tables = {name: model.marginal((name,)) for name in names}
        tables["c"] = np.roll(np.linspace(1, 9, 5) * model.total / 25, 1)
        return fit(model.domain, [NoisyMarginal((name,), tables[name], 0.1) for name in names])

    monkeypatch.setattr(Independent, "fit", fit_wrongly)


@pytest.mark.usefixtures("wrong_fit")
def test_a_misfit_is_reported_on_standard_error_in_json_in_the_report_and_in_the_release(
    call: Call, table: Path, domain: Path, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    run = ("synth", table, "--domain", domain, "-e", 10, "-m", "independent", "-o", tmp_path / "o.csv")
    outcome = call(*run, "--report", page)
    assert outcome.code == 0
    assert "does not explain 1 of 4 noisy measurements" in outcome.err
    assert "Worst: c (" in outcome.err
    assert "does not explain 1 of 4 noisy measurements" in page.read_text(encoding="utf-8")
    assert "does not explain" in json.loads(call(*run, "--json").out)["notes"][0]
    release = synthesize(table, schema=domain, epsilon=10, method="independent", ledger=tmp_path / "ledger")
    assert "Worst: c (" in release.notes[0]
    assert "Worst: c (" in release._repr_html_()


@pytest.mark.parametrize("method", ["independent", "mst", "mosaic", "privsyn"])
def test_a_good_fit_gives_no_notes(call: Call, table: Path, domain: Path, tmp_path: Path, method: str) -> None:
    run = ("synth", table, "--domain", domain, "-e", 10, "-m", method, "-o", tmp_path / "o.csv", "--json")
    assert json.loads(call(*run).out)["notes"] == []
