"""Defences against poisoned updates: aggregation rules and detectors, one per file.

A detector (`Detector`) judges the updates of a buffer and flags those to leave out. A rule (`Rule`) aggregates the
remaining updates into one. The module `rule` explains the weights that rules are given.
"""

from asyncfl.defences.aflguard import AflGuard
from asyncfl.defences.async_filter import AsyncFilter
from asyncfl.defences.basgd import Basgd
from asyncfl.defences.buffer import Buffer, DefenceContext
from asyncfl.defences.bulyan import Bulyan
from asyncfl.defences.centred_clipping import CentredClipping
from asyncfl.defences.clipping import AdaptiveClipping, Clipping
from asyncfl.defences.defence_spec import AnyDetector, AnyRule, Defence
from asyncfl.defences.detector import Detector, Verdict, accept_all
from asyncfl.defences.dnc import Dnc
from asyncfl.defences.evidence.evidence_detector import Evidence
from asyncfl.defences.flame import Flame
from asyncfl.defences.fldetector import FLDetector
from asyncfl.defences.fltrust import FLTrust
from asyncfl.defences.foolsgold import FoolsGold
from asyncfl.defences.geometric_median import GeometricMedian
from asyncfl.defences.kardam import Kardam
from asyncfl.defences.krum import Krum, MultiKrum
from asyncfl.defences.mean import Mean
from asyncfl.defences.median import Median
from asyncfl.defences.norm_clipping import NormClipping
from asyncfl.defences.preaggregation import Bucketing, NearestNeighbourMixing, PreAggregation
from asyncfl.defences.rflbat import Rflbat
from asyncfl.defences.rule import Aggregate, Rule
from asyncfl.defences.safl import Safl
from asyncfl.defences.sageflow import Sageflow
from asyncfl.defences.score_request import ScoreRequest
from asyncfl.defences.secure_afl import SecureAfl
from asyncfl.defences.signguard import SignGuard
from asyncfl.defences.strikes import Strikes, StrikeState
from asyncfl.defences.trimmed_mean import TrimmedMean
from asyncfl.defences.zeno import ZenoPlusPlus

__all__ = ["AdaptiveClipping", "AflGuard", "Aggregate", "AnyDetector", "AnyRule", "AsyncFilter", "Basgd"]
__all__ += ["Bucketing", "Buffer", "Bulyan", "CentredClipping", "Clipping", "Defence", "DefenceContext", "Detector"]
__all__ += ["Dnc", "Evidence", "FLDetector", "FLTrust", "Flame", "FoolsGold", "GeometricMedian", "Kardam", "Krum"]
__all__ += ["Mean", "Median", "MultiKrum", "NearestNeighbourMixing", "NormClipping", "PreAggregation", "Rflbat"]
__all__ += ["Rule", "Safl", "Sageflow", "ScoreRequest", "SecureAfl", "SignGuard", "StrikeState", "Strikes"]
__all__ += ["TrimmedMean", "Verdict", "ZenoPlusPlus", "accept_all"]
