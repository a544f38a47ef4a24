"""What a server may ask of a client is bound by the scenario that the client agreed to."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl.data.client_file import ClientFile
from asyncfl.live.agreement import DisagreementError, ServerLimits
from asyncfl.live.connections import Connection, EndedError, FrameTooLongError, listening, to
from asyncfl.live.joining import FILE_FIELDS, Agreement, load_agreed, read_scenario, terms_of
from asyncfl.live.wire import HELLO_BYTES, WELCOME_BYTES, Judge, Leaving, Ready, Task, WireError, client_decoder, encode
from asyncfl.scenario import Scenario
from tests.live.conftest import SMALL
from tests.live.test_client import MODEL, Server, craft_of, welcome
from tests.live.test_joining import NOISED
from tests.live.test_joining import welcome as welcome_of

SAFL: dict[str, Any] = {"defence": {"detector": {"kind": "safl", "decoys": 4}}}
BUFFERED = {"kind": "buffered", "rounds": 6, "buffer": 2, "dispatch": {"kind": "continuous"}}


def read(description: dict[str, Any]) -> Scenario:
    return Scenario.read({**SMALL, **description})


@pytest.mark.parametrize(
    ("description", "limits"),
    [
        ({}, ServerLimits(3, 0, 0)),
        # Half of each of 6 buffers, and of the one behind.
        ({"protocol": BUFFERED}, ServerLimits(7, 0, 0)),
        ({"protocol": {**BUFFERED, "per_client": 2, "max_staleness": 3}}, ServerLimits(7 * 2 + 6, 0, 0)),
        ({"protocol": BUFFERED, **SAFL}, ServerLimits(7, 6, 2 + 4)),
        # A cohort of 6 and the late ones of the cohort before.
        (SAFL, ServerLimits(3, 3, 12 + 4)),
    ],
)
def test_limits_follow_from_the_protocol_and_the_detector(description: dict[str, Any], limits: ServerLimits) -> None:
    assert ServerLimits.of(read(description)) == limits


MANY = np.zeros((3, 3), np.float32)


@pytest.mark.parametrize(
    ("limits", "asked", "why"),
    [
        (ServerLimits(1, 0, 0), [Judge(0, 0)], "asks for accuracies on this client's samples, and the scenario has no"),
        (ServerLimits(1, 1, 2), [Judge(0, 0)], "asks for accuracies of 3 models, and the scenario allows 2 at a time"),
        (ServerLimits(1, 0, 3), [Judge(0, 0)], "asks for accuracies again after 0 requests, which is all"),
        (ServerLimits(0, 0, 0), [Task(0, 0, 0)], "gives another task after 0 uploads, which is all"),
        (ServerLimits(9, 0, 0), [Task(0, 0, 0), Task(1, 1, 0)], "gives a task before the one before it is done"),
    ],
)
def test_a_server_that_asks_for_more_than_was_agreed_ends_its_client(
    limits: ServerLimits, asked: list[Task | Judge], why: str
) -> None:
    left: list[Any] = []

    async def scene(server: Server, connection: Connection) -> None:
        await connection.send(encode(welcome()))
        assert await server.hears(connection) == Ready(True, None)
        for one in asked:
            await connection.send(encode(one, MANY if isinstance(one, Judge) else MODEL))
        left.append(await server.hears(connection))

    server = Server(craft_of(limits=limits), scene)
    assert server.run().startswith(f"the server {why}")
    assert left == [Leaving()]
    assert not server.client.ended_well


def test_a_turn_that_would_draw_the_noise_of_another_is_no_message() -> None:
    """A stream's number has 32 bits for the turn."""
    for given in (Task(0, 2**32 + 4, 0), Judge(0, 2**32 + 4)):
        with pytest.raises(WireError, match="not a message"):
            client_decoder(3).decode(encode(given, MODEL))


# --- terms ------------------------------------------------------------------------------------------------------------


def own(folder: Path, samples: int = 25) -> ClientFile:
    images = np.zeros((samples, 28, 28), np.uint8)
    np.savez(folder / "own.npz", x_train=images, y_train=np.arange(samples) % 10)
    return ClientFile(folder / "own.npz")


