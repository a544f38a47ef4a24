"""A real SuperLink and two real SuperNodes on this machine. Without Flower these tests are skipped, by name:

    pip install -e '.[flower,dev]' -c constraints.txt
    pytest tests/extras/live/flower/test_real_flower.py

Each message starts a process that imports torch, so a version takes seconds, and more where the machine has other work.
"""

import asyncio
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from asyncfl.cli.live import flower
from asyncfl.extras.live.client_messages import ClientScoreRequest, Gone, Task
from asyncfl.extras.live.flower.frames import answer_decoder, encode
from asyncfl.extras.live.flower.nodes import Answers, Dialect
from asyncfl.extras.live.flower.own import ArrayDialect
from asyncfl.extras.live.flower.records import SCORES, TRAIN, GridMessages, LostError, Shapes
from asyncfl.protocol.messages import Fate
from asyncfl.results.storage import Run
from asyncfl.testing.recordings import replay_run

pytestmark = pytest.mark.skipif(find_spec("flwr") is None, reason="flwr is not installed")

ROOT = Path(__file__).parents[4]
SCENARIO: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 2, "samples_per_client": 200, "source": "embedded", "test_samples": 500},
    "model": {"kind": "mlp", "hidden": [32]},
    "training": {"lr": 0.1, "batch_size": 20, "epochs": 3},
    "protocol": {"kind": "fedbuff", "rounds": 4, "buffer": 1, "dispatch": {"kind": "constant", "in_flight": 2}},
    "evaluation": {"record": "parameters"},
}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def listens(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until the process does: `flwr run` asks once."""
    for _ in range(1200):
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
            break
    raise AssertionError(f"nobody listens at {port}; the SuperLink returned {process.poll()}")


@pytest.fixture(scope="module")
def flwr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """`flwr run APP ...` on a federation of two SuperNodes; returns what it prints."""
    home = tmp_path_factory.mktemp("flower")
    port = free_port()
    settings = {"FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0", "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, **settings, "PATH": path}
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )

    def started(*command: str) -> subprocess.Popen[bytes]:
        log = stack.enter_context((home / f"{command[0]}-{len(processes)}.log").open("wb"))
        return subprocess.Popen(command, cwd=home, env=environment, stdout=log, stderr=subprocess.STDOUT)

    def run(app: Path, *more: str) -> str:
        command = ["flwr", "run", str(app), "here", "--stream", *more]
        done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    processes: list[subprocess.Popen[bytes]] = []
    with ExitStack() as stack:
        link = "--insecure", "--disable-runtime-dependency-installation", "--port", str(port)
        processes.append(started("flower-superlink", *link))
        listens(processes[0], port)
        for client in range(2):
            node = "--insecure", "--superlink", f"127.0.0.1:{port}", "--port", str(free_port())
            processes.append(
                started("flower-supernode", *node, "--node-config", f"partition-id={client} num-partitions=2")
            )
        try:
            yield run
        finally:
            for process in reversed(processes):
                process.terminate()
            for process in processes:
                process.wait(60)


def test_a_scenario_is_learned_over_flower_and_its_run_replays(flwr: Callable[..., str], tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(yaml.safe_dump(SCENARIO))
    flower(scenario, tmp_path / "app", None, tmp_path / "results", 600.0, False)
    printed = flwr(tmp_path / "app")
    [folder] = (tmp_path / "results").iterdir()
    assert f"{folder} written" in printed
    run = Run.load(folder)
    assert run.summary["seeds"]["0"]["stopped"] == "all versions published"
    assert run.summary["fates"]["aggregated"] == 4
    accuracy = run.rounds["test_accuracy"]
    assert accuracy.iloc[-1] > accuracy.iloc[0] + 0.1
    assert set(run.events["client"]) >= {0, 1}
    assert replay_run(folder).calls > 4


def test_a_client_app_of_ones_own_takes_our_server(flwr: Callable[..., str], tmp_path: Path) -> None:
    printed = flwr(ROOT / "examples" / "flower", "--run-config", f'rounds=3 results="{tmp_path / "run"}"')
    accuracies = [float(one) for one in re.findall(r"version \d+: accuracy ([\d.]+)", printed)]
    assert len(accuracies) == 4
    assert accuracies[-1] > accuracies[0]
    assert "epsilon of the published models" in printed
    events: pd.DataFrame = Run.load(tmp_path / "run").events
    assert (events["kind"] == "published").sum() == 4


def test_messages_are_what_flowers_apps_expect(monkeypatch: pytest.MonkeyPatch) -> None:
    from flwr.app import ConfigRecord, Error, Message, MetricRecord, RecordDict
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_task_id", "_run_id", "_node_id"):
        # Messages are made in a process that Flower has started for a run.
        monkeypatch.setattr(TaskIdentity, name, 1)
    shapes = Shapes((("weight", (3,), "float32"),))
    dialect = ArrayDialect(shapes=shapes, state=None, by_samples=True)
    models = np.arange(6, dtype=np.float32).reshape(2, 3)
    sent, replies = list[Message](), list[Message]()

    def push(messages: Any) -> list[str]:
        [message] = messages
        sent.append(message)
        message.metadata.__dict__["_message_id"] = str(len(sent))
        return [str(len(sent))]

    grid: Any = SimpleNamespace(push_messages=push, pull_messages=lambda _: [replies.pop()] if replies else [])

    async def main() -> tuple[Answers, Answers]:
        with ThreadPoolExecutor(1) as executor:
            messages = GridMessages(grid, 30.0, executor)
            records, read = dialect.translate(Task(3, 0, 4, 0), models[:1])
            asked = messages.ask(7, TRAIN, records)
            lost = messages.ask(7, SCORES, dialect.translate(ClientScoreRequest(6, 0), models)[0])
            await messages.exchange({7})
            config = ConfigRecord({"frames": [encode(Gone(3, Fate.LOST_UP, ()))]})
            content = RecordDict({"config": config, "metrics": MetricRecord({"loss": 0.5})})
            content["arrays"] = shapes.record(models[1])
            replies[:] = [
                Message(content, reply_to=sent[0]),
                Message(Error(code=3, reason="expired"), reply_to=sent[1]),
            ]
            await messages.exchange({7})
            await messages.exchange({7})
            with pytest.raises(LostError, match="expired"):
                await lost
            _, as_frames = Dialect(decoder=answer_decoder(3)).translate(Task(3, 0, 4, 0), models)
            return read(await asked), as_frames(await asked)

    [update], frames = asyncio.run(main())
    train, scores = sent
    assert (train.metadata.message_type, train.metadata.dst_node_id, train.metadata.ttl) == ("train", 7, 30.0)
    assert train.content["config"]["server-round"] == 4
    assert shapes.vector(train.content["arrays"]).tolist() == [0, 1, 2]  # type: ignore[union-attr]
    assert scores.metadata.message_type == "query.scores"
    assert shapes.vector(scores.content["model-1"]).tolist() == [3, 4, 5]  # type: ignore[union-attr]
    assert update[1].tolist() == [[3, 4, 5]]
    assert [message for message, _ in frames] == [Gone(3, Fate.LOST_UP, ())]


def test_bytes_that_are_no_array_are_no_model() -> None:
    from flwr.app import Array, ArrayRecord

    shapes = Shapes((("weight", (3,), "float32"),))
    for data in (b"", b"no array"):
        assert shapes.vector(ArrayRecord({"weight": Array("float32", (3,), "numpy.ndarray", data)})) is None


def test_a_state_dict_goes_there_and_back() -> None:
    import torch
    from flwr.app import ArrayRecord

    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    record = ArrayRecord(net.state_dict())
    shapes = Shapes.of(record)
    flat = shapes.vector(record)
    assert flat is not None
    assert len(flat) == 3 * 2 + 2 + 4 * 2 + 1
    back = shapes.record(flat).to_torch_state_dict()
    assert list(back) == list(net.state_dict())
    for name, value in net.state_dict().items():
        assert back[name].dtype == value.dtype
        assert torch.equal(back[name], value)
    assert shapes.vector(ArrayRecord({"other": record["0.weight"]})) is None
