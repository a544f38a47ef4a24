"""Whether a change of the program changed a run: digests of small scenarios, table by table, column by column.

    python benchmarks/digests.py --out before.json        # then change something
    python benchmarks/digests.py --compare before.json    # exit 1, and the columns that differ, if bytes did
    python benchmarks/digests.py --list
    python benchmarks/digests.py --compare before.json --only privacy

A scenario trains a network of eight units on stand-in data, in a fraction of a second. Together (some 185, in 20 s)
they name every privacy scheme with its options, every protocol, attack, detector, aggregation rule, loss and
availability, clients that stop at a budget, domains, recordings, and timelines without training. The digest of a column
is over its values, not over how they lie in memory; what was measured (seconds) and the versions of libraries are left
out. Digests are equal on one machine with one number of threads: compare what was written on the same one.

A rebuilding that is to change nothing has to leave every digest alone. `--ignore summary.words` leaves out a column
that is meant to change, in all scenarios; names are `table.column` and may have wildcards. `summary.words` are the
sentences for readers, which a rewording changes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
# With or without a compiler at the installation; digests of the compiled kernels: ASYNCFL_KERNELS=avx2.
os.environ.setdefault("ASYNCFL_KERNELS", "torch")

WORDS = ("notes", "noted", "privacy")
"""Entries of a summary that hold sentences for readers; their digest is `summary.words`."""
BASE: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 6, "samples_per_client": 12, "source": "embedded", "test_samples": 30},
    "model": {"kind": "mlp", "hidden": [8]},
    "training": {"lr": 0.05, "batch_size": 5, "epochs": 2},
    "protocol": {"kind": "sync", "rounds": 3},
    "evaluation": {"train_every": 1, "test_every": 1},
    "world": {
        "device": {"kind": "lognormal", "median_s_per_sample": 0.02, "sigma": 0.8},
        "downlink": {"latency_s": 0.05, "bandwidth_bps": 4e6},
        "uplink": {"latency_s": 0.05, "bandwidth_bps": 1e6},
    },
}
LOSS = {"kind": "independent", "probability": 0.1}
LOSSY: dict[str, Any] = {
    "world.uplink.loss": LOSS,
    "world.downlink.loss": LOSS,
    "world.uplink.retransmissions": 1,
    "world.downlink.retransmissions": 1,
    "world.tap": {"uplink": True, "downlink": True, "scoring": True, "packet_loss": 0.02},
}
BUFFERED: dict[str, Any] = {
    "protocol": {"kind": "buffered", "rounds": 5, "buffer": 3, "dispatch": {"kind": "constant", "in_flight": 5}}
}
FEDASYNC: dict[str, Any] = {"protocol": {"kind": "fedasync", "rounds": 8, "in_flight": 4}}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "sync": {},
    "buffered": {**BUFFERED, **LOSSY},
    "fedasync": {**FEDASYNC, **LOSSY},
}

NBAFL = {"kind": "nbafl", "epsilon": 60.0, "exposures": 2}
LOCAL = {"kind": "local_gaussian", "epsilon": 20.0, "clip_norm": 1.0}
FEDAVG = {"kind": "dp_fedavg", "noise_multiplier": 0.5, "clip_norm": 0.5}
FTRL = {"kind": "dp_ftrl", "noise_multiplier": 0.5, "clip_norm": 0.5}
SEPARATE = {"protocol.min_separation": 1, "protocol.max_participations": 4}
GAUSSIAN = {"kind": "gaussian", "epsilon": 5.0}
LAPLACE = {"kind": "laplace", "epsilon": 50.0}
ADAPTIVE = {"kind": "adaptive", "budgets": [5.0, 10.0, 20.0, 40.0, 50.0, 60.0], "threshold": 30.0}
EXAMPLES: dict[str, Any] = {"training.example_clip": 1.0, "training.example_noise": 0.7}
CLIPPED: dict[str, Any] = {"training.gradient_clip": 1.0}


def scenarios() -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and changes to `BASE` of each scenario."""
    for name, protocol in PROTOCOLS.items():
        for scheme, changes in _privacy():
            yield f"privacy/{scheme}/{name}", {**protocol, **changes}
    yield from _stops()
    yield from _protocols()
    yield from _attacks()
    yield from _defences()
    yield from _secure()
    yield from _worlds()
    yield from _data()


