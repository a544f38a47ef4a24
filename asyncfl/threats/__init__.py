"""Attacks, one per file, and the schedule of attackers.

`Threats` describes the attackers of a scenario. A user's attack derives from `Attack`, or from `Informed` if it is
computed from the updates of others; `AttackView` holds what it may use. `backdoor_test_set` measures the success of a
backdoor.
"""

from asyncfl.threats.alie import Alie, alie_z
from asyncfl.threats.attack import Attack, AttackView, Knowledge, Rehearsal
from asyncfl.threats.backdoor import Backdoor, backdoor_test_set
from asyncfl.threats.composite import Adaptive, Combined, Veto
from asyncfl.threats.fang import Fang
from asyncfl.threats.flooding import Flooding
from asyncfl.threats.free_rider import EvaluatorBait, FreeRider
from asyncfl.threats.gaussian import Gaussian
from asyncfl.threats.informed import Informed
from asyncfl.threats.ipm import Ipm
from asyncfl.threats.label_flip import LabelFlip
from asyncfl.threats.lying_evaluator import LyingEvaluator
from asyncfl.threats.malformed import NonFinite, WrongLength
from asyncfl.threats.mimic import Mimic
from asyncfl.threats.minority import Minority
from asyncfl.threats.orthogonal import Orthogonal
from asyncfl.threats.perturbation import MinMax, MinSum
from asyncfl.threats.puller import Puller
from asyncfl.threats.scaling import Scaling
from asyncfl.threats.sign_flip import SignFlip
from asyncfl.threats.spread import Spread
from asyncfl.threats.tailored import Tailored
from asyncfl.threats.threat_spec import AnyAttack, Rhythm, Threats

__all__ = ["Adaptive", "Alie", "AnyAttack", "Attack", "AttackView", "Backdoor", "Combined", "EvaluatorBait", "Fang"]
__all__ += ["Flooding", "FreeRider", "Gaussian", "Informed", "Ipm", "Knowledge", "LabelFlip", "LyingEvaluator"]
__all__ += ["Mimic", "MinMax", "MinSum", "Minority", "NonFinite", "Orthogonal", "Puller", "Rehearsal", "Rhythm"]
__all__ += ["Scaling", "SignFlip", "Spread", "Tailored", "Threats", "Veto", "WrongLength", "alie_z"]
__all__ += ["backdoor_test_set"]
