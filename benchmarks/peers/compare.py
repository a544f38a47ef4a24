"""What does a federated round cost here, and in other simulators?

    python benchmarks/peers/compare.py --environments DIR [--workload NAME ...] [--simulator NAME ...] [--out FILE.md]

Makes a virtual environment for each simulator below DIR (by pip, from the index that it is set up with), runs the same
workloads in all of them side by side, and writes a table of CPU milliseconds per round. A simulator that cannot be
installed or imported is left out, with the reason. "pfl-research, tuned" has channels_last memory and fused SGD, as an
expert runs it; the others run as they come. FLSim needs Python 3.10 or older: name one by --python flsim=PATH,
unless `python3.10` is on the PATH.

All start from the same weights and train the same samples, in batches that lie in memory, with one thread on the same
core. Rounds of the simulators alternate, so that other programs on the machine disturb all alike. None evaluates in the
rounds that count. Of each the median of the rounds is shown, and of its ratios to asyncfl's rounds, turn by turn.
Losses after the last round are compared once, so that all have trained alike.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from asyncfl.base.streams import Streams
from asyncfl.scenario import Scenario

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Simulator:
    """A simulator, and what pip installs for it."""

    title: str
    requirements: tuple[str, ...] = ()
    """Empty: it runs in the environment of this script."""
    python: str = sys.executable
    asynchronous: bool = False
    """Whether it simulates buffered asynchronous training on a clock."""
    place: str = ""
    """Name of its environment; empty: its own."""


SIMULATORS = {
    "asyncfl": Simulator("asyncfl", asynchronous=True),
    "asyncfl_torch": Simulator("asyncfl without compiled kernels", asynchronous=True),
    "plain": Simulator("plain loop"),
    "pfl": Simulator("pfl-research", ("pfl[pytorch]==0.6.0",)),
    "pfl_tuned": Simulator("pfl-research, tuned", ("pfl[pytorch]==0.6.0",), place="pfl"),
    "fedlab": Simulator("FedLab", ("fedlab==1.3.0",)),
    "flsim": Simulator("FLSim", ("flsim==0.1.0",), "python3.10", asynchronous=True),
    "flower": Simulator("Flower", ("flwr[simulation]==1.41.0",)),
}


@dataclass(frozen=True)
class Workload:
    """A row of the table: clients of `samples` images of MNIST each, an epoch of SGD per task."""

    title: str
    model: Mapping[str, Any]
    clients: int
    samples: int
    batch_size: int | str = 32
    lr: float = 0.01
    proximal_mu: float = 0.0
    cohort: int | None = None
    """Clients per round, or updates per version; None: all clients."""
    in_flight: int = 0
    repeats: int = 8
    dataset: str = "mnist"

    def scenario(self, rounds: int, initial: str | None = None) -> dict[str, Any]:
        """Return the workload as a scenario that evaluates after the last round alone."""
        protocol: dict[str, Any] = {"kind": "sync", "rounds": rounds, "participants": self.cohort}
        if self.in_flight:
            dispatch = {"kind": "constant", "in_flight": self.in_flight}
            protocol = {"kind": "buffered", "rounds": rounds, "buffer": self.cohort, "dispatch": dispatch}
        training = {"lr": self.lr, "batch_size": self.batch_size, "proximal_mu": self.proximal_mu, "device": "cpu"}
        data = {"dataset": self.dataset, "clients": self.clients, "samples_per_client": self.samples}
        return {
            "data": {**data, "test_samples": 1000},
            "model": {**self.model, "initial": initial},
            "training": training,
            "protocol": protocol,
            "world": {"device": {"kind": "lognormal", "median_s_per_sample": 0.002, "sigma": 0.5}},
            "evaluation": {"train_every": 0, "test_every": rounds},
        }


WORKLOADS = {
    "mlp-prox": Workload("MLP 784-256-10, FedProx, 50 clients x 100", {"kind": "mlp"}, 50, 100, proximal_mu=1.0),
    "mlp-full": Workload("MLP, FedProx, full batch, 50 x 100", {"kind": "mlp"}, 50, 100, "full", proximal_mu=1.0),
    "mlp-600": Workload("MLP, 20 x 600", {"kind": "mlp"}, 20, 600),
    "lenet-600": Workload("LeNet, 20 x 600", {"kind": "lenet"}, 20, 600, repeats=4),
    "cnn-600": Workload("McMahan's CNN, 20 x 600", {"kind": "cnn"}, 20, 600, repeats=4),
    "async": Workload("MLP, 20 x 600, FedBuff: 10 of 20 in flight", {"kind": "mlp"}, 20, 600, cohort=10, in_flight=20),
    "logistic": Workload(
        "logistic regression, 10 of 1,000 x 60, batch 10", {"kind": "linear"}, 1000, 60, 10, 0.03, cohort=10
    ),
    "resnet-8": Workload("ResNet-8, 20 x 100 of CIFAR-10", {"kind": "resnet"}, 20, 100, repeats=4, dataset="cifar10"),
}


def write_workload(work: Workload, name: str, folder: Path) -> None:
    """Write samples, initial module and settings for the processes of all simulators.

    The first round warms up, and asyncfl evaluates in the last: neither is counted.
    """
    rounds = work.repeats + 2
    scenario = Scenario.read(work.scenario(rounds))
    data = scenario.data.build(Streams(0))
    features, labels = (np.stack(part) for part in zip(*map(data.client, range(work.clients)), strict=True))
    test = {"test_features": data.test_images, "test_labels": data.test_labels}
    np.savez(folder / "data.npz", features=features, labels=labels, **test)
    torch.manual_seed(0)
    module = scenario.model.module(scenario.data.shape, scenario.data.outputs)
    torch.save(module.state_dict(), folder / "initial.pt")
    # A traced module can be read where asyncfl is not installed.
    torch.save(torch.fx.symbolic_trace(module), folder / "module.pt")
    settings = {
        "name": name,
        "clients": work.clients,
        "cohort": work.cohort or work.clients,
        "samples": work.samples,
        "lr": work.lr,
        "batch_size": work.samples if work.batch_size == "full" else work.batch_size,
        "proximal_mu": work.proximal_mu,
        "in_flight": work.in_flight,
        "rounds": rounds,
        "scenario": work.scenario(rounds, str(folder / "initial.pt")),
    }
    (folder / "work.json").write_text(json.dumps(settings), encoding="utf-8")


def environment(name: str, python: str, folder: Path) -> Path | str:
    """Return the interpreter of a simulator's environment, which is made where it is missing; or why there is none."""
    simulator = SIMULATORS[name]
    if not simulator.requirements:
        return Path(sys.executable)
    found = shutil.which(python)
    if found is None or subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode:
        return f"needs {Path(python).name}, which does not run here (--python {name}=PATH)"
    place = folder / (simulator.place or name)
    interpreter, ready = place / "bin" / "python", place / "ready"
    wanted = "\n".join((*simulator.requirements, f"torch=={torch.__version__.partition('+')[0]}"))
    if not ready.exists() or ready.read_text(encoding="utf-8") != wanted:
        print(f"installing {simulator.title} into {place}", file=sys.stderr, flush=True)
        commands = [found, "-m", "venv", "--clear", place], [interpreter, "-m", "pip", "install", "-q", *wanted.split()]
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                return f"does not install: {last_line(done.stdout + done.stderr)}"
        ready.write_text(wanted, encoding="utf-8")
    done = subprocess.run(
        [interpreter, "-c", f"import by_{name}"], cwd=HERE, env=quiet(), capture_output=True, text=True, check=False
    )
    return f"cannot be imported: {last_line(done.stderr)}" if done.returncode else interpreter


