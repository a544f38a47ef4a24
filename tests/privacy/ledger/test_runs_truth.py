"""Ledgers of whole runs against the truth: the likelihood ratio of an explicit Gaussian vector.

Everything that an adversary receives is a linear map of the updates, the clip-norm bits and all noise. A neighbouring
data set moves each update of one client by at most its sensitivity, and each bit by at most the bit's. So the adversary
compares two Gaussian vectors of one covariance S that lie d apart: mu^2 = d^T S^+ d, infinite if d leaves the range of
S. Of Laplace noise, a sum's tails fall like those of its widest term: one number that moves by d has at least the pure
epsilon d/b with b the largest scale, and those of independent numbers add up. The vector is written down from the
events of a run, without the package's accounting.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st

from asyncfl.base.errors import ScenarioError
from asyncfl.client.compression.quantised import Quantised
from asyncfl.privacy import DpFedAvg, PrivacyContext
from asyncfl.privacy.schemes.dp_fedavg import AdaptiveClip, ClipState
from asyncfl.results.seed_ledger import SeedLedger
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed
from tests.privacy.correlation.explicit_noise import noise_matrix

Row = dict[Hashable, float]
"""One observed number: source (an update, a bit, or a noise) -> coefficient."""


HEARD = ("overheard", "overheard_in_part")
"""Kinds of events of messages that a tap caught."""


def arrives(event: Mapping[str, Any]) -> bool:
    """Whether packets of an upload arrived. A lost upload, of 21 packets, loses all of them with probability 1e-36."""
    return event["kind"] == "uploaded" or (event["kind"] == "lost" and event["detail"] == "up")


def add(*terms: tuple[float, Row]) -> Row:
    total: Row = defaultdict(float)
    for factor, row in terms:
        for source, coefficient in row.items():
            total[source] += factor * coefficient
    return total


def squared_mu(rows: list[Row], std: Mapping[Hashable, float], moved: Mapping[Hashable, float]) -> float:
    """d^T S^+ d of the worst neighbour, which moves each source in `moved` by at most that much, either way.

    `std`: noise -> standard deviation, for the noises that the adversary does not know.
    """
    noise = np.array([[row.get(source, 0.0) * size for source, size in std.items()] for row in rows])
    shift = np.array([[row.get(source, 0.0) * size for source, size in moved.items()] for row in rows])
    if not shift.size or not shift.any():
        return 0.0
    # S = N N^T, so S^+ is known from the singular values of the noise N.
    vectors, values, _ = np.linalg.svd(noise if noise.size else np.zeros((len(rows), 1)))
    noisy = np.arange(len(rows)) < np.count_nonzero(values > 1e-9 * values.max(initial=1e-300))
    along = vectors.T @ shift
    if (np.abs(along[~noisy]) > 1e-7 * np.abs(shift).max()).any():
        return math.inf
    ratios = along[noisy] / values[: noisy.sum(), None]
    form = ratios.T @ ratios
    signs = np.array(list(product((1.0, -1.0), repeat=min(len(form), 7))))
    signs = np.hstack([signs, np.ones((len(signs), len(form) - signs.shape[1]))])
    return float(np.einsum("si,ij,sj->s", signs, form, signs).max())


def epsilon_of(squared: float, delta: float) -> float:
    """The epsilon at which delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu), by halving."""
    mu = math.sqrt(squared)
    if mu == 0 or math.isinf(mu):
        return mu

    def phi(x: float) -> float:
        return math.erfc(-x / math.sqrt(2)) / 2

    low, high = 0.0, squared / 2 + mu * math.sqrt(-2 * math.log(delta))
    for _ in range(200):
        middle = (low + high) / 2
        more = phi(mu / 2 - middle / mu) - math.exp(middle) * phi(-mu / 2 - middle / mu) > delta
        low, high = (middle, high) if more else (low, middle)
    return low


@dataclass
class World:
    """A run with Gaussian, or with Laplace noise as linear rows over its updates, bits and noises."""

    run: Any
    correlated: Any = None  # (versions, sources) of DP-FTRL's noise

    def __post_init__(self) -> None:
        scenario = self.run.resolved.scenario
        self.scheme, protocol = scenario.privacy, scenario.protocol
        self.training, self.rate = scenario.training, protocol.rate
        self.linear = scenario.defence.rule.is_linear and scenario.defence.detector is None
        self.secure = protocol.secure_aggregation
        self.reach = 1.0 if getattr(self.scheme, "neighbours", "replace") == "zero_out" else 2.0
        self.uploads: dict[int, Any] = {one.task: one for one in self.run.uploads}
        events = self.run.events.to_pylist()
        honest = [one for one in self.uploads.values() if not one.attacked]
        for event in events:
            if honest and (arrives(event) or event["kind"] in HEARD) and event["task"] not in (-1, *self.uploads):
                # Sent, but never used and so not trained: noise and clip norm keep their ratio, one epoch is the least.
                self.uploads[event["task"]] = SimpleNamespace(
                    task=event["task"],
                    client=event["client"],
                    base_version=event["base_version"],
                    clip_norm=honest[0].clip_norm,
                    added_std=honest[0].added_std,
                    copy_of=None,
                    contribution=SimpleNamespace(epochs=1),
                )
        self.client = {task: one.client for task, one in self.uploads.items()}
        self.std: dict[Hashable, float] = {}
        self.sent: dict[int, Row] = {}
        self.bit: dict[int, Row] = {}
        self.version: dict[int, Row] = {0: {}}
        self.bits: dict[int, Row] = {0: {}}
        by_client, sigma_b = getattr(self.scheme, "noise_at", "client") == "client", self._sigma_b
        for task, one in self.uploads.items():
            self.std["noise", task] = self._noise(one)
            self.std["bit noise", task] = sigma_b if by_client else 0.0
            self.bit[task] = {("bit", task): 1.0, ("bit noise", task): 1.0}
        entered: dict[int, dict[int, float]] = defaultdict(dict)
        judged: dict[int, list[int]] = defaultdict(list)
        for event in events:
            if event["kind"] in ("aggregated", "flagged"):
                judged[event["version"] + 1].append(event["task"])
            if event["kind"] == "aggregated":
                entered[event["version"] + 1][event["task"]] = protocol.rate * event["weight"]
        self.entered = entered
        self.clipped_after = {task: version - 1 for version, tasks in judged.items() for task in tasks}
        for version in range(1, max((int(row["version"]) for row in self.run.rounds), default=0) + 1):
            before = self.version[version - 1]
            terms = [(1.0, before)]
            for task, weight in entered[version].items():
                base = self.version[self.uploads[task].base_version]
                terms += [(weight, self._upload(task)), (-weight, before if protocol.aggregation == "mix" else base)]
            if version in self.run.models:
                terms.append((1.0, self._server_noise(version, self.run.models[version].server_std)))
            self.version[version] = add(*terms) if self.linear else {}
            tasks = judged[version]
            most = max(Counter(self.client[task] for task in tasks).values(), default=0)
            self.std["server bit", version] = 0.0 if by_client else most * sigma_b
            n = max(len(tasks), 1)
            fraction = add(*((1 / n, self.bit[task]) for task in tasks), (1 / n, {("server bit", version): 1.0}))
            # The clip norm is e to this sum, up to known factors.
            self.bits[version] = add((1.0, self.bits[version - 1]), (1.0, fraction))
        for task in self.uploads:
            self._upload(task)

    def _server_noise(self, version: int, std: float) -> Row:
        if self.scheme.kind != "dp_ftrl":
            self.std["server", version] = std
            return {("server", version): 1.0}
        if self.correlated is None:
            self.correlated = noise_matrix(self.scheme.factorisation, self.run.resolved.scenario.protocol.rounds)
        found: Row = {}
        for source, weight in enumerate(self.correlated[version - 1].tolist()):
            self.std["server", source] = 1.0
            found["server", source] = std * weight
        return found

    def _upload(self, task: int) -> Row:
        if task not in self.sent:
            one, made = self.uploads[task], [(1.0, {("update", task): 1.0})]
            if one.copy_of is not None:
                copied = self.uploads[one.copy_of]
                made = [(1.0, self._upload(copied.task)), (-1.0, self.version[copied.base_version])]
            base = self.version[max(one.base_version, 0)]
            self.sent[task] = add((1.0, base), *made, (1.0, {("noise", task): 1.0}))
        return self.sent[task]

    def _noise(self, one: Any) -> float:
        if self.scheme.kind != "dp_sgd":
            return float(one.added_std)
        # Each step adds lr/batch of noise z C.
        steps = self._epochs(one) * self.run.sizes[one.client] / self._batch(one)
        z = self.training.example_noise * self.training.example_clip
        return float(self.training.lr / self._batch(one) * z * math.sqrt(steps))

    def _epochs(self, one: Any) -> int:
        done = one.contribution.epochs
        return int(self.training.epochs if done is None else done)

    def _batch(self, one: Any) -> int:
        size = int(self.run.sizes[one.client])
        return size if self.training.batch_size == "full" else min(self.training.batch_size, size)

    def _moved(self, one: Any) -> float:
        if self.scheme.kind != "dp_sgd":
            return self.reach * float(one.clip_norm or 0.0) + self._rounding(one)
        # One sample is in one step of each epoch.
        return float(self.training.lr / self._batch(one) * self._epochs(one) * 2 * self.training.example_clip)

    def _rounding(self, one: Any) -> float:
        """Rounding moves two vectors apart by less than a step in each number, unless clients clip for that too."""
        if self.secure is None or self.scheme.clip_target.payload == "update":
            return 0.0
        step = self.secure.range / (2 ** (self.secure.bits - 1) - 1)
        return float(step * math.sqrt(self.run.resolved.scenario.n_parameters))

    @property
    def _sigma_b(self) -> float:
        rule = getattr(self.scheme, "adaptive", None)
        if rule is None:
            return 0.0
        return float(self.scheme.noise_multiplier if rule.fraction_noise is None else rule.fraction_noise)

    @property
    def laplace(self) -> bool:
        return "laplace" in {getattr(getattr(self.scheme, by, None), "kind", "") for by in ("client", "server")}

    def pure_epsilon(
        self, client: int, tasks: Iterable[int], versions: Iterable[int], known: Iterable[Hashable] = ()
    ) -> float:
        """A lower bound on the pure epsilon of `client` with Laplace noise, for the same adversary as `truth`."""
        tasks, versions, own = list(tasks), list(versions), {t for t, c in self.client.items() if c == client}
        scale = {source: std / math.sqrt(2) for source, std in self.std.items() if std > 0 and source not in set(known)}

        def of_row(row: Row) -> float:
            moved = sum(abs(row.get(("update", task), 0.0)) * self._moved(self.uploads[task]) for task in own)
            widest = max((abs(factor) * scale.get(source, 0.0) for source, factor in row.items()), default=0.0)
            return moved / widest if moved and widest else math.inf if moved else 0.0

        found = [of_row(row) for row in [*(self.sent[t] for t in tasks), *(self.version[v] for v in versions)]]
        if len(versions) == len(self.version):
            # All base models are known: what remains is independent.
            updates = {
                task: add((1.0, self.sent[task]), (-1.0, self.version[self.uploads[task].base_version]))
                for task in self.uploads
            }
            found.append(sum(of_row(updates[task]) for task in own.intersection(tasks)))
            if not tasks and self.linear:
                sums = [
                    add(*((weight, updates[task]) for task, weight in of.items()), (1.0, {("server", version): 1.0}))
                    for version, of in self.entered.items()
                ]
                found.append(sum(map(of_row, sums)))
        return max(found, default=0.0)

    def epsilons(self, delta: float, of: str = "all") -> dict[tuple[str, int], float]:
        """(adversary, client) -> epsilon at `delta`: exact with Gaussian noise, from below with Laplace noise."""
        truths = self.truths(of)
        if self.laplace:
            return truths if delta == 0 else {}
        # Above mu = 30 epsilon is beyond the range of floats here.
        return {
            who: epsilon_of(squared, delta) if squared < 900 or math.isinf(squared) else 450.0
            for who, squared in truths.items()
        }

    def truth(
        self, client: int, tasks: Iterable[int], versions: Iterable[int], known: Iterable[Hashable] = ()
    ) -> float:
        """Exact mu^2 of `client` for an adversary with these uploads and versions that knows the noises `known`."""
        tasks, versions, own = list(tasks), list(versions), [t for t, c in self.client.items() if c == client]
        hidden = {source: std for source, std in self.std.items() if std > 0 and source not in set(known)}
        moved = {("update", task): self._moved(self.uploads[task]) for task in own}
        rows = [self.sent[task] for task in tasks] + [self.version[version] for version in versions]
        found = squared_mu(rows, hidden, moved)
        if self._sigma_b:
            # Who holds an upload knows the clip norm behind it.
            versions = {*versions, *(self.clipped_after[task] for task in tasks if task in self.clipped_after)}
            bits = [self.bit[task] for task in tasks] + [self.bits[version] for version in versions]
            found += squared_mu(bits, hidden, {("bit", task): self.reach / 2 for task in own})
        return found

    def truths(self, of: str = "all") -> dict[tuple[str, int], float]:
        """(adversary, client) -> exact mu^2 for all adversaries of the ledger; with Laplace noise `pure_epsilon`.

        `of`: as in `privacy.stop_at`.
        """
        events = self.run.events.to_pylist()
        last = max(self.version)
        arrived = {e["task"] for e in events if arrives(e)} & self.uploads.keys()
        # A neighbour may change just those numbers of an update that were overheard.
        heard = {e["task"] for e in events if e["kind"] in HEARD and e["detail"] == "up"} & self.uploads.keys()
        tapped = {e["base_version"] for e in events if e["kind"] in HEARD and e["detail"] == "down"}
        members = set(self.scheme.curious) if isinstance(self.scheme.curious, tuple) else set()
        of_members = {task for task, client in self.client.items() if client in members}
        told = {e["base_version"] for e in events if e["kind"] == "downloaded" and e["client"] in members}
        servers = [source for source in self.std if source[0] in ("server", "server bit")]  # type: ignore[index]
        theirs = [(kind, task) for task in of_members for kind in ("noise", "bit noise")]
        every = range(last + 1)
        held: dict[str, tuple[set[int], Iterable[int], list[Any]]] = {
            "eavesdropper": (heard, tapped, []),
            "server": (arrived, every, servers),
            "both": (arrived | heard, every, servers),
            "public_last": (set(), [last], []),
            "public": (set(), every, []),
        }
        if self.secure is not None:
            # Masked updates are uniformly random numbers.
            held = {who: (set(), *having[1:]) for who, having in held.items()}
        if members:
            held["curious"] = (of_members, told, theirs)
        if not self.linear:
            # Versions are functions of all uploads in them: no further rows to those who hold these.
            held = {
                who: (having[0] if who in ("server", "both") else set(), *having[1:]) for who, having in held.items()
            }
        if of != "all":
            held = {
                who: (tasks if of == "uploads" else set(), versions if of == "models" else [], known)
                for who, (tasks, versions, known) in held.items()
            }
        clients = set(self.client.values()) - set(self.run.attackers)
        if self.secure is not None and self.secure.colluders:
            return self._with_colluders(held, clients)
        truth = self.pure_epsilon if self.laplace else self.truth
        return {
            (who, client): truth(client, *having) + (self._scores(who, client) if of != "models" else 0.0)
            for who, having in held.items()
            for client in clients
            if not (who == "curious" and client in members)
        }

    def _with_colluders(self, held: Mapping[str, Any], clients: set[int]) -> dict[tuple[str, int], float]:
        """As `truths`, where the worst choice of colluders tells the server all its noise, which is Gaussian."""
        found = {}
        for who, (tasks, versions, known) in held.items():
            members = set(self.scheme.curious) if who == "curious" else set()
            number = self.secure.colluders if who in ("server", "both") else 0
            for client in clients - members:
                others = sorted({*self.client.values()} - {client})
                sets = combinations(others, min(number, len(others)))
                told = ([("noise", task) for task, of in self.client.items() if of in chosen] for chosen in sets)
                found[who, client] = max(self.truth(client, tasks, versions, [*known, *more]) for more in told)
        return found

    def _scores(self, who: str, client: int) -> float:
        """Exact mu^2 of the noised scores of `client` that reached the server, or that the tap heard."""
        if self.scheme.scores is None:
            return 0.0
        moved = 1.0 if self.scheme.kind == "dp_fedavg" else 1 / self.run.sizes[client]
        seen: dict[str, set[int]] = defaultdict(set)
        answers: list[int] = []
        for event in self.run.events.to_pylist():
            if event["client"] != client:
                continue
            if event["kind"] == "scores_requested":
                answers.append(int(event["detail"].split()[0]))
            elif event["kind"] == "scored" and event["detail"] != "no answer":
                seen["server"].add(len(answers) - 1)
            elif event["kind"] in HEARD and event["detail"] == "scoring up":
                seen["eavesdropper"].add(len(answers) - 1)
        seen["both"] = seen["server"] | seen["eavesdropper"]
        return float(sum(answers[place] for place in seen[who]) * (moved / self.scheme.scores.std) ** 2)


def check(run: Any) -> dict[tuple[str, int], tuple[float, float]]:
    """Hold each proven row of the run's ledger against the truth; return (adversary, client) -> (truth, told)."""
    found = {}
    ledger = SeedLedger(run).ledger.to_pandas()
    of_clients = ledger[ledger["holder"] == "client"]
    truths = World(run).epsilons(float(of_clients["delta"].iloc[0]))
    for row in of_clients.to_dict("records"):
        # A heuristic sensitivity may be too small; what is called provable must not be.
        columns = ("provable", "exact_epsilon") if row["status"] == "proven" else ("provable",)
        truth = truths.get((row["adversary"], row["client"]), 0.0)
        for column in columns:
            assert row[column] >= truth * (1 - 1e-9), (column, truth, row)
        found[row["adversary"], row["client"]] = (truth, row["exact_epsilon"])
    for row in ledger[(ledger["holder"] == "model") & (ledger["status"] == "proven")].to_dict("records"):
        truth = max(truth for (who, _), (truth, _) in found.items() if who == row["adversary"])
        assert min(row["provable"], row["exact_epsilon"]) >= truth * (1 - 1e-9), (truth, row)
    no_less_than_the_worst_client(ledger)
    return found


