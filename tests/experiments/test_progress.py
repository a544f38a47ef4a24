"""Lines that are written while the workflow runs."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from asyncfl.experiments.plan import WorkflowJob
from snakemake_logger_plugin_asyncfl import LogHandler, WorkflowProgress, expect

JOBS = [
    WorkflowJob("nbafl/fig2", ("a" * 16, "b" * 16), "code", 30.0),
    WorkflowJob("nbafl/fig2", ("c" * 16,), "code", 10.0),
    WorkflowJob("safl/" + "x" * 300, ("d" * 16,), "code", 60.0),
]
NAMES = [job.name for job in JOBS]


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_line_tells_runs_and_time_left() -> None:
    clock = Clock()
    progress = WorkflowProgress(JOBS, set(NAMES) | {"analysis_nbafl_fig2", "all"}, clock)
    assert progress.beginning == "0 of 4 runs are there; 3 jobs compute the others"
    clock.now_s += 60
    # 30 of 100 estimated seconds took 60, so that 70 are left at half that pace
    assert (
        progress.finished(NAMES[0])
        == f"{'nbafl/fig2':24} [#############.......] 2 of 3 runs, about 2.33 min left for all"
    )
    assert progress.finished(NAMES[0]) is None
    assert progress.finished("index_of_runs") is None
    line = progress.finished(NAMES[2])
    assert line == f"safl/{'x' * 55} [####################] 1 of 1 runs, about 6.67 s left for all"
    assert progress.finished("analysis_safl_" + "x" * 300) == f"safl/{'x' * 55} tables, figures and verdicts are there"
    assert progress.finished(NAMES[1]) == f"{'nbafl/fig2':24} [####################] 3 of 3 runs"
    assert str(progress.finished("analysis_nbafl_fig2")).split() == [
        "nbafl/fig2",
        *["tables,", "figures", "and", "verdicts", "are", "there"],
    ]


def record(event: LogEvent | None, level: int = logging.INFO, message: str = "said", **extra: Any) -> logging.LogRecord:
    made = logging.LogRecord("snakemake", level, "", 0, message, None, None)
    for name, value in {"event": event, **extra}.items():
        setattr(made, name, value)
    return made


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> LogHandler:
    monkeypatch.setattr("snakemake_logger_plugin_asyncfl._EXPECTED", [])
    expect(JOBS)
    return LogHandler(SimpleNamespace(dryrun=False), None)  # type: ignore[arg-type]


def test_a_handler_writes_lines_of_experiments_alone(handler: LogHandler, capsys: pytest.CaptureFixture[str]) -> None:
    handler.emit(record(LogEvent.WORKFLOW_STARTED))
    handler.emit(record(LogEvent.RUN_INFO, stats={NAMES[1]: 1, "total": 1}))
    handler.emit(record(LogEvent.JOB_INFO, jobid=7, rule_name=NAMES[1]))
    handler.emit(record(LogEvent.JOB_FINISHED, job_id=7))
    handler.emit(record(LogEvent.JOB_FINISHED, job_id=8))
    written = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in written] == ["3", "nbafl/fig2"]
    assert all(len(line) < 200 for line in written)


def test_errors_and_warnings_of_snakemake_are_passed_on(handler: LogHandler) -> None:
    assert handler.lines(record(LogEvent.JOB_ERROR, logging.ERROR, "it failed")) == ["it failed"]
    assert handler.lines(record(None, logging.WARNING, "beware")) == ["beware"]
    assert handler.lines(record(None, logging.INFO, "chatter")) == []
    handler.common_settings.dryrun = True
    assert handler.lines(record(LogEvent.JOB_INFO, message="rule a:")) == ["rule a:"]
