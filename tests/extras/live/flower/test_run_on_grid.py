"""Federations over a Flower grid in this process."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import yaml

from asyncfl.api import gather, run_of
from asyncfl.base.client_state import ClientState
from asyncfl.base.errors import AsyncflError
from asyncfl.client.compress import REMAINDER
from asyncfl.extras.live.client_messages import ClientScoreRequest, Gone, Hello, Scores, Spent, Task, Update
from asyncfl.extras.live.flower.client_app import FlowerClient, clients_scenario
from asyncfl.extras.live.flower.frames import HELLOS, answer_decoder, encode, task_decoder
from asyncfl.extras.live.flower.nodes import run_on_grid
from asyncfl.extras.live.flower.records import AWAY, EXPIRED, QUERY, SCORES, TRAIN, FlowerError
from asyncfl.extras.live.task_runner import RepeatedError
from asyncfl.learning.personal_layers import PERSONAL
from asyncfl.protocol.event_query import select
from asyncfl.protocol.events import Kind
from asyncfl.results.storage import Run
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns
from asyncfl.simulation.prepare import resolve
from asyncfl.simulation.seed_run import SeedRun
from asyncfl.testing.recordings import replay_run
from tests.extras.live import virtual_loop
from tests.extras.live.conftest import SMALL
from tests.extras.live.flower.grid import App, Error, FakeGrid, Message, frames, our_app, stand_in

THREE: dict[str, Any] = {**SMALL, "data": {**SMALL["data"], "clients": 3}}
FEDASYNC = {"kind": "fedasync", "rounds": 4, "in_flight": 3}

pytestmark = pytest.mark.usefixtures("flwr")


def over_flower(
    description: dict[str, Any], change: Callable[[FakeGrid], None] = lambda grid: None
) -> tuple[SeedRun, FakeGrid, Scenario]:
    """A seed over a grid whose nodes run our ClientApp. `change`: what is different about the grid."""
    scenario = Scenario.read({**THREE, **description})
    grid: Any = FakeGrid({100 + client: our_app(client) for client in range(scenario.data.clients)})
    change(grid)

    async def main() -> SeedRun:
        return await run_on_grid(resolve(scenario, 0, SimulatedRuns()), grid, 600.0)

    with stand_in():
        return virtual_loop.run(main), grid, scenario


def first(app: App, content: Any, times: int = 1) -> App:
    """An app whose first tasks come to `content`."""
    left = [times]

    def other(message: Message) -> Any:
        if message.metadata.message_type == TRAIN and left[0]:
            left[0] -= 1
            return content
        return app(message)

    return other


def read(message: Message, scenario: Scenario) -> Any:
    """The task or request in a message."""
    return task_decoder(scenario.n_parameters, scenario.download_compression).decode(message.frame)[0]


def heard(content: Any, scenario: Scenario) -> list[Any]:
    """The client's messages in a reply, and the length of the model of each; 0: none."""
    decoder = answer_decoder(scenario.n_parameters, scenario.compression)
    decoded = [decoder.decode(frame) for frame in content["config"]["frames"]]
    return [(message, models.shape[1]) for message, models in decoded]


def introduced(content: Any) -> Hello:
    """The introduction in a reply."""
    [frame] = content["config"]["frames"]
    return HELLOS.decode(frame)[0]


def kinds(run: SeedRun) -> set[str]:
    return set(run.events["kind"].to_pylist())


def test_a_federation_over_a_grid_learns_is_saved_and_replays(tmp_path: Any) -> None:
    run, grid, scenario = over_flower(
        {
            "protocol": {"kind": "fedbuff", "rounds": 6, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 3}},
            "evaluation": {"record": "parameters"},
        }
    )
    assert run.stopped == "all versions published"
    assert run.rounds[-1]["test_accuracy"] > run.rounds[0]["test_accuracy"]
    assert run.fates["aggregated"] == 12
    assert len(grid.messages(QUERY)) == 3
    # Each update counts against the version that its client was sent.
    versions = {task.task: task.version for task in (read(message, scenario) for message in grid.messages())}
    for upload in run.uploads:
        assert versions[upload.task] == upload.base_version
    result = gather(scenario, [run_of(scenario, run)])
    result.save(tmp_path / "run")
    assert set(Run.load(tmp_path / "run").tables) == {"rounds", "events", "tasks", "clients", "ledger", "spending"}
    assert replay_run(tmp_path / "run").calls > 12
    trained = select(run.events, kinds=[Kind.TRAINED])
    assert trained.num_rows >= 12
    assert run.notes[-1] == "live: over Flower, where a client is started for each message"


