"""`asyncfl ledger`."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from asyncfl.api import execute
from asyncfl.results.storage import Run

DATA = {"dataset": "mnist", "source": "embedded", "samples_per_client": 20, "test_samples": 20}
ONE_UPLOAD: dict[str, Any] = {
    "data": {**DATA, "clients": 2},
    "model": {"kind": "mlp", "hidden": [2]},
    "protocol": {"kind": "sync", "rounds": 1},
    "privacy": {"kind": "dp_fedavg", "clip_norm": 1.0, "noise_multiplier": 0.5},
    # One packet a message, half of them missed: of seed 4, the tap hears the upload of client 0 alone.
    "world": {"uplink": {"mtu_bytes": 10**6}, "tap": {"uplink": True, "packet_loss": 0.5}},
    "seeds": [4],
}
ASYNCHRONOUS: dict[str, Any] = {
    "data": {**DATA, "clients": 6},
    "model": {"kind": "mlp", "hidden": [2]},
    "protocol": {"kind": "buffered", "rounds": 6, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 3}},
    "world": {"device": {"kind": "lognormal", "median_s_per_sample": 0.002, "sigma": 1.0}},
    "privacy": {"kind": "dp_fedavg", "clip_norm": 1.0, "noise_multiplier": 1.0, "curious": [0, 1]},
    "seeds": [0, 1],
}
NONE: dict[str, Any] = {name: value for name, value in ONE_UPLOAD.items() if name != "privacy"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of three runs: `one` overheard upload, `asynchronous` with a coalition, and `none` without privacy."""
    place = tmp_path_factory.mktemp("runs")
    for name, scenario in (("one", ONE_UPLOAD), ("asynchronous", ASYNCHRONOUS), ("none", NONE)):
        execute(scenario, place / name)
    return place


@pytest.fixture
def lines(program: Any) -> Any:
    """Calls `asyncfl ledger`, which must succeed; returns the lines that it printed."""

    def call(*arguments: object) -> list[str]:
        status, out, err = program("ledger", *arguments)
        assert (status, err) == (0, "")
        return [line.rstrip() for line in out.splitlines()]

    return call


@pytest.fixture
def found(program: Any) -> Any:
    """Calls `asyncfl ledger --json`, which must succeed; returns what it printed."""

    def call(*arguments: object) -> Any:
        status, out, err = program("ledger", *arguments, "--json")
        assert (status, err) == (0, "")
        return json.loads(out)

    return call


def words(lines: list[str]) -> str:
    """The lines as one, without the breaks and indentation of wrapped sentences."""
    return " ".join(" ".join(lines).split())


def delta_of(epsilon: float, mu: float) -> float:
    """delta of `epsilon` for one Gaussian release (Balle, Wang 2018, equation 6)."""

    def phi(x: float) -> float:
        return math.erfc(-x / math.sqrt(2)) / 2

    return phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * phi(-mu / 2 - epsilon / mu)


def test_one_overheard_upload_of_two_clients(lines: Any, folder: Path) -> None:
    """Noise of .5 on an update of norm 1 that a neighbour turns: mu = 2 / .5 = 4, epsilon 24.38 at delta 1e-5."""
    assert delta_of(24.381610883113677, 4.0) == pytest.approx(1e-5, rel=1e-9)
    out = lines(folder / "one", "--seed", 4)
    assert out[:3] == [
        "Largest epsilons of a client, seed 4; client: the most exposed one",
        "adversary     client  releases  proven  exact  measured  claimed  covers",
        "eavesdropper       0         1   24.38  24.38         —    24.38       1",
    ]
    spread = out[out.index("Over the clients: median releases, and exact epsilons") :]
    assert spread[1:3] == [
        "adversary     clients  releases  least  median  largest  infinite  claim broken",
        "eavesdropper        2       0.5      0   12.19    24.38  0 %                  0",
    ]
    assert "Epsilons are at delta 1e-05 for all data of one client replaced." in out


