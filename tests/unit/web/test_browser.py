"""The page in a real browser: every step on two screens, the whole way by hand, without script, on paper."""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from ..conftest import SCREENS
from .serving import Served, serving
from .test_way import slow

AXE = "async () => (await axe.run({iframes: false})).violations.map(v => [v.id, v.impact, v.nodes.map(n => n.html)])"
EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def axe() -> str:
    pytest.importorskip("axe_core_python", reason="no browser: the package axe-core-python is not installed")
    return (files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")


class Visit:
    """One browser that was let in, and all that it complained about."""

    def __init__(
        self, browser: Any, served: Served, screen: str, scheme: str, axe: str, *, script: bool = True
    ) -> None:
        self.width, height = SCREENS[screen]
        size = {"width": self.width, "height": height}
        self.context = browser.new_context(viewport=size, color_scheme=scheme, java_script_enabled=script)
        self.context.add_init_script(axe)
        self.context.set_default_timeout(120_000)  # machines are busy while tests run
        self.page, self.served, self.complaints = self.context.new_page(), served, []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(served.page.keys.address)
        self.page.wait_for_url(f"{served.origin}/")

    def go(self, path: str) -> None:
        self.page.goto(self.served.origin + path)

    def look(self, folder: Path | None = None, name: str = "") -> None:
        """Check what every page must be: not too wide, without complaint or serious fault for assistive tools."""
        self.page.wait_for_load_state("networkidle")
        assert self.page.evaluate("document.documentElement.scrollWidth") <= self.width
        found = self.page.evaluate(AXE)
        assert [fault for fault in found if fault[1] in ("serious", "critical")] == []
        assert self.page.locator("h1").count() == 1
        assert self.complaints == []
        if folder is not None:
            self.page.screenshot(path=folder / f"{name}.png", full_page=True)


@pytest.mark.parametrize(("screen", "scheme"), [("desktop", "light"), ("phone", "dark")])
def test_every_step_fits_the_screen_and_assistive_tools(browser, served, axe, screen, scheme, tmp_path) -> None:
    visit = Visit(browser, served, screen, scheme, axe)
    table = served.table("people.csv")
    for path in ("/", table, f"{table}/schema", f"{table}/budget", f"{table}/run", f"{table}/result", "/ledger"):
        visit.go(path)
        visit.look(tmp_path, path.replace("/", "-"))
    background = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(part) for part in background.strip("rgb()").split(",")[:3])
    assert (brightness > 600) == (scheme == "light")
    visit.context.close()


def fill(visit: Visit, name: str, kind: str, **fields: str) -> None:
    """Fill one column of the schema form."""
    column = visit.page.locator(f'fieldset.column[data-name="{name}"]')
    column.locator("select").first.select_option(kind)
    for field, value in fields.items():
        place = column.locator(f'[name^="{field}-"]')
        place.select_option(value) if field == "missing" else place.fill(value)
    visit.page.keyboard.press("Tab")


def saved(visit: Visit) -> None:
    """Wait until the page has saved what was typed."""
    visit.page.wait_for_selector("#saved:text-is('Saved')")


def by_hand(visit: Visit, table: str) -> None:
    """Declare the columns of the small table by hand, with a mistake that is explained and corrected."""
    page = visit.page
    visit.go(f"{table}/schema")
    fill(visit, "age", "integer", low="18", high="eighty", missing="never")
    page.wait_for_selector("text='eighty' as a bound")
    fill(visit, "age", "integer", low="0", high="120")
    fill(visit, "sex", "category", listed="F, M", missing="never")
    fill(visit, "town", "category", listed="Ulm, Graz, Bern", missing="never")
    fill(visit, "weight", "drop")
    saved(visit)
    page.reload()
    assert page.input_value('fieldset[data-name="town"] [name^="listed-"]') == "Ulm, Graz, Bern"
    assert page.locator('fieldset[data-name="sex"] .origin-declared').count() == 3
    assert page.locator(".mistake").count() == 0
    visit.look()
    page.click("button[value=next]")
    page.wait_for_url("**/budget")


def choose_epsilon(visit: Visit) -> None:
    page = visit.page
    page.locator("#slider").focus()
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    saved(visit)
    assert float(page.input_value("#epsilon")) == pytest.approx(2.0)
    assert page.locator("#means h2").first.inner_text().startswith("Moderate")
    page.click("text=Method and details")
    page.select_option("select[name=method]", "mst")
    saved(visit)
    page.click("button[value=next]")
    page.wait_for_url("**/run")
    assert page.locator(".facts").inner_text().startswith("ε = 2")


