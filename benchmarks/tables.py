"""Writes the README's benchmark table from stored results.

    python benchmarks/tables.py

Reads benchmarks/results/accuracy.jsonl (see accuracy.py) and replaces the part of README.md between its two markers.
"""

from __future__ import annotations

from pathlib import Path

from lookalike.evaluate.compare import read_results, summary

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
BEGIN, END = "<!-- benchmark:begin -->", "<!-- benchmark:end -->"


def benchmark_section() -> str:
    """Mean distances and processor seconds at epsilon 1, one row per method, one column per table."""
    lines = [line for line in read_results(HERE / "results" / "accuracy.jsonl") if line.get("train_share") == 0.8]
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


def _cell(three: dict, five: dict, cpu: dict, key: tuple[str, str, float]) -> str:
    if key not in three:
        return ""
    return f"{three[key][0]:.4f} / {five[key][0]:.4f}, {cpu[key][0]:.0f} s"


def main() -> None:
    before, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    README.write_text(f"{before}{BEGIN}\n{benchmark_section()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