def no_less_than_the_worst_client(ledger: Any) -> None:
    """A row of the models is about the client of whom they say most, and no client's row may say more."""
    names = [
        name
        for name in ledger.columns
        if name.endswith("_epsilon") and name not in ("claimed_epsilon", "naive_epsilon")
    ]
    alike = ["adversary", "delta", "unit", "neighbours"]
    worst = ledger[ledger["holder"] == "client"].groupby(alike)[[*names, "rho", "releases"]].max()
    for row in ledger[ledger["holder"] == "model"].to_dict("records"):
        if (key := tuple(row[name] for name in alike)) in worst.index:
            for name, least in worst.loc[key].items():
                assert row[name] >= least * (1 - 1e-9), (name, least, row)


WORLD: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 5, "samples_per_client": 4, "source": "embedded", "test_samples": 10},
    "model": {"kind": "mlp", "hidden": []},
    "training": {"lr": 0.05, "batch_size": 4},
    "world": {
        "device": {"kind": "lognormal", "median_s_per_sample": 0.02, "sigma": 1.5},
        "uplink": {"latency_s": 0.05, "bandwidth_bps": 1e6},
        "tap": {"uplink": True, "downlink": True, "packet_loss": 0.02},
    },
    "evaluation": {"train_every": 0, "test_every": 0},
}
PARTIAL = st.sampled_from(["whole", "work"])
STALENESS = st.sampled_from([{"kind": "constant"}, {"kind": "polynomial", "exponent": 2.0}])


