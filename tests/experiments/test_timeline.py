import pyarrow as pa
import pytest

from asyncfl.base.errors import OutputError
from asyncfl.experiments.timeline import Timeline, summary, timeline_of, write_timeline
from asyncfl.protocol.events import Kind
from asyncfl.protocol.recorder import Recorder
from asyncfl.results.earlier_tasks import tasks_of_events
from asyncfl.results.run_tables import clients_table, rounds_table
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock

FATES = {"aggregated": 3, "lost_up": 1, "unfinished": 0}


def tables(attackers=(False, False, True)):
    """Three versions; client 2 is overheard twice, version 1 reached the tap twice, one update was 2 versions old."""
    recorder = Recorder(7)
    for task, (client, base) in enumerate([(0, 0), (1, 0), (2, 1), (2, 1)]):
        recorder.add(1.0, Kind.DISPATCHED, task, client, 0, base)
    for client in (2, 2, 1):
        recorder.add(2.0, Kind.OVERHEARD, 0, client, 1, 0, detail="up")
    for task in (2, 3):
        recorder.add(2.0, Kind.OVERHEARD, task, 2, 1, 1, detail="down")
    for attempt in (2, 3):
        recorder.add(2.0, Kind.RETRANSMITTED, 0, 0, 1, 0, attempt=attempt, detail="up")
    for task, age in enumerate((0, 0, 2)):
        recorder.add(3.0, Kind.AGGREGATED, task, 0, 2, 0, age)
    rounds = pa.table(
        {"seed": [7, 7, 7, 8], "time_s": [0.0, 2.0, 6.0, 9.0], "bytes_up": [0, 30, 90, 1], "bytes_down": [0, 50, 60, 1]}
    )
    clients = pa.table(
        {
            "seed": [7, 7, 7],
            "attacker": list(attackers),
            "uploads": [1, 1, 2],
            "malicious_uploads": [number if bad else 0 for number, bad in zip([1, 1, 2], attackers, strict=True)],
            "tasks": [1, 1, 2],
            "exposures_up": [0, 1, 2],
            "exposures_down": [2, 0, 0],
        }
    )
    return rounds, recorder.table(), tasks_of_events(recorder.table()), clients


@pytest.fixture
def timeline() -> Timeline:
    return timeline_of(7, "all versions published", *tables(), FATES)


def test_a_timeline_is_read_from_the_tables_of_a_seed(timeline):
    assert timeline.versions == 2
    assert timeline.round_s.tolist() == [2.0, 4.0]
    assert timeline.staleness.tolist() == [2, 0, 1]
    assert timeline.most_overheard == 2
    assert (timeline.versions_overheard, timeline.versions_sent) == (1, 2)
    assert timeline.attackers_uploads == 0.5
    assert timeline.retransmitted == 1


def test_summary_of_a_seed(timeline):
    said = summary(timeline)
    assert said["round_s"] == {"mean": 3.0, "low": pytest.approx(2.1), "median": 3.0, "high": 3.9, "most": 4.0}
    assert said["staleness"]["mean"] == pytest.approx(2 / 3)
    assert said["exposure"]["most_overheard_client"] == 2
    assert said["exposure"]["clients_overheard"] == 2
    assert said["traffic"]["up_bytes_per_version"] == 45
    assert said["fates"] == FATES


def test_a_run_that_published_nothing_has_a_summary():
    rounds, _, _, clients = tables()
    nothing = Recorder(7)
    nothing.add(0.0, Kind.STOPPED, detail="nobody came")
    events, fates = nothing.table(), dict.fromkeys(FATES, 0)
    said = summary(timeline_of(7, "nobody came", rounds.slice(0, 1), events, tasks_of_events(events), clients, fates))
    assert said["round_s"]["mean"] is None
    assert said["staleness"]["most"] is None
    assert said["traffic"]["up_bytes_per_version"] is None


def test_a_folder_that_cannot_be_written_is_named(tmp_path, timeline):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        write_timeline([timeline], "", tmp_path / "file", "abc")


def test_a_clock_that_ran(tiny):
    tiny["protocol"] = {"kind": "buffered", "rounds": 6, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 3}}
    tiny["world"]["tap"] = {"uplink": True, "downlink": True}
    run = simulate_clock(Scenario.read(tiny), 0)
    timeline = timeline_of(0, run.stopped, rounds_table(run), run.events, run.tasks, clients_table(run), run.fates)
    assert timeline.versions == 6
    assert timeline.staleness.sum() == run.fates["aggregated"] == 12
    # a tap that misses nothing holds every upload and every version that was sent
    assert timeline.clients["exposures_up"].sum() == 12
    assert timeline.versions_overheard == timeline.versions_sent
    assert timeline.clients["tasks"].sum() == sum(run.fates.values())


def test_flooders_flood_without_training(tiny):
    tiny["protocol"] = {"kind": "buffered", "rounds": 30, "buffer": 4, "dispatch": {"kind": "continuous"}}
    tiny["threats"] = {"attack": {"kind": "flooding", "times": 10.0}, "attackers": 1}
    tiny["world"]["device"]["sigma"] = 0.0

    def share(scenario):
        run = simulate_clock(scenario, 0)
        timeline = timeline_of(0, run.stopped, rounds_table(run), run.events, run.tasks, clients_table(run), run.fates)
        return timeline.attackers_uploads

    flooded = Scenario.read(tiny)
    assert share(flooded) > 0.5
    assert share(flooded.override({"threats.attack.times": 1.0})) == pytest.approx(0.2, abs=0.05)