def _privacy() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "none", {}
    yield "nbafl", {"privacy": NBAFL}
    yield "nbafl_drawn", {"privacy": {**NBAFL, "b_rule": "amplification"}, **_drawn()}
    yield (
        "nbafl_whole_client",
        {"privacy": {**NBAFL, "clip_norm": 2.0, "sensitivity": "2C", "composition": "advanced", "b_rule": "none"}},
    )
    yield (
        "nbafl_measured",
        {"privacy": {**NBAFL, "exposures": {"kind": "measured"}, "sensitivity": "2C/N", "composition": "rdp"}},
    )
    yield "nbafl_split", {"privacy": {**NBAFL, "composition": "naive_delta_split", "constant": 1.0, "epsilon": 2.0}}
    yield (
        "nbafl_analytic",
        {"privacy": {**NBAFL, "composition": "analytic", "exposures": {"kind": "share", "share": 0.5}}},
    )
    yield "local", {"privacy": LOCAL, **CLIPPED}
    yield "local_epoch", {"privacy": {**LOCAL, "noise": "epoch", "budget": "total"}, **CLIPPED}
    yield "fedavg", {"privacy": FEDAVG}
    yield "fedavg_server", {"privacy": {**FEDAVG, "noise_at": "server", "neighbours": "replace"}}
    yield "fedavg_adaptive", {"privacy": {**FEDAVG, "adaptive": {"learning_rate": 0.5}, "noise_at": "server"}}
    yield "fedavg_adaptive_client", {"privacy": {**FEDAVG, "adaptive": {"fraction_noise": 1.0}}}
    yield "ftrl_tree", {"privacy": {**FTRL, "factorisation": {"kind": "tree", "restart": 3, "complete": True}}}
    yield "ftrl_banded", {"privacy": {**FTRL, "factorisation": {"kind": "banded", "bands": 3}}, **SEPARATE}
    yield "dp_sgd", {"privacy": {"kind": "dp_sgd", "clip_norm": 1.0, "noise_multiplier": 0.7}, **EXAMPLES}
    yield (
        "gaussian_both",
        {"privacy": {"kind": "mechanisms", "client": GAUSSIAN, "server": {**GAUSSIAN, "calibration": "classical"}}},
    )
    yield (
        "gaussian_shared",
        {"privacy": {"kind": "mechanisms", "client": {**GAUSSIAN, "composition": "rdp", "releases": "rounds"}}},
    )
    yield "laplace", {"privacy": {"kind": "mechanisms", "client": LAPLACE, "server": LAPLACE, "clip": {"norm": 5.0}}}
    yield (
        "laplace_literal",
        {
            "privacy": {
                "kind": "mechanisms",
                "client": {**LAPLACE, "sensitivity_from": "seed_literal"},
                "server": {**LAPLACE, "sensitivity_from": "from_l2", "composition": "advanced", "delta": 1e-5},
                "clip": {"target": "model", "norm": 2.0},
            }
        },
    )
    yield (
        "gradient_clip",
        {"privacy": {"kind": "mechanisms", "client": GAUSSIAN, "clip": {"target": "gradient", "norm": 1.0}}, **CLIPPED},
    )
    yield "adaptive", {"privacy": ADAPTIVE}
    yield "adaptive_exponential", {"privacy": {**ADAPTIVE, "adjustment": "exponential", "round_budget": "max"}}
    yield "adaptive_gradient", {"privacy": {**ADAPTIVE, "upload": "gradient", "sensitivity": "2M"}}
    yield "adaptive_control", {"privacy": {**ADAPTIVE, "equal_spend": "rdp"}}
    yield "adaptive_constant", {"privacy": {**ADAPTIVE, "adjustment": "none", "threshold": None}}


