"""Parts of `asyncfl live` without sockets: keys, printing, and the server of a Flower app."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from asyncfl.cli import live_flower, live_server
from asyncfl.federation.resolve import resolve
from asyncfl.federation.storage import Run
from asyncfl.live import keys
from asyncfl.live.clock import Terms
from asyncfl.live.flower import held as flower_held
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns

ROW = {"version": 9, "time_s": 1.0, "test_accuracy": 0.5, "staleness_mean": 0.0, "bytes_up": 1, "bytes_down": 1}


def test_keys_are_made_for_all_names(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(keys, "make_keys", lambda *given: made.append(given) or [Path("k/one")])
    for words in (("--client", "ann", "--clients", 2), ("--host", "h", "--host", "i", "--days", 9)):
        status, out, _ = program("live", "keys", "k", *words)
        assert (status, out.splitlines()[0]) == (0, "k/one written")
        assert f"its own token and {Path('k') / keys.CERTIFICATE}" in " ".join(out.split())
    assert made == [(Path("k"), [], ["ann", "0", "1"], 365), (Path("k"), ["h", "i"], [], 9)]
    for words, fault in (
        (("--client", "0", "--clients", 1), "must name each client once"),
        ((), "must name the clients that need a token"),
    ):
        assert program("live", "keys", "k", *words) == (2, "", f"asyncfl: --client: {fault}\n")
    assert len(made) == 2


@pytest.mark.parametrize("url", ["ws://h:1", "wss://h", "wss://h:123456", "wss://h:1/x", "wss://a b:1", "x wss://h:1"])
def test_a_wrong_address_of_a_server_is_refused(program: Any, url: str) -> None:
    status, _, err = program("live", "join", url, "--data", "d", "--token", "t")
    assert status == 2
    assert err == f"asyncfl: the server's address must be wss://host:port, got {url!r}\n"


@pytest.mark.parametrize(("stopped", "seeds"), [("", [0, 1]), ("GONE for good", [0])])
def test_the_server_of_a_flower_app_runs_all_seeds_while_the_grid_lasts(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, stopped: str, seeds: list[int]
) -> None:
    scenario = Scenario.read({**tiny, "seeds": 2})
    mails: list[Any] = []

    async def held(resolved: Any, mail: Any, *, progress: Any, interrupts: Any) -> Any:
        assert resolved.seed == resolve(scenario, len(mails), SimulatedRuns()).seed
        mails.append(mail)
        terms = Terms(shape=True, speedup=100.0)
        run = await live_server._run_here(scenario, resolved.seed, terms, 2, True, interrupts)
        progress(ROW, 3)
        if stopped:
            run.stopped = stopped
        return run

    records = SimpleNamespace(
        GridMail=lambda *given: given, Shapes=SimpleNamespace(flat=lambda number: ("flat", number))
    )
    monkeypatch.setitem(sys.modules, "asyncfl.live.flower.records", records)
    monkeypatch.setattr(flower_held, "held", held)
    monkeypatch.setattr("asyncfl.live.flower.client.scenario_of", lambda text: scenario if text == "it" else None)
    monkeypatch.setattr("asyncfl.live.flower.post.GRID_ENDED", "GONE")
    live_flower.serve("grid", {"scenario": "it", "results": str(tmp_path / "out"), "timeout-s": "90"})
    out = capsys.readouterr().out
    assert "waiting for 5 SuperNodes with partition-id=0..4" in out
    assert mails == [("grid", ("flat", scenario.n_parameters), 90.0)] * len(seeds)
    assert out.count("version 9  ") == len(seeds)
    (folder,) = (tmp_path / "out").iterdir()
    assert list(Run.load(folder).summary["seeds"]) == list(map(str, seeds))