@st.composite
def protocols(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["sync", "fedbuff", "buffered", "fedasync"]))
    # Where hardly an update arrives, time ends the run.
    chosen: dict[str, Any] = {"kind": kind, "rounds": draw(st.integers(1, 8)), "time_limit_s": 20.0}
    chosen |= draw(st.sampled_from([{}, {}, {"max_participations": 2}]))
    if kind == "fedasync":
        chosen |= {"min_separation": draw(st.sampled_from([None, 2, 4]))}
        return chosen | {"in_flight": draw(st.integers(1, 5)), "staleness": draw(STALENESS)}
    chosen["server_rate"] = draw(st.sampled_from([0.5, 1.0, 2.0]))
    if kind == "sync":
        chosen["min_separation"] = draw(st.sampled_from([None, 1]))
        return chosen | {"participants": 3, "over_selection": draw(st.sampled_from([1.0, 1.5]))}
    buffer = draw(st.integers(1, 5))
    return chosen | {
        "buffer": buffer,
        "min_separation": draw(st.sampled_from([None, 5 // buffer])),
        "dispatch": {"kind": "constant", "in_flight": draw(st.integers(1, 5))},
        "staleness": draw(STALENESS),
        "divisor": draw(st.sampled_from(["buffer", "weight_sum"])),
        "aggregation": draw(st.sampled_from(["delta", "mix"])),
        "max_staleness": draw(st.sampled_from([None, 1])),
    }


@st.composite
def factorisations(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["independent", "tree", "tree", "banded", "banded"]))
    if kind == "tree":
        restart, estimator = draw(st.sampled_from([None, 2, 3, 5])), draw(st.sampled_from(["nodes", "honaker"]))
        return {"kind": kind, "restart": restart, "estimator": estimator, "complete": draw(st.booleans())}
    if kind == "banded":
        coefficients = draw(st.sampled_from(["optimal", "square_root"]))
        return {"kind": kind, "bands": draw(st.integers(1, 5)), "coefficients": coefficients}
    return {"kind": kind}


@st.composite
def schemes(draw: st.DrawFn) -> dict[str, Any]:
    """Fields of a scenario that set a scheme with Gaussian or Laplace noise."""
    kinds = ["dp_fedavg", "dp_fedavg", "dp_fedavg", "dp_ftrl", "dp_ftrl", "dp_sgd", "nbafl", "mechanisms", "mechanisms"]
    kind = draw(st.sampled_from(kinds))
    curious = {"curious": draw(st.sampled_from([[], [1], [0, 2]]))}
    if kind == "dp_ftrl":
        factorisation, neighbours = draw(factorisations()), draw(st.sampled_from(["replace", "zero_out"]))
        scheme = {"clip_norm": 0.1, "noise_multiplier": draw(st.sampled_from([0.7, 3.0])), "neighbours": neighbours}
        return {"privacy": {"kind": kind, "factorisation": factorisation, **scheme, **curious}}
    if kind == "dp_sgd":
        z, size = draw(st.sampled_from([0.8, 3.0])), draw(st.sampled_from([2, "full"]))
        training = {"example_clip": 1.0, "example_noise": z, "batch_size": size, "epochs": draw(st.integers(1, 2))}
        return {"privacy": {"kind": kind, "noise_multiplier": z, **curious}, **under("training", training)}
    if kind == "mechanisms" and draw(st.booleans()):
        noise = draw(
            st.sampled_from(
                [
                    {"kind": "laplace", "epsilon": 3.0},
                    {"kind": "laplace", "epsilon": 3.0, "delta": 1e-5, "composition": "advanced"},
                ]
            )
        )
        noises = draw(st.sampled_from([{"client": noise}, {"server": noise}, {"client": noise, "server": noise}]))
        return {"privacy": {"kind": kind, "clip": {"norm": 0.5}, **noises, **curious}}
    if kind == "mechanisms":
        noise, clip = {"kind": "gaussian", "epsilon": 3.0}, {"target": draw(st.sampled_from(["model", "update"]))}
        noises = draw(st.sampled_from([{"client": noise}, {"server": noise}, {"client": noise, "server": noise}]))
        return {"privacy": {"kind": kind, "clip": {"norm": 0.5, **clip}, **noises, **curious}}
    if kind == "nbafl":
        sensitivity = draw(st.sampled_from(["2C", "2C/N", "2C/m"]))
        rule = draw(st.sampled_from(["paper", "none"]))
        scheme = {"epsilon": 20.0, "clip_norm": 0.5, "sensitivity": sensitivity, "b_rule": rule, "exposures": 1}
        return {"privacy": {"kind": kind, **scheme, **curious}}
    z = draw(st.sampled_from([0.7, 2.0, 6.0]))
    return {
        "privacy": {
            "kind": kind,
            "clip_norm": 0.1,
            "noise_multiplier": z,
            "noise_at": draw(st.sampled_from(["client", "server"])),
            "neighbours": draw(st.sampled_from(["replace", "zero_out"])),
            "adaptive": draw(st.sampled_from([None, {"fraction_noise": 0.6 * z}, {"fraction_noise": 2 * z}])),
            **curious,
        }
    }


def under(part: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{part}.{name}": value for name, value in fields.items()}


@st.composite
def worlds(draw: st.DrawFn) -> dict[str, Any]:
    changes = {"protocol": draw(protocols()), **draw(schemes())}
    changes |= draw(st.sampled_from([{}, {"data.partition": {"kind": "quantity", "min_samples": 2}}]))
    lossy = {"kind": "independent", "probability": 0.02}
    changes |= draw(st.sampled_from([{}, {"world.uplink.loss": lossy, "world.uplink.retransmissions": 0}]))
    tap = {"uplink": draw(st.booleans()), "downlink": draw(st.booleans())}
    if draw(st.booleans()):
        tap["scoring"] = True
    changes["world.tap"] = tap | {"packet_loss": 0.02 if any(tap.values()) else 0.0}
    several = changes["protocol"].get("buffer", 2) > 1 and changes["protocol"]["kind"] != "fedasync"
    if several and draw(st.integers(0, 4)) == 0:
        changes["defence.rule"] = {"kind": "median"}
    elif several and draw(st.integers(0, 4)) == 0:
        changes["defence.detector"] = {"kind": "safl"}
        changes["privacy"] = {**changes["privacy"], "scores": {"std": draw(st.sampled_from([0.3, 1.0]))}}
    if several and draw(st.booleans()):
        # Some clients are stopped in their second epoch.
        changes |= {"training.epochs": 2, "training.deadline_s": 0.2, "protocol.partial_work": draw(PARTIAL)}
    if draw(st.booleans()):
        attack = {"kind": "mimic", "knowledge": "buffer"}
        changes["threats"] = {"attackers": 0.2, "attack": attack, "attackers_add_noise": draw(st.booleans())}
    return changes


STALE = {"kind": "fedbuff", "rounds": 4, "buffer": 3, "staleness": {"kind": "polynomial", "exponent": 2.0}}


def rows_of_models(changes: dict[str, Any]) -> Any:
    """The rows of the models of a run that was held against the truth."""
    run = simulate_seed(Scenario.read(WORLD | {"protocol": changes["protocol"]}).override(changes), 0)
    check(run)
    rows = SeedLedger(run).ledger.to_pandas()
    return rows[rows["holder"] == "model"].set_index("adversary")


LAPLACE_1 = {"kind": "laplace", "epsilon": 1.0}
SYNC_5 = {"kind": "sync", "rounds": 5}


def test_models_with_laplace_noise_reveal_one_epsilon_for_each_version() -> None:
    """The last of five models is all five changes: its tails fall like one noise, and five shifts move it."""
    rows = rows_of_models({"protocol": SYNC_5, "privacy": {"kind": "mechanisms", "server": LAPLACE_1}})
    for who in ("public", "public_last"):
        row = rows.loc[who]
        assert (row["exact_epsilon"], row["provable"], row["releases"]) == (pytest.approx(5.0), pytest.approx(5.0), 5)
        assert (row["status"], row["claim_holds"]) == ("proven", False)


def test_each_laplace_upload_of_a_client_in_a_version_counts() -> None:
    """A buffer of five holds several updates of one fast client, and the version tells of all of them."""
    often = {"kind": "buffered", "rounds": 5, "buffer": 5, "dispatch": {"kind": "constant", "in_flight": 5}}
    changes = {"protocol": often, "privacy": {"kind": "mechanisms", "client": LAPLACE_1}}
    run = simulate_seed(Scenario.read(WORLD | {"protocol": often}).override(changes), 0)
    client_of = {one.task: one.client for one in run.uploads}
    entered = [event for event in run.events.to_pylist() if event["kind"] == "aggregated"]
    most = max(Counter(client_of[event["task"]] for event in entered).values())
    assert most > 5, "more than once in a version"
    rows = rows_of_models(changes)
    for who in ("public", "public_last"):
        assert (rows.loc[who, "exact_epsilon"], rows.loc[who, "releases"]) == (pytest.approx(most), most)


def test_neighbours_at_every_client_differ_in_all_updates_of_a_model() -> None:
    """Six updates of weight 1/6 move by 2 S each: the mean moves by 2 S, in each of two rounds."""
    scheme = {"kind": "adaptive", "budgets": [4.0] * 6, "adjustment": "none", "sensitivity": "2M", "threshold": 3.0}
    protocol = {"kind": "sync", "rounds": 2}
    row = rows_of_models({"data.clients": 6, "protocol": protocol, "privacy": scheme}).loc["public"]
    assert (row["neighbours"], row["status"]) == ("replace at every client", "proven")
    truth = epsilon_of(2 * (2.0 / row["sigma"]) ** 2, row["delta"])
    assert row["exact_epsilon"] == pytest.approx(truth)
    assert row["provable"] == pytest.approx(truth)
    assert not row["claim_holds"]


@pytest.mark.parametrize("neighbours", ["zero_out", "replace"])
def test_bits_of_an_adaptive_clip_norm_do_not_have_the_weights_of_stale_updates(neighbours: str) -> None:
    """z = 4, sigma_b = 2.5: to the public, a stale update is hidden by the fresh ones, and its bit is not."""
    scheme = {"kind": "dp_fedavg", "noise_multiplier": 4.0, "clip_norm": 0.1, "adaptive": {"fraction_noise": 2.5}}
    changes = {
        "protocol": {**STALE, "dispatch": {"kind": "constant", "in_flight": 5}},
        "privacy": {**scheme, "neighbours": neighbours},
    }
    found = run_and_check(changes)
    # Client 2 has one update, two versions old, beside two that are one version old.
    weight, others = 3**-2 / 3, 2**-2 / 3
    reach = 1.0 if neighbours == "zero_out" else 2.0
    z_delta = (4.0**-2 - (2 * 2.5) ** -2) ** -0.5
    of_update = (reach / z_delta) ** 2 * weight**2 / (weight**2 + 2 * others**2)
    of_bit = (reach / 2 / 2.5) ** 2 / 3
    truth = epsilon_of(of_update + of_bit, 1e-5)
    assert found["public", 2] == pytest.approx((truth, truth))
    assert found["public", 0] == pytest.approx([found["public", 0][0]] * 2)


@pytest.mark.parametrize(("neighbours", "norm"), [("zero_out", 0.0), ("replace", 0.5)])
@pytest.mark.parametrize("rounds", [1, 10])
def test_update_and_clip_norm_bit_together_have_the_claimed_epsilon(neighbours: str, norm: float, rounds: int) -> None:
    """z = 1.1. A bit that moved by 1 where an update becomes zero would make epsilon 5.43, and 22.8 in ten rounds."""
    scheme = DpFedAvg(noise_multiplier=1.1, adaptive={"learning_rate": 1.0}, neighbours=neighbours)
    context = PrivacyContext(clients=4, participants=4, rounds=rounds, smallest_samples=10, exposures=0)
    after = []
    for of_client in (2.0, norm):
        state = ClipState(1.0, AdaptiveClip(learning_rate=1.0), 0.0, by_server=False)
        state.record_collection((), np.array([of_client, 0.5, 0.5, 3.0]), np.random.default_rng(0))
        after.append(math.log(state.norm))
    bit_moved, sigma_b = 4 * abs(after[0] - after[1]), 1.1
    update_moved = 1.0 if neighbours == "zero_out" else 2.0
    z_delta = (1.1**-2 - (2 * sigma_b) ** -2) ** -0.5
    rows: list[Row] = [{"update": 1.0, "noise": 1.0}, {"bit": 1.0, "bit noise": 1.0}]
    moved = {"update": update_moved, "bit": bit_moved}
    mu = rounds * squared_mu(rows, {"noise": z_delta, "bit noise": sigma_b}, moved)
    told = scheme.upload_guarantee(context)
    assert told is not None
    assert told.epsilon == pytest.approx(epsilon_of(mu, 1e-5))


def test_nothing_is_proven_of_compressed_updates_behind_server_noise() -> None:
    """A quantiser of one level sends 0 or the largest entry: the sent update is longer than its clip norm."""
    update = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    quantiser = Quantised(bits=2)
    sent = quantiser.unpacked(quantiser.packed(update, np.random.default_rng(1)), 1000)
    assert np.linalg.norm(sent) > 1.4 * np.linalg.norm(update)
    scheme = {"kind": "nbafl", "epsilon": 20.0, "clip_norm": 0.5, "exposures": 0, "b_rule": "none"}
    changes = {"privacy": scheme, "compression": {"kind": "quantised", "bits": 2}}
    run = simulate_seed(Scenario.read(WORLD | {"protocol": {"kind": "sync", "rounds": 2}} | changes), 0)
    rows = SeedLedger(run).ledger.to_pandas()
    assert np.isinf(rows[(rows["adversary"] == "public")]["provable"]).all()


def test_no_budget_counts_on_server_noise_where_a_rule_chooses_by_value() -> None:
    """A median of five follows one client all the way, 2 S, and the noise is made for a fifth of it."""
    z, n, budget = 4.0, 5, 12.0
    stop_at = {"epsilon": budget, "adversary": "public", "of": "models"}
    scheme = {"kind": "dp_fedavg", "noise_multiplier": z, "clip_norm": 1.0, "noise_at": "server", "stop_at": stop_at}
    changes = {"protocol": {"kind": "sync", "rounds": 2}, "privacy": scheme}
    others = [-1.0, -1.0, 1.0, 1.0]
    moved = np.median([*others, 1.0]) - np.median([*others, -1.0])
    rows: list[Row] = [{"median": 1.0, "noise": 1.0}]
    assert epsilon_of(squared_mu(rows, {"noise": z / n}, {"median": moved}), 1e-5) > budget
    Scenario.read(WORLD | changes)
    choosing: list[dict[str, Any]] = [
        {"defence": {"rule": {"kind": "median"}}},
        {"defence": {"detector": {"kind": "kardam"}}},
    ]
    for defence in choosing:
        with pytest.raises(ScenarioError, match="weights of updates depend on their values"):
            Scenario.read(WORLD | changes | defence)


@st.composite
def secure_worlds(draw: st.DrawFn) -> dict[str, Any]:
    """A world with secure aggregation: of Gaussian noise at clients, at the server, or both."""
    changes = draw(worlds())
    protocol = changes["protocol"]
    # A sum of one update is that update, and rules need single updates.
    assume(protocol["kind"] != "fedasync" and protocol.get("buffer", 2) > 1)
    assume(changes["privacy"]["kind"] != "dp_sgd")
    changes = {name: value for name, value in changes.items() if not name.startswith("defence")}
    changes.pop("protocol.partial_work", None)
    kind = "pairwise" if protocol["kind"] == "sync" and draw(st.booleans()) else "lightsecagg"
    secure = {"kind": kind, "threshold": 3, "bits": draw(st.sampled_from([10, 16])), "range": 0.1, "weight_bits": 4}
    secure["colluders"] = draw(st.integers(0, 2))
    weighting = draw(st.sampled_from(["samples", "uniform"]))
    changes["protocol"] = {**protocol, "secure_aggregation": secure, "weighting": weighting}
    left_out = ("adaptive", "scores")
    changes["privacy"] = {name: value for name, value in changes["privacy"].items() if name not in left_out}
    if secure["colluders"]:
        assume("laplace" not in str(changes["privacy"]))
    return changes


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(secure_worlds(), st.integers(0, 3))
def test_no_proven_row_of_a_securely_aggregated_run_is_below_the_likelihood_ratio(
    changes: dict[str, Any], seed: int
) -> None:
    found = run_and_check(changes, seed)
    heard = [told for (who, _), (_, told) in found.items() if who == "eavesdropper"]
    # A tap on the uplinks alone holds masked numbers.
    assert changes["world.tap"]["downlink"] or not any(heard)


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(worlds(), st.integers(0, 3))
def test_no_proven_row_of_a_run_is_below_the_likelihood_ratio(changes: dict[str, Any], seed: int) -> None:
    run_and_check(changes, seed)


STOPS = st.sampled_from(
    [
        {"adversary": "server"},
        {"adversary": "both", "of": "all"},
        {"adversary": "public", "of": "all"},
        {"adversary": "eavesdropper", "of": "uploads"},
        {"adversary": "eavesdropper", "of": "models"},
        {"adversary": "eavesdropper", "of": "all"},
        {"adversary": "curious", "of": "all"},
    ]
)


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(worlds(), STOPS, st.sampled_from([8.0, 40.0]), st.integers(0, 3))
def test_no_client_exceeds_its_budget(
    changes: dict[str, Any], stop_at: dict[str, Any], epsilon: float, seed: int
) -> None:
    hold_budget(changes, {**stop_at, "epsilon": epsilon}, seed)


def hold_budget(changes: dict[str, Any], stop_at: dict[str, Any], seed: int) -> None:
    # Budgets on models are refused where an attack reads the buffer.
    changes = {name: value for name, value in changes.items() if name != "threats"}
    changes["privacy"] = {**changes["privacy"], "curious": [1], "stop_at": stop_at}
    changes["world.tap"] = {"uplink": True, "downlink": True, "packet_loss": 0.01}
    try:
        scenario = Scenario.read(WORLD | {"protocol": changes["protocol"]}).override(changes)
    except ScenarioError:
        reject()
    run = simulate_seed(scenario, seed)
    rows = SeedLedger(run).ledger.to_pandas()
    of_clients = rows[(rows["holder"] == "client") & (rows["adversary"] == stop_at["adversary"])]
    assume((of_clients["status"] == "proven").all())
    truths = World(run).epsilons(float(of_clients["delta"].iloc[0]), stop_at.get("of", "uploads"))
    for (who, client), truth in truths.items():
        if who == stop_at["adversary"]:
            assert truth <= stop_at["epsilon"] * (1 + 1e-8), (client, truth)


def run_and_check(changes: dict[str, Any], seed: int = 0) -> dict[tuple[str, int], tuple[float, float]]:
    return check(simulate_seed(Scenario.read(WORLD | {"protocol": changes["protocol"]}).override(changes), seed))