@pytest.mark.parametrize(("code", "fate"), [(EXPIRED, "lost_up"), (2, "dropped_out")])
def test_an_error_ends_the_task_and_its_client_gets_another(code: int, fate: str) -> None:
    def change(grid: FakeGrid) -> None:
        grid.apps[100] = first(grid.apps[100], Error(code, "no reason"))

    run, grid, _ = over_flower({"protocol": FEDASYNC}, change)
    assert run.fates[fate] == 1
    assert run.fates["aggregated"] == 4
    assert len(grid.messages(node=100)) >= 2
    assert (Kind.LOST if fate == "lost_up" else Kind.DROPPED_OUT) in kinds(run)


def test_a_node_that_is_away_is_given_up_when_its_lease_ends() -> None:
    def change(grid: FakeGrid) -> None:
        ours = grid.apps[102]

        def goes(message: Message) -> Any:
            if message.metadata.message_type != TRAIN:
                return ours(message)
            return grid.away.add(102)

        grid.apps[102] = goes

    lease = {"failure_detection": {"kind": "lease", "seconds": 12}}
    run, _, _ = over_flower({"protocol": {"kind": "sync", "rounds": 2}, "world": lease}, change)
    assert run.stopped == "all versions published"
    assert run.fates["timed_out"] == 1
    assert Kind.WENT_OFFLINE in kinds(run)


@pytest.mark.parametrize("known_at_once", [True, False])
def test_a_node_that_is_back_hands_in_its_update(known_at_once: bool) -> None:
    """The grid keeps a message and its answer while a node is not connected."""

    def change(grid: FakeGrid) -> None:
        pull, ids, waited = grid.pull_messages, grid.get_node_ids, [0]

        def away(names: Any) -> list[Message]:
            if grid.messages() and waited[0] < 25:
                return [Message(Error(AWAY), reply_to=one) for one in grid.sent if one.metadata.message_id in names]
            return pull(names)

        def there() -> Any:
            waited[0] += bool(grid.messages())
            return [node for node in ids() if not known_at_once or not 0 < waited[0] < 25 or node != 101]

        grid.pull_messages, grid.get_node_ids = away, there  # type: ignore[method-assign]

    lease = {"failure_detection": {"kind": "lease", "seconds": 100}}
    run, grid, _ = over_flower({"protocol": {"kind": "sync", "rounds": 2}, "world": lease}, change)
    assert run.fates["aggregated"] == 6
    assert len(grid.messages()) == 6
    assert (Kind.CAME_ONLINE in kinds(run)) == known_at_once


def test_scores_are_a_query() -> None:
    constant = {"kind": "constant", "in_flight": 3}
    protocol = {"kind": "buffered", "rounds": 2, "buffer": 2, "dispatch": constant}
    run, grid, scenario = over_flower({"protocol": protocol, "defence": {"detector": {"kind": "safl"}}})
    assert all(isinstance(read(message, scenario), ClientScoreRequest) for message in grid.messages(SCORES))
    assert Kind.SCORED in kinds(run)


def test_a_model_of_another_size_is_rejected() -> None:
    def change(grid: FakeGrid) -> None:
        ours = grid.apps[100]

        def other(message: Message) -> Any:
            if message.metadata.message_type != TRAIN:
                return ours(message)
            task = task_decoder(10**6).decode(message.frame)[0]
            assert isinstance(task, Task)
            return frames(encode(Update(task.task, None, 0.0, None, ()), np.zeros((1, 7), np.float32)))

        grid.apps[100] = other

    run, _, _ = over_flower({"protocol": FEDASYNC}, change)
    assert run.fates["rejected"] >= 2
    assert run.stopped == "all versions published"


