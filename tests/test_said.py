"""What is said of scenarios at their limits and just beyond, and what accepted ones are estimated to cost.

`python tests/test_said.py` writes the list anew; read the difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncfl.errors import InputError
from asyncfl.limits import clock_seconds, memory_bytes, timelines_before
from asyncfl.scenario import Scenario

LIST = Path(__file__).with_name("said.json")
BASE: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 6, "samples_per_client": 20, "source": "embedded", "test_samples": 30},
    "model": {"kind": "mlp", "hidden": [8]},
    "training": {"lr": 0.05, "batch_size": 5, "epochs": 2},
    "protocol": {"kind": "sync", "rounds": 3},
    "world": {"device": {"kind": "fixed", "s_per_sample": 0.02}},
}
BUFFERED = {"kind": "buffered", "rounds": 5, "buffer": 3, "dispatch": {"kind": "constant", "in_flight": 5}}
COHORT = {**BUFFERED, "dispatch": {"kind": "cohort", "participants": 4, "over_selection": 1.25}}
FLIP = {"kind": "sign_flip"}
NBAFL = {"kind": "nbafl", "epsilon": 60.0}
FEDAVG = {"kind": "dp_fedavg", "noise_multiplier": 0.5, "clip_norm": 0.5}
ADAPTIVE = {"kind": "adaptive", "budgets": [2.0] * 6}
TWINS = {"clients": 2, "twins": 10, "neighbours": ["ordinary", "zeroed"]}
SHUFFLED = {**ADAPTIVE, "shuffler": {"swaps": 2}}
SLOW_SERVER = {"world.aggregate_s": 2.0, "world.aggregate_s_per_number": 0.001, "world.evaluate_s": 0.25}
CHANGES: list[dict[str, Any]] = [
    {},
    *({"model": {"kind": kind}} for kind in ("cnn", "lenet", "small_cnn", "digits")),
    {"model.hidden": []},
    {"model.hidden": [200, 100]},
    {"protocol": BUFFERED},
    {"protocol": {**BUFFERED, "time_limit_s": 20}},
    {"protocol": COHORT},
    {"protocol": {**COHORT, "buffer": 4}},
    {"protocol": {**COHORT, "buffer": 5}},
    {"protocol": {**BUFFERED, "buffer": 6}},
    {"protocol": {**BUFFERED, "buffer": 7}},
    {"protocol": {**BUFFERED, "dispatch": {"kind": "constant", "in_flight": 6}}},
    {"protocol": {**BUFFERED, "dispatch": {"kind": "constant", "in_flight": 7}}},
    {"protocol": {**BUFFERED, "dispatch": {"kind": "constant", "in_flight": 0.5}}},
    {"protocol": {**BUFFERED, "dispatch": {"kind": "continuous"}, "late": "drop"}},
    {"protocol": {**BUFFERED, "server_rate": 0.5}},
    {"protocol": {**BUFFERED, "server_rate": 0.5, "aggregation": "normalised"}},
    {"protocol": {**BUFFERED, "server_rate": 1.0, "aggregation": "eq6_literal"}},
    {"protocol": {**BUFFERED, "aggregation": "alg4_literal"}, "defence": {"rule": {"kind": "median"}}},
    {"protocol": {"kind": "fedasync", "rounds": 8, "in_flight": 4}},
    {"protocol": {"kind": "fedasync", "rounds": 8, "in_flight": 7}},
    {"protocol.participants": 6, "protocol.over_selection": 2.0},
    {"protocol.participants": 7},
    {"protocol.open": {"kind": "deadline", "seconds": 1.0, "at_least": 6}},
    {"protocol.open": {"kind": "deadline", "seconds": 1.0, "at_least": 7}},
    {"protocol.open": {"kind": "quorum", "share": 1.0}},
    {"data.clients": 1},
    {"data.clients": 0},
    {"data.test_samples": 1},
    {"data.test_samples": 500_000},
    {"data.test_samples": 500_001},
    {"data.samples_per_client": 83_333},
    {"data.samples_per_client": 83_334},
    {"data.samples_per_client": None, "model.hidden": [1000]},
    {"data.domains": ["mnist", "usps", "svhn"]},
    {"data.domains": ["mnist", "usps", "mnist"]},
    {"data.domains": ["mnist", "usps"], "data.clients": 5},
    {"data.domains": ["mnist", "usps"], "data.test_samples": 250_001},
    {"data.test_share": 0.2, "data.test_samples": None},
    {"data.test_share": 0.2},
    {"data.test_share": 0.2, "data.test_samples": None, "data.train_on": "test"},
    {"data.train_on": "test"},
    {"data.concept": {"kind": "relabelled", "groups": 6}},
    {"data.concept": {"kind": "relabelled", "groups": 7}},
    {"data.concept": {"kind": "relabelled", "groups": 2, "classes": 11}},
    {"data.concept": {"kind": "restyled", "groups": 4}},
    {"data.concept": {"kind": "restyled", "groups": 5}},
    {"data.concept": {"kind": "restyled", "groups": 3, "change": "inverted"}},
    {"data.partition": {"kind": "quantity", "min_samples": 20}},
    {"data.partition": {"kind": "quantity", "min_samples": 21}},
    {"data.partition": {"kind": "dirichlet", "alpha": 0.5, "share_sizes": "free", "min_samples": 21}},
    {"data.partition": {"kind": "shards", "shards_per_client": 4}},
    {"data.partition": {"kind": "shards", "shards_per_client": 3}},
    {"defence.root_samples": 500_000},
    {"defence.root_samples": 500_001},
    {"defence": {"rule": {"kind": "fltrust"}}},
    {"defence": {"rule": {"kind": "krum", "byzantine": 3}}},
    {"defence": {"rule": {"kind": "krum", "byzantine": 4}}},
    {"defence": {"rule": {"kind": "multi_krum", "byzantine": 1, "chosen": 6}}},
    {"defence": {"rule": {"kind": "multi_krum", "byzantine": 1, "chosen": 7}}},
    {"defence": {"rule": {"kind": "trimmed_mean", "byzantine": 2}}},
    {"defence": {"rule": {"kind": "trimmed_mean", "byzantine": 3}}},
    {"defence": {"rule": {"kind": "bulyan", "byzantine": 1}}},
    {"defence": {"rule": {"kind": "bulyan", "byzantine": 2}}},
    {"defence": {"rule": {"kind": "median", "pre": [{"kind": "bucketing", "size": 7}]}}},
    {"defence": {"rule": {"kind": "median", "pre": [{"kind": "nearest_neighbours", "byzantine": 6}]}}},
    {"defence": {"detector": {"kind": "zeno++"}}},
    {"defence": {"fallback": {"kind": "median"}}},
    {"defence": {"fallback": {"kind": "krum", "byzantine": 4}, "detector": {"kind": "evidence"}}},
    {"defence": {"detector": {"kind": "safl"}}, "protocol": {"kind": "fedasync", "rounds": 8, "in_flight": 4}},
    {"defence": {"detector": {"kind": "safl"}}, "world.score_s": 0.5, "world.evaluation_cost": 2.0},
    {"defence": {"strikes": {"threshold": 3, "window": 3}}},
    {"defence": {"strikes": {"threshold": 3, "window": 2}}},
    {"threats": {"attack": FLIP, "attackers": 6}},
    {"threats": {"attack": FLIP, "attackers": 7}},
    {"threats": {"attack": FLIP, "attackers": 1.5}},
    {"threats": {"attack": FLIP, "attackers": 1.0}},
    {"threats": {"attack": FLIP, "attackers": 5, "selection": "per_round"}, "protocol": COHORT},
    {"threats": {"attack": FLIP, "attackers": 2, "from_version": 3, "until_version": 3}},
    {"threats": {"attack": FLIP, "attackers": 2, "from_version": 3, "until_version": 4}},
    {"threats": {"attack": {"kind": "backdoor", "side": 27}, "attackers": 1}},
    {"threats": {"attack": {"kind": "backdoor", "side": 28}, "attackers": 1}},
    {"threats": {"attack": {"kind": "backdoor", "target_class": 10}, "attackers": 1}},
    {"threats": {"attack": {"kind": "label_flip", "source_class": 9}, "attackers": 1}},
    {"threats": {"attack": {"kind": "label_flip", "source_class": 9, "target_class": 10}, "attackers": 1}},
    {"threats": {"attack": {"kind": "wrong_length", "off_by": 0}, "attackers": 1}},
    {"threats": {"attack": {"kind": "combined", "attacks": [FLIP]}, "attackers": 1}},
    {"threats": {"attack": {"kind": "combined", "attacks": [{"kind": "backdoor"}] * 2}, "attackers": 1}},
    {"threats": {"attack": {"kind": "sign_flip", "of": "mean"}, "attackers": 1}},
    {"world.dropout": 1.0},
    {"world.dropout": 1.0, "protocol.time_limit_s": 9.0},
    {"world.uplink.loss": {"kind": "independent", "probability": 1.0}},
    {"world.downlink.loss": {"kind": "gilbert_elliott", "good_to_bad": 0.1, "bad_to_good": 0.3, "loss_in_good": 1.0}},
    {"world.tap": {"packet_loss": 0.1}},
    {"world.device": {"kind": "uniform", "low_s_per_sample": 0.2, "high_s_per_sample": 0.2}},
    {"world.device": {"kind": "uniform", "low_s_per_sample": 0.3, "high_s_per_sample": 0.2}},
    {"world.device": {"kind": "exponential", "mean_s_per_sample": 0.2, "minimum_s_per_sample": 0.2}},
    {"world.device": {"kind": "exponential", "mean_s_per_sample": 0.2, "minimum_s_per_sample": 0.3}},
    {"world.availability": {"kind": "alternating", "on_s": 2.0, "off_s": 1.0}, "world.aggregate_s": 5.0},
    {"world.availability": {"kind": "alternating", "on_s": 0.0, "off_s": 1.0}},
    {"world.uplink.latency_s": -1.0},
    {"world.uplink.bandwidth_bps": 0},
    {"training.batch_size": "full", "privacy": FEDAVG},
    {"privacy": {**NBAFL, "exposures": 3}},
    {"privacy": {**NBAFL, "exposures": 4}},
    {"privacy": {**NBAFL, "exposures": {"kind": "measured", "replicates": 3}}},
    {"privacy": {"kind": "dp_sgd", "clip_norm": 1.0, "noise_multiplier": 0.7}},
    {"privacy": {"kind": "local_gaussian", "epsilon": 20.0}},
    {"training.example_clip": None, "training.example_noise": 0.5},
    {"training.proximal_mu": -0.1},
    {"training.momentum": 1.0},
    *(
        {"privacy": {**FEDAVG, "stop_at": {"epsilon": 30.0, "adversary": who, "of": of}}}
        for who in ("eavesdropper", "curious", "public", "both")
        for of in ("uploads", "models", "all")
    ),
    {"privacy": {**FEDAVG, "stop_at": {"epsilon": 30.0, "adversary": "curious"}, "curious": [1]}},
    {
        "privacy": {**FEDAVG, "stop_at": {"epsilon": 30.0, "adversary": "curious"}, "curious": [1]},
        "defence": {"detector": {"kind": "safl"}},
    },
    {"privacy": {**FEDAVG, "stop_at": {"epsilon": 30.0, "adversary": "curious", "of": "all"}, "curious": 0.5}},
    *(
        {
            "privacy": {**FEDAVG, "stop_at": {"epsilon": 30.0, "adversary": "eavesdropper", "of": of}},
            "world.tap": {link: True},
        }
        for link in ("uplink", "downlink", "scoring")
        for of in ("uploads", "models", "all")
    ),
    {
        "privacy": {**FEDAVG, "stop_at": {"epsilon": 30.0, "adversary": "public", "of": "all"}},
        "threats": {"attack": {"kind": "mimic"}, "attackers": 1},
    },
    {"privacy": {**FEDAVG, "stop_at": {"epsilon": 1e-9}}},
    {"privacy": {**FEDAVG, "stop_at": {"epsilon": 3.0, "delta": 0.0}}},
    {"privacy": {**FEDAVG, "stop_at": {"epsilon": 3.0, "accountant": "naive"}}},
    {"privacy": {**FEDAVG, "stop_at": {"epsilon": 3.0, "accountant": "naive", "delta": 1e-5}}},
    {"privacy": {**NBAFL, "stop_at": {"epsilon": 1e4}}, "compression": {"kind": "top_k", "share": 0.1}},
    {"privacy": {**ADAPTIVE, "stop_at": {"epsilon": 10.0}}},
    {"privacy": ADAPTIVE, "data.canaries": {"count": 1, "unit": "client"}},
    {"privacy": FEDAVG, "data.canaries": {"count": 1, "unit": "client"}},
    {"data.canaries": {"count": 121}},
    {"data.canaries": {"count": 120}},
    {"privacy": {**FEDAVG, "curious": [6]}},
    {"privacy": {**FEDAVG, "curious": [0, 1, 2, 3, 4, 5]}},
    {"privacy": {**FEDAVG, "curious": 1.0}},
    {"privacy": SHUFFLED},
    {"privacy": SHUFFLED, "protocol.over_selection": 2.0, "protocol.participants": 3},
    {"privacy": SHUFFLED, "protocol.late": "carry"},
    {"privacy": SHUFFLED, "protocol": BUFFERED},
    {"privacy": SHUFFLED, "protocol": {**BUFFERED, "partial_work": "work", "staleness": {"kind": "polynomial"}}},
    {"privacy": SHUFFLED, "protocol.weighting": "samples"},
    {"privacy": SHUFFLED, "protocol.weighting": "samples", "data.partition": {"kind": "quantity"}},
    {"privacy": SHUFFLED, "defence": {"detector": {"kind": "kardam"}, "strikes": {}, "rule": {"kind": "krum"}}},
    {"protocol.partial_work": "normalised", "privacy": {**ADAPTIVE, "upload": "gradient"}},
    {"protocol.partial_work": "normalised", "defence": {"rule": {"kind": "krum"}}},
    {"model.personal": ["1.*"]},
    {"model.personal": ["3.*"], "evaluation.keep": "last"},
    {"model.personal": ["*"]},
    {"model.personal": ["nothing"]},
    {"model.personal": ["3.*"], "defence": {"rule": {"kind": "fltrust"}, "root_samples": 5}},
    {"compression": {"kind": "top_k", "share": 0.1}},
    {"compression": {"kind": "quantised", "bits": 4}, "download_compression": {"kind": "quantised", "bits": 4}},
    {"download_compression": {"kind": "top_k", "share": 0.1}},
    {"evaluation.keep": {"every": 1}},
    {"evaluation.keep": {"every": 2}},
    {"evaluation.audit": TWINS},
    {"evaluation.audit": {**TWINS, "clients": [0, 5]}},
    {"evaluation.audit": {**TWINS, "clients": [0, 6]}},
    {"evaluation.audit": {**TWINS, "clients": 7}},
    {"evaluation.audit": {**TWINS, "clients": [1, 1], "neighbours": ["zeroed", "zeroed"]}},
    {"defence": {"strikes": {"threshold": 1, "window": 50}}},
    {**SLOW_SERVER, "protocol": BUFFERED},
    {**SLOW_SERVER, "protocol": {**BUFFERED, "time_limit_s": 7.5}, "seeds": 3},
    {**SLOW_SERVER, "world.availability": {"kind": "alternating", "on_s": 2.0, "off_s": 1.0}, "training.epochs": 3},
    {"data.samples_per_client": None, "evaluation.audit": TWINS, "seeds": 2},
    {"data.dataset": {"kind": "scikit_learn", "name": "digits"}, "data.source": "real"},
    {"data.dataset": {"kind": "scikit_learn", "name": "diabetes"}, "data.source": "real", "model": {"kind": "linear"}},
    {
        "data.dataset": {"kind": "scikit_learn", "name": "diabetes"},
        "data.source": "real",
        "defence": {"detector": {"kind": "safl"}},
    },
    {
        "data.dataset": {"kind": "scikit_learn", "name": "diabetes"},
        "data.source": "real",
        "model": {"kind": "char_lstm"},
    },
    {"seeds": [-1]},
    {"seeds": 0},
    {"seeds": True},
    {"seeds": "3"},
    {"seeding": {"data": -1, "clock": 2.5, "training": 0}},
    {"seeds": 100_000},
    {"seeds": 100_001},
    {"seeds": [3, 3]},
    {"evaluation.test_every": -1},
]


def _name(changes: dict[str, Any]) -> str:
    return json.dumps(changes)


def _said(changes: dict[str, Any]) -> list[Any]:
    """The faults of a scenario, or: parameters, updates per version, seconds and bytes that it is estimated to need."""
    try:
        scenario = Scenario.read(BASE).override(changes)
    except InputError as error:
        return [str(fault) for fault in error.faults]
    clock = [*clock_seconds(scenario), scenario.estimated_cost(), memory_bytes(scenario), memory_bytes(scenario, False)]
    counts = [scenario.n_parameters, scenario.participants, len(scenario.seeds), timelines_before(scenario)]
    return [*counts, *(float(f"{value:.6g}") for value in clock)]


@pytest.fixture(scope="module")
def written() -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = json.loads(LIST.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("changes", CHANGES, ids=_name)
def test_what_is_said_is_what_is_written_down(changes: dict[str, Any], written: dict[str, list[Any]]) -> None:
    expected = written[_name(changes)]
    found = _said(changes)
    assert found == (expected if isinstance(expected[0], str) else pytest.approx(expected, rel=1e-4))


def _lines() -> Iterator[str]:
    for changes in CHANGES:
        yield f"{json.dumps(_name(changes))}: {json.dumps(_said(changes), ensure_ascii=False)}"


if __name__ == "__main__":
    LIST.write_text("{\n" + ",\n".join(_lines()) + "\n}\n", encoding="utf-8")
