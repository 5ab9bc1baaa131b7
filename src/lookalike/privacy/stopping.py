"""What a run costs that stops early because of its noisy answers.

Let M be a run of budget (epsilon, delta'), with rho the sum that its charges may reach. It may stop early, and whether
and where is a function of its answers. The theorems on privacy filters give (epsilon, delta') for the whole of M. To
count a stopped run for less, its sum of charges is rounded up to one of a few levels that are fixed beforehand,

    rho_k = k / 10 * rho,  k = 1, ..., 9,

with an epsilon_k each, such that charges of rho_k in all are (epsilon_k, delta_k)-private, delta_k = stop_delta / 9.

Let A_k be M, made to halt before the first charge that would take its sum above rho_k: a filter at rho_k, so A_k is
(epsilon_k, delta_k)-private. Let S_k be the transcripts of M that stop with charges between rho_(k-1) and rho_k, and S
all others. On S_k, M and A_k have the same probabilities, since no transcript there reaches the halt. So for the
probabilities P and P' of neighbouring tables, and any weights f between 0 and 1 (the chance that whatever follows the
run, such as later runs of the ledger, ends in some event),

    sum over S_k of P f <= e^epsilon_k * sum over S_k of P' f + delta_k,
    sum over S of P f <= e^epsilon * sum over S of P' f + delta'.

With c the cap or any bound on the total, whatever follows a transcript is (c - its count)-private; with f the smaller
of 1 and e^(c - count) times the chance of the event on the neighbour, the sum of all lines is

    P[event] <= e^c P'[event] + delta' + sum of delta_k + deltas of what follows.

So a run that stops in S_k may count with epsilon_k and one that does not with epsilon, if both count with delta' +
stop_delta in delta. The delta of noisy thresholds is part of delta' and needs no further copies: in the proof of
`kernel/thresholds.py` the events in which a value of one person passes are disjoint over S, S_1, S_2, ..., so their
probabilities add up to at most the p that was charged, and each is weighted by e^epsilon at most.

Nothing here depends on the data but through the noisy answers; the price is the part of delta, known beforehand.
"""

from __future__ import annotations

import math
from fractions import Fraction

from lookalike.privacy.composition import epsilon_spent
from lookalike.privacy.kernel.accounting import Budget

STOPPED = "stopped"
"""Status of a run that stopped because of its answers."""
STOP_SHARE = 0.25
"""Part of delta that a run sets aside, so that it costs less epsilon if it stops."""
_LEVELS = 10


def stop_delta(delta: float) -> float:
    """Return the part of a run's delta that it sets aside."""
    return delta * STOP_SHARE


def stopped_epsilon(budget: Budget, spent: Fraction, aside: float) -> float:
    """Return the epsilon that a run counts with if it stops after charges of rho `spent` in all.

    Args:
        budget: of the run, without the part of delta that was set aside.
        spent: the sum of its charges.
        aside: that part of delta; 0 where nothing was set aside, and the run counts in full.
    """
    level = math.ceil(_LEVELS * spent / budget.rho)
    if level >= _LEVELS or aside <= 0:
        return budget.epsilon
    rho = budget.rho * max(level, 1) / _LEVELS
    return min(budget.epsilon, epsilon_spent(rho, aside / (_LEVELS - 1), budget.accounting))
