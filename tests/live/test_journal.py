"""A server that is killed goes on where it was: from its checkpoint and the inputs after it."""

import asyncio
import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace as replaced

from asyncfl.base.errors import OutputError, RunError
from asyncfl.base.streams import Streams
from asyncfl.federation.prepare import Federation, resolve
from asyncfl.federation.seed_run import SeedRun
from asyncfl.live import journal as journals
from asyncfl.live.clock import Terms
from asyncfl.live.conduct import REFUSALS
from asyncfl.live.connections import Connection, EndedError, Memory
from asyncfl.live.host import Host
from asyncfl.live.inputs import LiveInputs
from asyncfl.live.journal import Journal
from asyncfl.live.run import local_clients, run_live
from asyncfl.live.wire import Hello, Update, server_decoder
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns
from tests.live import virtual_loop
from tests.live.conftest import SMALL, hold_seed, tokens_of
from tests.live.test_identity import LOSSY, WORLD
from tests.live.test_live import whole
from tests.live.test_remote_client import Link, begun

SHAPED = Terms(shape=True)
SYNC = {"kind": "sync", "rounds": 12, "participants": 4}
BUFFERED = {"kind": "buffered", "rounds": 25, "buffer": 3, "dispatch": {"kind": "constant", "in_flight": 5}}

LOST = {**WORLD["uplink"], **LOSSY}


def scenario_of(**description: Any) -> Scenario:
    return Scenario.read(
        {
            **SMALL,
            "protocol": BUFFERED,
            "world": {
                "device": {"kind": "lognormal", "median_s_per_sample": 0.02, "sigma": 0.7},
                "aggregate_s": 0.05,
            },
            **description,
        }
    )


def state(host: Host) -> dict[str, Any]:
    """What a server knows."""
    live = host.live
    server, tasks = live.server, live.tasks
    return {
        "events": repr(live.event_log.table().to_pylist()),
        "version": server.version,
        "phase": server.phase,
        "open": sorted(tasks.open),
        "fates": dict(tasks.fates),
        "traffic": repr(live.traffic),
        "trained": live.trained,
        "alarms": {number: time_s for number, (time_s, *_) in live.alarms.items()},
        "clients": {client.number: (client.name, client.state, client.samples) for client in live.clients.prepared},
        "uploads": repr(live.federation.releases.uploads),
        "conduct": [repr((client.heard, client.conduct)) for client in live.clients.by_number.values()],
        "later": len(live.later),
        "waiting": sorted(live.updates._waiting),
        "models": {task.base_version: tasks.model(task.base_version).tobytes() for task in tasks.open.values()},
    }


