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

FLAGS = {
    AMPLIFICATION: "less noise because clients are drawn at random, though the server and whoever is on the links see "
    "who was drawn",
    CLASSICAL: "sigma = c sensitivity/epsilon at an epsilon at which it is too little noise",
    OVERDRAWN: "the noise that an upload is claimed for is drawn several times, and each draw tells of the data",
    HEURISTIC: "what one neighbour can change is argued for, not proven",
    INVALID: "the noise is for less than what one neighbour can change; epsilons are for what it really can",
    BUDGETS: "budgets follow the clients' losses, a release that no accountant here covers",
    CLIP_NORM: "the clipping norm follows the clients' norms, a release that no accountant here covers",
}
"""Flag -> what it says."""
