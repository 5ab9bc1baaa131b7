"""What PPSyn's paper claims, beside what stored runs say (claims.py)."""

from __future__ import annotations

from benchmarks.papers.claim_figures import Claim, best_eta, budget_minimum, of, wins
from benchmarks.papers.ppsyn import PRINTED, TABLES

SMALL, FIVE = (0.05, 0.1, 0.5), (0.05, 0.1, 0.5, 1.0, 2.0)
OWN = ("ppsyn", "ppsyn-paper", PRINTED)
BY_VARIANT = (
    "our variant is; the printed steps are in three of four cells, but they see true counts, and with that leak closed "
    "(`ppsyn-paper`) they are behind AIM"
)

PPSYN = [
    Claim(
        "with fewer groups the required budget falls, then rises again",
        "Figure 2, 4.2.2",
        budget_minimum,
        "agrees",
        "hours per week of Adult; from true counts, as printed, and therefore not private",
    ),
    Claim(
        "the error of a marginal from a noisy partition is at most eta times its contribution",
        "Theorems 4 and 5",
        lambda: "its expectation is at most that",
        "in part",
        "the noise error in the proof is the mean of Theorem 2, so the bound is one of the mean; the noise of a single "
        "run exceeds its part of it about half of the time",
    ),
    Claim(
        "PPSyn has the smallest workload error at small budgets",
        "Figure 3, 5.1.1",
        lambda: "; ".join(wins("ppsyn", "tvd.3", own, ("aim", "mst", "privmrf"), SMALL) for own in OWN),
        "in part",
        BY_VARIANT,
    ),
    Claim(
        "the printed algorithm is differentially private",
        "3.2, 4.1, Algorithm 1",
        lambda: "; ".join(
            of("ppsyn", "tvd.3", name, 0.1, PRINTED, "ppsyn-paper", "aim") for name in ("br2000", "adult")
        ),
        "differs",
        "contributions, partitions and budgets come from true counts and are not charged "
        "([why it is not private](ppsyn.md#why-the-printed-algorithm-is-not-private)). The printed steps are ahead of "
        "AIM, and repaired they are behind it: at this budget the printed lead is what the leak gives",
    ),
    Claim(
        "3-dimensional range queries: below AIM and MST",
        "Figure 4, 5.2",
        lambda: "; ".join(wins("ppsyn", "ranges.3", own, ("aim", "mst"), SMALL) for own in OWN),
        "in part",
        BY_VARIANT,
    ),
    Claim(
        "5-dimensional range queries: below AIM and MST",
        "Figure 5",
        lambda: "; ".join(wins("ppsyn", "ranges.5", own, ("aim", "mst"), SMALL) for own in OWN),
        "in part",
        "our variant is; the printed steps are on br2000 and not on adult, and with the leak closed are behind AIM",
    ),
    Claim(
        "SVM errors: below PrivMRF, AIM and MST at every budget",
        "Figure 6, 5.4",
        lambda: "; ".join(
            wins("ppsyn_folds", "svm_error", *pair, FIVE, TABLES)
            for pair in (
                *(("ppsyn", (rival,)) for rival in ("privmrf-paper", "privmrf", "aim", "mst")),
                ("ppsyn-paper", ("privmrf-paper",)),
            )
        ),
        "in part",
        "our variant is below MST and, but for br2000 from 1 on, the paper's PrivMRF, and with "
        "our PrivMRF and AIM mostly within the standard errors; the repaired steps are not. Five folds; columns of two "
        "values",
    ),
    Claim(
        "PPSyn is ahead of PrivMRF where domains are large",
        "5.4",
        lambda: "; ".join(
            wins("ppsyn", "tvd.3", own, (rival,), FIVE, ("adult-100",))
            for own in ("ppsyn", "ppsyn-paper")
            for rival in ("privmrf-paper", "privmrf")
        ),
        "in part",
        "Adult with up to 100 bins per column; our variant is, the repaired steps are at epsilon 0.5 only",
    ),
    Claim(
        "eta near 0.7 is best",
        "Figures 7 and 8, 5.3",
        lambda: "; ".join(filter(None, (best_eta("ppsyn", 0.1), best_eta("ppsyn", 0.5), best_eta(PRINTED, 0.1)))),
        "in part",
        "with the printed steps, which are NOT PRIVATE, smaller etas are clearly worse, and 0.7 is best on br2000 and "
        "within the standard errors of the best on adult; larger ones are not worse. Ours hardly depends on eta, since "
        "its price decides what is measured: 0.7 is at most 4 % behind the best",
    ),
    Claim(
        "errors grow with the dimension of the workload, PPSyn is lowest",
        "Figure 9",
        lambda: "; ".join(of("ppsyn", f"tvd.{k}", "br2000", 0.1, f"ppsyn, {k}-way", f"aim, {k}-way") for k in (2, 5)),
        "agrees",
        "our variant, with marginals of that dimension as its workload. In the paper PrivMRF falls behind AIM and MST "
        "at 4-way; ours does not",
    ),
    Claim(
        "on LOANS PrivMRF is ahead of PPSyn, and PPSyn of AIM and MST",
        "Figure 3, 5.1.1",
        lambda: of("ppsyn", "tvd.3", "loans", 0.1, "ppsyn", "privmrf", "aim", "mst"),
        "in part",
        "our variant is ahead of AIM and MST as printed, but ahead of PrivMRF, too. The table is simulated (42,535 "
        "rows of 48 columns, large ones skewed): the public one cannot be had here, and its skew may differ",
    ),
]