@pytest.mark.parametrize(
    "lie", [b"no frame", encode(Hello(0, 20)), encode(Update(10**6, None, 0.0, None, ()), np.zeros((1, 7), np.float32))]
)
def test_a_node_that_lies_is_refused_and_the_others_go_on(lie: bytes, caplog: pytest.LogCaptureFixture) -> None:
    def change(grid: FakeGrid) -> None:
        grid.apps[100] = first(grid.apps[100], frames(lie), 9)

    run, grid, _ = over_flower({"protocol": FEDASYNC}, change)
    assert run.stopped == "all versions published"
    assert {upload.client for upload in run.uploads} == {1, 2}
    assert len(grid.messages(node=100)) == 1
    assert any(record.getMessage().startswith("node 100: ") for record in caplog.records)


@pytest.mark.parametrize("compression", [{"kind": "quantised"}, {"kind": "top_k", "share": 0.1}])
def test_updates_and_models_travel_packed(compression: dict[str, Any]) -> None:
    down = {"kind": "quantised"}
    run, grid, scenario = over_flower({"compression": compression, "download_compression": down})
    whole, _, _ = over_flower({})
    assert run.stopped == "all versions published"
    assert run.rounds[-1]["bytes_up"] < whole.rounds[-1]["bytes_up"] / 2
    assert len(grid.messages()[-1].frame) < 4 * scenario.n_parameters / 2


def test_a_budget_is_kept_between_messages_and_a_spent_node_or_a_repeated_task_trains_nothing() -> None:
    """Whatever the server asks for."""
    asked: list[App] = []
    spending = {"kind": "dp_fedavg", "noise_multiplier": 4.0, "stop_at": {"epsilon": 4.0}}

    def change(grid: FakeGrid) -> None:
        asked.append(grid.apps[100])

    run, grid, scenario = over_flower(
        {"protocol": {"kind": "fedasync", "rounds": 60, "in_flight": 3}, "privacy": spending}, change
    )
    assert run.spent is not None
    assert sorted(run.spent) == [0, 1, 2]
    assert "budget" in run.stopped
    assert Kind.BUDGET_SPENT in kinds(run)
    last = grid.messages(node=100)[-1]
    last.content["config"]["frame"] = encode(Task(1000, 0, 0, 1000), np.zeros((1, scenario.n_parameters), np.float32))
    [(spent, _), (gone, _)] = heard(asked[0](last), scenario)
    assert isinstance(spent, Spent)
    assert "of 4 spent" in spent.detail
    assert (type(gone), gone.fate) == (Gone, "dropped_out")
    assert introduced(asked[0](grid.messages(QUERY)[0])) == Hello(0, 20, spent.detail, remembers=True)

    run, grid, _ = over_flower({}, change)
    with pytest.raises(RepeatedError, match="the server gave task 2 again after task 2"):
        asked[1](grid.messages(node=100)[-1])


def test_personal_layers_stay_at_their_node() -> None:
    description = {"model": {**SMALL["model"], "personal": ["3.*"]}, "protocol": {"kind": "sync", "rounds": 3}}
    run, grid, scenario = over_flower(description)
    assert run.stopped == "all versions published"
    assert all(np.isnan(row["test_loss"]) for row in run.rounds)
    assert any("no version is judged" in note for note in run.notes)
    with pytest.raises(AsyncflError, match=r"evaluation\.keep: must be none where model\.personal is set"):
        over_flower({**description, "evaluation": {"keep": "last"}})
    kept: dict[str, Any] = {}
    began, made = [], []
    for message in grid.messages(node=101)[:2]:
        at = FlowerClient(message.content["config"], {"partition-id": 1}, kept)
        began.append(at.state.arrays.get(PERSONAL))
        [(_, length)] = heard(frames(*at.answer(message.frame)), scenario)
        assert length == 28 * 28 * 4 + 4
        made.append(at.state.arrays[PERSONAL])
    assert began[0] is None
    np.testing.assert_array_equal(began[1], made[0])
    assert (made[0] != made[1]).any()


def test_a_node_keeps_every_entry_of_its_state_between_messages() -> None:
    """Compression changes one entry, and one that no part of asyncfl knows stays as it was."""
    _, grid, _ = over_flower(
        {"compression": {"kind": "top_k", "share": 0.1}, "protocol": {"kind": "sync", "rounds": 2}}
    )
    kept: dict[str, Any] = {}
    states = []
    for message in grid.messages(node=101)[:2]:
        at = FlowerClient(message.content["config"], {"partition-id": 1}, kept)
        at.setup.training.states.update(1, ClientState({}, {} if states else {"other": 0.5}))
        at.answer(message.frame)
        states.append(at.state)
    assert [one.scalars["other"] for one in states] == [0.5, 0.5]
    assert [one.scalars["last_task"] for one in states] == [0, 1]
    assert states[0].part([REMAINDER]) != states[1].part([REMAINDER])


