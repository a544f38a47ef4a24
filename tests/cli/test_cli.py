"""The command line as a user types it: what it prints, and how it ends."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from rich.console import Console


class Result:
    def __init__(self, status: object, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err


@pytest.fixture
def asyncfl(program: Any) -> Any:
    """Calls the program with arguments in this process."""
    return lambda *arguments: Result(*program(*arguments))


@pytest.fixture
def file(tiny: dict[str, Any], tmp_path: Path) -> Path:
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(tiny))
    return path


def test_run_says_where_the_data_come_from_what_came_out_and_where_it_is(asyncfl: Any, file: Path) -> None:
    out = file.parent / "run"
    command = ("run", file, "--out", out, "--set", "protocol.rounds=2", "--set", "seeds=2")
    result = asyncfl(*command)
    assert result.status == 0, result.err
    assert result.out.startswith("data: mnist (embedded)\n")
    assert result.out.count("all versions published") == 2
    assert f"{out} written in" in result.out
    assert yaml.safe_load((out / "scenario.yaml").read_text())["protocol"]["rounds"] == 2
    assert "exists already" in asyncfl(*command).out


def test_run_says_which_data_set_stands_in_for_another(
    asyncfl: Any, tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASYNCFL_DATA_DIR", str(tmp_path))
    for name, shape in (("mnist", (28, 28)), ("svhn", (32, 32, 3)), ("street_digits", (32, 32, 3))):
        images, labels = np.zeros((20, *shape), np.uint8), (np.arange(20) % 10).astype(np.uint8)
        np.savez(tmp_path / f"{name}.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    tiny["data"] = {"domains": ["mnist", "svhn"], "clients": 2, "samples_per_client": 10, "source": "real"}
    tiny["protocol"]["rounds"] = 1
    (tmp_path / "domains.yaml").write_text(yaml.safe_dump(tiny))
    result = asyncfl("run", tmp_path / "domains.yaml", "--out", tmp_path / "run", "--quiet")
    assert result.status == 0, result.err
    assert result.out.startswith("data: mnist, street_digits in place of svhn (real)\n")


@pytest.mark.parametrize(("terminal", "quiet", "shown"), [(1, 0, True), (1, 1, False), (0, 0, False), (0, 1, False)])
def test_the_bar_is_drawn_on_a_terminal_unless_it_is_to_be_quiet(
    asyncfl: Any, file: Path, monkeypatch: pytest.MonkeyPatch, terminal: int, quiet: int, shown: bool
) -> None:
    drawn = io.StringIO()
    monkeypatch.setattr("asyncfl.cli.progress.stderr", Console(file=drawn, force_terminal=bool(terminal), width=200))
    assert asyncfl("run", file, "--out", file.parent / "run", *["--quiet"] * quiet).status == 0
    assert ("virtual" in drawn.getvalue()) is shown


def test_run_writes_below_results_unless_told_otherwise(
    asyncfl: Any, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    assert asyncfl("run", file, "--quiet").status == 0
    (run,) = (file.parent / "results" / "runs").iterdir()
    assert len(run.name) == 16


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "protocol.rounds"], "--set: must be field=value, got 'protocol.rounds'"),
        (["--set", "protocol.rouns=3"], "protocol.rouns: is no field; did you mean rounds?"),
        (["--set", "protocol.participants=9"], "must be 1..clients (5), got 9"),
    ],
)
def test_bad_input_is_one_message_without_traceback_and_status_2(
    asyncfl: Any, file: Path, arguments: list[str], message: str
) -> None:
    result = asyncfl("run", file, *arguments)
    assert result.status == 2
    assert message in result.err
    assert "Traceback" not in result.err
    assert not (file.parent / "results").exists()


def test_a_faulty_file_names_file_and_fields(asyncfl: Any, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("{protocol: {kind: sync, rounds: 0}, training: {lrr: 1}}")
    result = asyncfl("run", path)
    assert result.status == 2
    assert f"{path}: 2 faults" in result.err
    assert "training.lrr: is no field; did you mean lr?" in result.err


def test_an_unwritable_results_folder_is_one_message(asyncfl: Any, file: Path, tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("")
    result = asyncfl("run", file, "--out", tmp_path / "blocked" / "run")
    assert result.status == 2
    assert "cannot write" in result.err


def test_trace_prints_filters_counts_and_speaks_json(asyncfl: Any, file: Path) -> None:
    out = file.parent / "run"
    asyncfl("run", file, "--out", out)
    printed = asyncfl("trace", "events", out, "--kind", "uploaded", "--client", 1).out
    assert len(printed.splitlines()) == 4  # a header and three rounds
    assert "more rows; raise --limit" in asyncfl("trace", "events", out, "--limit", 3).out
    rows = json.loads(asyncfl("trace", "events", out, "--version", 3, "--json").out)
    assert rows[-1]["kind"] == "stopped"
    assert json.loads(asyncfl("trace", "events", out, "--count", "--json").out)["aggregated"] == 15
    assert "published" in asyncfl("trace", "events", out, "--count").out


def test_privacy_nbafl_prints_the_golden_numbers(asyncfl: Any) -> None:
    options = "--clients 50 --participants 20 --rounds 25 --exposures 2 --epsilon 50 --delta 0.01 --constant 1.25"
    result = asyncfl("privacy", "nbafl", *options.split(), "--clip-norm", 20, "--samples", 100, "--json")
    answer = json.loads(result.out)["answer"]
    assert answer["sigma_d"] == 0
    assert answer["b"] is None
    assert answer["gamma"] == pytest.approx(0.50833912)
    shown = asyncfl("privacy", "nbafl").out
    assert "sigma_u" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert "exact_epsilon" in shown
    assert "worth" not in shown


def test_privacy_names_the_options_at_fault(asyncfl: Any) -> None:
    result = asyncfl("privacy", "nbafl", "--participants", 60, "--epsilon", -1)
    assert result.status == 2
    assert "--participants: " in result.err
    assert "--epsilon: must be greater than 0, got -1" in result.err


def test_bounds_prints_the_bound_its_optimum_and_its_curve(asyncfl: Any) -> None:
    answer = json.loads(asyncfl("bounds", "--epsilon", 60, "--json", "--curve").out)
    assert answer["answer"]["bound"] == pytest.approx(0.22281512)
    assert answer["answer"]["best_rounds"]["best"] == 15
    assert len(answer["curve"]["bound"]) == 25
    assert "best_rounds: best 15" in asyncfl("bounds", "--curve").out
    assert "theorem" in asyncfl("bounds", "--participants", 20, "--epsilon", 50).out


def test_data_lists_what_there_is_and_draws_it(asyncfl: Any, tmp_path: Path) -> None:
    assert "fashion_mnist" in asyncfl("data").out
    assert {row["name"] for row in json.loads(asyncfl("data", "list", "--json").out)} >= {"mnist", "usps"}
    assert asyncfl("data", "sheet", "mnist", "--out", tmp_path / "sheet.png").status == 0
    assert (tmp_path / "sheet.png").read_bytes().startswith(b"\x89PNG")
    assert asyncfl("data", "sheet", "mnits", "--out", tmp_path / "no.png").status == 2


def test_the_schema_is_json(asyncfl: Any) -> None:
    assert json.loads(asyncfl("schema").out)["title"] == "Scenario"


def test_the_version(asyncfl: Any) -> None:
    assert asyncfl("--version").out == "asyncfl 0.1.0\n"


@pytest.mark.parametrize("option", ["--version", "--client", "--task", "--seed", "--limit"])
def test_numbers_beyond_64_bits_are_refused(asyncfl: Any, tmp_path: Path, option: str) -> None:
    for number, limit in (("9" * 400, "9223372036854775807"), ("-" + "9" * 19, "greater than or equal to")):
        result = asyncfl("trace", "events", tmp_path, option, number)
        assert result.status == 2
        assert limit in " ".join(result.err.split())


FAILING = """
from asyncfl.defences import Rule


