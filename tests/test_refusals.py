"""Settings that do not go together are refused: the field that is at fault, and what is allowed there."""

import math
from typing import Any

import pytest

from asyncfl.base.errors import ScenarioError
from asyncfl.scenario import Scenario

IN_FLIGHT = {"kind": "constant", "in_flight": 3}
BUFFERED = {"kind": "buffered", "rounds": 3, "buffer": 2, "dispatch": IN_FLIGHT}
COHORT = {"kind": "buffered", "rounds": 1, "buffer": 3, "dispatch": {"kind": "cohort"}}
CLIENT = {"kind": "dp_fedavg", "noise_multiplier": 5.0}
SERVER = {**CLIENT, "noise_at": "server"}
LAPLACE = {"kind": "laplace", "epsilon": 1.0}
SAFL = {"kind": "safl"}
MODELS = {"adversary": "eavesdropper", "of": "models"}
LOST = {"kind": "independent", "probability": 1.0}
ALL_LOST = {"kind": "gilbert_elliott", "good_to_bad": 0.3, "bad_to_good": 0.1, "loss_in_good": 1}
GRADIENT = {"kind": "adaptive", "budgets": [20.0] * 5, "adjustment": "none", "upload": "gradient"}
DP_SGD = {"privacy": {"kind": "dp_sgd", "noise_multiplier": 1.0}, "training.example_clip": 1.0}
POISSON = {**DP_SGD, "training.batches": "poisson", "training.example_noise": 1.0}
DEADLINE = {"training.epochs": 4, "training.deadline_s": 4.0}


def until(scheme: dict[str, Any], **stop_at: Any) -> dict[str, Any]:
    return {"privacy": {**scheme, "stop_at": {"epsilon": 20, **stop_at}}}


