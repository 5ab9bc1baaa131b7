"""Property tests draw the same examples in every run, so that a failure is the change's and not the day's.

HYPOTHESIS_PROFILE=search looks for new examples instead.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_terminal_summary(terminalreporter) -> None:
    """Say loudly what was not tried: pages where there is no browser, Spark where there is no Java."""
    skipped = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    if any("no browser" in reason for reason in skipped):
        text = "NO BROWSER: reports and the local page were not opened. Install chromium and the package playwright."
        terminalreporter.write_sep("!", text, red=True, bold=True)
    if any("no Java" in reason for reason in skipped):
        text = "NO JAVA: tables of Spark were not tested. Install Java 17 or 21, such as openjdk-17-jre-headless."
        terminalreporter.write_sep("!", text, red=True, bold=True)