@pytest.mark.parametrize(("shape", "agreed"), [(True, False), (False, True)])
@pytest.mark.parametrize("insists", [True, False])
def test_a_run_that_is_shaped_otherwise_than_agreed_is_refused_by_name(
    tmp_path: Path, shape: bool, agreed: bool, insists: bool
) -> None:
    scenario = read({})
    told = welcome_of(scenario.to_yaml(), shape=shape, exposures=0)
    with pytest.raises(DisagreementError, match=r"^the server's run is (not )?shaped.*--shape"):
        terms_of(told, own(tmp_path), Agreement(scenario if insists else None, agreed))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"client": 6}, "has 6 clients, and this is to be number 6"),
        ({"smallest_samples": 0}, "clients of at least 0 samples"),
        ({"smallest_samples": 26}, "clients of at least 26 samples, here are 25"),
        ({"seed": 7}, "the seed is 7, here 0"),
        ({"exposures": 3}, "calibrated to 3 exposures, here 0"),
    ],
)
def test_a_welcome_beside_the_agreed_scenario_is_refused(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    scenario = read(NOISED)
    told = welcome_of(scenario.to_yaml(), **{"exposures": 0, **changes})
    with pytest.raises(DisagreementError, match=why):
        terms_of(told, own(tmp_path), Agreement(scenario))


def test_exposures_that_the_server_measured_cannot_be_agreed_to(tmp_path: Path) -> None:
    """With fewer there is less noise, down to none."""
    scenario = read({"privacy": {"kind": "nbafl", "epsilon": 5.0, "delta": 0.01, "exposures": {"kind": "measured"}}})
    with pytest.raises(DisagreementError, match=r"0 exposures, which the server has measured; agree on a number"):
        terms_of(welcome_of(scenario.to_yaml(), exposures=0), own(tmp_path), Agreement(scenario))


def test_no_client_attacks_with_noise_that_does_not_cover_it(tmp_path: Path) -> None:
    """The server says who attacks, and an update that is scaled up has as good as no noise."""
    threats = {"threats": {"attack": {"kind": "scaling", "factor": 1e6}, "attackers": 0.2}}
    for agreed in (None, read({**NOISED, **threats})):
        with pytest.raises(DisagreementError, match="has attackers, and the server says which clients attack"):
            terms_of(welcome_of(read({**NOISED, **threats}).to_yaml(), exposures=0), own(tmp_path), Agreement(agreed))
    shown = terms_of(welcome_of(read(threats).to_yaml()), own(tmp_path), Agreement())
    assert shown["attack"] == "scaling, in tasks for which the server asks for it"


def test_terms_that_changed_after_they_were_confirmed_are_refused(tmp_path: Path) -> None:
    shown = welcome_of(read(NOISED).to_yaml())
    agreed, again = Agreement(shown=shown), welcome_of(shown.scenario, client=4, now_s=3.0, gone=(1,))
    assert terms_of(again, own(tmp_path), agreed) == terms_of(shown, own(tmp_path), agreed)
    for other in (welcome_of(read({}).to_yaml()), welcome_of(shown.scenario, exposures=2)):
        with pytest.raises(DisagreementError, match="no longer those that were confirmed"):
            terms_of(other, own(tmp_path), agreed)


def test_a_user_is_shown_data_noise_epsilon_uploads_scores_and_waits(tmp_path: Path) -> None:
    local = {"kind": "local_gaussian", "epsilon": 5.0, "delta": 1e-5}
    training = {**SMALL["training"], "gradient_clip": 1.0, "epochs": 2}
    noisy = read({"privacy": local, "training": training, "protocol": BUFFERED, **SAFL})
    shown = terms_of(welcome_of(noisy.to_yaml(), shape=True), own(tmp_path), Agreement(shape=True))
    assert shown["data"] == "25 samples like mnist, which stay here"
    assert shown["model"] == "mlp, 3190 parameters"
    assert shown["task"] == "2 epochs on these samples"
    assert shown["uploads"] == "at most 7"
    assert "gaussian noise of standard deviation" in shown["privacy"]
    assert "epsilon 5 at delta 1e-05" in shown["privacy"]
    assert "for 7, by exact accounting (its sensitivity: heuristic)" in shown["privacy"]
    assert shown["accuracies"] == "of 6 models on these samples, 6 times, without noise"
    assert shown["losses"] == "stay here"
    assert shown["device and links"].startswith("waits as the scenario's world says")
    plain = terms_of(welcome_of(read({}).to_yaml()), own(tmp_path), Agreement())
    assert plain["privacy"] == "none: updates leave as they are"
    assert plain["losses"] == "sent, without noise"
    assert plain["accuracies"] == "stay here"


# --- files and frames -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"world": {"device": {"kind": "csv", "path": "/dev/zero"}}}, "world.device.path"),
        ({"world": {"uplink": {"profile": "/dev/zero"}}}, "world.uplink.profile"),
        ({"world": {"availability": {"kind": "csv", "path": "/dev/zero"}}}, "world.availability.path"),
        ({"data": {**SMALL["data"], "dataset": {"kind": "npz", "path": "/dev/zero"}}}, "data.dataset"),
        ({"data": {**SMALL["data"], "dataset": {"kind": "huggingface", "name": "/etc"}}}, "data.dataset"),
    ],
)
def test_no_file_of_the_servers_choosing_is_opened(
    change: dict[str, Any], field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scenario is refused before any of its parts is built."""
    from asyncfl.base.files.yaml_text import write_text

    monkeypatch.setattr("asyncfl.live.joining._parts_of", lambda *_: pytest.fail("a part was built"))
    text = write_text({**SMALL, **change})
    with pytest.raises(DisagreementError, match=rf"names a file in {field}, which a client opens only for a scenario"):
        read_scenario(welcome_of(text, shape=True), None)


HARMLESS = {"kind", "personal", "name", "revision", "split", "subset", "test_split"}
HARMLESS |= {"features", "column", "target", "without", "separator", "decimal", "thousands", "missing"}
"""Text fields of a scenario that name no file: kinds, layers, and parts of own data, of which only the name of a data
set passes."""


def test_each_text_field_of_a_scenario_is_known_to_name_a_file_or_not() -> None:
    found: set[str] = set()

    def is_text(schema: Any, depth: int = 0) -> bool:
        if not isinstance(schema, dict) or depth > 6:
            return False
        if schema.get("type") == "string":
            return not {"enum", "const"} & schema.keys()
        inner = [one for way in ("anyOf", "oneOf", "allOf") for one in schema.get(way, ())]
        return any(is_text(one, depth + 1) for one in (*inner, schema.get("items")))

    def walk(schema: Any, seen: set[int]) -> None:
        if id(schema) in seen or not isinstance(schema, dict | list):
            return
        seen.add(id(schema))
        if isinstance(schema, dict) and isinstance(schema.get("properties"), dict):
            found.update(name for name, one in schema["properties"].items() if is_text(one))
        for one in schema.values() if isinstance(schema, dict) else schema:
            walk(one, seen)

    walk(Scenario.model_json_schema(), set())
    assert found == {*FILE_FIELDS, *HARMLESS}


def test_an_agreed_scenario_may_name_files_of_the_clients_own(tmp_path: Path) -> None:
    (tmp_path / "devices.csv").write_text("s_per_sample\n0.5\n")
    device = {"kind": "csv", "path": str(tmp_path / "devices.csv")}
    (tmp_path / "scenario.yaml").write_text(read({"world": {"device": device}}).to_yaml())
    agreed = load_agreed(tmp_path / "scenario.yaml")
    assert read_scenario(welcome_of(agreed.to_yaml(), shape=True, exposures=0), agreed).world == agreed.world


@pytest.mark.parametrize("is_client", [True, False])
def test_a_frame_longer_than_allowed_at_that_moment_ends_the_connection(is_client: bool) -> None:
    """The header of a frame tells its length: none of its bytes is waited for."""
    first, later = (WELCOME_BYTES, 2 * WELCOME_BYTES) if is_client else (HELLO_BYTES, 2 * HELLO_BYTES)
    came: list[int] = []

    async def receives(connection: Connection) -> None:
        for allowed in (first, later):
            connection.allow(allowed)
            came.append(len(await connection.receive()))
            await connection.send(b"go on")
        with pytest.raises(FrameTooLongError, match=rf"^the other side sends too much: frame with {later + 1} bytes"):
            await connection.receive()
        await connection.close()

    async def sends(connection: Connection) -> None:
        for size in (first, later):
            await connection.send(bytes(size))
            await connection.receive()
        await connection.send(bytes(later + 1))
        with pytest.raises(EndedError):
            await connection.receive()

    async def main() -> None:
        server, client = (sends, receives) if is_client else (receives, sends)
        async with listening(server, "127.0.0.1", 0, first) as port:
            await client(await to(f"ws://127.0.0.1:{port}", first)())

    asyncio.run(main())
    assert came == [first, later]


def test_a_client_reads_no_longer_frames_than_its_scenario_needs() -> None:
    """Two models of 12,720 parameters at most, not a gigabyte."""
    allowed: list[int] = []

    async def scene(server: Server, connection: Connection) -> None:
        assert server.client._connection is None
        await connection.send(encode(welcome()))
        assert await server.hears(connection) == Ready(True, None)
        assert server.client._connection is not None
        await connection.close()

    async def second(server: Server, connection: Connection) -> None:
        from asyncfl.live.wire import Over

        await connection.send(encode(Over("done")))

    server = Server(craft_of(decoder=client_decoder(12_720, None, 2)), scene, second)
    connect = server.connect

    async def watched() -> Connection:
        connection = await connect()
        connection.allow = allowed.append  # type: ignore[method-assign]
        return connection

    server.connect = watched
    assert server.run() == "done"
    assert allowed == [WELCOME_BYTES, WELCOME_BYTES + 2 * 4 * 12_720, WELCOME_BYTES + 2 * 4 * 12_720]


def test_a_client_does_not_come_back_to_a_server_that_sends_too_much() -> None:
    async def scene(server: Server, connection: Connection) -> None:
        pass

    server = Server(craft_of(), scene)
    connect = server.connect

    async def connects() -> Connection:
        connection = await connect()

        async def receive() -> bytes:
            raise FrameTooLongError("the other side sends too much: frame with 1073741824 bytes")

        connection.receive = receive  # type: ignore[method-assign]
        return connection

    server.connect = connects  # type: ignore[method-assign]
    assert server.run().startswith("the other side sends too much")
    assert len(server.hellos) == 1
