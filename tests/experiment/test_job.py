import pytest

from asyncfl.errors import RunError
from asyncfl.experiment.job import Codes, logged, publish, read_codes


def test_what_is_printed_goes_to_the_log(tmp_path, capsys):
    with logged(tmp_path / "logs" / "job.log"):
        print("hello")
    assert (tmp_path / "logs" / "job.log").read_text() == "hello\n"
    assert capsys.readouterr().out == ""


def test_an_error_of_ours_is_one_message(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended, logged(tmp_path / "job.log"):
        raise RunError("run x is unfinished")
    assert ended.value.code == 1
    assert (tmp_path / "job.log").read_text() == capsys.readouterr().err == "run x is unfinished\n"


def test_any_other_error_leaves_its_traceback_in_the_log(tmp_path):
    with pytest.raises(ZeroDivisionError), logged(tmp_path / "job.log"):
        1 / 0  # noqa: B018
    assert "Traceback" in (tmp_path / "job.log").read_text()


def test_a_run_is_published_in_place_of_what_was_there(tmp_path):
    cache, folder = tmp_path / ".cache" / "abc" / "code", tmp_path / "runs" / "abc"
    (cache / "run").mkdir(parents=True)
    (cache / "run" / "summary.json").write_text("new")
    folder.mkdir(parents=True)
    (folder / "left_over").write_text("old")
    publish(cache, folder)
    assert [path.name for path in folder.iterdir()] == ["summary.json"]
    assert not cache.parent.exists()


def test_a_published_run_says_with_what_code_it_was_computed(tmp_path):
    from asyncfl.experiment import code_digest
    from asyncfl.scenario import Scenario

    scenario = Scenario.read({"data": {"source": "embedded"}, "protocol": {"kind": "sync", "rounds": 1}})
    cache, folder = tmp_path / ".cache" / "abc" / "of_the_job", tmp_path / "runs" / "abc"
    (cache / "run").mkdir(parents=True)
    assert read_codes(cache / "run") is None
    (cache / "run" / "scenario.yaml").write_text(scenario.to_yaml())
    publish(cache, folder)
    assert read_codes(folder) == Codes(code_digest(scenario), "of_the_job")
