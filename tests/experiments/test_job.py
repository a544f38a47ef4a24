import pytest

from asyncfl.api import execute
from asyncfl.base.errors import OutputError, RunError
from asyncfl.experiments.job import Codes, commit, cpu, logged, publish, read_codes
from asyncfl.results.storage import Run, RunFolder


def test_printed_text_goes_to_the_log(tmp_path, capsys):
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


@pytest.fixture
def computed(scenario, tmp_path):
    """A cache with a whole run in it."""
    cache = tmp_path / ".cache" / "abc" / "of_the_job"
    execute(scenario, cache / "run")
    return cache


def test_a_published_run_is_complete_and_names_its_code(scenario, computed, tmp_path):
    folder = tmp_path / "runs" / "abc"
    assert read_codes(computed / "run") is None
    folder.mkdir(parents=True)  # as Snakemake does before a job
    publish(computed, RunFolder(folder, scenario), "of_the_run")
    assert read_codes(folder) == Codes("of_the_run", "of_the_job", commit(), cpu())
    assert RunFolder(folder, scenario).is_whole()
    assert Run.load(folder).rounds.equals(Run.load(computed / "run").rounds)


def test_a_run_is_published_in_place_of_what_is_left_of_an_older_one(scenario, computed, tmp_path):
    folder = tmp_path / "runs" / "abc"
    publish(computed, RunFolder(folder, scenario), "of_the_run")
    for path in folder.glob("*.parquet"):
        path.unlink()  # as Snakemake does with a job that failed
    (folder / "thesis.tex").write_text("precious")
    publish(computed, RunFolder(folder, scenario), "of_the_run")
    assert RunFolder(folder, scenario).is_whole()
    assert (folder / "thesis.tex").read_text() == "precious"


def test_a_folder_of_the_user_in_place_of_a_run_is_left_alone(scenario, computed, tmp_path):
    folder = tmp_path / "runs" / "abc"
    folder.mkdir(parents=True)
    (folder / "thesis.tex").write_text("precious")
    with pytest.raises(OutputError, match=r"not made by this program and is not empty \(it holds thesis\.tex\)"):
        publish(computed, RunFolder(folder, scenario), "of_the_run")
    assert [path.name for path in folder.iterdir()] == ["thesis.tex"]
    assert Run.load(computed / "run")
