"""The checks of components pass all built-in ones, and name the law that a broken one violates."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from pydantic import ConfigDict, TypeAdapter

from asyncfl.defences import (
    AflGuard,
    AsyncFilter,
    Basgd,
    Bulyan,
    CentredClipping,
    Flame,
    FLDetector,
    FLTrust,
    GeometricMedian,
    Kardam,
    Krum,
    Mean,
    Median,
    MultiKrum,
    NormClipping,
    Rule,
    Safl,
    ScoreRequest,
    SecureAfl,
    Spectral,
    TrimmedMean,
    Verdict,
    ZenoPlusPlus,
    accept_all,
)
from asyncfl.defences.detector import Detector
from asyncfl.server.staleness import (
    ConstantStaleness,
    ExponentialStaleness,
    HingeStaleness,
    PolynomialStaleness,
    Staleness,
)
from asyncfl.testing import check_attack, check_detector, check_rule, check_staleness, context
from asyncfl.threats import AnyAttack, Attack


def trusting(clients: int) -> Any:
    """A federation whose server has a root set."""
    return context(clients, root_gradient=lambda model: np.asarray(model - 1, np.float32))


# --- built-in components -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "exempt"),
    [
        (Mean(), {}),
        (Krum(), {}),
        (MultiKrum(), {}),
        (TrimmedMean(), {}),
        (Median(), {}),
        (GeometricMedian(), {}),
        (CentredClipping(), {}),
        (NormClipping(), {}),
        (Basgd(), {}),
        (SecureAfl(), {}),
        # Noise is added to what equal updates say.
        (Flame(), {"fixed_point": False}),
        # With few updates the last two that are left to choose from tie.
        (Bulyan(), {"any_order": False}),
        # Its centre is where the server's own update points to.
        (FLTrust(), {"fixed_point": False}),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_built_in_rules_pass(rule: Rule, exempt: dict[str, bool]) -> None:
    check_rule(rule, federation=trusting(20), **exempt)


@pytest.mark.parametrize(
    "detector",
    [
        Safl(),
        Safl(flagged="literal"),
        Spectral(),
        Kardam(),
        ZenoPlusPlus(),
        AflGuard(),
        AsyncFilter(),
        FLDetector(warm_up=1),
    ],
    ids=lambda d: d.kind,
)
def test_built_in_detectors_pass(detector: Detector) -> None:
    check_detector(detector, federation=trusting(12))


@pytest.mark.parametrize(
    "description",
    [
        {"kind": "sign_flip", "of": "model"},
        {"kind": "label_flip"},
        {"kind": "gaussian"},
        {"kind": "alie", "knowledge": "buffer"},
        {"kind": "ipm"},
        {"kind": "min_max"},
        {"kind": "min_sum"},
        {"kind": "tailored"},
        {"kind": "mimic"},
        {"kind": "scaling"},
        {"kind": "backdoor", "side": 2},
        {"kind": "free_rider", "std": 0.1},
        {"kind": "lying_evaluator"},
        {"kind": "flooding"},
        {"kind": "evaluator_bait"},
        {"kind": "adaptive", "attack": {"kind": "sign_flip", "factor": 5.0}},
        {"kind": "combined", "attacks": [{"kind": "label_flip"}, {"kind": "flooding"}]},
    ],
    ids=lambda description: description["kind"],
)
def test_built_in_attacks_pass(description: dict[str, Any]) -> None:
    attack = TypeAdapter(AnyAttack).validate_python(description)
    check_attack(attack, any_order=attack.kind not in ("gaussian", "free_rider", "mimic"))


@pytest.mark.parametrize(
    "staleness", [ConstantStaleness(), PolynomialStaleness(), HingeStaleness(), ExponentialStaleness()]
)
def test_built_in_staleness_passes(staleness: Staleness) -> None:
    check_staleness(staleness)


def test_non_finite_uploads_pass_only_where_allowed() -> None:
    attack = TypeAdapter(AnyAttack).validate_python({"kind": "non_finite"})
    check_attack(attack, finite=False)
    with pytest.raises(AssertionError, match="NonFinite: uploads must be finite"):
        check_attack(attack)


# --- broken components ------------------------------------------------------------------------------------------------


class Broken(Rule):
    kind: str = "own:Broken"
    way: str = ""

    def aggregate(self, updates: Any, weights: Any) -> Any:
        mean = (weights @ updates).astype(np.float32)
        match self.way:
            case "shape":
                return mean[None]
            case "type":
                return mean.astype(np.float64)
            case "infinite":
                return mean * np.float32(np.inf)
            case "first":
                return (updates[0] * weights.sum()).astype(np.float32)
            case "moves":
                return mean + np.float32(1)
            case "unweighed":
                return (weights.sum() * updates.mean(axis=0)).astype(np.float32)
            case "half":
                return mean / 2
            case "random":
                return mean + np.random.default_rng().standard_normal(len(mean)).astype(np.float32)
        return mean

    def weigh(self, updates: Any, weights: Any) -> Any:
        match self.way:
            case "more":
                return weights * 2
            case "negative":
                return -weights
            case "too few":
                return weights[1:]
            case "thaws":
                weights.flags.writeable = True
                weights[0] /= 2
        return weights.copy()


@pytest.mark.parametrize(
    ("way", "law"),
    [
        ("shape", r"the aggregate must be \(1,\) float32; got \(1, 1\)"),
        ("type", "the aggregate must be .* float64"),
        ("infinite", "finite updates must give a finite aggregate"),
        ("first", "the order of the updates must not matter"),
        ("moves", "zero weights must give a zero aggregate"),
        ("unweighed", "an update of weight 0 must have no influence"),
        ("half", "equal updates must give their value times the sum of the weights"),
        ("random", "equal calls must give equal aggregates"),
        ("more", "weights must not sum to more than the given weights"),
        ("thaws", "buffer and weights must not be changed"),
        ("negative", "weights must be >= 0"),
        ("too few", "weights must be one per update"),
    ],
)
def test_a_broken_rule_fails_with_the_name_of_the_law(way: str, law: str) -> None:
    with pytest.raises(AssertionError, match=f"Broken: {law}"):
        check_rule(Broken(way=way))


class Mutating(Mean):
    """A mean that changes what it must not change."""

    kind: str = "own:Mutating"  # type: ignore[assignment]
    way: str

    def start(self, context: Any, random: Any) -> Any:
        return []

    def step(self, state: Any, buffer: Any, weights: Any) -> Any:
        done = super().step(state, buffer, weights)
        match self.way:
            case "buffer":
                buffer.samples.flags.writeable = True
                buffer.samples[0] += 1
            case "state":
                state.append(1)
        return done

    def forget_client(self, state: Any, client: int) -> Any:
        if self.way == "ban":
            state.append(client)
        return state


@pytest.mark.parametrize(
    ("way", "law"),
    [
        ("buffer", "buffer and weights must not be changed"),
        ("state", "the state must not be changed but returned anew"),
        ("ban", "a ban must not change the state but return it anew"),
    ],
)
def test_a_rule_that_changes_its_inputs_fails(way: str, law: str) -> None:
    with pytest.raises(AssertionError, match=f"Mutating: {law}"):
        check_rule(Mutating(way=way))


class Thawed(Staleness):
    model_config = ConfigDict(frozen=False)
    kind: str = "own:Thawed"


class Nameless(Staleness):
    def weight(self, staleness: Any) -> Any:
        return np.ones(len(staleness))


class Moody(Staleness):
    kind: str = "own:Moody"
    way: str = ""

    def weight(self, staleness: Any) -> Any:
        even = np.ones(len(staleness))
        match self.way:
            case "number":
                return 1.0
            case "type":
                return np.ones(len(staleness), dtype=np.float32)
            case "fresh":
                return even / 2
            case "large":
                return 1.0 + staleness
            case "rises":
                return np.where(staleness == 1, 0.5, 1.0)
            case "company":
                return np.where(staleness == 0, 1.0, 1 / len(staleness))
        return even


@pytest.mark.parametrize(
    ("staleness", "law"),
    [
        (Thawed(), "must stay frozen"),
        (Nameless(), "must have a field kind: str"),
        (Moody(way="number"), "must be .* float64; got float"),
        (Moody(way="type"), "float64; got .* float32"),
        (Moody(way="fresh"), "a fresh update must weigh 1; it weighs 0.5"),
        (Moody(way="large"), "weights must be 0..1; an update 1 versions old weighs 2"),
        (Moody(way="rises"), "an older update must not weigh more; 0.5 at 1 versions, 1.0 at 2"),
        (Moody(way="company"), "each weight must depend on its own age alone"),
    ],
)
def test_a_broken_staleness_fails_with_the_name_of_the_law(staleness: Staleness, law: str) -> None:
    with pytest.raises(AssertionError, match=law):
        check_staleness(staleness)


def test_a_rising_staleness_passes_where_allowed() -> None:
    check_staleness(Moody(way="rises"), falling=False)
    with pytest.raises(AssertionError, match="must derive from Staleness"):
        check_staleness(Mean())  # type: ignore[arg-type]


@dataclass
class Count:
    seen: int = 0


class Judge(Detector):
    kind: str = "own:Judge"
    way: str = ""

    def start(self, context: Any, random: Any) -> Any:
        return Count()

    def request(self, state: Any, buffer: Any, tried: Any) -> Any:
        match self.way:
            case "stranger":
                return ScoreRequest(99, buffer.models), state
            case "nags":
                return ScoreRequest(0, buffer.models), state
            case "cuts":
                return ScoreRequest(0, buffer.models[:, 1:]), state
            case "everybody":
                return (None if len(tried) == 12 else ScoreRequest(len(tried), buffer.models)), state
        return None, state

    def judge(self, state: Any, buffer: Any, scores: Any) -> Any:
        verdict = accept_all(buffer)
        match self.way:
            case "numbers":
                verdict = Verdict(np.zeros(len(buffer)), verdict.strikes)  # type: ignore[arg-type]
            case "one":
                verdict = replace(verdict, strikes=np.zeros(1, dtype=bool), flagged=np.zeros(1, dtype=bool))
            case "weights":
                verdict = replace(verdict, weights=-np.ones(len(buffer)))
            case "free":
                verdict = replace(verdict, weights=np.zeros(len(buffer)))
            case "correction":
                verdict = replace(verdict, correction=np.zeros(1, dtype=np.float32))
            case "silent":
                verdict = replace(verdict, unjudged=np.ones(len(buffer), dtype=bool))
            case "strikes blindly":
                every = np.ones(len(buffer), dtype=bool)
                verdict = replace(verdict, flagged=every, strikes=every, unjudged=every)
            case "leaves out unjudged":
                every = np.ones(len(buffer), dtype=bool)
                verdict = replace(verdict, flagged=every, unjudged=every)
            case "details":
                verdict = replace(verdict, details=("bad",) * (len(buffer) + 1))
            case "notes":
                verdict = replace(verdict, notes={"scores": [1, 2]})  # type: ignore[dict-item]
            case "counts":
                state.seen += 1
            case "dice":
                verdict = replace(verdict, flagged=np.random.default_rng().random(len(buffer)) < 0.5)
        return verdict, state

    def forget_client(self, state: Any, client: int) -> Any:
        if self.way == "bans":
            state.seen += 1
        return state


@pytest.mark.parametrize(
    ("way", "law"),
    [
        ("stranger", "must ask a client 0..11; asks 99"),
        ("nags", "must not ask a client again that did not answer; 0"),
        ("cuts", r"models to be scored must be \(n_models, 4\)"),
        ("silent", "abstains must be True where unjudged updates are let in"),
        ("strikes blindly", r"unjudged must be \(1,\) and not struck"),
        ("numbers", r"flagged must be \(1,\) bool; got \(1,\) float64"),
        ("one", r"flagged must be \(8,\) bool"),
        ("weights", "weights must be .* each >= 0"),
        ("correction", r"correction must be \(4,\) and finite"),
        ("details", "details must be one text per update, or none"),
        ("notes", "notes must be numbers by name"),
        ("counts", "the state must not be changed but returned anew"),
        ("bans", "a ban must not change the state"),
        ("dice", "equal buffers and equal streams must give equal verdicts"),
    ],
)
def test_a_broken_detector_fails_with_the_name_of_the_law(way: str, law: str) -> None:
    with pytest.raises(AssertionError, match=f"Judge: {law}"):
        check_detector(Judge(way=way))


@pytest.mark.parametrize("way", ["", "everybody", "free", "leaves out unjudged"])
def test_a_detector_may_ask_every_client_once_and_give_weight_0(way: str) -> None:
    check_detector(Judge(way=way), scores=lambda client, models: None)


class Clumsy(Attack):
    kind: str = "own:Clumsy"
    way: str = ""

    @property
    def sees(self) -> Any:
        return "all" if self.way == "sees" else "own"

    @property
    def rate(self) -> float:
        return 0.5 if self.way == "slow" else 1.0

    def craft(self, view: Any) -> Any:
        match self.way:
            case "one":
                return view.honest[0]
            case "double":
                return view.honest.astype(np.float64)
            case "order":
                return view.honest * np.arange(len(view.honest), dtype=np.float32)[:, None]
            case "dice":
                return view.honest + np.random.default_rng().random(view.honest.shape, dtype=np.float32)
            case "always":
                return np.ones((2, view.honest.shape[1]), dtype=np.float32)
        return -view.honest

    def poison(self, images: Any, labels: Any, classes: int, random: Any) -> Any:
        match self.way:
            case "labels":
                return images, labels + 1
            case "images":
                return images[1:], labels[1:]
            case "chance":
                return images, np.random.default_rng().permutation(labels)
        return images, labels

    def lie(self, scores: Any, random: Any) -> Any:
        return {"boasts": scores + 1, "denies": 1 - scores, "ends": np.round(scores)}.get(self.way, scores)

    @property
    def lies(self) -> bool:
        return self.way == "ends"

    @property
    def target(self) -> int | None:
        return 3 if self.way == "target" else None


@pytest.mark.parametrize(
    ("way", "law"),
    [
        ("sees", "sees must be own, colluders or buffer; all"),
        ("slow", "rate must be >= 1; got 0.5"),
        ("one", r"uploads must be \(2, 4\) float32; got \(4,\)"),
        ("double", "uploads must be .* float64"),
        ("order", "the order of the attackers must not matter"),
        ("dice", "equal views and equal streams must give equal uploads"),
        ("always", "uploads must be"),
        ("labels", "labels must be classes 0..9"),
        ("images", "poisoned data must have the shape and type of the data"),
        ("chance", "equal data and equal streams must give equal poison"),
        ("boasts", "lie must return one score 0..1 per model"),
        ("denies", "must set its property lies"),
        ("target", "a trigger needs a target class, and a target a trigger"),
    ],
)
def test_a_broken_attack_fails_with_the_name_of_the_law(way: str, law: str) -> None:
    check_attack(Clumsy(), any_order=True)
    with pytest.raises(AssertionError, match=f"Clumsy: {law}"):
        check_attack(Clumsy(way=way), any_order=True)
