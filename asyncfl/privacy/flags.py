"""What stands in the way of a scheme's claim, in a few fixed words that a table can hold.

A flag is about what is claimed: of each client, since its budgets may be its own and grow over a run. A scheme says its
flags (`Scheme.flags`); the sentences that explain them are its `notes`, once for a run.
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
    AMPLIFICATION: "less noise because clients are drawn at random, though the server and whoever is on the links see "
    "who was drawn",
    CLASSICAL: "sigma = c sensitivity/epsilon at an epsilon at which it is too little noise",
    OVERDRAWN: "the noise that an upload is claimed for is drawn several times, and each draw tells of the data",
    HEURISTIC: "what one neighbour can change is argued for, not proven",
    INVALID: "the noise is for less than what one neighbour can change; epsilons are for what it really can",
    BUDGETS: "budgets follow the clients' losses, a release that no accountant here covers",
    CLIP_NORM: "the clipping norm follows the clients' norms, a release that no accountant here covers",
    NO_NOISE: "nothing hides what was released: epsilon is infinite",
    SCORES: "the client told what models score on its data, without noise, and that decides what enters models: a "
    "release that no accountant here covers",
    LOSSES: "the client told its loss, without noise, and that decides who is asked: a release that no accountant here "
    "covers",
    REJECTION: "an honest update was rejected for not being finite: that it was, and the changed divisor, tell it all",
    COMPUTED: "attackers uploaded what they computed from its noised updates: those count as known wherever these went",
    CRAFTED: "an attacker uploads what it likes: its own row is that of a client that follows the scheme",
    WEIGHTS: "what updates weigh in a model follows the data, and the server's noise is for weights as they were",
    SEED: "noise was drawn from a seed that this adversary knows: it can subtract it, and the noise hides nothing",
    DELTA: "delta is not below 1/samples, or 1/clients where the unit is a client: one of them may be given away whole",
}
"""Flag -> what it says."""

UNCOVERED = (BUDGETS, CLIP_NORM, SCORES, LOSSES, WEIGHTS)
"""Flags of releases that epsilons leave out: with one of them nothing is proven."""