def _drawn() -> dict[str, Any]:
    return {"data.clients": 8}


def _stops() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, protocol in PROTOCOLS.items():
        for accountant in ("exact", "rdp", "basic", "naive"):
            stop_at = {"epsilon": 30.0, "accountant": accountant}
            yield f"stop_at/{accountant}/{name}", {**protocol, "privacy": {**FEDAVG, "stop_at": stop_at}}
        pure = {"kind": "mechanisms", "client": LAPLACE, "stop_at": {"epsilon": 120.0, "delta": 0.0}}
        yield f"stop_at/laplace/{name}", {**protocol, "privacy": {**pure, "clip": {"norm": 5.0}}}
        spent = {**ADAPTIVE, "stop_at": {"epsilon": 90.0}}
        yield f"stop_at/adaptive/{name}", {**protocol, "privacy": spent}
    shuffled = {**ADAPTIVE, "shuffler": {"swaps": 4, "seconds": 0.5}}
    yield "privacy/adaptive_shuffled/sync", {"privacy": shuffled}


def _protocols() -> Iterator[tuple[str, dict[str, Any]]]:
    staleness = {
        "polynomial": {"kind": "polynomial", "exponent": 0.7},
        "hinge": {"kind": "hinge"},
        "delay_adaptive": {"kind": "delay_adaptive", "concurrency": 2},
        "exponential": {"kind": "exponential"},
        "constant": {"kind": "constant"},
    }
    for name, weight in staleness.items():
        protocol = {**BUFFERED["protocol"], "staleness": weight, "divisor": "weight_sum", "max_staleness": 2}
        yield f"protocol/staleness_{name}", {"protocol": protocol, **LOSSY}
    cohort = {"kind": "cohort", "participants": 4, "over_selection": 1.25}
    yield "protocol/buffered_cohort", {"protocol": {**BUFFERED["protocol"], "dispatch": cohort, "late": "drop"}}
    yield "protocol/continuous", {"protocol": {**BUFFERED["protocol"], "dispatch": {"kind": "continuous"}}}
    yield "protocol/fair", {"protocol": {**BUFFERED["protocol"], "selection": {"kind": "fair"}}}
    yield "protocol/fedbuff", {"protocol": {**BUFFERED["protocol"], "kind": "fedbuff", "server_rate": 0.7}, **LOSSY}
    for reading in ("mix", "normalised"):
        yield f"protocol/{reading}", {"protocol": {**BUFFERED["protocol"], "aggregation": reading}}
    drawn = {"kind": "sync", "rounds": 3, "participants": 4, "over_selection": 1.5}
    yield "protocol/over_selection", {"protocol": {**drawn, "late": "carry"}, **LOSSY}
    yield "protocol/quorum", {"protocol": {**drawn, "open": {"kind": "quorum", "share": 0.5}}}
    yield "protocol/deadline", {"protocol": {**drawn, "open": {"kind": "deadline", "seconds": 1.0}}, **LOSSY}
    polled = {"kind": "poll", "at_least": 2, "poll_s": 0.3, "last_waits": True}
    averaged = {"kind": "sync", "rounds": 3, "late": "carry", "per_client": 1, "aggregation": "normalised"}
    yield "protocol/poll", {"protocol": {**averaged, "open": polled}, **LOSSY}


