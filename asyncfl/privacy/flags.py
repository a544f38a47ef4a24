"""What stands in the way of a scheme's claim, in a few fixed words that a table can hold.

A flag is about what is claimed: of each client, since its budgets may be its own and grow over a run. The sentences
that explain it are the scheme's `notes`, once for a run.
"""

from __future__ import annotations

from asyncfl.privacy.accounting.composition import classical_share
from asyncfl.privacy.accounting.gaussian import classical_limit
from asyncfl.privacy.context import PrivacyContext
from asyncfl.privacy.scheme import Guarantee, Scheme

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

WITH_C1 = ("naive", "naive_delta_split", "advanced")
"""Compositions of `accounting.composition` that calibrate a release classically."""


def flags(
    scheme: Scheme,
    context: PrivacyContext,
    stated: Guarantee | None,
    once: float | None = None,
    of_models: bool = False,
) -> list[str]:
    """The flags of what a scheme states (`stated`) about uploads, or `of_models` about published models.

    `once`: largest epsilon that one of the releases was calibrated for; None: its share of what is stated, which a
    scheme with a `composition` always has.

    Read off the scheme's fields, so that a scheme of one's own with fields of these names gets them as well:
    `b_rule` other than `none`, `calibration: classical` or a `composition` with c1 or `constant`, `clip_norm: median`,
    `adjustment` other than `none` or an `equal_spend`; or a mechanism in `client` or `server` that says when it is
    `past_its_limit`; a method `overdrawn` that says when one draw of noise is claimed and several are made.
    """
    if stated is None or scheme.off:
        return []
    found = []
    drawn = context.participants < context.clients
    if of_models and drawn and getattr(scheme, "b_rule", "none") != "none":
        found.append(AMPLIFICATION)
    if _past_its_limit(scheme, context, stated, once, of_models):
        found.append(CLASSICAL)
    overdrawn = getattr(scheme, "overdrawn", None)
    if not of_models and overdrawn is not None and overdrawn(context):
        found.append(OVERDRAWN)
    if stated.status == "heuristic":
        found.append(HEURISTIC)
    if stated.status == "invalid":
        found.append(INVALID)
    if getattr(scheme, "adjustment", "none") != "none" or getattr(scheme, "equal_spend", None) is not None:
        found.append(BUDGETS)
    if getattr(scheme, "clip_norm", None) == "median":
        found.append(CLIP_NORM)
    return found


def _past_its_limit(
    scheme: Scheme, context: PrivacyContext, stated: Guarantee, once: float | None, of_models: bool
) -> bool:
    """Whether a single release has too little noise for the budget that its noise was calibrated for."""
    limited = getattr(getattr(scheme, "server" if of_models else "client", None), "past_its_limit", None)
    if limited is not None:
        return bool(limited(context.rounds))
    calibration, composition = getattr(scheme, "calibration", None), getattr(scheme, "composition", None)
    # A scheme with a factor on c1 and no other rule calibrates so.
    classical = composition in WITH_C1 or (composition is None and hasattr(scheme, "constant"))
    if not (classical if calibration is None else calibration == "classical"):
        return False
    shared = classical_share(max(stated.releases, 1), stated.epsilon, stated.delta, composition or "naive")
    epsilon = shared.epsilon if once is None or composition is not None else once
    return epsilon > classical_limit(shared.delta, getattr(scheme, "constant", 1.0))
