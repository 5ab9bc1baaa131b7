"""Writes docs/reproductions/bsg.md and its plots from the stored results of bsg.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.common import REPRODUCTIONS as FOLDER
from benchmarks.common import Line, markdown
from benchmarks.papers import bsg_large_document as large
from benchmarks.papers.bsg_plots import bars, boxes, lines_plot

Results = dict[str, list[dict[str, Any]]]
"""The results of each experiment, one for every repeat."""
SHORT = {
    "marital-status": "marital",
    "hours-per-week": "hours",
    "native-country": "country",
    "relationship": "relation",
}
TABLES = ("reals", "marginals", "omega 11", "omega 10", "omega 9", "omega 9-11", "omega 5-11", "histogram of 4")
PAPER_3 = {
    "reals": (77.8, 80.4, 79.3, 80.2, 86.4, 92.4),
    "marginals": (57.9, 63.8, 69.2, 58.5, 65.4, 75.6),
    "omega 11": (72.4, 75.3, 78.0, 73.9, 79.0, 83.0),
    "omega 10": (72.3, 75.2, 78.1, 73.8, 78.9, 83.6),
    "omega 9": (72.4, 75.2, 77.5, 73.9, 79.2, 82.4),
    "omega 9-11": (72.3, 75.2, 78.1, 73.7, 79.0, 83.9),
    "omega 5-11": (72.1, 75.2, 78.1, 73.6, 79.2, 83.3),
}
PAPER_4 = {
    "non-private": (79.9, 78.5),
    "output": (69.7, 76.2),
    "objective": (76.3, 78.2),
    "marginals": (68.9, 68.9),
    "omega 11": (77.6, 77.2),
    "omega 10": (77.7, 77.1),
    "omega 9": (77.5, 77.1),
    "omega 9-11": (77.5, 76.9),
    "omega 5-11": (77.7, 77.3),
}
PAPER_5 = {
    "reals": (50, 50),
    "marginals": (79.8, 73.2),
    "omega 11": (62.3, 58.9),
    "omega 10": (61.8, 58.6),
    "omega 9": (63.0, 59.8),
    "omega 9-11": (60.1, 57.9),
    "omega 5-11": (61.4, 58.4),
}


def write(lines: list[Line]) -> None:
    """Write the page and its plots."""
    results: Results = {}
    for line in lines:
        results.setdefault(line["experiment"], []).append(line["result"])
    FOLDER.mkdir(parents=True, exist_ok=True)
    sections: list[Callable[[Results], str]] = [
        _intro, _price, _figures_1_2, _figures_3_4, _table_3, _table_4, _table_5, _figure_5, _figure_6,
        large.shape, lambda found: large.figure_1(found, FOLDER), large.figures_3_4, large.variants, large.table_4,
        large.speed,
    ]  # fmt: skip
    (FOLDER / "bsg.md").write_text("\n".join(section(results) for section in sections), encoding="utf-8")


def _intro(results: Results) -> str:
    cut = max(len(found) for found in results.values())
    return f"""# Plausible deniability (BSG), reproduced on Adult

Bindschaedler, Shokri, Gunter: *Plausible Deniability for Privacy-Preserving Data Synthesis* (VLDB 2017). Written by
`python -m benchmarks.papers bsg document` from [stored results](../../benchmarks/results/bsg.jsonl);
means of {cut} random splits.

The paper uses 1.5 million rows of the American Community Survey. Adult has the same eleven columns and 45,222 rows,
of which 60 % are learnt from, 20 % are 'other reals' and 20 % test classifiers, so numbers are compared in kind,
not digit by digit: accuracies on Adult are higher throughout, since three quarters of its rows have the lower
income. Epsilon is 1 and delta 1e-9 unless said. `marginals` is our method `independent`. `omega 11` is our `bsg`:
no seeds, (1, 1e-9)-differentially private for any number of rows. Rows of the other omegas are made as in the
paper, with k = 50: **each is deniable, but a table of them has no guarantee**; see the price. `histogram of 4` is
our private replacement of seeds: one noisy histogram of the first four columns, half of the budget, any number of
rows.

Three settings of `bsg` (parent_values, usefulness, prior) were chosen by the mean distance of 3-way marginals on
Adult, NLTCS, ACS and BR2000, from 15 combinations with two runs each. Adult is one of these tables, so its numbers
flatter the method a little. 'No noise' below is epsilon 1000.
"""


def _price(results: Results) -> str:
    rows = []
    for key, found in results["price"][0].items():
        n, count = (f"{int(part):,}" for part in key.split("/"))
        most = int(key.split("/")[0])
        needed = [
            f"{found[name]:,}" if (found[name] or most + 1) <= most else "none" for name in ("paper", "tight", "ours")
        ]
        rows.append([n, count, *needed])
    table = _table(["seed rows", "rows released", "k, paper's theorem", "k, tight constants", "k, our account"], rows)
    return f"""## What a table of seeded rows costs

