"""Flags: objections to a scheme's claimed guarantee for one client, as short fixed texts for tables."""

from __future__ import annotations

from asyncfl.base.disclosure import BATCHES as BATCHES
from asyncfl.base.disclosure import BUDGETS as BUDGETS
from asyncfl.base.disclosure import CLIP_NORM as CLIP_NORM
from asyncfl.base.disclosure import LOSSES as LOSSES
from asyncfl.base.disclosure import PAYLOADS as PAYLOADS
from asyncfl.base.disclosure import REJECTION as REJECTION
from asyncfl.base.disclosure import SCORES as SCORES

AMPLIFICATION = "amplification without a secret sample"
CLASSICAL = "classical calibration past its limit"
OVERDRAWN = "noise of one release drawn several times"
HEURISTIC = "sensitivity heuristic"
INVALID = "sensitivity invalid"

NO_NOISE = "released without noise"
COMPUTED = "attackers compute from it"
CRAFTED = "counted as if it were honest"
WEIGHTS = "weights depend on data"
SCALES = "inputs scaled by training data"
DELTA = "delta too large for its unit"
NO_CREDIT = "no credit for being drawn"
"""Followed by the reason."""

FLAGS = {
    AMPLIFICATION: "less noise because clients are sampled at random, although the server and anyone on the links see "
    "which clients were sampled",
    CLASSICAL: "the noise is sigma = c sensitivity/epsilon, which is too little for an epsilon this large",
    OVERDRAWN: "the noise that the claim of an upload covers is drawn several times, and each draw depends on the data",
    HEURISTIC: "the sensitivity that the noise is calibrated to is plausible but not proven; epsilons that are called "
    "proven count what is",
    INVALID: "the noise is calibrated to a sensitivity that is too small; epsilons are computed for the true one",
    BUDGETS: "budgets depend on the clients' losses; no accountant counts what they reveal",
    CLIP_NORM: "the clip norm depends on the norms of the clients' updates; no accountant counts what it reveals",
    NO_NOISE: "something was released without noise: epsilon is infinite",
    SCORES: "the client returned scores of models on its data without noise; epsilon is infinite for an adversary that "
    "holds them, and no accountant counts what the detector's decisions reveal of them to others",
    LOSSES: "the client reported its loss without noise; epsilon is infinite for an adversary that holds the message, "
    "and no accountant counts what the selection of clients reveals of it to others",
    PAYLOADS: "the algorithm exchanged vectors that depend on the client's data without noise; "
    "epsilon is infinite for an adversary that holds the message, and no accountant counts what the server's use of "
    "them reveals to others",
    REJECTION: "an honest update was rejected because it was not finite; the rejection, and the number of updates "
    "in the mean, reveal this",
    COMPUTED: "attackers uploaded values computed from the client's noised updates; an adversary that received "
    "these values counts as knowing the updates",
    CRAFTED: "the client is an attacker and uploads arbitrary values; its row is computed as if it followed the scheme",
    WEIGHTS: "the weights of updates in a model depend on the data, and the server's noise was scaled to "
    "the actual weights",
    SCALES: "means, deviations or texts that were measured on all clients' samples prepared the inputs of each client; "
    "no accountant counts what they reveal",
    BATCHES: "trainings took real time, which grows with the samples that secret Poisson batches draw; no accountant "
    "counts what the times of messages reveal",
    DELTA: "delta is not below 1/samples (1/clients if the unit is a client): the guarantee allows that one "
    "sample (client) is revealed completely",
}
"""Flag -> explanation."""

UNCOVERED = (BUDGETS, CLIP_NORM, SCORES, LOSSES, PAYLOADS, WEIGHTS, SCALES, BATCHES)
"""Flags of releases that the computed epsilons do not include. With one of them no epsilon is proven."""