def test_what_adversaries_know_of_a_client_in_words(lines: Any, folder: Path) -> None:
    heard, not_heard = (words(lines(folder / "one", "--client", client)) for client in (0, 1))
    claim = "the 24.38 claimed for 1 release holds"
    assert "eavesdropper: holds 1 of its 1 uploads and 0 of 2 versions" in heard
    assert "eavesdropper: holds 0 of its 1 uploads and 0 of 2 versions" in not_heard
    assert f"server: holds 1 of its 1 uploads and 2 of 2 versions; {claim}" in heard
    assert "public: holds all models" in not_heard


@pytest.mark.parametrize("name", ["one", "asynchronous"])
def test_the_largest_epsilons_are_those_of_the_ledger_and_of_the_runs_statements(
    found: Any, folder: Path, name: str
) -> None:
    run = Run.load(folder / name)
    clients = run.ledger[run.ledger["holder"] == "client"]
    of = {one["adversary"]: one for one in found(folder / name)["clients"]}
    assert list(of) == list(clients["adversary"].unique())
    for adversary, rows in clients.groupby("adversary"):
        one = of[adversary]
        assert (one["exact"], one["proven"]) == (rows["exact_epsilon"].max(), rows["provable"].max())
        assert one["least_exact"] == rows["exact_epsilon"].min()
        assert one["median_exact"] == pytest.approx(rows["exact_epsilon"].median())
        worst = rows[(rows["seed"] == one["seed"]) & (rows["client"] == one["client"])]
        assert worst["exact_epsilon"].item() == one["exact"]
        assert worst["releases"].item() == one["releases"]
        (statement,) = [text for text in run.summary["privacy"] if text.startswith(f"{adversary}:")]
        assert f"{one['proven']:.4g}" in statement or "learns nothing" in statement


def test_the_most_exposed_clients_and_deciles_of_one_adversary(found: Any, folder: Path) -> None:
    ledger = Run.load(folder / "asynchronous").ledger
    rows = ledger[(ledger["client"] >= 0) & (ledger["adversary"] == "server") & (ledger["seed"] == 1)]
    answer = found(folder / "asynchronous", "--adversary", "server", "--seed", 1)
    largest = rows.sort_values("exact_epsilon", ascending=False, kind="stable")["exact_epsilon"].head(5)
    assert [one["exact_epsilon"] for one in answer["worst"]] == largest.tolist()
    tenths = [rows["exact_epsilon"].quantile(tenth / 10) for tenth in range(11)]
    assert answer["deciles"]["exact"] == pytest.approx(tenths)


def test_a_coalition_that_knows_less_than_the_public_is_explained(lines: Any, folder: Path) -> None:
    out = words(lines(folder / "asynchronous", "--seed", 0))
    assert "curious is below public for 2 of 4 clients: a coalition holds the models that its members were sent" in out
    member = words(lines(folder / "asynchronous", "--client", 1, "--seed", 0))
    assert "curious: client 1 is a member of the coalition" in member


def test_without_noise_epsilon_is_infinite_and_nothing_is_claimed(lines: Any, found: Any, folder: Path) -> None:
    out = lines(folder / "none")
    assert "server             0         1     inf    inf         —        —       —" in out
    of = {one["adversary"]: one for one in found(folder / "none")["clients"]}
    assert (of["server"]["exact"], of["server"]["infinite"], of["server"]["claimed"]) == (None, 1.0, None)