def _attacks() -> Iterator[tuple[str, dict[str, Any]]]:
    alone: dict[str, dict[str, Any]] = {
        "alie": {},
        "backdoor": {},
        "evaluator_bait": {},
        "flooding": {},
        "free_rider": {"std": 0.01},
        "gaussian": {},
        "ipm": {},
        "label_flip": {},
        "mimic": {},
        "min_max": {},
        "min_sum": {},
        "non_finite": {},
        "scaling": {"factor": "replacement"},
        "sign_flip": {"of": "mean", "knowledge": "buffer"},
        "wrong_length": {},
        "tailored": {"rehearsals": 3},
        "fang": {"knowledge": "buffer"},
        "puller": {},
        "orthogonal": {},
    }
    for kind, fields in alone.items():
        for name in ("sync", "buffered"):
            threats = {"attack": {"kind": kind, **fields}, "attackers": 2}
            yield f"attack/{kind}/{name}", {**PROTOCOLS[name], "threats": threats}
    for kind, strength in (("ipm", "tau"), ("alie", "z")):
        fields = {strength: "optimal", "rehearsals": 4, "knowledge": "buffer"}
        yield f"attack/{kind}/optimal", {"threats": {"attack": {"kind": kind, **fields}, "attackers": 2}}
    beyond = {"kind": "fang", "against": "trimmed_mean"}
    yield "attack/fang/trimmed_mean", {"threats": {"attack": beyond, "attackers": 3}}
    both = {"kind": "combined", "attacks": [{"kind": "label_flip"}, {"kind": "scaling"}]}
    yield "attack/combined", {**PROTOCOLS["buffered"], "threats": {"attack": both, "attackers": 0.34}}
    hidden = {"kind": "adaptive", "attack": {"kind": "sign_flip"}}
    yield "attack/adaptive", {"threats": {"attack": hidden, "attackers": 2}}
    late = {"attack": {"kind": "sign_flip"}, "attackers": 2, "selection": "per_round", "from_version": 1}
    yield "attack/per_round", {"threats": {**late, "attackers_add_noise": False}, "privacy": NBAFL}


def _defences() -> Iterator[tuple[str, dict[str, Any]]]:
    flip = {"attack": {"kind": "sign_flip", "factor": 3.0}, "attackers": 2}
    detectors: dict[str, dict[str, Any]] = {
        "safl": {},
        "evidence": {},
        "kardam": {},
        "async_filter": {},
        "fldetector": {"warm_up": 1, "window": 3},
        "zeno++": {"rho": 0.01},
        "aflguard": {},
    }
    for kind, fields in detectors.items():
        root = {"root_samples": 20} if kind in ("zeno++", "aflguard") else {}
        for name, protocol in PROTOCOLS.items():
            if (kind == "kardam" and name == "sync") or (kind == "safl" and name == "fedasync"):
                continue
            defence = {"detector": {"kind": kind, **fields}, "strikes": {"threshold": 2, "window": 3}, **root}
            world = {"world.score_s": 0.01, "world.aggregate_s": 0.2}
            yield f"detector/{kind}/{name}", {**protocol, **world, "threats": flip, "defence": defence}
    private = {"detector": {"kind": "evidence"}, "strikes": {"threshold": 2}}
    yield "detector/evidence/private", {**BUFFERED, "threats": flip, "defence": private, "privacy": FEDAVG}
    liar = {"attack": {"kind": "lying_evaluator"}, "attackers": 2}
    yield "detector/safl/lied_to", {**BUFFERED, "threats": liar, "defence": {"detector": {"kind": "safl"}}}
    rules: dict[str, dict[str, Any]] = {
        "median": {},
        "flame": {},
        "secure_afl": {},
        "trimmed_mean": {"byzantine": 1},
        "krum": {"byzantine": 1},
        "multi_krum": {"byzantine": 1},
        "bulyan": {"byzantine": 1},
        "geometric_median": {},
        "centred_clipping": {},
        "norm_clipping": {"bound": 0.5},
        "basgd": {"buffers": 3},
        "fltrust": {},
        "foolsgold": {},
        "signguard": {"similarity": "cosine"},
        "rflbat": {},
        "sageflow": {"most_entropy": 3.0},
    }
    for kind, fields in rules.items():
        root = {"root_samples": 20} if kind in ("fltrust", "sageflow") else {}
        yield f"rule/{kind}", {"threats": flip, "defence": {"rule": {"kind": kind, **fields}, **root}}
    for kind in ("bucketing", "nearest_neighbours", "clipping", "adaptive_clipping"):
        mixed = {"kind": "median", "pre": [{"kind": kind}]}
        yield f"rule/{kind}", {"threats": flip, "defence": {"rule": mixed}}


