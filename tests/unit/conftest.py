"""A browser for tests of pages, where there is one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
SCREENS = {"desktop": (1280, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium that can reach this machine alone; skipped, loudly, where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="no browser: the package playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no browser: Chromium is not installed")
    with api.sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        except api.Error as error:
            pytest.skip(f"no browser: Chromium does not start here ({str(error).splitlines()[0]})")
        yield started
        started.close()
