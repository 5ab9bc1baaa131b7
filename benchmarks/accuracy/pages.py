"""Writes the benchmark tables of the README and of docs/mosaic.md from stored results.

    python benchmarks/tables.py

Reads benchmarks/results/accuracy.jsonl (see accuracy.py) and replaces the parts between two markers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lookalike.evaluate.compare import Result, read_results, summary

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
MOSAIC = HERE.parent / "docs" / "mosaic.md"

GOALS = {
    ("nltcs", 0.1): "0.0283 / 0.0617",
    ("nltcs", 1.0): "0.0045 / 0.0125",
    ("nltcs", 3.2): "0.0032 / 0.0077",
    ("acs", 1.0): "0.0036 / 0.0080",
    ("adult", 0.1): "0.107 / 0.227",
    ("adult", 1.0): "0.0410 / 0.120",
    ("adult", 3.2): "0.034 / 0.109",
    ("br2000", 0.1): "0.066",
    ("br2000", 1.0): "0.0235 / 0.078",
}
SVM_GOALS = {"nltcs": 0.1361, "acs": 0.1085, "adult": 0.2564, "br2000": 0.3017}


def benchmark_section() -> str:
    """Mean distances and processor seconds at epsilon 1, one row per method, one column per table."""
    lines = _lines()
    three, five, cpu = (summary(lines, measure) for measure in ("tvd.3", "tvd.5", "cpu_seconds"))
    tables = sorted({table for table, _, epsilon in three if epsilon == 1})
    methods = sorted({method for _, method, epsilon in three if epsilon == 1})
    text = [
        "Mean total variation distance of 300 random 3-way / 5-way marginals between the training rows and as many\n"
        "synthetic rows (lower is better), and CPU seconds on one core; epsilon 1, delta 1e-5, 80 % of the rows; mean\n"
        "of stored runs in [benchmarks/results](benchmarks/results). `resample` is a fresh sample of real rows: no\n"
        "privacy at all.",
        "",
        "| method | " + " | ".join(tables) + " |",
        "|---|" + "---|" * len(tables),
    ]
    for method in methods:
        cells = [_cell(three, five, cpu, (table, method, 1.0)) for table in tables]
        text.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(text)


def mosaic_section() -> str:
    """All budgets of mosaic with the goals set for it, one row per table and epsilon."""
    lines = [line for line in _lines() if line["method"] == "mosaic"]
    names = ("tvd.3", "tvd.5", "svm_error", "cpu_seconds", "peak_mb")
    three, five, svm, cpu, memory = (summary(lines, name) for name in names)
    text = ["| table | epsilon | runs | 3-way / 5-way | goal | SVM error (goal, runs) | CPU s | MB |", "|" + "---|" * 8]
    for key in sorted(three, key=lambda key: (key[2], key[0])):
        table, _, epsilon = key
        mean, spread, runs = three[key]
        plus = f" ±{spread:.4f}" if runs > 1 else ""
        goal = SVM_GOALS.get(table, "")
        error = f"{svm[key][0]:.4f} ({goal}, {svm[key][2]})" if key in svm else ""
        text.append(
            f"| {table} | {epsilon:g} | {runs} | {mean:.4f}{plus} / {five[key][0]:.4f} | "
            f"{GOALS.get((table, epsilon), '')} | "
            f"{error} | {cpu[key][0]:.0f} | {memory[key][0]:.0f} |"
        )
    return "\n".join(text)


def _lines() -> list[Result]:
    return [line for line in read_results(HERE / "results" / "accuracy.jsonl") if line.get("train_share") == 0.8]


def _cell(three: dict, five: dict, cpu: dict, key: tuple[str, str, float]) -> str:
    if key not in three:
        return ""
    return f"{three[key][0]:.4f} / {five[key][0]:.4f}, {cpu[key][0]:.0f} s"


def replace_parts(page: Path, parts: Mapping[str, str]) -> None:
    """Writes each part of a page anew, between its markers `<!-- name:begin -->` and `<!-- name:end -->`."""
    text = page.read_text(encoding="utf-8")
    for name, content in parts.items():
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        head, rest = text.split(begin)
        text = f"{head}{begin}\n{content.strip()}\n{end}{rest.split(end)[1]}"
    page.write_text(text, encoding="utf-8")


def main() -> None:
    replace_parts(README, {"benchmark": benchmark_section()})
    replace_parts(MOSAIC, {"benchmark": mosaic_section()})


if __name__ == "__main__":
    main()