def tapped(of: str, changes: dict[str, Any]) -> dict[str, Any]:
    return {f"world.tap.{of}": True, **changes}


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    # Budgets at which clients stop.
    (until({"kind": "none"}), "privacy.stop_at", "no client could upload even once"),
    (until({"kind": "local_gaussian", "epsilon": math.inf}), "privacy.stop_at", "no client could upload"),
    (until({"kind": "dp_fedavg", "noise_multiplier": 0}), "privacy.stop_at", "no client could upload"),
    (until({"kind": "dp_fedavg", "noise_multiplier": 1, "neighbours": "zero_out"}, epsilon=2),
     "privacy.stop_at.epsilon", "must be at least 4.37722"),
    (until({"kind": "adaptive", "budgets": [1, 2]}), "privacy.budgets", "must be one for each of the 5 clients"),
    (until(CLIENT, adversary="public"), "privacy.stop_at",
     "of: uploads has no meaning with adversary: public, which holds only models"),
    (until({**CLIENT, "curious": 0.0}, adversary="curious", of="all"), "privacy.stop_at.adversary",
     "must not be curious without curious clients; set privacy.curious"),
    (until({**CLIENT, "curious": 0.4}, adversary="curious"), "privacy.stop_at.of",
     "must not be uploads, since no client is asked to score uploads of others"),
    (until(CLIENT, of="models"), "privacy.stop_at", "holds the uploads that models are made of"),
    (until(CLIENT, adversary="eavesdropper"), "privacy.stop_at.adversary", "set world.tap.uplink or scoring"),
    (tapped("uplink", until(SERVER, **MODELS)), "privacy.stop_at.adversary", "set world.tap.downlink"),
    (tapped("uplink", until(SERVER, adversary="eavesdropper")), "privacy.stop_at", "no client could upload"),
    (tapped("downlink", until({"kind": "none"}, **MODELS)), "privacy.stop_at.of",
     "which this scheme does not bound"),
    (tapped("uplink", until({"kind": "mechanisms", "client": LAPLACE, "server": LAPLACE}, adversary="eavesdropper")),
     "privacy.stop_at.adversary", "the sum is not Gaussian"),
    (tapped("downlink", until(SERVER, **MODELS) | {"threats": {"attackers": 2, "attack": {"kind": "mimic"}}}),
     "privacy.stop_at.of", "must be uploads with an attack that reads the buffer"),
    (tapped("downlink", until(SERVER, **MODELS) | {"compression": {"kind": "top_k", "share": 0.5}}),
     "privacy.stop_at.of", "leave out compression"),
    # Schemes and what they need.
    ({**POISSON, "privacy": {"kind": "dp_sgd", "epsilon": 3.0}}, "privacy.epsilon", "give noise_multiplier"),
    ({**POISSON, "evaluation.audit": {"clients": 1, "twins": 2}}, "training.batches",
     "twins repeat the batches, whose secrecy the credit needs"),
    (DP_SGD, "privacy.noise_multiplier", "needs training.example_noise: 1, got 0"),
    (DP_SGD | {"training.example_noise": 1.0, "training.example_clip": 2.0}, "privacy.clip_norm",
     "must equal training.example_clip (2.0), got 1; the noise is proportional to this norm"),
    ({"privacy": {"kind": "mechanisms", "client": {"kind": "gaussian", "epsilon": 1.0},
                  "clip": {"target": "gradient", "norm": 2.0}}}, "privacy.clip.norm",
     "must equal training.gradient_clip (None), got 2"),
    ({"privacy": {"kind": "local_gaussian", "epsilon": 6, "clip_norm": 2}}, "privacy.clip_norm",
     "must equal training.gradient_clip (None), got 2"),
    ({"privacy": {**CLIENT, "curious": [9]}}, "privacy.curious", "client numbers, 0..4"),
    ({"privacy": {**CLIENT, "curious": [0, 1, 2, 3, 4]}}, "privacy.curious", "leave out at least one client"),
    ({"privacy": {**CLIENT, "curious": 1.5}}, "privacy.curious", "share"),
    (DP_SGD | {"training.example_noise": 1.0, "data.canaries": {"count": 2, "unit": "client"}},
     "data.canaries.unit", "the noise is part of its training"),
    ({"privacy": {"kind": "adaptive", "budgets": [2.0] * 5}, "data.canaries": {"count": 2, "unit": "client"}},
     "data.canaries.unit", "budgets follow from what all clients have learned"),
    # Partial work: factors that do not add up to one are for differences alone.
    *((DEADLINE | {"protocol": {**COHORT, "aggregation": kind, "partial_work": "normalised"}},
       "protocol.partial_work", f"aggregation {kind}, got")
      for kind in ("mix", "normalised", "eq6_literal", "alg4_literal")),
    *((DEADLINE | {"protocol": {**protocol, "rounds": 1, "partial_work": partial}},
       "protocol.partial_work", f"must be whole where a buffer holds one update, got {partial}")
      for partial in ("work", "normalised")
      for protocol in ({"kind": "fedasync", "in_flight": 2}, {**COHORT, "buffer": 1})),
    (DEADLINE | {"protocol.partial_work": "normalised", "privacy": GRADIENT}, "protocol.partial_work",
     "must be whole or work where privacy divides"),
    (DEADLINE | {"protocol.partial_work": "normalised", "defence.rule": {"kind": "median"}},
     "protocol.partial_work", "must be whole or work with rule median"),
    # Rules beside readings of the aggregation that are plain sums.
    *(({"protocol": {**BUFFERED, "aggregation": kind}, "defence.rule": {"kind": "krum"}}, "defence.rule",
       f"must be mean with protocol.aggregation {kind}, got krum") for kind in ("alg4_literal", "eq6_literal")),
    ({"protocol": {**BUFFERED, "aggregation": "eq6_literal"}, "defence.detector": {"kind": "evidence"},
      "defence.fallback": {"kind": "median"}}, "defence.fallback",
     "must be mean with protocol.aggregation eq6_literal"),
    ({"protocol": {**BUFFERED, "aggregation": "mix"}, "evaluation.aggregates": True}, "evaluation.aggregates",
     "must be false with protocol.aggregation mix"),
    # Worlds and sizes.
    *(({f"world.{place}": value}, f"world.{place}", f"{said}; lower it or set protocol.time_limit_s")
      for place, value, said in (("dropout", 1.0, "must be below 1, got 1: no client would ever finish a task"),
                                 ("uplink.loss", LOST, "got a loss of all: nothing would arrive"),
                                 ("downlink.loss", ALL_LOST, "got a loss of all: nothing would arrive"))),
    *(({"download_compression": {"kind": "top_k", "error_feedback": one}}, "download_compression.kind",
       "none or quantised, got top_k") for one in (True, False)),
    ({"seeds": 2_000_000_000}, "seeds", "must be a number of seeds, 1..100000"),
    ({"model.hidden": [10**8]}, "model.hidden.0", "must be less than or equal to 1000000, got 100000000"),
    ({"model.hidden": [8] * 200}, "model.hidden", ""),
    ({"defence": {"strikes": {"window": 2**63 - 1}}}, "defence.strikes.window", "must be less than or equal"),
    # Personal layers.
    ({"model.personal": ["head.*"]}, "model.personal.0", "must name parameters, but 'head.*' matches none"),
    ({"model.personal": ["*"]}, "model.personal", "must leave a parameter that is shared, got all of them"),
    ({"model.personal": ["1.*"], "defence.root_samples": 6}, "defence.root_samples",
     "must be 0 where model.personal holds the first layer (1.weight), got 6"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "field", "words"), REFUSED, ids=[f"{one[1]}: {one[2]}"[:70] for one in REFUSED])