The k that a release of so many rows needs for epsilon 1 and delta 1e-9 in all, each at its best threshold
noise, and nothing spent on the network:

{table}

The paper prices one row (its k = 50 is enough for one) and leaves composition to the reader. 'Paper' and 'tight'
compose the (epsilon, delta) of one row; 'tight' uses the constants of [the proof](../proofs/seeded_rows.md), which
exact probabilities check. 'Our account' adds that a person's class of rows is hit with probability about
k/n only, which bounds the Renyi divergence of one row by order k/n epsilon0^2; it also covers the event 'nothing
released', which the paper's theorem leaves out. Asking `bsg` for 10,000 seeded rows with k = 50 at epsilon 1 and
delta 1e-9 is refused with these numbers, before the network is paid for.
"""


def _figures_1_2(results: Results) -> str:
    found = results["models"]
    names = list(found[0])
    labels = [SHORT.get(name, name) for name in names]
    runs = {key: np.array([[one[name][key] for name in names] for one in found]) for key in found[0][names[0]]}
    usual = runs["marginals"]
    gained = {
        f"epsilon {key}" if key != "none" else "no noise": 100 * (runs[f"model {key}"] - usual) / (1 - usual)
        for key in ("none", "1", "0.1")
    }
    right = {
        label: 100 * runs[key]
        for label, key in (
            ("network", "model none"),
            ("forest", "forest"),
            ("marginals", "marginals"),
            ("random", "random"),
        )
    }
    for number, series, title in ((1, gained, "fewer errors than marginals, %"), (2, right, "right guesses, %")):
        (FOLDER / f"bsg-figure{number}.svg").write_text(bars(labels, *_means_and_errors(series), title))
    (gains, _), (accuracy, _) = _means_and_errors(gained), _means_and_errors(right)
    rows = [
        [label, *(f"{values[i]:.1f}" for values in (*gains.values(), *accuracy.values()))]
        for i, label in enumerate(labels)
    ]
    heads = ["column", *(f"gain, {name}, %" for name in gains), *(f"{name}, %" for name in accuracy)]
    return f"""## Model accuracy (Figures 1 and 2)

How much less often than the commonest value the network's likeliest value, given all other columns, is wrong; and
how often it is right, without noise, beside a random forest. Whiskers are standard errors over the splits.

![Figure 1](bsg-figure1.svg) ![Figure 2](bsg-figure2.svg)

{_table(heads, rows)}

As in the paper: clear gains over marginals for most columns, and little loss at epsilon 1; at epsilon 0.1 the 27,000
rows here (280,000 there) show the noise. Workclass, hours and country gain nothing even without noise, and the forest
gains next to nothing there. Below, at the paper's number of rows, both differences nearly go.
"""


def _means_and_errors(runs: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Means over repeats, and their standard errors, of every series."""
    errors = {name: values.std(axis=0, ddof=1) / np.sqrt(len(values)) for name, values in runs.items()}
    return {name: values.mean(axis=0) for name, values in runs.items()}, errors


def _figures_3_4(results: Results) -> str:
    found = results["distances"]
    rows = []
    for ways, figure in ((1, 3), (2, 4)):
        values = {name: np.mean([one[f"{name}/{ways}"] for one in found], axis=0) for name in TABLES}
        (FOLDER / f"bsg-figure{figure}.svg").write_text(boxes(values, "total variation distance"))
        for name, distances in values.items():
            rows.append(
                [f"{'columns' if ways == 1 else 'pairs'}", name, f"{np.mean(distances):.4f}", f"{max(distances):.4f}"]
            )
    return f"""## Statistical distance (Figures 3 and 4)

Distance of every column (3) and every pair (4) from other real rows.

![Figure 3](bsg-figure3.svg) ![Figure 4](bsg-figure4.svg)

{_table(["of", "table", "mean", "worst"], rows)}
"""


def _table_3(results: Results) -> str:
    found = results["classifiers"]
    rows = []
    for name in TABLES:
        cells = []
        for part in (0, 1):
            for place, classifier in enumerate(("tree", "forest", "boosting")):
                ours = 100 * np.mean([one[name][classifier][part] for one in found])
                theirs = PAPER_3[name][3 * part + place] if name in PAPER_3 else None
                cells.append(f"{ours:.1f}" + (f" ({theirs})" if theirs else ""))
        rows.append([name, *cells])
    heads = [
        "trained on",
        *(f"{what}, {c}" for what in ("accuracy", "agreement") for c in ("tree", "forest", "boosting")),
    ]
    return f"""## Classifiers and agreement (Table 3)

Income predicted on unseen real rows, per cent; in brackets the paper's numbers on its own table. `reals` are other
real rows.

{_table(heads, rows)}
"""


