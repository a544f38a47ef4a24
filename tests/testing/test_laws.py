"""The checks pass what comes with the package, and find what is broken."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

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
from asyncfl.testing.laws import close, same
from asyncfl.threats import AnyAttack, Attack


def trusting(clients: int) -> Any:
    """A federation whose server has a root set."""
    return context(clients, root_gradient=lambda model: np.asarray(model - 1, np.float32))


# --- what comes with the package -----------------------------------------------------------------------------------


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
def test_every_rule_passes(rule: Rule, exempt: dict[str, bool]) -> None:
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
def test_every_detector_passes(detector: Detector) -> None:
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
def test_every_attack_passes(description: dict[str, Any]) -> None:
    attack = TypeAdapter(AnyAttack).validate_python(description)
    check_attack(attack, any_order=attack.kind not in ("gaussian", "free_rider", "mimic"))


@pytest.mark.parametrize(
    "staleness", [ConstantStaleness(), PolynomialStaleness(), HingeStaleness(), ExponentialStaleness()]
)
def test_every_staleness_passes(staleness: Staleness) -> None:
    check_staleness(staleness)


def test_updates_that_are_not_finite_are_allowed_if_asked_for() -> None:
    attack = TypeAdapter(AnyAttack).validate_python({"kind": "non_finite"})
    check_attack(attack, finite=False)
    with pytest.raises(AssertionError, match="NonFinite: uploads must be finite"):
        check_attack(attack)


# --- what is broken ------------------------------------------------------------------------------------------------


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
            case "changes":
                updates *= 0
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
            case "a hair less than more":
                return weights * (1 + 0.9e-6)
            case "a hair more":
                return weights * (1 + 1.1e-6)
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
        ("moves", "no weight at all must move nothing"),
        ("unweighed", "an update of weight 0 must take no part"),
        ("half", "equal updates must come out times the sum of the weights"),
        ("random", "equal calls must give equal aggregates"),
        ("more", "weights must not add up to more than came in"),
        ("a hair more", "weights must not add up to more than came in"),
        ("thaws", "buffer and weights must not be changed"),
        ("negative", "weights must be >= 0"),
        ("too few", "weights must be one per update"),
    ],
)
def test_a_broken_rule_is_told_which_law_it_breaks(way: str, law: str) -> None:
    with pytest.raises(AssertionError, match=f"Broken: {law}"):
        check_rule(Broken(way=way))


def test_a_rule_that_writes_into_its_updates_fails_at_once() -> None:
    with pytest.raises(ValueError, match="read-only"):
        check_rule(Broken(way="changes"))
    check_rule(Broken(), least_updates=3)
    check_rule(Broken(way="a hair less than more"))


def test_float32_in_another_order_is_close_and_a_thousandth_is_not() -> None:
    one = np.array([0.0, 1.0, -300.0])
    for change in (9e-5 * one, np.array([9e-6, 1e-5, -1e-5])):
        assert close(one + change, one)
    for change in (1.5e-4 * one, np.array([1.5e-5, 0.0, 0.0])):
        assert not close(one + change, one)


class Thawing(Mean):
    """Writes into the buffer that it is shown."""

    kind: str = "own:Thawing"  # type: ignore[assignment]

    def step(self, state: Any, buffer: Any, weights: Any) -> Any:
        done = super().step(state, buffer, weights)
        buffer.samples.flags.writeable = True
        buffer.samples[0] += 1
        return done


def test_a_rule_that_writes_into_its_buffer_is_found() -> None:
    with pytest.raises(AssertionError, match="Thawing: buffer and weights must not be changed"):
        check_rule(Thawing())


class Forgetful(Rule):
    kind: str = "own:Forgetful"

    def start(self, context: Any, random: Any) -> Any:
        return {"seen": 0}

    def aggregate(self, updates: Any, weights: Any) -> Any:
        return (weights @ updates).astype(np.float32)

    def step(self, state: Any, buffer: Any, weights: Any) -> Any:
        state["seen"] += 1
        return super().step(state, buffer, weights)


def test_a_state_that_is_changed_in_place_is_found() -> None:
    with pytest.raises(AssertionError, match="Forgetful: the state must not be changed but returned anew"):
        check_rule(Forgetful())


class Unforgiving(Mean):
    kind: str = "own:Unforgiving"  # type: ignore[assignment]

    def start(self, context: Any, random: Any) -> Any:
        return []

    def banned(self, state: Any, client: int) -> Any:
        state.append(client)
        return state


def test_a_rule_whose_state_a_ban_changes_in_place_is_found() -> None:
    with pytest.raises(AssertionError, match="Unforgiving: a ban must not change the state but return it anew"):
        check_rule(Unforgiving())


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
            case "late":
                return np.where(staleness > 1000, 2.0, 1.0)
            case "forgets":
                return np.where(staleness == 0, 1.0, 0.0)
            case "writes":
                staleness[-1] = 0
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
def test_a_broken_staleness_is_told_which_law_it_breaks(staleness: Staleness, law: str) -> None:
    with pytest.raises(AssertionError, match=law):
        check_staleness(staleness)


def test_ages_up_to_a_thousand_are_tried_and_cannot_be_changed() -> None:
    check_staleness(Moody(way="forgets"))
    check_staleness(Moody(way="late"))
    with pytest.raises(AssertionError, match=r"weights must be 0\.\.1; an update 1001 versions old weighs 2"):
        check_staleness(Moody(way="late"), oldest=1001)
    with pytest.raises(ValueError, match="read-only"):
        check_staleness(Moody(way="writes"))


def test_a_staleness_may_rise_if_that_is_meant() -> None:
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
            case "flat":
                return ScoreRequest(0, buffer.models[0]), state
            case "below":
                return ScoreRequest(-1, buffer.models), state
            case "twelfth":
                return ScoreRequest(12, buffer.models), state
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
            case "few weights":
                verdict = replace(verdict, weights=np.zeros(len(buffer) + 1))
            case "correction":
                verdict = replace(verdict, correction=np.zeros(1, dtype=np.float32))
            case "endless":
                verdict = replace(verdict, correction=np.full(4, np.inf, dtype=np.float32))
            case "silent":
                verdict = replace(verdict, unjudged=np.ones(len(buffer), dtype=bool))
            case "silent on some":
                verdict = replace(verdict, unjudged=np.ones(len(buffer) + 1, dtype=bool))
            case "strikes blindly":
                every = np.ones(len(buffer), dtype=bool)
                verdict = replace(verdict, flagged=every, strikes=every, unjudged=every)
            case "leaves out unjudged":
                every = np.ones(len(buffer), dtype=bool)
                verdict = replace(verdict, flagged=every, unjudged=every)
            case "numbered notes":
                verdict = replace(verdict, notes={1: 2.0})  # type: ignore[dict-item]
            case "details":
                verdict = replace(verdict, details=("bad",) * (len(buffer) + 1))
            case "notes":
                verdict = replace(verdict, notes={"scores": [1, 2]})  # type: ignore[dict-item]
            case "counts":
                state.seen += 1
            case "dice":
                verdict = replace(verdict, flagged=np.random.default_rng().random(len(buffer)) < 0.5)
        return verdict, state

    def banned(self, state: Any, client: int) -> Any:
        if self.way == "bans":
            state.seen += 1
        return state


@pytest.mark.parametrize(
    ("way", "law"),
    [
        ("stranger", "must ask a client 0..11; asks 99"),
        ("nags", "must not ask a client again that did not answer; 0"),
        ("cuts", r"models to be scored must be \(n_models, 4\)"),
        ("flat", r"models to be scored must be \(n_models, 4\); got \(4,\)"),
        ("below", "must ask a client 0..11; asks -1"),
        ("twelfth", "must ask a client 0..11; asks 12"),
        ("few weights", r"weights must be \(1,\), each >= 0"),
        ("endless", r"correction must be \(4,\) and finite"),
        ("silent", "abstains must be True where unjudged updates are let in"),
        ("silent on some", r"unjudged must be \(1,\) and not struck"),
        ("strikes blindly", r"unjudged must be \(1,\) and not struck"),
        ("numbered notes", "notes must be numbers by name"),
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
def test_a_broken_detector_is_told_which_law_it_breaks(way: str, law: str) -> None:
    with pytest.raises(AssertionError, match=f"Judge: {law}"):
        check_detector(Judge(way=way))


@pytest.mark.parametrize("way", ["", "everybody", "free", "leaves out unjudged"])
def test_a_detector_may_ask_everybody_once_and_weigh_nobody(way: str) -> None:
    check_detector(Judge(way=way), scores=lambda client, models: None)


class Curious(Detector):
    """Asks about three models, and writes down what it was answered and judged."""

    kind: str = "own:Curious"
    models: ClassVar[Any] = np.array([[1, 1, 1, 1], [4, 4, 4, 4], [0, 0, 0, 1]], dtype=np.float32)
    answers: ClassVar[list[Any]] = []
    sizes: ClassVar[list[int]] = []

    def request(self, state: Any, buffer: Any, tried: Any) -> Any:
        return (None if tried else ScoreRequest(0, self.models)), state

    def judge(self, state: Any, buffer: Any, scores: Any) -> Any:
        self.answers.append(scores)
        self.sizes.append(len(buffer))
        return accept_all(buffer), state


def test_a_detector_is_answered_accuracies_that_fall_with_the_distance_from_1() -> None:
    Curious.answers.clear()
    Curious.sizes.clear()
    check_detector(Curious())
    assert [np.round(scores, 3).tolist() for scores in Curious.answers[:6]] == [[1.0, 0.25, 0.571]] * 6
    assert Curious.sizes[:6] == [1, 8, 8, 5, 12, 10]  # of one and of many, growing and shrinking


class Shuffling(Curious):
    """Draws from its own stream for what it asks."""

    kind: str = "own:Shuffling"

    def start(self, context: Any, random: Any) -> Any:
        return random

    def request(self, state: Any, buffer: Any, tried: Any) -> Any:
        if not tried:
            state.standard_normal()
        return super().request(state, buffer, tried)


def test_a_request_that_moves_the_stream_in_place_is_found() -> None:
    with pytest.raises(AssertionError, match="Shuffling: the state must not be changed by a request but returned anew"):
        check_detector(Shuffling())


class Counting(Mean):
    kind: str = "own:Counting"  # type: ignore[assignment]
    poisoned: ClassVar[dict[int, int]] = {}

    def aggregate(self, updates: Any, weights: Any) -> Any:
        self.poisoned.setdefault(len(updates), int((updates.mean(axis=1) < -5).sum()))
        return super().aggregate(updates, weights)


def test_a_rule_is_tried_on_buffers_a_quarter_of_which_is_poison() -> None:
    Counting.poisoned.clear()
    check_rule(Counting())
    assert {n: Counting.poisoned[n] for n in (1, 5, 8, 13, 20)} == {1: 0, 5: 1, 8: 2, 13: 3, 20: 5}


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
        ("order", "who stands where must not matter"),
        ("dice", "equal views and equal streams must give equal uploads"),
        ("always", "uploads must be"),
        ("labels", "labels must be classes 0..9"),
        ("images", "poisoned data must have the shape and type of the data"),
        ("chance", "equal data and equal streams must give equal poison"),
        ("boasts", "a lie must be one score 0..1 per model"),
        ("denies", "must say that it lies"),
        ("target", "a trigger needs a target class, and a target a trigger"),
    ],
)
def test_a_broken_attack_is_told_which_law_it_breaks(way: str, law: str) -> None:
    check_attack(Clumsy(), any_order=True)
    with pytest.raises(AssertionError, match=f"Clumsy: {law}"):
        check_attack(Clumsy(way=way), any_order=True)


def test_a_lie_may_be_the_least_and_the_best_score() -> None:
    check_attack(Clumsy(way="ends"))


@pytest.mark.parametrize(
    ("left", "right", "alike"),
    [
        (np.ones(2), np.ones(2), True),
        (np.array([1.0, np.nan]), np.array([1.0, np.nan]), True),
        (np.array(["a", "b"]), np.array(["a", "b"]), True),
        (np.ones(2), np.ones(3), False),
        (np.ones(2), np.ones(2, dtype=np.float32), False),
        (np.ones(2), np.array([1.0, 2.0]), False),
        (1, 1.0, False),
        (float("nan"), float("nan"), True),
        (float("nan"), 1.0, False),
        ([1, (2, np.ones(1))], [1, (2, np.ones(1))], True),
        ([1, 2], [1, 2, 3], False),
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, False),
        ({"a": 1}, {"a": 2}, False),
        (Count(3), Count(3), True),
        (Count(3), Count(4), False),
        (np.random.default_rng(0), np.random.default_rng(0), True),
        (np.random.default_rng(0), np.random.default_rng(1), False),
        (np.random.default_rng(0), 1, False),
    ],
)
def test_contents_are_compared(left: Any, right: Any, alike: bool) -> None:
    assert same(left, right) is alike


class Off(Rule):
    """A weighted sum that is off by a share of it, in a way that breaks one law alone."""

    kind: str = "own:Off"
    law: str
    share: float

    @property
    def is_linear(self) -> bool:
        return self.law == "linear"

    def aggregate(self, updates: Any, weights: Any) -> Any:
        mean = weights @ updates
        match self.law:
            case "linear":
                mean = mean * (1 + self.share)
            case "order":
                mean = mean * (1 + self.share * (updates[0, 0] > updates[-1, 0]))
            case "fixed point" if np.ptp(updates, axis=0).max() == 0:
                mean = mean * (1 + self.share)
        return mean.astype(np.float32)

    def weigh(self, updates: Any, weights: Any) -> Any:
        return weights.copy()


@pytest.mark.parametrize(
    ("law", "message"),
    [
        ("linear", "is_linear"),
        ("order", "the order of the updates must not matter"),
        ("fixed point", "equal updates must come out times the sum of the weights"),
    ],
)
def test_a_law_may_be_broken_by_rounding_and_by_no_more(law: str, message: str) -> None:
    check_rule(Off(law=law, share=5e-5))
    with pytest.raises(AssertionError, match=message):
        check_rule(Off(law=law, share=1.9e-4))