def test_noise_is_drawn_from_a_secret_of_the_node() -> None:
    """Two runs of one scenario and seed differ: nobody but the node can subtract its noise."""
    description = {"protocol": {"kind": "sync", "rounds": 1}, "privacy": {"kind": "dp_fedavg", "noise_multiplier": 1.0}}
    losses = [over_flower(description)[0].rounds[-1]["test_loss"] for _ in range(2)]
    assert losses[0] != losses[1]


@pytest.mark.parametrize("after", [0, 7])
def test_a_run_whose_grid_is_gone_is_kept(after: int) -> None:
    def change(grid: FakeGrid) -> None:
        pull = grid.pull_messages

        def gone(names: Any) -> list[Message]:
            if len(grid.messages()) >= after:
                raise ConnectionError("401 Unauthorized")
            return pull(names)

        grid.pull_messages = gone  # type: ignore[method-assign]

    run, _, _ = over_flower({"protocol": {**FEDASYNC, "rounds": 40}}, change)
    assert run.stopped == "Flower's grid answers no more: ConnectionError: 401 Unauthorized"
    assert run.rounds[-1]["version"] >= (3 if after else 0)
    assert run.fates["unfinished"] >= (1 if after else 0)


def test_clients_do_not_need_files_that_only_the_server_reads() -> None:
    scenario = Scenario.read(THREE)
    text = scenario.to_yaml().replace("initial: null", "initial: /nowhere/start.safetensors")
    world = {"device": {"kind": "profile", "file": "/nowhere/devices.csv"}, "tap": {"uplink": True}}
    description = {**yaml.safe_load(text), "world": world}
    theirs = clients_scenario(yaml.safe_dump(description))
    assert theirs.model == scenario.model
    assert theirs.world.tap.uplink


def test_a_node_must_say_which_client_it_is() -> None:
    _, grid, _ = over_flower({"protocol": {"kind": "sync", "rounds": 1}})
    config = grid.messages(QUERY)[0].content["config"]
    assert introduced(frames(*FlowerClient(config, {"partition-id": 2}, {}).answer(None))) == Hello(2, 20)
    for wrong in ({}, {"partition-id": 3}, {"partition-id": "0"}):
        with pytest.raises(FlowerError, match=r"partition-id=N.*0\.\.2"):
            FlowerClient(config, wrong, {})


@pytest.mark.parametrize("welcome", ["text", encode(Hello(0, 20))])
def test_a_message_without_a_welcome_is_refused(welcome: Any) -> None:
    with pytest.raises(FlowerError, match="a message must hold the welcome of a server of this version of asyncfl"):
        FlowerClient({"welcome": welcome}, {"partition-id": 0}, {})


def test_scores_are_charged_to_the_budget_across_messages() -> None:
    privacy = {"kind": "dp_fedavg", "noise_multiplier": 4.0, "scores": {"epsilon": 0.5}, "stop_at": {"epsilon": 30.0}}
    detecting = {"defence": {"detector": {"kind": "safl"}}, "protocol": {"kind": "sync", "rounds": 1}}
    _, grid, scenario = over_flower({**detecting, "privacy": privacy})
    config, kept, told = grid.messages()[0].content["config"], dict[str, Any](), list[Any]()
    models = np.zeros((3, scenario.n_parameters), np.float32)
    while len(told) < 50 and (not told or told[-1] is not None):
        at = FlowerClient(config, {"partition-id": 0}, kept)
        [(scores, _)] = heard(frames(*at.answer(encode(ClientScoreRequest(5, len(told)), models))), scenario)
        assert isinstance(scores, Scores)
        told.append(scores.scores)
    assert [len(one) for one in told[:-1]] == [3] * (len(told) - 1)
    assert 2 <= len(told) < 50
    assert at.state.scalars["budget_answers"] == len(told) - 1
    budgets = FlowerClient(config, {"partition-id": 0}, {}).setup.budgets
    assert budgets is not None
    assert [budgets.charge_scores(0, 3) for _ in told] == [one is not None for one in told]