def test_secure_aggregation_is_labelled_as_hypothetical(lines: Any, found: Any, folder: Path) -> None:
    out = lines(folder / "one", "--what-if", "secure-aggregation")
    assert out[:4] == [
        "Hypothetical: server and the clients, secure-aggregation, seed 4",
        "              clients  releases  proven  least exact  median  largest",
        "in the run          2         1   24.38        24.38   24.38    24.38",
        "hypothetical        2         1   16.51        15.46   15.46    15.46",
    ]
    assert "Hypothetical, not what happened: the server receives the weighted sum of" in words(out)
    assert [line for line in out if len(line) > 80] == []
    answer = found(folder / "one", "--what-if", "secure-aggregation", "--client", 1)
    assert answer["hypothetical"] is True
    assert [row["client"] for row in answer["what_if_rows"]] == [1]


def test_a_run_of_an_earlier_version_is_read_as_far_as_it_goes(
    lines: Any, refused: Any, folder: Path, tmp_path: Path
) -> None:
    old = tmp_path / "old"
    shutil.copytree(folder / "one", old)
    (old / ".asyncfl.json").unlink()
    (old / "tasks.parquet").unlink()
    ledger = pq.read_table(old / "ledger.parquet")
    few = ["seed", "client", "adversary", "claimed_epsilon", "exact_epsilon"]
    pq.write_table(ledger.select(few), old / "ledger.parquet")
    assert "eavesdropper       0         —       —  24.38         —    24.38       —" in lines(old)
    assert "the 24.38 claimed is neither proven nor broken" in words(lines(old, "--client", 0))
    assert lines(old, "--adversary", "server")
    assert "the noise of uploads" in refused("ledger", moved_tap(old), "--what-if", "tap.at=receiver")


def moved_tap(folder: Path) -> Path:
    """Let the scenario of a run say that the tap misses no packet."""
    text = (folder / "scenario.yaml").read_text()
    heard = text.replace("packet_loss: 0.5", "packet_loss: 0.0")
    assert heard != text
    (folder / "scenario.yaml").write_text(heard)
    return folder


@pytest.mark.parametrize("name", ["one", "asynchronous", "none"])
@pytest.mark.parametrize(
    "options", [(), ("--client", 0), ("--adversary", "server"), ("--client", 0, "--adversary", "both")]
)
def test_output_keeps_to_80_columns(lines: Any, folder: Path, name: str, options: tuple[object, ...]) -> None:
    out = lines(folder / name, *options)
    assert [line for line in out if len(line) > 80] == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("one", "--client", 2), "--client: must be one of the run's, 0..1, got 2"),
        (("one", "--seed", 7), "--seed: must be one of the run's (4), got 7"),
        (
            ("one", "--adversary", "sever"),
            "--adversary: must be one of eavesdropper, server, both, public_last, public, got 'sever'",
        ),
        (("one", "--adversary", "curious"), "no clients are curious in this run (privacy.curious)"),
        (("asynchronous", "--client", 1, "--adversary", "curious"), "client 1 is a member of the coalition"),
        (("one", "--what-if", "tap.at=receiver"), "world.tap.packet_loss must be 0"),
        (("one", "--what-if", "tap.at=link"), "must be one of secure-aggregation, tap.at=sender, tap.at=receiver, got"),
        (("one", "--what-if", "tap.at=sender", "--adversary", "both"), "--adversary: must be left out with --what-if"),
        (("nowhere",), "nowhere holds no run: summary.json is missing"),
    ],
)
def test_bad_input_gets_one_message(refused: Any, folder: Path, options: tuple[object, ...], message: str) -> None:
    name, *more = options
    assert message in refused("ledger", folder / str(name), *more)


def test_a_timeline_and_an_unfinished_run_have_no_ledger(
    program: Any, refused: Any, file: Path, tmp_path: Path
) -> None:
    assert program("timeline", file, "--out", tmp_path / "clock")[0] == 0
    assert "holds no run: summary.json is missing; it holds a timeline" in refused("ledger", tmp_path / "clock")
    assert program("run", file, "--out", tmp_path / "begun", "--until", 1, "--quiet")[0] == 0
    assert "its run is not finished, and `asyncfl run` to the same folder continues it" in refused(
        "ledger", tmp_path / "begun"
    )
