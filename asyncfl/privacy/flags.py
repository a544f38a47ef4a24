"""What stands in the way of a scheme's claim, in a few fixed words that a table can hold.

A flag is about what is claimed, whatever a run did. The sentences that explain it are the scheme's `notes`.
"""

from __future__ import annotations

from asyncfl.privacy.gaussian import classical_limit
from asyncfl.privacy.scheme import Guarantee, PrivacyContext, Scheme

AMPLIFICATION = "amplification without a secret sample"
CLASSICAL = "classical calibration past its limit"
HEURISTIC = "sensitivity heuristic"
INVALID = "sensitivity invalid"
BUDGETS = "data-dependent budgets"
CLIP_NORM = "clip norm depends on data"

FLAGS = {
    AMPLIFICATION: "less noise because clients are drawn at random, though the server and whoever is on the links see "
    "who was drawn",
    CLASSICAL: "sigma = c sensitivity/epsilon at an epsilon at which it is too little noise",
    HEURISTIC: "what one neighbour can change is argued for, not proven",
    INVALID: "what one neighbour can change is wrong",
    BUDGETS: "budgets follow the clients' losses, a release that no accountant here covers",
    CLIP_NORM: "the clipping norm follows the clients' norms, a release that no accountant here covers",
}
"""Flag -> what it says."""


def flags(scheme: Scheme, context: PrivacyContext, stated: Guarantee | None, of_models: bool = False) -> list[str]:
    """The flags of what a scheme states (`stated`) about uploads, or `of_models` about published models.

    Read off the scheme's fields, so that a scheme of one's own with fields of these names gets them as well:
    `b_rule` other than `none`, `calibration: classical` or a naive `composition` with `constant`, `clip_norm: median`,
    `adjustment` other than `none`.
    """
    if stated is None or scheme.off:
        return []
    found = []
    drawn = context.participants < context.clients
    if of_models and drawn and getattr(scheme, "b_rule", "none") != "none":
        found.append(AMPLIFICATION)
    if _is_classical(scheme) and _one(stated) > classical_limit(stated.delta, getattr(scheme, "constant", 1.0)):
        found.append(CLASSICAL)
    if stated.status == "heuristic":
        found.append(HEURISTIC)
    if stated.status == "invalid":
        found.append(INVALID)
    if getattr(scheme, "adjustment", "none") != "none":
        found.append(BUDGETS)
    if getattr(scheme, "clip_norm", None) == "median":
        found.append(CLIP_NORM)
    return found


def _one(stated: Guarantee) -> float:
    return stated.epsilon / max(stated.releases, 1)


def _is_classical(scheme: Scheme) -> bool:
    calibration = getattr(scheme, "calibration", None)
    if calibration is not None:
        return bool(calibration == "classical")
    composition = getattr(scheme, "composition", None)
    # A scheme with a factor on c1 and no other rule calibrates so.
    return composition in ("naive", "naive_delta_split") or (composition is None and hasattr(scheme, "constant"))