def _secure() -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and changes of each scenario with secure aggregation, which no recording holds."""
    unrecorded = {"evaluation.record": "none", "world.dropout": 0.1}
    pairwise = {"kind": "pairwise", "threshold": 2}
    light = {"kind": "lightsecagg", "threshold": 3, "colluders": 1}
    flip = {"attack": {"kind": "sign_flip", "factor": 3.0}, "attackers": 2}
    yield "secure/pairwise", {**unrecorded, "protocol.secure_aggregation": pairwise, "privacy": FEDAVG}
    buffered = {"protocol": {**BUFFERED["protocol"], "secure_aggregation": light}}
    yield "secure/lightsecagg", {**unrecorded, **buffered, "privacy": FEDAVG, "threats": flip}
    yield "secure/central", {**unrecorded, **buffered, "privacy": {**FEDAVG, "noise_at": "server"}}


def _worlds() -> Iterator[tuple[str, dict[str, Any]]]:
    on_and_off = {"kind": "alternating", "on_s": 2.0, "off_s": {"kind": "exponential", "mean": 1.0}}
    for name, protocol in PROTOCOLS.items():
        yield f"world/alternating/{name}", {**protocol, "world.availability": on_and_off, "world.dropout": 0.1}
    bursts = {"kind": "gilbert_elliott", "good_to_bad": 0.02, "bad_to_good": 0.3}
    yield "world/bursts", {**BUFFERED, "world.uplink.loss": bursts, "world.uplink.retransmissions": 2}
    devices: dict[str, dict[str, float]] = {
        "fixed": {"s_per_sample": 0.02},
        "uniform": {"low_s_per_sample": 0.01, "high_s_per_sample": 0.05},
        "exponential": {"mean_s_per_sample": 0.02},
        "pareto": {"minimum_s_per_sample": 0.01, "alpha": 1.5},
    }
    for kind, fields in devices.items():
        yield f"world/{kind}", {**BUFFERED, "world.device": {"kind": kind, **fields}}
    for kind, fields in {"lease": {"seconds": 0.5}, "instant": {}}.items():
        detection = {"world.failure_detection": {"kind": kind, **fields}}
        yield f"world/{kind}", {**BUFFERED, **detection, "world.availability": on_and_off}
    yield "world/time_limit", {"protocol": {**BUFFERED["protocol"], "time_limit_s": 2.0}, **LOSSY}
    for name, protocol in PROTOCOLS.items():
        yield f"timeline/{name}", {**protocol, **LOSSY, "data.clients": 40, "seeds": 2}


def _data() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "data/domains", {"data.domains": ["mnist", "usps", "svhn"], "data.test_samples": 20}
    yield "data/relabelled", {"data.concept": {"kind": "relabelled", "groups": 2}}
    yield "data/restyled", {"data.concept": {"kind": "restyled", "groups": 2}}
    yield "data/dirichlet", {"data.partition": {"kind": "dirichlet", "alpha": 0.5}, "privacy": NBAFL}
    yield "data/quantity", {"data.partition": {"kind": "quantity"}, "privacy": FEDAVG}
    yield "data/two_seeds", {**BUFFERED, "privacy": NBAFL, "seeds": 2, "seeding": {"data": 7}}
    yield "model/lenet", {"model": {"kind": "lenet"}, "protocol.rounds": 1}
    yield "model/lenet_clipped", {"model": {"kind": "lenet"}, "protocol.rounds": 1, **EXAMPLES}
    yield "training/momentum", {"training.momentum": 0.9, "training.proximal_mu": 0.1, "training.gradient_clip": 0.5}


def digests(name: str, changes: dict[str, Any]) -> dict[str, str]:
    """`table.column` -> digest of its values, for one scenario; of one that is refused `error` -> what is said."""
    from asyncfl import AsyncflError, Scenario, simulate, timeline
    from asyncfl.results.run_tables import clients_table, rounds_table

    try:
        scenario = Scenario.read(BASE).override({"evaluation.record": "digests", **changes})
        if name.startswith("timeline/"):
            tables = {}
            for run in timeline(scenario):
                of_seed = {
                    "rounds": rounds_table(run),
                    "events": run.events,
                    "tasks": run.tasks,
                    "clients": clients_table(run),
                }
                tables |= {f"{table}_{run.seed}": values for table, values in of_seed.items()}
            return _of_tables(tables)
        whole = simulate(scenario)
    except AsyncflError as error:
        return {"error": str(error)}
    words: list[Any] = []
    kept = _without_words({key: value for key, value in whole.summary.items() if key != "versions"}, words)
    return {
        **_of_tables(whole.tables),
        **{f"summary.{key}": _digest(value) for key, value in kept.items()},
        "summary.words": _digest(words),
        "messages": _digest(whole.messages),
    }


def _without_words(value: Any, words: list[Any]) -> Any:
    """Remove the sentences for readers (notes, privacy statements) from a summary, and append them to `words`."""
    if not isinstance(value, dict):
        return value
    words += [value[key] for key in WORDS if key in value]
    return {key: _without_words(inner, words) for key, inner in value.items() if key not in WORDS}


def _of_tables(tables: dict[str, Any]) -> dict[str, str]:
    return {
        f"{name}.{column}": _digest(table[column].to_pylist())
        for name, table in tables.items()
        for column in table.column_names
    }


def _digest(value: Any) -> str:
    """Of numbers each bit counts: a float is written so that it reads back as the same."""
    text = json.dumps(value, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def differences(
    before: dict[str, dict[str, str]], after: dict[str, dict[str, str]], ignored: list[str]
) -> dict[str, list[str]]:
    """Scenario -> columns that differ, are gone or are new, in the order of the scenarios."""
    found = {}
    for name in [*before, *(name for name in after if name not in before)]:
        old, new = before.get(name), after.get(name)
        if old is None or new is None:
            found[name] = ["not run before" if old is None else "not run now"]
            continue
        columns = [f"{key} (gone)" for key in old if key not in new and not _any(key, ignored)]
        columns += [f"{key} (new)" for key in new if key not in old and not _any(key, ignored)]
        columns += [key for key in old if key in new and old[key] != new[key] and not _any(key, ignored)]
        if columns:
            found[name] = columns
    return found


def _any(name: str, patterns: list[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def main() -> None:
    """Run the scenarios; write their digests, or say what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the digests here, as JSON")
    parser.add_argument("--compare", type=Path, help="what --out wrote before; exit 1 where anything differs")
    parser.add_argument("--only", default="", help="run only scenarios with this in their name")
    parser.add_argument("--ignore", action="append", default=[], help="table.column that may differ; may be repeated")
    parser.add_argument("--list", action="store_true", help="name the scenarios and run none")
    chosen = parser.parse_args()
    before = None if chosen.compare is None else json.loads(chosen.compare.read_text(encoding="utf-8"))
    asked = {name: changes for name, changes in scenarios() if chosen.only in name}
    if chosen.list:
        print("\n".join(asked))
        return
    import torch

    torch.set_num_threads(1)
    started = time.perf_counter()
    found = {name: digests(name, changes) for name, changes in asked.items()}
    refused = {name: columns["error"] for name, columns in found.items() if "error" in columns}
    print(f"{len(found)} scenarios in {time.perf_counter() - started:.0f} s")
    for name, message in refused.items():
        print(f"refused: {name}: {message}")
    if chosen.out is not None:
        chosen.out.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    if before is not None:
        of_asked = {name: columns for name, columns in before.items() if chosen.only in name}
        changed = differences(of_asked, found, chosen.ignore)
        for name, columns in changed.items():
            print(f"{name}: {', '.join(columns[:12])}{' ...' if len(columns) > 12 else ''}")
        print(f"{len(changed)} of {len(found)} scenarios differ")
        sys.exit(bool(changed))


if __name__ == "__main__":
    main()
