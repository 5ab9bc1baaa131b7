"""The public report in a real browser without network: it is shown, and nothing is fetched or reported as an error."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from lookalike.report.public import public_numbers, public_report

from .releases import SCHEMA, Account, bars, model

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--host-resolver-rules=MAP * ~NOTFOUND",
]


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_opens_without_network_or_complaint(tmp_path):
    page = tmp_path / "report.html"
    page.write_text(public_report(public_numbers(SCHEMA, model(), Account(), bars())), encoding="utf-8")
    command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if "</html>" not in run.stdout:
        pytest.skip("Chromium does not start here")
    assert "What is guaranteed" in run.stdout
    assert ":CONSOLE" not in run.stderr
    assert "Refused to" not in run.stderr
