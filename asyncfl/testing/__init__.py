"""Tools to unit-test your own components without a clock, a network or training.

    from asyncfl.testing import buffer, check_detector, context, updates

    def test_my_detector() -> None:
        check_detector(MyDetector())                                  # the laws of all detectors
        judged = MyDetector().judge(None, buffer(updates(8, poisoned=2)), None)

- `updates`, `weights`, `buffer`, `context`, `view`, `server`: build small inputs with sensible defaults;
- `arrivals(server(), [3, 5, Lost(2), 3])`: drive a server by a sequence of arrivals, and record its actions;
- `check_rule`, `check_detector`, `check_attack`, `check_staleness`, `check_algorithm`: raise an AssertionError with the
  violated law;
- `stress(MyDetector())`: run a detector in 232 small federations, like `asyncfl stress` on the command line;
- `read_recording`, `replay`, `replay_run`, `recorded_buffers`: replay a recorded run;
- `asyncfl.testing.strategies`: hypothesis strategies. Only this module needs hypothesis.
"""

from asyncfl.extras.stress.stress_test import StressReport, stress, stress_grid
from asyncfl.protocol.recording import Replayed, ReplayError, replay
from asyncfl.testing.algorithm_laws import check_algorithm
from asyncfl.testing.arrivals import Fires, Idle, Lost, Play, Waits, arrivals
from asyncfl.testing.builders import buffer, context, random, server, updates, view, weights
from asyncfl.testing.laws import check_attack, check_detector, check_rule, check_staleness
from asyncfl.testing.recordings import read_recording, recorded_buffers, replay_run

__all__ = [
    "Fires",
    "Idle",
    "Lost",
    "Play",
    "ReplayError",
    "Replayed",
    "StressReport",
    "Waits",
    "arrivals",
    "buffer",
    "check_algorithm",
    "check_attack",
    "check_detector",
    "check_rule",
    "check_staleness",
    "context",
    "random",
    "read_recording",
    "recorded_buffers",
    "replay",
    "replay_run",
    "server",
    "stress",
    "stress_grid",
    "updates",
    "view",
    "weights",
]