def test_a_setting_is_refused_by_its_field_with_the_way_out(
    scenario: Scenario, changes: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario.override(changes)
    (fault,) = caught.value.faults
    assert fault.field == field
    assert words in fault.message


SHUFFLED = {"kind": "adaptive", "budgets": [1, 1, 2, 2, 3], "shuffler": {"swaps": 3}}


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"defence.detector": SAFL}, "defence.detector", "must be null with privacy.shuffler, got safl"),
        ({"defence.detector": SAFL, "defence.strikes": {"threshold": 2}}, "defence.strikes",
         "must be null with privacy.shuffler"),
        ({"defence.rule": {"kind": "krum"}}, "defence.rule", "must be mean, median or trimmed_mean without pre"),
        ({"defence.rule": {"kind": "geometric_median"}}, "defence.rule", "got geometric_median"),
        ({"protocol": BUFFERED}, "privacy.shuffler", "waits for a whole cohort, which this protocol does not"),
        ({"protocol.open": {"kind": "quorum", "share": 0.5}}, "privacy.shuffler", "waits for a whole cohort"),
        ({"protocol.check_norms": True}, "protocol.check_norms",
         "must be null or false with privacy.shuffler, got true: a row holds layers of several clients"),
        ({"protocol.late": "carry"}, "protocol.late", "must be drop with privacy.shuffler, got carry"),
        ({"protocol": {**BUFFERED, "staleness": {"kind": "polynomial"}}}, "protocol.staleness",
         "must be constant with privacy.shuffler, got polynomial"),
        ({"protocol.weighting": "samples", "data.partition": {"kind": "quantity"}}, "protocol.weighting",
         "must be uniform with privacy.shuffler where clients hold different numbers of samples, got samples"),
        ({"protocol.partial_work": "work"}, "protocol.partial_work", "must be whole with privacy.shuffler, got work: "
         "a shuffled update holds layers of clients that did unequal"),
        ({"protocol.over_selection": 1.5, "protocol.participants": 2}, "protocol.over_selection",
         "must be 1 where privacy.shuffler waits for the cohort, got one with reserves: 3 for 2"),
    ],
)  # fmt: skip
def test_settings_that_need_the_sender_are_refused_with_a_shuffler_alone(
    scenario: Scenario, changes: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario.override({"privacy": SHUFFLED}).override(changes)
    assert words in {fault.field: fault.message for fault in caught.value.faults}[field]
    scenario.override({"privacy": {**SHUFFLED, "shuffler": None}}).override(changes)


NEEDS_CLASSES = "needs classes, but diabetes is a regression"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(({"data.partition": {"kind": kind, **more}}, f"data.partition.kind: {kind} {NEEDS_CLASSES}; take iid, "
           "quantity or by (a column)")
          for kind, more in (("dirichlet", {}), ("shards", {}), ("pathological", {}), ("inner_dirichlet", {}),
                             ("by", {"column": "label"}))),
        ({"data.concept": {"kind": "relabelled"}}, f"data.concept: relabelled {NEEDS_CLASSES}; leave it null"),
        *(({"threats": {"attackers": 1, "attack": {"kind": kind}}}, f"threats.attack.kind: {kind} is an attack on "
           "classes, which a regression has none of; take another attack")
          for kind in ("label_flip", "backdoor", "puller")),
        ({"defence.detector": SAFL}, "defence.detector.kind: safl asks clients for accuracies of classes, but "
         "diabetes is a regression without classes; use another"),
        ({"defence.rule": {"kind": "sageflow"}, "defence.root_samples": 20}, "defence.rule.kind: sageflow reads "
         "predictions of classes, but diabetes is a regression without classes; use another"),
        ({"model": {"kind": "char_lstm"}}, "model.kind: char_lstm answers with classes, but diabetes is a regression "
         "without classes; use another"),
    ],
)  # fmt: skip
def test_settings_for_classes_are_refused_in_a_regression(changes: dict[str, Any], message: str) -> None:
    regression = {
        "data": {"dataset": "diabetes", "clients": 4, "samples_per_client": 80},
        "model": {"kind": "linear"},
        "protocol": {"kind": "sync", "rounds": 10},
    }
    with pytest.raises(ScenarioError) as caught:
        Scenario.read(regression).override(changes)
    assert [str(fault) for fault in caught.value.faults] == [message]


@pytest.mark.parametrize(
    "changes",
    [
        DEADLINE | {"protocol": {**COHORT, "aggregation": "mix", "partial_work": "work"}},
        DEADLINE | {"protocol": {"kind": "fedasync", "in_flight": 2, "rounds": 1}},
        DEADLINE | {"protocol.partial_work": "work", "privacy": GRADIENT},
        DEADLINE | {"protocol.partial_work": "normalised", "privacy": {**GRADIENT, "upload": "update"}},
        {"world.dropout": 1.0, "protocol.time_limit_s": 3.0},
        {"world.uplink.loss": LOST, "protocol.time_limit_s": 3.0},
        {"protocol": {**BUFFERED, "aggregation": "mix"}, "defence.rule": {"kind": "krum"}},
        {"privacy": {"kind": "local_gaussian", "epsilon": 6, "clip_norm": 2}, "training.gradient_clip": 2},
    ],
)
def test_the_way_out_of_a_refusal_is_accepted(scenario: Scenario, changes: dict[str, Any]) -> None:
    accepted = scenario.override(changes)
    assert Scenario.read(accepted.resolved()) == accepted.settled()