def ask_and_download(visit: Visit, question: str) -> list[list[str]]:
    """Ask a question on the page of a result, and return the rows of the downloaded table."""
    page = visit.page
    page.fill("input[name=question]", question)
    page.press("input[name=question]", "Enter")
    page.wait_for_selector(f"section h3:text('{question}')")
    with page.expect_download() as waiting:
        page.click("text=The synthetic table")
    with open(waiting.value.path(), newline="", encoding="utf-8") as stream:
        return list(csv.reader(stream))


def test_the_way_by_hand_from_a_raw_table_to_a_release(browser, served, axe) -> None:
    visit = Visit(browser, served, "desktop", "light", axe)
    table, page = served.table("people.csv"), visit.page
    served.post(f"{table}/schema/import", {"action": "reset"})
    by_hand(visit, table)
    choose_epsilon(visit)
    page.go_back()
    assert page.url.endswith("/budget")
    page.go_forward()
    page.click("button.main")
    page.wait_for_url("**/result", timeout=120_000)
    visit.look()
    rows = ask_and_download(visit, "mean of age by sex")
    assert rows[0] == ["age", "sex", "town"]
    frame = page.frame_locator("iframe.report")
    assert frame.locator("h2#guarantee").inner_text() == "What is guaranteed"
    page.emulate_media(media="print")
    assert not page.locator("nav.steps").is_visible()
    assert visit.complaints == []
    visit.context.close()


def test_everything_works_without_script(browser, served, axe) -> None:
    visit = Visit(browser, served, "phone", "light", axe, script=False)
    table, page = served.table("inner/more.csv"), visit.page
    visit.go(f"{table}/schema")
    fill(visit, "x", "integer", low="0", high="9", missing="never")
    fill(visit, "y", "category", listed="1, 2", missing="never")
    page.click("button[value=save]")
    assert page.input_value("[name=high-0]") == "9"
    visit.go(f"{table}/budget")
    assert not page.locator("#slider").is_visible()
    page.fill("[name=epsilon]", "0.5")
    page.click("button[value=save]")
    assert "ε = 0.5" in page.locator("#means").inner_text()
    visit.context.close()


# The long way: the example and a raw table, cancelled and resumed, on both screens.


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    folder = tmp_path / "tables"
    folder.mkdir()
    for name in ("admissions.csv", "admissions.yaml"):
        shutil.copy(EXAMPLES / name, folder / name)
    monkeypatch.setenv("LOOKALIKE_LEDGERS", str(tmp_path / "ledgers"))
    with serving(folder) as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize(("screen", "scheme"), [("desktop", "light"), ("phone", "dark")])
@pytest.mark.parametrize("with_schema", [True, False], ids=["declared", "raw"])
def test_the_long_way(
    browser, example, axe, screen, scheme, with_schema, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    visit = Visit(browser, example, screen, scheme, axe)
    page = visit.page
    page.click("text=admissions.csv")
    visit.look(tmp_path, "table")
    page.click("text=Continue to the schema")
    if with_schema:
        page.select_option("select[name=file]", "admissions.yaml")
        page.click("button[value=file]")
        page.wait_for_selector("text=The schema is complete")
    visit.look(tmp_path, "schema")
    page.click("button[value=next]")
    page.wait_for_url("**/budget")
    visit.look(tmp_path, "budget")
    page.click("button[value=next]")
    page.wait_for_url("**/run")
    visit.look(tmp_path, "run")

    hook = tmp_path / "hook"
    hook.mkdir()
    with monkeypatch.context() as patched:
        slow(patched, hook)
        page.click("button.main")
        page.wait_for_url(re.compile(r"/runs/1$"), timeout=120_000)
        page.wait_for_selector("#message:not(:text-is('reading the table')):not(:text-is('starting'))", timeout=120_000)
        page.screenshot(path=tmp_path / "going.png")
        page.click("text=Cancel the run")
        page.wait_for_selector("text=Resume the run", timeout=60_000)
    visit.look(tmp_path, "interrupted")
    page.click("text=Resume the run")
    page.wait_for_url("**/result", timeout=600_000)
    visit.look(tmp_path, "result")
    rows = ask_and_download(visit, "count by sex")
    assert len(rows[0]) == 16
    assert abs(len(rows) - 20_000) < 500

    page.click("text=Go to the comparison")
    page.check("[name=understood]")
    page.click("button.main")
    page.wait_for_selector("iframe.report", timeout=300_000)
    visit.look(tmp_path, "comparison")
    page.click("text=Ledger")
    assert page.locator("tbody tr").count() == 1
    visit.look(tmp_path, "ledger")
    visit.context.close()
