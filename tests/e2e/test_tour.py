"""The notebook that a newcomer reads runs from top to bottom, within the time of its reading."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TOUR = ROOT / "examples" / "tour.ipynb"


def executed() -> Any:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(TOUR, as_version=4)
    place = {"metadata": {"path": ROOT}}
    client = nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources=place)
    client.execute(env=dict(os.environ))
    return notebook


@pytest.mark.filterwarnings("ignore")
def test_the_tour_runs_and_shows_what_it_says() -> None:
    notebook = executed()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    shown = "".join(str(output) for cell in code for output in cell.outputs)
    for words in ("Plan", "Not seen", "Ledger of admissions", "1-way marginals", "only 1 is left"):
        assert words in shown, words
    assert all(output.output_type != "error" for cell in code for output in cell.outputs)


def test_the_tour_is_stored_without_results_and_is_short() -> None:
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(TOUR, as_version=4)
    assert all(not cell.outputs for cell in notebook.cells if cell.cell_type == "code")
    words = sum(len(cell.source.split()) for cell in notebook.cells)
    assert words < 1500  # ten minutes
