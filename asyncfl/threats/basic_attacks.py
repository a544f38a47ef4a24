"""List of all attacks that are not composed of other attacks. A new attack is a new file and a line here."""

from __future__ import annotations

from asyncfl.threats.alie import Alie
from asyncfl.threats.attack import Attack
from asyncfl.threats.backdoor import Backdoor
from asyncfl.threats.evaluator_bait import EvaluatorBait
from asyncfl.threats.flooding import Flooding
from asyncfl.threats.free_rider import FreeRider
from asyncfl.threats.gaussian import Gaussian
from asyncfl.threats.ipm import Ipm
from asyncfl.threats.label_flip import LabelFlip
from asyncfl.threats.lying_evaluator import LyingEvaluator
from asyncfl.threats.malformed import NonFinite, WrongLength
from asyncfl.threats.mimic import Mimic
from asyncfl.threats.perturbation import MinMax, MinSum
from asyncfl.threats.scaling import Scaling
from asyncfl.threats.sign_flip import SignFlip
from asyncfl.threats.tailored import Tailored

BASIC_ATTACKS: tuple[type[Attack], ...] = (
    SignFlip,
    LabelFlip,
    Gaussian,
    Alie,
    Ipm,
    MinMax,
    MinSum,
    Tailored,
    Mimic,
    Scaling,
    Backdoor,
    NonFinite,
    WrongLength,
    FreeRider,
    LyingEvaluator,
    Flooding,
    EvaluatorBait,
)