def _table_4(results: Results) -> str:
    found = results["private"]
    names = [key.removeprefix("LR ") for key in found[0] if key.startswith("LR ")]
    rows = []
    for name in names:
        cells = []
        for place, loss in enumerate(("LR", "SVM")):
            value = 100 * np.mean([one[f"{loss} {name}"] for one in found])
            theirs = PAPER_4.get(name)
            cells.append(f"{value:.1f}" + (f" ({theirs[place]})" if theirs else ""))
        rows.append([name, *cells])
    return f"""## Private classifiers (Table 4)

Chaudhuri, Monteleoni and Sarwate's output and objective perturbation at epsilon 1 on real rows, against plain
training on synthetic rows; per cent, the paper's in brackets. As in the paper, lambda is the best for the
non-private classifier; 'own lambda' picks the best for the private one instead, which is kinder to it (and not
private).

{_table(["", "logistic regression", "SVM"], rows)}
"""


def _table_5(results: Results) -> str:
    found = results["game"]
    rows = []
    for name in TABLES:
        values = [100 * np.mean([one[name][c] for one in found]) for c in ("forest", "tree")]
        theirs = PAPER_5.get(name)
        rows.append([name, *(f"{v:.1f}" + (f" ({theirs[i]})" if theirs else "") for i, v in enumerate(values))])
    return f"""## Distinguishing game (Table 5)

How often a classifier tells a synthetic row from a real one, per cent (50 is a guess); the paper's in brackets.

{_table(["table", "forest", "tree"], rows)}
"""


def _figure_5(results: Results) -> str:
    found = results["speed"][0]
    counts = [10_000, 100_000, 1_000_000, 2_000_000]
    rows = []
    for omega in ("9", "5-11"):
        for how in ("drawn", "mixture"):
            seconds = [f"{found[f'omega {omega}, {how}, {count}']:.2f}" for count in counts]
            rows.append([f"omega {omega}, test for the {how}", *seconds])
    heads = ["CPU seconds", *(f"{count:,} rows" for count in counts)]
    series = {
        f"{omega}, {how}": [found[f"omega {omega}, {how}, {count}"] for count in counts]
        for omega in ("9", "5-11")
        for how in ("drawn", "mixture")
    }
    plot = lines_plot([c / 1e6 for c in counts], series, "million rows released", "CPU seconds", 14.0)
    (FOLDER / "bsg-figure5.svg").write_text(plot)
    nine, five = (f"{100 * found[f'pass rate omega {omega}']:.1f} %" for omega in ("9", "5-11"))
    learning = found["learning"]
    return f"""## Run time (Figure 5)

A made table of 1,000,000 rows with the columns of the paper's Table 1, k = 50, one core, system entropy for every
seed and threshold. Learning the network takes {learning} CPU seconds; releasing rows, the count of all plausible
seeds included:

![Figure 5](bsg-figure5.svg)

{_table(heads, rows)}

{nine} (omega 9) and {five} (omega 5-11) of candidates pass, and 99.9 % of rows try a seed here, so 2,000,000 rows
hold far more than a million accepted ones. The paper's tool makes 10,000 rows in about ten minutes per core: it
compares every candidate with every row, and we look up one count.
"""


def _figure_6(results: Results) -> str:
    found = results["passing"]
    ks = [key for key in found[0] if key.isdecimal()]
    omegas = list(found[0][ks[0]])
    share = {omega: [100 * np.mean([one[k][omega] for one in found]) for k in ks] for omega in omegas}
    (FOLDER / "bsg-figure6.svg").write_text(
        lines_plot([int(k) for k in ks], {f"omega {o}": v for o, v in share.items()}, "k", "candidates that pass, %")
    )
    rows = [[f"omega {omega}", *(f"{value:.1f}" for value in values)] for omega, values in share.items()]
    count, order = f"{found[0]['rows']:,}", ", ".join(found[0]["order"])
    return f"""## Pass rate (Figure 6)

Share of candidates that pass Privacy Test 2 (epsilon0 = 1) among {count} seed rows: exact, not simulated, since the
count of plausible seeds depends on the seed alone. **Such a figure is itself not private**: a lone row moves it by
1/n.

![Figure 6](bsg-figure6.svg)

{_table(["", *(f"k = {k}" for k in ks)], rows)}

Order of the columns: {order}.
In the paper over half of the candidates with omega in 5-11 pass at k = 100.
"""


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(markdown(heads, rows))
