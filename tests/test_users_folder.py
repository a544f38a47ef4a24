"""A folder of a user's own, outside the repository: data, a network, a metric and one scenario, from run to export."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from asyncfl.cli import app

FILES = {
    "users_data.py": '''
import numpy as np

from asyncfl.data import Samples
from asyncfl.data.own import Dataset


class MyData(Dataset):
    """Two clouds of points in the plane, by whose first coordinate one knows them."""

    kind: str = "users_data:MyData"

    def load(self):
        draw = np.random.default_rng(0)
        labels = draw.integers(2, size=600)
        points = draw.normal(size=(600, 2)) + np.stack([3.0 * labels - 1.5, 0 * labels], 1)
        return Samples(features=points.astype("float32"), labels=labels)
''',
    "users_net.py": """
from torch import nn


class MyNet(nn.Module):
    def __init__(self, shape, classes, hidden=6):
        super().__init__()
        self.cell = nn.GRUCell(2, hidden)
        self.last = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.last(self.cell(x))


def surely(outputs, labels):
    return float((outputs.max(1) - outputs.min(1)).mean())
""",
    "scenario.yaml": """
data:
  {dataset: {kind: "users_data:MyData"}, clients: 6, samples_per_client: 40, partition: {kind: dirichlet, alpha: 1}}
model: {kind: "users_net:MyNet", hidden: 5}
training: {lr: 0.3, batch_size: 10, epochs: 3, momentum: 0.5}
protocol: {kind: sync, rounds: 6}
privacy: {kind: nbafl, epsilon: 2000, clip_norm: 10.0}
threats: {attackers: 0.17, attack: {kind: sign_flip}}
defence: {rule: {kind: median}}
evaluation: {keep: best, metrics: {surely: "users_net:surely"}, clients_every: 3}
""",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the user."""
    place = tmp_path_factory.mktemp("users")
    for name, text in FILES.items():
        (place / name).write_text(text)
    return place


def asyncfl(*arguments: str) -> str:
    """What the program prints; it must succeed."""
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, f"{result.exception!r}\n{result.output}"
    return result.stdout


RENTS = """
data: {dataset: {kind: table, path: rents.csv, target: rent}, clients: 4, samples_per_client: 30}
model: {kind: "users_net:Rent", hidden: 4, personal: ["last.bias"]}
training: {lr: 0.1, batch_size: 10, epochs: 2}
protocol: {kind: buffered, rounds: 6, buffer: 2, dispatch: {kind: constant, in_flight: 3}}
privacy: {kind: nbafl, epsilon: 5000, clip_norm: 10.0}
threats: {attackers: 1, attack: {kind: sign_flip}, from_version: 5}
defence: {rule: {kind: norm_clipping}}
evaluation: {keep: last, metrics: {far: "users_net:far"}, clients_every: 3}
"""
NET = """

class Rent(nn.Module):
    def __init__(self, shape, outputs, hidden):
        super().__init__()
        self.first = nn.Linear(shape[0], hidden)
        self.last = nn.Linear(hidden, outputs)

    def forward(self, x):
        return self.last(self.first(x).tanh())


def far(outputs, labels):
    return float(abs(outputs - labels).max())
"""


def test_so_is_a_regression(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    draw = np.random.default_rng(1)
    size, area = draw.uniform(20, 150, 160), draw.choice(["old town", "river", "hill"], 160)
    rent = 300 + 9.5 * size + 200 * (area == "river") + draw.normal(0, 20, 160)
    rows = [f"{one:.1f},{where},{cost:.2f}" for one, where, cost in zip(size, area, rent, strict=True)]
    (folder / "rents.csv").write_text("\n".join(["size,area,rent", *rows]))
    (folder / "users_net.py").write_text(FILES["users_net.py"] + NET)
    monkeypatch.delitem(sys.modules, "users_net", raising=False)
    (folder / "rents.yaml").write_text(RENTS)
    assert "test R²" in asyncfl("run", "rents.yaml", "--out", "rents", "--quiet")
    sweep = "sweep rents.yaml --set model.hidden=2,4 --jobs 1 --out rent-runs --json"
    swept = json.loads(asyncfl(*sweep.split()))["runs"]
    assert all(one["final"]["test_r2"]["mean"] > 0.5 for one in swept)
    assert all({"metric_far", "test_mae", "client_loss_worst_decile"} <= one["final"].keys() for one in swept)
    assert "epsilon" in asyncfl("audit", "canaries", "rents", "--count", "10", "--quiet", "--own-code")
    asyncfl("export", "rents", "rent.pt", "--own-code", "--client", "2")
    assert torch.load(folder / "rent.pt", weights_only=True)["last.bias"].shape == (1,)


def test_it_runs_is_swept_attacked_defended_audited_and_exported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    asyncfl("run", "scenario.yaml", "--out", "run", "--quiet")
    summary = json.loads((folder / "run" / "summary.json").read_text())
    assert summary["data"]["original"] is not None
    audit = "evaluation.audit={clients: 1, twins: 3, neighbours: [mislabelled, zeroed]}"
    sweep = ["sweep", "scenario.yaml", "--set", "model.hidden=3,5", "--jobs", "1", "--out", "runs", "--json", "--set"]
    swept = json.loads(asyncfl(*sweep, audit))["runs"]
    assert [one["failed"] for one in swept] == [None, None]
    assert all(one["final"]["test_accuracy"]["mean"] > 0.8 for one in swept)
    assert all({"metric_surely", "client_accuracy_worst_decile"} <= one["final"].keys() for one in swept)
    assert (folder / swept[0]["folder"] / "audit.parquet").is_file()
    audit_options = ("--twins", "2", "--neighbours", "zeroed", "--own-code")
    assert "measured" in asyncfl("audit", "neighbours", "run", *audit_options)
    assert (folder / "run" / "audit.parquet").is_file()
    compared = json.loads(asyncfl("compare", *[one["folder"] for one in swept], "--json"))
    assert compared["fields"] == {"model.hidden": [3, 5]}
    asyncfl("export", "run", "net.pt", "--own-code")
    state = torch.load(folder / "net.pt", weights_only=True)
    assert {name: tuple(tensor.shape) for name, tensor in state.items()}["cell.weight_hh"] == (15, 5)
    started = ["--set", "model.initial=net.pt", "--out", "tuned", "--json"]
    lines = asyncfl("run", "scenario.yaml", *started).splitlines()
    first = json.loads(lines[1])["row"]
    assert first["version"] == 0
    told = asyncfl("run", "scenario.yaml", "--out", "run", "--json").splitlines()
    rows = [line for line in told if line.startswith('{"row"')]
    best = max(json.loads(line)["row"]["test_accuracy"] for line in rows)
    assert first["test_accuracy"] == pytest.approx(best)
    assert np.isfinite(first["metric_surely"])
