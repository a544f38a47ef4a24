"""The `defence` section of a scenario: rule, detector, strikes, fallback and root samples."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, ValidationError

from asyncfl.base.component import Described, choice, kind_of
from asyncfl.base.description import faults_of, override
from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.aflguard import AflGuard
from asyncfl.defences.async_filter import AsyncFilter
from asyncfl.defences.basgd import Basgd
from asyncfl.defences.bulyan import Bulyan
from asyncfl.defences.centred_clipping import CentredClipping
from asyncfl.defences.detector import Detector
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
from asyncfl.defences.rflbat import Rflbat
from asyncfl.defences.rule import Rule
from asyncfl.defences.safl import Safl
from asyncfl.defences.sageflow import Sageflow
from asyncfl.defences.secure_afl import SecureAfl
from asyncfl.defences.signguard import SignGuard
from asyncfl.defences.strikes import Strikes
from asyncfl.defences.trimmed_mean import TrimmedMean
from asyncfl.defences.zeno import ZenoPlusPlus

if TYPE_CHECKING:
    AnyRule = Rule
    AnyDetector = Detector
else:
    ROBUST_RULES = (Krum, MultiKrum, TrimmedMean, Median, GeometricMedian, Bulyan, CentredClipping, NormClipping)
    OTHER_RULES = (FLTrust, Basgd, Flame, Dnc, SecureAfl, FoolsGold, SignGuard, Rflbat, Sageflow)
    AnyRule: Any = choice(Rule, Mean, *ROBUST_RULES, *OTHER_RULES)
    DETECTORS = (Safl, Evidence, Kardam, ZenoPlusPlus, AflGuard, AsyncFilter, FLDetector)
    AnyDetector: Any = choice(
        Detector, *DETECTORS, removed={"spectral": "it could ban every honest client and no attacker; take evidence"}
    )


class Defence(Described):
    """The server's defence against poisoned updates."""

    rule: AnyRule = Mean()
    """Rule that aggregates the updates of a buffer."""
    detector: AnyDetector | None = None
    """Detector that judges updates before they are aggregated; null: no detector."""
    strikes: Strikes | None = None
    """Rule by which a client is banned for flagged or malformed updates; null: no client is banned."""
    fallback: AnyRule | None = None
    """Rule for buffers in which the detector abstains and accepts every update unjudged. null: `rule`, which is the
    only one known to cost no accuracy without attackers. If the rule is not a weighted mean, a detector cannot later
    remove accepted updates from the model."""
    root_samples: Annotated[int, Field(ge=0, le=1_000_000), MeasuredIn("samples")] = 0
    """Samples of the server's own trusted root set, from the same data set; neither a client's training samples nor
    test samples."""

    @property
    def rules(self) -> dict[str, Rule]:
        """The rules in use, by the name of their field."""
        return {"rule": self.rule} | ({} if self.fallback is None else {"fallback": self.fallback})

    @property
    def is_linear(self) -> bool:
        """Whether every aggregate is a weighted sum of the updates."""
        return all(rule.is_linear for rule in self.rules.values())

    @property
    def off(self) -> bool:
        """Whether there is no defence: updates are only averaged."""
        return self.rule.is_linear and self.detector is None and self.strikes is None

    def faults(self, collected: int) -> Iterator[Fault]:
        """Yield why this defence cannot work with buffers of `collected` updates. Field names are relative to the
        defence."""
        for name, rule in self.rules.items():
            yield from (fault.under(name) for fault in rule.faults(collected))
        for name, part in [*self.rules.items(), ("detector", self.detector)]:
            if part is not None and part.needs_root and not self.root_samples:
                yield Fault("root_samples", f"must be >= 1 for {name} {kind_of(part)}, got 0; 100 is usual")
        if self.fallback is not None and not (self.detector is not None and self.detector.abstains):
            judge = "without a detector" if self.detector is None else f"with detector {kind_of(self.detector)}"
            yield Fault(
                "fallback",
                f"must be null {judge}, got {kind_of(self.fallback)}: it applies only if the detector may accept "
                "updates unjudged, as evidence does",
            )


def detector_with(kind: str, changes: Mapping[str, Any]) -> tuple[Detector, Strikes, Rule | None]:
    """Return the detector of this kind, or of this import path (`my_module:MyDetector`), two strikes within three
    judged updates, and no fallback.

    `changes`: dotted field of the three -> its value, such as `detector.deviations`, `strikes.threshold` or
    `fallback.kind`.

    Raises:
        ScenarioError: there is no such detector, or a field is wrong or missing.
    """
    for name in changes:
        if name.partition(".")[0] not in ("detector", "strikes", "fallback"):
            raise ScenarioError([Fault(name, "must be a field of detector, strikes or fallback")])
    description: dict[str, Any] = {"detector": {"kind": kind}, "strikes": {"threshold": 2, "window": 3}}
    override(description, changes, Defence)
    try:
        defence = Defence.model_validate(description)
    except ValidationError as error:
        raise ScenarioError(faults_of(error, Defence, description)) from None
    if defence.detector is None or defence.strikes is None:
        raise ScenarioError([Fault("detector" if defence.detector is None else "strikes", "must not be null")])
    if faults := [fault for fault in defence.faults(collected=1) if fault.field != "root_samples"]:
        raise ScenarioError(faults)
    return defence.detector, defence.strikes, defence.fallback
