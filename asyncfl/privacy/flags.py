"""Objections to a scheme's claimed guarantee, as short fixed texts for tables.

A flag concerns the claim for one client, because budgets may differ between clients and grow during a run. Schemes
return flags from `Scheme.flags`. Their `notes` explain the flags in sentences, once per run.
"""

from __future__ import annotations

AMPLIFICATION = "amplification without a secret sample"
CLASSICAL = "classical calibration past its limit"
OVERDRAWN = "noise of one release drawn several times"
HEURISTIC = "sensitivity heuristic"
INVALID = "sensitivity invalid"
BUDGETS = "data-dependent budgets"
CLIP_NORM = "clip norm depends on data"

NO_NOISE = "released without noise"
SCORES = "scores without noise"
LOSSES = "losses without noise"
REJECTION = "rejected for what it holds"
COMPUTED = "attackers compute from it"
CRAFTED = "counted as if it were honest"
WEIGHTS = "weights depend on data"
DELTA = "delta too large for its unit"
SEED = "noise from a known seed"

FLAGS = {
    AMPLIFICATION: "less noise because clients are sampled at random, although the server and anyone on the links see "
    "which clients were sampled",
    CLASSICAL: "sigma = c sensitivity/epsilon with an epsilon for which this is too little noise",
    OVERDRAWN: "the noise that the claim of an upload covers is drawn several times, and each draw depends on the data",
    HEURISTIC: "the influence of one neighbour is argued for, not proven",
    INVALID: "the noise is too small for the true influence of one neighbour; epsilons are computed for the true one",
    BUDGETS: "budgets follow the clients' losses, a release that no accountant covers",
    CLIP_NORM: "the clip norm follows the clients' norms, a release that no accountant covers",
    NO_NOISE: "nothing hides what was released: epsilon is infinite",
    SCORES: "the client returned scores of models on its data without noise, and they decide what enters models: a "
    "release that no accountant covers",
    LOSSES: "the client reported its loss without noise, and it decides which clients are selected: a release that no "
    "accountant covers",
    REJECTION: "an honest update was rejected because it was not finite, which the rejection and the divisor reveal",
    COMPUTED: "attackers uploaded values computed from the client's noised updates, which count as known wherever "
    "these went",
    CRAFTED: "an attacker uploads arbitrary values: its row is that of a client that follows the scheme",
    WEIGHTS: "the weights of updates in a model depend on the data, and the server's noise is for the actual weights",
    SEED: "noise was drawn from a seed that this adversary knows, so it can subtract the noise, which hides nothing",
    DELTA: "delta is not below 1/samples (1/clients if the unit is a client): one of them may be revealed completely",
}
"""Flag -> explanation."""

UNCOVERED = (BUDGETS, CLIP_NORM, SCORES, LOSSES, WEIGHTS)
"""Flags of releases that the computed epsilons do not include. With one of them nothing is proven."""