def held(
    folder: Path,
    scenario: Scenario,
    kills: list[float],
    between: Callable[[Path], None] = lambda folder: None,
    at_last: Callable[[Host], None] = lambda host: None,
    liars: int = 0,
) -> tuple[SeedRun, list[tuple[dict[str, Any], dict[str, Any]]]]:
    """Hold a run whose server is killed at these virtual times after its last beginning, and started again.

    Returns the run, and for each kill the state of the server then and of the one that went on. `between`: called with
    the folder of the journal after each kill. `at_last`: called with the last host before it goes on. `liars`: clients
    whose updates cannot be true, and that come back each time, once with another number of samples.
    """
    tokens, around = tokens_of(scenario), list[Memory]()
    states: list[tuple[dict[str, Any], dict[str, Any]]] = []

    async def connect() -> Connection:
        if not around:
            raise EndedError("nobody is there")
        return await around[-1].connect()

    async def clients(host: Host) -> None:
        with ThreadPoolExecutor(1) as executor:
            streams = host.live.federation.resolved.streams
            made = local_clients(host.live.federation, SHAPED, tokens, connect, executor, streams)
            await asyncio.gather(
                *[client.run() for client in made[liars:]], *[lie(host.live.federation, one) for one in range(liars)]
            )

    async def lie(federation: Federation, number: int) -> None:
        with ThreadPoolExecutor(1) as executor:
            for time in range(REFUSALS + 5):
                streams = Streams(time)
                client = local_clients(federation, SHAPED, tokens, connect, executor, streams)[number]
                store = client._store

                def false(message: Any, models: Any = None, store: Any = store) -> None:
                    store(replaced(message, epsilon=3.0) if isinstance(message, Update) else message, models)

                client._store = false  # type: ignore[method-assign]
                client.samples += time == 3
                await client.run()
                await asyncio.sleep(0.05)

    async def main() -> SeedRun:
        resolved = resolve(scenario, 0, SimulatedRuns())
        running: asyncio.Task[None] | None = None
        for kill_s in [*kills, float("inf")]:
            hosts: list[Host] = []
            journal = Journal([folder], {"seed": 0})
            dead = states[-1][0] if states else None

            async def serve(host: Host, hosts: list[Host] = hosts, dead: Any = dead) -> None:
                nonlocal running
                if dead is not None:
                    states[-1] = dead, state(host)
                if len(states) == len(kills):
                    at_last(host)
                hosts.append(host)
                around.append(Memory(host.serve))
                if running is None:
                    running = asyncio.ensure_future(clients(host))
                await host.over.wait()

            run = asyncio.ensure_future(run_live(resolved, SHAPED, tokens, serve, secret=1, journal=journal))
            if kill_s == float("inf"):
                outcome = await run
                assert running is not None
                await running
                await around[-1].close()
                return outcome
            done, _ = await asyncio.wait([run], timeout=kill_s)
            if done:
                assert running is not None
                await running
                await around[-1].close()
                return run.result()
            journal.close()
            [host] = hosts
            # Killed while it waits for its clients, it leaves what it found.
            states.append((state(host) if host._has_started or not states else states[-1][1], {}))
            memory = around.pop()
            for one in [run, *memory._served]:
                one.cancel()
            await asyncio.gather(run, *memory._served, return_exceptions=True)
            between(folder)
        raise AssertionError

    return virtual_loop.run(main), states


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 6))])
@pytest.mark.parametrize("protocol", [SYNC, BUFFERED])
def test_a_server_that_was_killed_goes_on_where_it_was(protocol: dict[str, Any], seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    scenario = scenario_of(protocol=protocol)
    run, states = held(tmp_path, scenario, random.uniform(0.01, 3.0, 6).tolist())
    assert states
    for before, after in states:
        assert after == before
    assert run.stopped == "all versions published"
    assert len(run.rounds) == protocol["rounds"] + 1
    assert {row["participants"] for row in run.rounds[1:]} == {protocol.get("participants", 3)}, "no client was missed"
    whole(run)
    assert any(note.startswith("live: the server was started again") for note in run.notes)


@pytest.mark.parametrize(
    "description",
    [
        {"protocol": {**BUFFERED, "selection": {"kind": "oort"}}},
        {"compression": {"kind": "top_k", "share": 0.1}, "world": {**WORLD, "dropout": 0.3, "uplink": LOST}},
    ],
    ids=["losses", "compressed"],
)
def test_a_server_with_liars_that_was_killed_goes_on_where_it_was(description: dict[str, Any], tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    run, states = held(tmp_path, scenario_of(**description), random.uniform(0.01, 1.5, 5).tolist(), liars=2)
    for before, after in states:
        assert after == before
    assert any("refusals=0" not in conduct for conduct in states[-1][0]["conduct"])
    assert run.stopped == "all versions published"
    whole(run)


def test_a_checkpoint_may_be_followed_by_more_than_one_journal_and_a_torn_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoints after every few inputs; killed while one was written; the last input was not written whole."""
    monkeypatch.setattr(Journal, "is_due", property(lambda self: self._file is None or self._written > 20_000))
    found: list[list[str]] = []

    def tear(folder: Path) -> None:
        found.append(sorted(path.name for path in folder.iterdir()))
        [journal] = folder.glob("journal-*")
        with journal.open("ab") as file:
            file.write(journals._HEAD.pack(5, 100_000, 1) + b"torn")
        # A checkpoint that was not finished.
        (folder / f"journal-{int(journal.name[8:]) + 1}").touch()

    run, states = held(tmp_path, scenario_of(), [0.7, 0.9, 0.4], tear)
    assert len(states) == 3
    for before, after in states:
        assert after == before
    assert run.stopped == "all versions published"
    whole(run)
    numbers = [int(name[8:]) for names in found for name in names if name.startswith("journal-")]
    assert [len(names) for names in found] == [2, 2, 2]
    assert numbers == sorted(set(numbers))
    assert numbers[0] > 1


def test_what_was_checkpointed_of_another_run_is_refused(tmp_path: Path) -> None:
    journal = Journal([tmp_path], {"seed": 0})
    journal.checkpoint(b"state")
    journal.append(journals.Rang(3))
    journal.close()
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
    found = Journal([tmp_path], {"seed": 0}).load()
    assert found is not None
    assert (found.content, list(found.inputs)) == (b"state", [(journals.Rang(3), b"")])
    with pytest.raises(RunError, match="is of another seed: 0, not 1"):
        Journal([tmp_path], {"seed": 1}).load()


class FullDisk:
    """A disk on which some folders are full from now on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full: list[Path] = []
        self._write = os.writev
        self._checkpoint = journals.write_checkpoint
        monkeypatch.setattr(journals.os, "writev", self.writev)
        monkeypatch.setattr(journals, "write_checkpoint", self.checkpoint)

    def _check(self, path: Path) -> None:
        if any(path.is_relative_to(one) for one in self.full):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def writev(self, file: int, parts: Any) -> int:
        self._check(Path(os.readlink(f"/proc/self/fd/{file}")))
        return self._write(file, parts)

    def checkpoint(self, path: Path, *given: Any) -> None:
        try:
            self._check(path)
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror}") from None
        self._checkpoint(path, *given)


def test_where_a_disk_is_full_the_run_is_written_elsewhere_and_else_kept_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk, now = FullDisk(monkeypatch), [0.0]
    monkeypatch.setattr(journals.time, "monotonic", lambda: now[0])
    first, second = tmp_path / "first", tmp_path / "second"
    journal = Journal([first, second], {"seed": 0})
    assert journal.is_due
    journal.checkpoint(b"one")
    journal.append(journals.Rang(1))
    disk.full = [first]
    assert not journal.is_due
    journal.append(journals.Rang(2))
    assert journal.is_due, "the input before was not written"
    journal.checkpoint(b"two")
    journal.append(journals.Rang(3))
    assert journal.place == second
    assert list(first.iterdir()) == [], "nobody goes on from what is older"
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == f"{first} cannot be written (No space left on device): the run goes on in memory"
    assert said[-1] == f"the run is written to {second} from now on"
    disk.full = [tmp_path]
    journal.append(journals.Rang(4))
    journal.checkpoint(b"three")
    assert caplog.records[-1].getMessage() == (
        "the run cannot be written anywhere; it goes on in memory, and would be lost with this process"
    )
    assert (journal.is_due, journal.load()) == (False, None)
    disk.full, now[0] = [second], journals.RETRY_S
    assert journal.is_due
    journal.checkpoint(b"four")
    journal.append(journals.Rang(5))
    journal.close()
    found = Journal([first, second], {"seed": 0}).load()
    assert found is not None
    assert (found.content, list(found.inputs)) == (b"four", [(journals.Rang(5), b"")])


def test_a_folder_that_became_read_only_costs_neither_the_run_nor_the_newer_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FullDisk(monkeypatch)
    first, second = tmp_path / "first", tmp_path / "second"
    journal = Journal([first, second], {"seed": 0})
    journal.checkpoint(b"one")
    journal.append(journals.Rang(1))
    disk.full = [first]
    remove = Path.unlink

    def unlink(path: Path, missing_ok: bool = False) -> None:
        if path.is_relative_to(first):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        remove(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink)
    journal.append(journals.Rang(2))
    journal.checkpoint(b"two")
    journal.append(journals.Rang(3))
    journal.close()
    found = Journal([first, second], {"seed": 0}).load()
    assert found is not None
    assert (found.content, list(found.inputs)) == (b"two", [(journals.Rang(3), b"")])
    disk.full = [tmp_path]
    journal.checkpoint(b"three")
    assert "goes on in memory" in caplog.records[-1].getMessage()


def test_the_log_says_where_a_run_is_written_that_could_never_be_written_to_its_folder(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.touch()
    journal = Journal([first, second], {"seed": 0})
    journal.checkpoint(b"one")
    journal.close()
    assert caplog.records[-1].getMessage() == f"the run is written to {second} from now on"


def test_a_journal_follows_no_link(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_text("precious")
    place = tmp_path / "place"
    place.mkdir()
    (place / "journal-1").symlink_to(theirs)
    journal = Journal([place], {"seed": 0})
    journal.checkpoint(b"one")
    journal.close()
    assert theirs.read_text() == "precious"


def test_a_run_whose_state_cannot_be_pickled_goes_on_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scenario = scenario_of(protocol=SYNC)

    async def scene(federation: Any, host: Host, connect: Any, executor: Any) -> None:
        host.live.server.own = lambda: 0  # type: ignore[attr-defined]
        made = local_clients(federation, SHAPED, tokens_of(scenario), connect, executor, federation.resolved.streams)
        await asyncio.gather(*[client.run() for client in made])

    run = hold_seed(scenario, scene, tokens_of(scenario), journal=Journal([tmp_path], {"seed": 0}))
    assert run.stopped == "all versions published"
    [said] = [one.getMessage() for one in caplog.records if "pickled" in one.getMessage()]
    assert said.endswith("the run goes on in memory, and would be lost with this process")
    assert list(tmp_path.iterdir()) == []


def test_an_end_that_is_asked_for_while_the_server_takes_up_its_work_again_is_not_forgotten(tmp_path: Path) -> None:
    """Ctrl-C, or a version that diverged, before the first step of the process that goes on."""
    scenario = scenario_of(protocol=BUFFERED)
    ended: list[bool] = []

    def end(host: Host) -> None:
        finish = host._finish

        async def first(work: Any) -> None:
            host.end("enough")
            ended.append(True)
            host._finish = finish  # type: ignore[method-assign]
            await finish(work)

        host._finish = first  # type: ignore[method-assign]

    run, _ = held(tmp_path, scenario, [0.7], at_last=end)
    assert ended
    assert run.stopped == "enough"


def test_a_clients_token_is_not_written(tmp_path: Path) -> None:
    table, journal = begun("0"), Journal([tmp_path], {})
    journal.checkpoint(b"state")
    LiveInputs(table.live, server_decoder(table.n), journal).connect(Hello("1", "t1", 20, instance="one"), Link())
    journal.close()
    found = Journal([tmp_path], {}).load()
    assert found is not None
    assert list(found.inputs) == [(journals.Connected(0, Hello("1", "", 20, instance="one")), b"")]
