"""All pages in a real browser without network: light and dark, desktop and phone, with and without script, on paper.

Needs Chromium (Debian's `chromium`, say) and the package playwright; the summary of the tests says so where they lack.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lookalike.evaluate.evaluation import evaluate_codes
from lookalike.evaluate.report import comparison_report, internal_report
from lookalike.report.public import About, public_numbers, public_report

from ..conftest import SCREENS
from .releases import SCHEMA, Account, bars, model

PAGES = ("public", "internal", "comparison")

CLIPPED = """() => [...document.querySelectorAll("svg")].flatMap(svg => {
  const view = svg.viewBox.baseVal;
  return [...svg.querySelectorAll("text")].filter(text => !text.hasAttribute("transform")).filter(text => {
    const box = text.getBBox();
    const outside = box.x < -1 || box.x + box.width > view.width + 1;
    return box.width > 0 && (outside || box.y < -2 || box.y + box.height > view.height + 2);
  }).map(text => text.textContent);
})"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    rng = np.random.default_rng(0)
    real, synth = (np.column_stack([rng.integers(0, n, 300) for n in SCHEMA.domain.sizes]).astype("i4") for _ in "rs")
    about = About("Town survey", "The Office", "ask@office.example", "2024-05-06")
    runs = [
        {
            "table": "people.csv",
            "method": f"method {m}",
            "epsilon": e,
            "repeat": r,
            "tvd": {"1": 0.2 / e + m / 50 + r / 99},
        }
        for m in range(12)
        for e in (0.1, 0.32, 1.0, 3.2)
        for r in (0, 1)
    ]
    texts = {
        "public": public_report(public_numbers(SCHEMA, model(), Account(), bars(), published=synth, about=about)),
        "internal": internal_report(evaluate_codes(real, synth, SCHEMA)),
        "comparison": comparison_report(runs),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


def opened(browser, path: Path, screen: str, scheme: str = "light", *, script: bool = True):
    """A page and the list of all that the browser complains about."""
    width, height = SCREENS[screen]
    size = {"width": width, "height": height}
    context = browser.new_context(viewport=size, color_scheme=scheme, offline=True, java_script_enabled=script)
    page, complaints = context.new_page(), []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "request",
        lambda request: None if request.url.startswith(("file:", "data:")) else complaints.append(request.url),
    )
    page.goto(path.as_uri())
    return page, complaints


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_pages_are_shown_without_network_or_complaint(browser, pages, name, scheme, screen, tmp_path):
    page, complaints = opened(browser, pages[name], screen, scheme)
    assert complaints == []
    assert page.evaluate("document.documentElement.scrollWidth") <= SCREENS[screen][0]
    assert page.locator("svg").count() > 0
    assert page.evaluate(CLIPPED) == []
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(part) for part in background.strip("rgb()").split(",")[:3])
    assert (brightness > 600) == (scheme == "light")
    shot = page.screenshot(path=tmp_path / f"{name}.png", full_page=True)
    assert len(shot) > 20_000
    page.context.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_charts_and_tables_of_a_comparison_are_seen_whole(browser, pages, screen):
    page, _ = opened(browser, pages["comparison"], screen)
    hidden = "() => [...document.querySelectorAll('.beside > .scroll')].map(box => box.scrollWidth - box.clientWidth)"
    assert max(page.evaluate(hidden)) <= 1
    page.context.close()


def test_columns_are_found_by_their_names(browser, pages):
    page, complaints = opened(browser, pages["public"], "desktop")
    assert page.locator("details.column:visible").count() == len(SCHEMA.columns)
    page.fill("#search", "TOW")
    assert page.locator("details.column:visible").get_attribute("data-name") == "town"
    page.fill("#search", "nothing of the kind")
    assert page.locator("details.column:visible").count() == 0
    assert page.locator("#none-found").is_visible()
    page.fill("#search", "")
    page.click("#close-all")
    assert page.locator("details.column[open]").count() == 0
    page.click("#open-all")
    assert page.locator("details.column[open]").count() == len(SCHEMA.columns)
    assert complaints == []


def test_the_public_report_is_complete_without_script(browser, pages):
    page, _ = opened(browser, pages["public"], "phone", script=False)
    assert page.locator("details.column").count() == len(SCHEMA.columns)
    assert not page.locator("#tools").is_visible()
    assert page.locator("details.column svg").first.is_visible()


def test_print_begins_with_the_summary_on_one_page(browser, pages, tmp_path):
    page, _ = opened(browser, pages["public"], "desktop", "dark")
    page.emulate_media(media="print")
    assert "255, 255, 255" in page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert page.evaluate("getComputedStyle(document.querySelector('#summary')).breakAfter") == "page"
    styles = "getComputedStyle(document.querySelector('{}')).{}"
    assert page.evaluate(styles.format("h2 + p", "breakInside")) == "avoid"  # no paragraph is split
    assert page.evaluate(styles.format("tr:first-child", "breakAfter")) == "avoid"  # no heading of a table alone
    # Head and summary together fit a sheet of A4: 297 mm less margins, at 96 dots per inch and its narrower width.
    page.set_viewport_size({"width": 688, "height": 1000})
    assert page.evaluate("document.querySelector('#summary').getBoundingClientRect().bottom") < 1000
    page.pdf(path=tmp_path / "page.pdf", format="A4")
    assert (tmp_path / "page.pdf").stat().st_size > 20_000