class Halving(Rule):
    kind: str
    ends: bool = False

    def aggregate(self, updates, weights):
        if self.ends:
            raise SystemExit
        return self._half(updates)

    def _half(self, updates):
        return updates.mean(axis=0) / {}["half"]
"""


def test_a_component_that_fails_in_a_run_is_named_with_its_line_and_the_traceback_is_a_flag_away(
    asyncfl: Any, file: Path
) -> None:
    rule = file.with_name("halving.py")
    rule.write_text(FAILING)
    command = ("run", file, "--set", "defence.rule={kind: halving:Halving}", "--out", file.with_name("out"))
    failed = asyncfl(*command)
    assert failed.status == 1
    first, second = failed.err.splitlines()
    assert first == f"asyncfl: halving:Halving.aggregate failed: {rule}, line 15: KeyError: 'half'"
    assert second.startswith("  asyncfl --traceback run ")
    assert second.endswith(" shows the whole traceback")
    whole = asyncfl("--traceback", *command)
    assert whole.status == 1
    assert whole.err.startswith("Traceback (most recent call last)")
    assert "in _half" in whole.err
    assert whole.err.splitlines()[-1] == first
    assert not file.with_name("out").exists()
    ended = asyncfl(*command, "--set", "defence.rule.ends=true")
    assert ended.status == 1
    assert "halving:Halving.aggregate failed: " in ended.err
    assert "line 11: it ends the program" in ended.err


def test_data_show_prints_who_holds_what_in_80_columns_and_draws_it(asyncfl: Any, file: Path, monkeypatch: Any) -> None:
    narrow = Console(highlight=False, soft_wrap=True, markup=False, emoji=False, width=80)
    for module in ("asyncfl.cli.output", "asyncfl.cli.data"):
        monkeypatch.setattr(f"{module}.console", narrow)
    out = file.parent / "who"
    command = ("data", "show", file, "--out", out, "--set", "data.partition={kind: pathological}")
    result = asyncfl(*command, "--clients", 2)
    assert result.status == 0, result.err
    lines = result.out.splitlines()
    assert lines[0] == "data: stand-in for MNIST: digits drawn from fonts"
    assert lines[1].split() == ["client", "samples", "classes", "skew", "holds", "most", "of"]
    assert [line.split()[:3] for line in lines[2:4]] == [["0", "20", "2"], ["1", "20", "2"]]
    assert lines[4].startswith("the first 2 of 5 clients with 20 samples (median 20) of 2 of 10 classes; ")
    assert max(map(len, lines[:-3])) <= 80
    assert [Path(line).suffix for line in lines[-3:]] == [".svg", ".png", ".pdf"]
    assert all(Path(line).is_file() for line in lines[-3:])


def test_pictures_that_are_there_are_replaced_only_where_that_is_asked_for(asyncfl: Any, file: Path) -> None:
    who, sheet = file.parent / "who", file.parent / "sheet.png"
    (file.parent / "who.pdf").write_bytes(b"mine")
    sheet.write_bytes(b"mine")
    for command, there in (
        (("data", "show", file, "--out", who), "who.pdf"),
        (("data", "sheet", "usps", "--out", sheet), "sheet.png"),
    ):
        result = asyncfl(*command)
        assert result.status == 2
        assert f"cannot write {file.parent / there}: it exists already" in result.err
        assert (file.parent / there).read_bytes() == b"mine"
    assert not who.with_suffix(".svg").exists()
    assert asyncfl("data", "show", file, "--out", who, "--force").status == 0
    assert (file.parent / "who.pdf").read_bytes().startswith(b"%PDF")


def test_data_show_tells_programs_all_counts(asyncfl: Any, file: Path) -> None:
    result = asyncfl("data", "show", file, "--out", file.parent / "who", "--json", "--seed", 3)
    told = json.loads(result.out)
    assert np.array(told["clients"]).sum(1).tolist() == [20] * 5
    assert told["classes"] == [str(number) for number in range(10)]
    assert told["files"] == [f"{file.parent / 'who'}.{kind}" for kind in ("svg", "png", "pdf")]
