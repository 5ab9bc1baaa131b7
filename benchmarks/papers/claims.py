"""What each of the four papers claims, beside what stored runs say.

    python -m benchmarks.papers claims document

Writes the tables of docs/reproductions/README.md. Figures are computed from stored results; whether they agree with the
paper, and why not, is written here by hand.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.common import REPRODUCTIONS, parser_of, replace_parts
from benchmarks.papers.claim_figures import (
    Claim,
    accuracy,
    ahead,
    distance,
    folds,
    gain,
    gum,
    of,
    output_at,
    pass_share,
    per_cent,
    price_of_rows,
    rows_per_second,
    seconds_by_epsilon,
    svm,
    table,
    wins,
)
from benchmarks.papers.claims_ppsyn import PPSYN

DOCUMENT = REPRODUCTIONS / "README.md"
ALL = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
NOTHING_APART = (
    "at all six budgets (page) all settings are within two standard errors of each other, and from 0.8 on of no "
    "privacy: nothing is told apart"
)
PAPERS_RIVALS = ("pb-pgm-paper", "privbayes-paper", "bsg-paper", "dp-copula", "dp-wgan")
OWN_RIVALS = ("pb-pgm", "privbayes", "bsg")

PRIVSYN = [
    Claim(
        "InDif of the example is 0.08 n",
        "Figure 1, 4.1",
        lambda: "0.08 n",
        "agrees",
        "a test: `tests/unit/sampling/test_privsyn_examples.py`",
    ),
    Claim(
        "the flow moves a third of the adults and a fourth of the elderly to the teenagers",
        "Figure 2, 5.1",
        lambda: "the same rows move",
        "agrees",
        "a test, as above",
    ),
    Claim(
        "one update of GUM with alpha 2 and beta 0.5 gives 0.4 and 0.6; one row is copied, one overwritten",
        "Figure 3, 5.2",
        lambda: "0.4 and 0.6, one of each",
        "agrees",
        "a test, as above",
    ),
    Claim(
        "the sensitivity of InDif is 4",
        "Lemma 4",
        lambda: "4 n/(n + 1), below 4",
        "agrees",
        "[proof](../proofs/score_independence_gap.md); section 4.2 prints a wrong variance, Theorem 5 the right one",
    ),
    Claim(
        "GUM has less error than MCF",
        "5.1, 5.2",
        lambda: "; ".join(
            gum(table, method, sweeps)
            for table in ("nltcs", "adult", "br2000")
            for method, sweeps in (("gum", 100), ("mcf", 5), ("mcf", 20))
        ),
        "in part",
        "mean L1 of all pairs of a few columns without noise. Up to about a second GUM is ahead on all three tables; "
        "given more time, flows are on nltcs and adult, where GUM gains little. MCF is refused for large marginals",
    ),
    Claim(
        "dense overlapping marginals and GUM synthesise accurately",
        "abstract",
        lambda: "; ".join((accuracy("adult"), accuracy("nltcs"))),
        "agrees",
        "3-way distance at epsilon 1; the text at hand ends before the paper's evaluation, so its numbers are not "
        "compared",
    ),
]

PRIVMRF = [
    Claim(
        "theta 6 is the balanced choice: 2 is worse at large budgets, 12 at small ones",
        "Figure 1a, 5.1",
        lambda: "; ".join(
            (
                of("privmrf", "tvd.5", "nltcs", 0.1, "theta 2", "theta 6", "theta 12"),
                of("privmrf", "tvd.5", "nltcs", 1.6, "theta 2", "theta 6", "theta 12"),
            )
        ),
        "agrees",
        "",
    ),
    Claim(
        "the same for SVM errors",
        "Figure 1b",
        lambda: svm("theta 2", "theta 6", "theta 12", epsilon=0.2),
        "in part",
        "theta 12 is worse at 0.1 and 0.2, as the paper says of small budgets; from 0.8 on all are those of no privacy "
        "(page)",
    ),
    Claim(
        "t = 0.8 d is better than 0.4 d and 1.2 d",
        "Figure 2a",
        lambda: of("privmrf", "tvd.5", "nltcs", 1.6, "t 0.4d", "t 0.8d", "t 1.2d"),
        "in part",
        "too few choices hurt; 1.2 d does not",
    ),
    Claim(
        "the same for SVM errors",
        "Figure 2b",
        lambda: svm("t 0.4d", "t 0.8d", "t 1.2d", epsilon=0.2),
        "in part",
        NOTHING_APART,
    ),
    Claim(
        "k = 400 is better than smaller and larger k",
        "Figure 3a",
        lambda: of("privmrf", "tvd.5", "nltcs", 1.6, "k 100", "k 400", "k 1600"),
        "differs",
        "k from 100 to 1600 is hardly told apart: k 400, t 0.8 d and theta 6, which are one setting, differ as much",
    ),
    Claim(
        "the same for SVM errors",
        "Figure 3b",
        lambda: svm("k 100", "k 400", "k 1600", epsilon=0.2),
        "in part",
        NOTHING_APART,
    ),
    Claim(
        "PrivMRF has the smallest distances everywhere, by a large margin",
        "Figure 4, 5.2",
        lambda: "; ".join(
            wins("privmrf", "tvd.3", *compared, ALL)
            for compared in (("privmrf-paper", PAPERS_RIVALS), ("privmrf-paper", OWN_RIVALS), ("privmrf", OWN_RIVALS))
        ),
        "agrees",
        "against the papers' own methods (`-paper`) it loses one cell (adult, 0.4), and elsewhere the next best has "
        "1.1 to 6 times its distance; our variants of them are ahead in a few cells of adult and br2000",
    ),
    Claim(
        "at small budgets, too",
        "Figure 4",
        lambda: "; ".join(
            (
                wins("privmrf", "tvd.3", "privmrf-paper", PAPERS_RIVALS, (0.1, 0.2)),
                of("privmrf", "tvd.3", "adult", 0.2, "theta 6", "theta 2", "theta 1", "mst"),
                of("privmrf", "tvd.3", "br2000", 0.1, "theta 6", "theta 2", "theta 1", "mst"),
            )
        ),
        "agrees",
        "but MST, which was not in the paper, is ahead: theta 6 leaves too few pairs where columns have many values, "
        "and a smaller theta drowns single columns ([both causes](privmrf.md#why-mst-is-ahead-at-small-budgets))",
    ),
    Claim(
        "PB-PGM is below PrivBayes",
        "Figure 4",
        lambda: wins("privmrf", "tvd.3", "pb-pgm-paper", ("privbayes-paper",), ALL),
        "agrees",
        "but for small budgets of adult and br2000",
    ),
    Claim(
        "PrivBayes is below BSG, DP-Copula and DP-WGAN",
        "Figure 4",
        lambda: "; ".join(
            wins("privmrf", "tvd.3", "privbayes-paper", (rival,), ALL)
            for rival in ("bsg-paper", "dp-copula", "dp-wgan")
        ),
        "in part",
        "below BSG but on acs; our DP-Copula and DP-WGAN are better than the paper's programs (next rows)",
    ),
    Claim(
        "DP-Copula is above BSG on NLTCS and ACS, slightly below on Adult and BR2000",
        "Figure 4",
        lambda: "; ".join(
            wins("privmrf", "tvd.3", "dp-copula", ("bsg-paper",), ALL, tables)
            for tables in (("nltcs", "acs"), ("adult", "br2000"))
        ),
        "differs",
        "grades of sensitivity 1 and a correlation that knows of ties: the corrected copula is far better on tables of "
        "binary columns",
    ),
    Claim(
        "DP-WGAN is far above the others, off the scale on NLTCS",
        "Figure 4",
        lambda: "; ".join(
            of("privmrf", "tvd.3", table, 3.2, "dp-wgan", "privbayes-paper", "bsg-paper")
            for table in ("nltcs", "adult")
        ),
        "differs",
        "ours is drawn to its one-way marginals in every step, which keeps it on the scale; without that it was off it "
        "([page](gans.md))",
    ),
    Claim(
        "SVM: below epsilon 3.2 PrivMRF is far ahead of PB-PGM and PrivBayes",
        "Figure 5, 5.2",
        lambda: "; ".join(
            (
                folds("privmrf-paper", "privmrf", "pb-pgm-paper", "privbayes-paper", "real"),
                ahead("privmrf-paper", "pb-pgm-paper", "privbayes-paper"),
                ahead("privmrf", "pb-pgm-paper", "privbayes-paper"),
            )
        ),
        "in part",
        "folds, every column a target, `real` is no privacy; means at 0.8, cells at 0.1 to 1.6. It is ahead on nltcs "
        "and, but for a tie, on acs. On br2000 and adult it is not while theta 6 leaves out pairs of columns of many "
        "values (adult up to 0.4, br2000 at 0.4 and 0.8: "
        "[which](privmrf.md#svm-misclassification-figures-1b-to-3b-and-5)); our variant is ahead everywhere",
    ),
    Claim(
        "SVM: PB-PGM and PrivBayes are alike, BSG is far behind them",
        "Figure 5",
        lambda: "; ".join(
            (
                folds("pb-pgm-paper", "privbayes-paper", "bsg-paper"),
                ahead("pb-pgm-paper", "bsg-paper"),
                ahead("privbayes-paper", "bsg-paper"),
            )
        ),
        "agrees",
        "folds as above; the other cells are adult at small budgets, where both measure little more than columns",
    ),
    Claim(
        "SVM: BSG is ahead of DP-Copula and DP-WGAN",
        "Figure 5",
        lambda: "; ".join(
            (
                folds("bsg-paper", "dp-copula", "dp-wgan"),
                ahead("bsg-paper", "dp-copula"),
                ahead("bsg-paper", "dp-wgan"),
            )
        ),
        "in part",
        "ahead of DP-Copula on br2000 and adult, ahead of DP-WGAN on adult only: ours are better than the programs "
        "that the paper ran (Figure 4, above)",
    ),
    Claim(
        "running time grows with epsilon, not strictly",
        "Figure 6",
        lambda: f"{seconds_by_epsilon('privmrf-paper', 'br2000')}; {seconds_by_epsilon('privmrf-paper', 'acs')}",
        "agrees",
        "CPU seconds of one core; the paper has up to 17 minutes with 18 cores and two GPUs",
    ),
]

BSG = [
    Claim(
        "clear gains of accuracy over marginals",
        "Figure 1, 6.2",
        lambda: f"mean gain {gain('model 1')} (bsg), {gain('bsg-paper 1')} (bsg-paper), epsilon 1",
        "agrees",
        "simulated table of the paper's size, 560,000 rows to learn from",
    ),
    Claim(
        "little loss at epsilon 1 and 0.1",
        "Figure 1",
        lambda: (
            f"bsg: {gain('model none')} without noise, {gain('model 1')}, {gain('model 0.1')}; bsg-paper: "
            f"{gain('bsg-paper none')}, {gain('bsg-paper 1')}, {gain('bsg-paper 0.1')}"
        ),
        "in part",
        "at 0.1 `bsg-paper` loses a third of its gain, mostly in sex, income, workclass and marital status; with few "
        "rows (Adult) both lose more",
    ),
    Claim(
        "a forest is a little better than the network",
        "Figure 2",
        lambda: f"{gain('forest')} against {gain('model none')}",
        "agrees",
        "",
    ),
    Claim(
        "single columns: omega 11 and 10 like marginals",
        "Figure 3",
        lambda: f"{distance('omega 11, bsg', 1)} and {distance('omega 10', 1)}, marginals {distance('marginals', 1)}",
        "in part",
        "all are small, and the paper's text has marginals sometimes ahead, too; columns with parents are not measured "
        "alone",
    ),
    Claim(
        "pairs: far better than marginals",
        "Figure 4",
        lambda: f"{distance('omega 11, bsg', 2)}, marginals {distance('marginals', 2)}",
        "agrees",
        "",
    ),
    Claim(
        "forests on synthetic rows reach 75.3 %, on reals 80.4, on marginals 63.8",
        "Table 3, 6.3",
        lambda: (
            f"{per_cent('classifiers', 'omega 11', 'forest')}, {per_cent('classifiers', 'reals', 'forest')}, "
            f"{per_cent('classifiers', 'marginals', 'forest')}"
        ),
        "agrees",
        "Adult, where 75 % have the lower income",
    ),
    Claim(
        "objective perturbation 76.3 %, synthetic rows 77.6 %",
        "Table 4",
        lambda: (
            f"{per_cent('private', 'LR objective')}, {per_cent('private', 'LR omega 11')}; SVM: "
            f"{per_cent('private', 'SVM objective')}, {per_cent('private', 'SVM omega 11')}"
        ),
        "agrees",
        "Adult; logistic regression. With SVMs the paper's rows are a point behind (78.2 %, 77.2 %), ours ahead",
    ),
    Claim(
        "output perturbation 69.7 %",
        "Table 4",
        output_at,
        "in part",
        "at the paper's size its figure lies between our lambdas 1e-4 and 1e-5; its rule, the best lambda without "
        "privacy, picks 1e-6 here, by a hair. With 27,000 rows of Adult 45 %: the noise is 2 / (n lambda epsilon)",
    ),
    Claim(
        "classifiers tell 62 % of synthetic rows, 80 % of marginals",
        "Table 5, 6.4",
        lambda: f"{per_cent('game', 'omega 11', 'forest')}, {per_cent('game', 'marginals', 'forest')}",
        "agrees",
        "Adult",
    ),
    Claim(
        "10,000 rows in ten minutes per core, 17 a second",
        "Figure 5, 6.5",
        rows_per_second,
        "agrees",
        "1,494,974 rows; one count is looked up where the program compares a candidate with every row",
    ),
    Claim("over half of the candidates with omega 5-11 pass at k = 100", "Figure 6", pass_share, "agrees", "Adult"),
    Claim(
        "the mechanism that releases a row is (epsilon, delta)-differentially private",
        "Theorem 1, 2.1",
        lambda: price_of_rows(1),
        "agrees",
        "seed rows of Adult, delta 1e-9; our constants are tighter, and the event that nothing is released is counted, "
        "too ([proof](../proofs/seeded_rows.md))",
    ),
    Claim(
        "composition extends this to large tables, if the budget is increased",
        "discussion",
        lambda: price_of_rows(10_000),
        "agrees",
        "epsilon 1 and delta 1e-9 for the whole table. The paper leaves better composition to later work and does not "
        "price its own tables (k = 50) as a whole ([the price](bsg.md#what-a-table-of-seeded-rows-costs))",
    ),
    Claim(
        "noisy entropies and the structure chosen from them are differentially private",
        "3.3.1, 3.5, equations 8 to 10",
        lambda: "the largest change of an entropy is about half the bound of (9)",
        "in part",
        "the bound holds; with the noisy number of rows of (10) put in for the true one, noise is too small where that "
        "is the larger. Repaired: tables are filled up to a public number of rows "
        "([proof](../proofs/score_padded_entropy.md))",
    ),
]

PAPERS = {"privsyn": PRIVSYN, "privmrf": PRIVMRF, "ppsyn": PPSYN, "bsg": BSG}


def main(arguments: Sequence[str]) -> None:
    parser_of(__name__, __doc__, "document").parse_args(arguments)
    replace_parts(DOCUMENT, {name: table(listed) for name, listed in PAPERS.items()})
