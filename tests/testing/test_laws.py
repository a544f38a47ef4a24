"""The checks of components pass all built-in ones, and name the law that a broken one violates."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import ConfigDict, TypeAdapter

from asyncfl.defences import AnyDetector, AnyRule, Mean, Rule, ScoreRequest, accept_all
from asyncfl.defences.detector import Detector
from asyncfl.protocol.staleness import (
    ConstantStaleness,
    DelayAdaptiveStaleness,
    ExponentialStaleness,
    HingeStaleness,
    PolynomialStaleness,
    Staleness,
)
from asyncfl.testing import check_attack, check_detector, check_rule, check_staleness, context
from asyncfl.threats import AnyAttack, Attack


def trusting(clients: int) -> Any:
    """A federation whose server has a root set."""
    known = context(clients, root_gradient=lambda model: np.asarray(model - 1, np.float32))
    labels = np.arange(6) % 2
    likely = np.where(np.arange(2) == labels[:, None], 0.9, 0.1)
    return replace(known, root_predictions=lambda model: likely, root_labels=labels)


# --- built-in components -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "exempt"),
    [
        *((kind, {}) for kind in ("mean", "krum", "multi_krum", "trimmed_mean", "median", "geometric_median")),
        *((kind, {}) for kind in ("centred_clipping", "norm_clipping", "basgd", "secure_afl", "signguard", "rflbat")),
        # Clients that send the same are taken for Sybils.
        ("foolsgold", {"fixed_point": False}),
        ("sageflow", {}),
        # Noise is added to what equal updates say.
        ("flame", {"fixed_point": False}),
        ("dnc", {}),
        # With few updates the last two that are left to choose from tie.
        ("bulyan", {"any_order": False}),
        # Its centre is where the server's own update points to.
        ("fltrust", {"fixed_point": False}),
    ],
)
def test_built_in_rules_pass(kind: str, exempt: dict[str, bool]) -> None:
    check_rule(TypeAdapter(AnyRule).validate_python({"kind": kind}), federation=trusting(20), **exempt)


@pytest.mark.parametrize(
    ("fields", "more"),
    [
        *(({"kind": kind}, {}) for kind in ("safl", "evidence", "zeno++", "aflguard", "async_filter")),
        ({"kind": "safl", "flagged": "literal"}, {}),
        # It decides one update after another, by how fast the last ones that it accepted change.
        ({"kind": "kardam"}, {"depends_on": ("order",), "must_find": None}),
        # It looks for updates that their client's earlier ones do not predict; those of a steady attack are predicted.
        ({"kind": "fldetector", "warm_up": 1}, {"must_find": None}),
    ],
    ids=lambda given: given.get("kind", ""),
)
def test_built_in_detectors_pass(fields: dict[str, Any], more: dict[str, Any]) -> None:
    check_detector(TypeAdapter(AnyDetector).validate_python(fields), federation=trusting(12), **more)


@pytest.mark.parametrize(
    "description",
    [
        {"kind": "sign_flip", "of": "model"},
        {"kind": "alie", "knowledge": "buffer"},
        *({"kind": kind} for kind in ("label_flip", "gaussian", "ipm", "min_max", "min_sum", "tailored", "mimic")),
        *({"kind": kind} for kind in ("scaling", "lying_evaluator", "flooding", "evaluator_bait")),
        *({"kind": kind} for kind in ("orthogonal", "puller", "fang")),
        {"kind": "backdoor", "side": 2},
        {"kind": "free_rider", "std": 0.1},
        {"kind": "adaptive", "attack": {"kind": "sign_flip", "factor": 5.0}},
        {"kind": "combined", "attacks": [{"kind": "label_flip"}, {"kind": "flooding"}]},
    ],
    ids=lambda description: description["kind"],
)
def test_built_in_attacks_pass(description: dict[str, Any]) -> None:
    attack = TypeAdapter(AnyAttack).validate_python(description)
    check_attack(attack, any_order=attack.kind not in ("gaussian", "free_rider", "mimic"))


@pytest.mark.parametrize(
    "staleness",
    [
        ConstantStaleness(),
        PolynomialStaleness(),
        HingeStaleness(),
        DelayAdaptiveStaleness(),
        ExponentialStaleness(),
    ],
)
def test_built_in_staleness_passes(staleness: Staleness) -> None:
    check_staleness(staleness)


def test_non_finite_uploads_pass_only_where_allowed() -> None:
    attack = TypeAdapter(AnyAttack).validate_python({"kind": "non_finite"})
    check_attack(attack, finite=False)
    with pytest.raises(AssertionError, match="NonFinite: uploads must be finite"):
        check_attack(attack)


# --- broken components ------------------------------------------------------------------------------------------------

AGGREGATES: dict[str, Any] = {
    "shape": lambda mean, updates, weights: mean[None],
    "type": lambda mean, updates, weights: mean.astype(np.float64),
    "infinite": lambda mean, updates, weights: mean * np.float32(np.inf),
    "first": lambda mean, updates, weights: (updates[0] * weights.sum()).astype(np.float32),
    "moves": lambda mean, updates, weights: mean + np.float32(1),
    "unweighed": lambda mean, updates, weights: (weights.sum() * updates.mean(axis=0)).astype(np.float32),
    "half": lambda mean, updates, weights: mean / 2,
    "random": lambda mean, updates, weights: mean + np.random.default_rng().random(len(mean), dtype=np.float32),
}
WEIGHTS: dict[str, Any] = {
    "more": lambda weights: weights * 2,
    "negative": lambda weights: -weights,
    "too few": lambda weights: weights[1:],
}


class Broken(Rule):
    kind: str = "own:Broken"
    way: str = ""

    def start(self, context: Any, random: Any) -> Any:
        return []

    def aggregate(self, updates: Any, weights: Any) -> Any:
        mean = (weights @ updates).astype(np.float32)
        return AGGREGATES.get(self.way, lambda mean, updates, weights: mean)(mean, updates, weights)

    def weigh(self, updates: Any, weights: Any) -> Any:
        return WEIGHTS.get(self.way, np.copy)(weights)

    def step(self, state: Any, buffer: Any, weights: Any) -> Any:
        done = super().step(state, buffer, weights)
        if self.way == "thaws":
            weights.flags.writeable = True
            weights[0] *= 2
        if self.way == "buffer":
            buffer.samples.flags.writeable = True
            buffer.samples[0] += 1
        if self.way == "state":
            state.append(1)
        return done

    def forget_client(self, state: Any, client: int) -> Any:
        if self.way == "ban":
            state.append(client)
        return state


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
        ("buffer", "buffer and weights must not be changed"),
        ("negative", "weights must be >= 0"),
        ("too few", "weights must be one per update"),
        ("state", "the state must not be changed but returned anew"),
        ("ban", "a ban must not change the state but return it anew"),
    ],
)
def test_a_broken_rule_fails_with_the_name_of_the_law(way: str, law: str) -> None:
    check_rule(Broken())
    with pytest.raises(AssertionError, match=f"Broken: {law}"):
        check_rule(Broken(way=way))


class Thawed(Staleness):
    model_config = ConfigDict(frozen=False)
    kind: str = "own:Thawed"


class Nameless(Staleness):
    def weight(self, staleness: Any) -> Any:
        return np.ones(len(staleness))


AGES: dict[str, Any] = {
    "number": lambda ages: 1.0,
    "type": lambda ages: np.ones(len(ages), dtype=np.float32),
    "fresh": lambda ages: np.full(len(ages), 0.5),
    "large": lambda ages: 1.0 + ages,
    "rises": lambda ages: np.where(ages == 1, 0.5, 1.0),
    "company": lambda ages: np.where(ages == 0, 1.0, 1 / len(ages)),
}


class Wrong(Staleness):
    """Weights that keep all laws, and are not those of the formula (1 + s)^-1/2."""

    kind: str = "own:Wrong"
    way: str

    def weight(self, staleness: Any) -> Any:
        match self.way:
            case "ignores its exponent":
                return 1 / (1.0 + staleness)
            case "divides whole numbers":
                return (1 // (1 + staleness)).astype(float)
            case "late boundary":
                return np.where(staleness <= 4, 1.0, np.maximum(staleness - 3.0, 1.0) ** -0.5)
        return 1 - staleness / 1100


@pytest.mark.parametrize("way", ["ignores its exponent", "divides whole numbers", "late boundary"])
def test_weights_by_another_formula_are_told_apart_by_two_values(way: str) -> None:
    check_staleness(Wrong(way=way))
    with pytest.raises(AssertionError, match=r"Wrong: an update [14] versions old must weigh"):
        check_staleness(Wrong(way=way), like={1: 0.71, 4: 0.45})


def test_weights_that_turn_negative_after_a_thousand_versions_are_found() -> None:
    with pytest.raises(AssertionError, match=r"weights must be 0..1; an update 11.. versions old weighs -"):
        check_staleness(Wrong(way="linear"))


class Moody(Staleness):
    kind: str = "own:Moody"
    way: str

    def weight(self, staleness: Any) -> Any:
        return AGES[self.way](staleness)


@pytest.mark.parametrize(
    ("staleness", "law"),
    [
        (Thawed(), "must stay frozen"),
        (Nameless(), "must have a field kind: str"),
        (Mean(), "must derive from Staleness"),
        (Moody(way="number"), "must be .* float64; got float"),
        (Moody(way="type"), "float64; got .* float32"),
        (Moody(way="fresh"), "a fresh update must weigh 1; it weighs 0.5"),
        (Moody(way="large"), "weights must be 0..1; an update 1 versions old weighs 2"),
        (Moody(way="rises"), "an older update must not weigh more; 0.5 at 1 versions, 1.0 at 2"),
        (Moody(way="company"), "each weight must depend on its own age alone"),
    ],
)
def test_a_broken_staleness_fails_with_the_name_of_the_law(staleness: Any, law: str) -> None:
    with pytest.raises(AssertionError, match=law):
        check_staleness(staleness)
    check_staleness(Moody(way="rises"), falling=False)


VERDICTS: dict[str, Any] = {
    "numbers": lambda n: {"flagged": np.zeros(n)},
    "one": lambda n: {"flagged": np.zeros(1, bool), "strikes": np.zeros(1, bool)},
    "weights": lambda n: {"weights": -np.ones(n)},
    "free": lambda n: {"weights": np.zeros(n)},
    "correction": lambda n: {"correction": np.zeros(1, np.float32)},
    "silent": lambda n: {"unjudged": np.ones(n, bool)},
    "strikes blindly": lambda n: dict.fromkeys(("flagged", "strikes", "unjudged"), np.ones(n, bool)),
    "leaves out unjudged": lambda n: dict.fromkeys(("flagged", "unjudged"), np.ones(n, bool)),
    "details": lambda n: {"details": ("bad",) * (n + 1)},
    "notes": lambda n: {"notes": {"scores": [1, 2]}},
    "dice": lambda n: {"flagged": np.random.default_rng().random(n) < 0.5},
}
REQUESTS: dict[str, Any] = {
    "stranger": lambda models, tried: ScoreRequest(99, models),
    "nags": lambda models, tried: ScoreRequest(0, models),
    "cuts": lambda models, tried: ScoreRequest(0, models[:, 1:]),
    "everybody": lambda models, tried: None if len(tried) == 12 else ScoreRequest(len(tried), models),
}


class Judge(Detector):
    kind: str = "own:Judge"
    way: str = ""

    def start(self, context: Any, random: Any) -> Any:
        return [0]

    def request(self, state: Any, buffer: Any, tried: Any) -> Any:
        return REQUESTS.get(self.way, lambda models, tried: None)(buffer.models, tried), state

    def judge(self, state: Any, buffer: Any, scores: Any) -> Any:
        if self.way == "counts":
            state[0] += 1
        return replace(accept_all(buffer), **VERDICTS.get(self.way, lambda n: {})(len(buffer))), state

    def forget_client(self, state: Any, client: int) -> Any:
        if self.way == "bans":
            state[0] += 1
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
    check_detector(Judge(way=way), scores=lambda client, models: None, must_find=None)


class Distant(Detector):
    """Strikes updates that are far from the median of their buffer, or does one of the usual things wrong."""

    kind: str = "own:Distant"
    fault: str = ""

    def start(self, context: Any, random: Any) -> Any:
        return {}

    def judge(self, state: Any, buffer: Any, scores: Any) -> Any:
        moved = buffer.models - np.array([buffer.bases[base] for base in buffer.base_of])
        distances = np.linalg.norm(moved - np.median(moved, axis=0), axis=1)
        if self.fault == "forgets bases":
            distances = np.linalg.norm(buffer.models, axis=1)
        struck = distances > 4 * np.median(distances)
        senders = range(len(buffer)) if self.fault == "remembers rows" else buffer.clients.tolist()
        known = {sender: state.get(sender, 0) + int(one) for sender, one in zip(senders, struck, strict=True)}
        struck = np.array([known[sender] >= 2 for sender in senders])
        match self.fault:
            case "reversed":
                struck = ~struck
            case "strikes the stale":
                struck |= buffer.staleness > 0
            case "strikes high numbers":
                struck |= buffer.clients > 9
            case "sleeps":
                struck[:] = False
            case "strikes the oldest":
                struck |= buffer.staleness > 5
            case "squares":
                struck = distances**2 > 4 * np.median(distances)
            case "divides":
                struck |= distances / np.median(np.abs(distances - np.median(distances))) > 40
            case "dice for honest buffers":
                if not struck.any():
                    struck = np.random.default_rng().random(len(struck)) < 0.5
        return replace(accept_all(buffer), flagged=struck, strikes=struck), {**state, **known}

    def forget_client(self, state: Any, client: int) -> Any:
        return {one: count for one, count in state.items() if one != client}


@pytest.mark.parametrize(
    ("fault", "law"),
    [
        ("sleeps", "must find 50% of a gross attack"),
        ("reversed", "must find 50% of a gross attack"),
        ("strikes the stale", "must not leave out honest updates because they are stale"),
        ("remembers rows", "the order of updates in a buffer must not matter"),
        ("strikes high numbers", "the numbers of equal clients must not matter"),
        ("forgets bases", "a number added to all parameters of all models must not matter"),
        (
            "strikes the oldest",
            r"must not leave out honest updates because they are stale .at most 20 versions.; .* 100%",
        ),
        ("squares", "all models, updates and noise times 128 must not matter"),
        ("divides", "must not divide by zero; .*; invalid value .* in a buffer of version 0, 1 updates of clients"),
        ("dice for honest buffers", "equal buffers and equal streams must give equal verdicts"),
    ],
)
def test_a_detector_with_a_usual_bug_is_found_out(fault: str, law: str) -> None:
    with pytest.raises(AssertionError, match=f"Distant: {law}"):
        check_detector(Distant(fault=fault))


@pytest.mark.parametrize(("fault", "by_design"), [("squares", "scale"), ("strikes the oldest", "age")])
def test_what_verdicts_depend_on_by_design_is_not_checked(fault: str, by_design: Any) -> None:
    check_detector(Distant(fault=fault), depends_on=(by_design,))


@pytest.mark.parametrize("names", [("orders",), "order"])
def test_a_dependence_that_does_not_exist_is_refused(names: Any) -> None:
    with pytest.raises(ValueError, match=r"depends_on must be a collection of order, .*, age; got 'order"):
        check_detector(Distant(), depends_on=names)


class Careless(Detector):
    kind: str = "own:Careless"
    way: str

    def start(self, context: Any, random: Any) -> Any:
        return ()

    def judge(self, state: Any, buffer: Any, scores: Any) -> Any:
        if self.way == "raises":
            raise KeyError("mine")
        return accept_all(buffer)


def test_an_exception_of_a_detector_comes_with_the_buffer_that_it_judged() -> None:
    with pytest.raises(KeyError) as caught:
        check_detector(Careless(way="raises"))
    assert caught.value.__notes__ == [
        "Careless judged a buffer of version 0, 1 updates of clients [0], [0] versions old"
    ]


def test_a_verdict_without_the_next_state_is_named() -> None:
    with pytest.raises(AssertionError, match=r"Careless: judge must return \(Verdict, next state\); got Verdict"):
        check_detector(Careless(way="forgets the state"))


def test_a_plain_detector_that_finds_a_gross_attack_passes() -> None:
    check_detector(Distant())


UPLOADS: dict[str, Any] = {
    "one": lambda honest: honest[0],
    "double": lambda honest: honest.astype(np.float64),
    "order": lambda honest: honest * np.arange(len(honest), dtype=np.float32)[:, None],
    "dice": lambda honest: honest + np.random.default_rng().random(honest.shape, dtype=np.float32),
    "always": lambda honest: np.ones((2, honest.shape[1]), dtype=np.float32),
}
POISON: dict[str, Any] = {
    "labels": lambda images, labels: (images, labels + 1),
    "images": lambda images, labels: (images[1:], labels[1:]),
    "chance": lambda images, labels: (images, np.random.default_rng().permutation(labels)),
}


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
        return UPLOADS.get(self.way, np.negative)(view.honest)

    def poison(self, images: Any, labels: Any, classes: int, random: Any) -> Any:
        return POISON.get(self.way, lambda images, labels: (images, labels))(images, labels)

    def lie(self, scores: Any, random: Any) -> Any:
        return {"boasts": scores + 1, "denies": 1 - scores}.get(self.way, scores)

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
