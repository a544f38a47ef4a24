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
from asyncfl.defences.defence_spec import AnyDetector, AnyRule, Defence
from asyncfl.defences.detector import Detector, Verdict, accept_all
from asyncfl.defences.dnc import Dnc
from asyncfl.defences.evidence.evidence_detector import Evidence
from asyncfl.defences.flame import Flame
from asyncfl.defences.fldetector import FLDetector
from asyncfl.defences.fltrust import FLTrust
from asyncfl.defences.geometric_median import GeometricMedian
from asyncfl.defences.kardam import Kardam
from asyncfl.defences.krum import Krum, MultiKrum
from asyncfl.defences.mean import Mean
from asyncfl.defences.median import Median
from asyncfl.defences.norm_clipping import NormClipping
from asyncfl.defences.preaggregation import Bucketing, NearestNeighbourMixing, PreAggregation
from asyncfl.defences.rule import Aggregate, Rule
from asyncfl.defences.safl import Safl
from asyncfl.defences.score_request import ScoreRequest
from asyncfl.defences.secure_afl import SecureAfl
from asyncfl.defences.strikes import Strikes, StrikeState
from asyncfl.defences.trimmed_mean import TrimmedMean
from asyncfl.defences.zeno import ZenoPlusPlus

__all__ = ["AflGuard", "Aggregate", "AnyDetector", "AnyRule", "AsyncFilter", "Basgd", "Bucketing", "Buffer", "Bulyan"]
__all__ += ["CentredClipping", "Defence", "DefenceContext", "Detector", "Dnc", "Evidence", "FLDetector", "FLTrust"]
__all__ += ["Flame", "GeometricMedian", "Kardam", "Krum", "Mean", "Median", "MultiKrum", "NearestNeighbourMixing"]
__all__ += ["NormClipping", "PreAggregation", "Rule", "Safl", "ScoreRequest", "SecureAfl", "StrikeState"]
__all__ += ["Strikes", "TrimmedMean", "Verdict", "ZenoPlusPlus", "accept_all"]