def last_line(text: str) -> str:
    """Return the last line that is not empty."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no reason was given")


def quiet() -> dict[str, str]:
    """Return the environment variables of a simulator: one thread, no telemetry, modules of this folder."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    package = importlib.util.find_spec("asyncfl")
    assert package is not None
    assert package.origin is not None
    paths = os.pathsep.join((str(HERE), str(Path(package.origin).parents[1])))
    silent = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}
    return {**os.environ, **threads, **silent, "PYTHONPATH": paths, "PYTHONWARNINGS": "ignore"}


@dataclass
class Process:
    """A simulator at work."""

    popen: subprocess.Popen[str]
    log: IO[str]
    rounds: list[float] = field(default_factory=list)
    """CPU seconds of each round that counts."""

    @classmethod
    def start(cls, name: str, interpreter: Path, folder: Path, core: int) -> Process:
        log = (folder / f"{name}.log").open("w+", encoding="utf-8")
        popen = subprocess.Popen(
            [interpreter, HERE / "worker.py", name, folder, str(core)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=quiet(),
        )
        return cls(popen, log)

    def answer(self) -> dict[str, Any]:
        """Wait for a round. Raises RuntimeError with the last line of the log where the process ended instead."""
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline()
        if not line:
            self.popen.wait()
            self.log.seek(0)
            raise RuntimeError(last_line(self.log.read()))
        answer: dict[str, Any] = json.loads(line)
        return answer

    def go(self) -> float:
        """Have it run a round; return its CPU seconds."""
        assert self.popen.stdin is not None
        self.popen.stdin.write("\n")
        self.popen.stdin.flush()
        return float(self.answer()["cpu_s"])

    def end(self) -> None:
        """End the process, whatever it does."""
        self.popen.kill()
        self.popen.wait()
        self.log.close()


@dataclass(frozen=True)
class Measured:
    """A simulator's rounds of a workload."""

    cpu_s: Sequence[float]
    test_loss: float
    versions: Mapping[str, str]


def measure(name: str, work: Workload, interpreters: Mapping[str, Path], core: int) -> dict[str, Measured | str]:
    """Run a workload in all simulators, a round of each in turn; a text says why a simulator has no result."""
    found: dict[str, Measured | str] = {}
    with tempfile.TemporaryDirectory(prefix="peers-") as temporary, ExitStack() as stack:
        folder = Path(temporary)
        write_workload(work, name, folder)
        running: dict[str, Process] = {}
        for simulator, interpreter in interpreters.items():
            process = Process.start(simulator, interpreter, folder, core)
            stack.callback(process.end)
            try:
                process.answer()
                running[simulator] = process
            except RuntimeError as error:
                found[simulator] = f"failed: {error}"
        for _ in range(work.repeats):
            for simulator, process in list(running.items()):
                try:
                    process.rounds.append(process.go())
                except RuntimeError as error:
                    found[simulator] = f"failed: {error}"
                    del running[simulator]
        for simulator, process in running.items():
            process.go()
            told = process.answer()
            found[simulator] = Measured(process.rounds, told["test_loss"], told["versions"])
    return {simulator: found[simulator] for simulator in interpreters}


def table(results: Mapping[str, Mapping[str, Measured | str]], titles: Mapping[str, str]) -> list[str]:
    """Return the lines of a table in Markdown: medians in ms, and the median ratio to asyncfl."""
    lines = [f"| CPU ms per round | {' | '.join(titles.values())} |", f"|---{'|---:' * len(titles)}|"]
    for name, found in results.items():
        own, cells = found.get("asyncfl"), []
        for simulator in titles:
            one = found.get(simulator, "")
            if isinstance(one, str):
                cells.append("-")
                continue
            cell = f"{1e3 * statistics.median(one.cpu_s):,.0f}"
            if simulator != "asyncfl" and isinstance(own, Measured):
                cell += f" ({statistics.median(b / a for a, b in zip(own.cpu_s, one.cpu_s, strict=True)):.2f})"
            cells.append(cell)
        lines.append(f"| {WORKLOADS[name].title} | {' | '.join(cells)} |")
    return lines


def cpu_model() -> str:
    """Return the name of the processor."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def main() -> None:
    """Install, measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=Path, required=True, help="folder of the virtual environments")
    parser.add_argument("--workload", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--simulator", nargs="+", choices=SIMULATORS, default=list(SIMULATORS))
    parser.add_argument("--python", nargs="+", default=[], metavar="SIMULATOR=PATH", help="another interpreter")
    parser.add_argument("--repeats", type=int, help="rounds that count, at least 1; even where one is asynchronous")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="the core that all run on")
    parser.add_argument("--out", type=Path, help="file for the table; default: standard output alone")
    chosen = parser.parse_args()
    pythons = {name: simulator.python for name, simulator in SIMULATORS.items()}
    pythons |= dict(item.split("=", 1) for item in chosen.python)
    folder = chosen.environments.absolute()
    places = {name: environment(name, pythons[name], folder) for name in chosen.simulator}
    missing = {name: place for name, place in places.items() if isinstance(place, str)}
    interpreters = {name: place for name, place in places.items() if isinstance(place, Path)}
    works = {name: WORKLOADS[name] for name in chosen.workload}
    if chosen.repeats is not None:
        works = {name: replace(work, repeats=chosen.repeats) for name, work in works.items()}
    results: dict[str, dict[str, Measured | str]] = {}
    for name in chosen.workload:
        able = {
            simulator: place
            for simulator, place in interpreters.items()
            if not WORKLOADS[name].in_flight or SIMULATORS[simulator].asynchronous
        }
        results[name] = measure(name, works[name], able, chosen.core)
        print(table({name: results[name]}, {s: SIMULATORS[s].title for s in interpreters})[-1], flush=True)
    versions: dict[str, set[str]] = {}
    for measured in (one for found in results.values() for one in found.values() if isinstance(one, Measured)):
        for package, version in measured.versions.items():
            versions.setdefault(package, set()).add(version)
    stated = ", ".join(f"{package} {' and '.join(sorted(known))}" for package, known in sorted(versions.items()))
    lines = [f"{cpu_model()}, one core, Linux {platform.release()}; {stated}.", ""]
    lines += table(results, {name: SIMULATORS[name].title for name in interpreters})
    for name, found in results.items():
        losses = [f"{s} {one.test_loss:.4f}" for s, one in found.items() if isinstance(one, Measured)]
        if losses:
            lines += ["", f"{name}: test loss after {works[name].repeats + 2} rounds: {', '.join(losses)}"]
        lines += [f"{name}: {SIMULATORS[s].title} {one}" for s, one in found.items() if isinstance(one, str)]
    lines += [f"{SIMULATORS[name].title} {reason}" for name, reason in missing.items()]
    text = "\n".join(lines) + "\n"
    print(text)
    if chosen.out is not None:
        chosen.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
