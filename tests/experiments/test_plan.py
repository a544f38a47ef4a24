"""Files of experiments, and the plan of their runs."""

import json
from dataclasses import replace

import pytest

from asyncfl.base.errors import OutputError, ScenarioError
from asyncfl.experiments import plan as planning
from asyncfl.experiments.code import combined
from asyncfl.experiments.files import find, rule_name
from asyncfl.experiments.plan import (
    Plan,
    WorkflowJob,
    check_writable,
    index_rows,
    make_plan,
    runs_among,
    scenarios,
)


def faults(folder):
    with pytest.raises(ScenarioError) as caught:
        find(folder)
    return {fault.field: fault.message for fault in caught.value.faults}


@pytest.fixture
def named_files(tmp_path):
    def make(*files):
        for file in files:
            path = tmp_path / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("title: x")
        return tmp_path

    return make


def test_the_rule_of_a_step_of_an_experiment():
    assert rule_name("analysis", "nbafl/fig2") == "analysis_nbafl_fig2"
    assert rule_name("", "nbafl/fig2") == "nbafl_fig2"


def test_files_in_the_order_of_their_numbers_without_hidden_ones(named_files):
    root = named_files("a/fig10.yaml", "a/fig9.yaml", "b-c.yaml", ".checkpoints/a.yaml", "a/.#fig9.yaml", "a/notes.txt")
    assert list(find(root)) == ["a/fig9", "a/fig10", "b-c"]
    with pytest.raises(ScenarioError, match="holds no experiment"):
        find(root / "nothing")


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (["a/b.yaml", "a_b.yaml"], {"a_b.yaml": "would become the rule a_b, as a/b.yaml does; rename one of them"}),
        (["x.yaml", "analysis/x.yaml"], {"x.yaml": "would become the rule analysis_x, as analysis/x.yaml does"}),
        (["all.yaml"], {"all.yaml": "would become the rule all, as the workflow itself does"}),
        (["{x}.yaml"], {"{x}.yaml": "'{x}' must be letters, digits, _ and -"}),
        (["a b/c,d.yaml"], {"a b/c,d.yaml": "must be letters, digits, _ and -"}),
        (["a.yaml", "b.yml"], {"b.yml": "experiments are files *.yaml; rename it to b.yaml"}),
        (["c.yml"], {"c.yml": "rename it to c.yaml"}),
    ],
)
def test_a_name_that_cannot_be_that_of_an_experiment_is_a_fault_of_its_file(named_files, files, said):
    found = faults(named_files(*files))
    assert list(found) == list(said)
    assert all(said[file] in found[file] for file in said)


@pytest.fixture
def folder(write, described):
    """Two experiments; the second repeats the first one's cells and adds some."""
    path = write(described, "nbafl/fig2").parents[1]
    write({**described, "axes": {"privacy.epsilon": [50, 60], "protocol.rounds": [2, 4, 6]}}, "nbafl/fig3")
    return path


def digests(plan):
    return [digest for job in plan.jobs for digest in job.digests]


def test_equal_cells_are_one_run(folder, tmp_path):
    plan = make_plan(folder, "full", results=tmp_path / "results")
    assert len(plan.selected["nbafl/fig2"].cells) == 8
    assert len(plan.selected["nbafl/fig3"].cells) == 12
    assert len(digests(plan)) == len(set(digests(plan))) == 12


def test_a_part_of_the_experiments(folder, tmp_path):
    results = tmp_path / "results"
    plan = make_plan(folder, "quick", ["nbafl/fig3"], results)
    assert list(plan.selected) == ["nbafl/fig3"]
    assert list(plan.experiments) == ["nbafl/fig2", "nbafl/fig3"]
    assert list(make_plan(folder, "quick", ["nbafl"], results).selected) == ["nbafl/fig2", "nbafl/fig3"]
    with pytest.raises(ScenarioError, match=r"only: there is no experiment 'nbafl/fig4' \(experiments: nbafl/fig2"):
        make_plan(folder, "quick", ["nbafl/fig4"], results)
    with pytest.raises(ScenarioError, match="scale: must be one of quick, full, got 'huge'"):
        make_plan(folder, "huge", results=results)


def test_quick_scale_runs_an_experiment_on_request_only(write, described, tmp_path):
    folder = write(described, "nbafl/fig2").parents[1]
    write({**described, "on_request": True}, "ours/settings")
    results = tmp_path / "results"
    assert list(make_plan(folder, "quick", [""], results).selected) == ["nbafl/fig2"]
    assert list(make_plan(folder, "quick", ["ours"], results).selected) == ["ours/settings"]
    assert list(make_plan(folder, "full", results=results).selected) == ["nbafl/fig2", "ours/settings"]


def test_cheap_runs_share_a_job_and_dear_ones_do_not(folder, tmp_path):
    jobs = make_plan(folder, "full", results=tmp_path / "results", job_s=1e9).jobs
    assert [(job.experiment, len(job.digests)) for job in jobs] == [("nbafl/fig2", 8), ("nbafl/fig3", 4)]
    assert jobs[0].name == f"run_nbafl_fig2_{jobs[0].digests[0][:8]}"
    assert len(make_plan(folder, "full", results=tmp_path / "results", job_s=0.0).jobs) == 12


def test_a_job_of_a_cluster_reserves_more_time_and_memory_for_more_work(folder, write, described, tmp_path):
    small = make_plan(folder, "full", ["nbafl/fig2"], tmp_path / "results").jobs[0]
    larger = {**described["scenario"], "model": {"kind": "mlp", "hidden": [20000]}}
    write({**described, "scenario": larger}, "big/one")
    large = make_plan(folder, "full", ["big"], tmp_path / "results").jobs[0]
    assert 5 <= small.minutes < large.minutes
    assert 1000 <= small.memory_mb < large.memory_mb


def test_jobs_stay_as_they_are_while_others_finish(folder, tmp_path):
    results = tmp_path / "results"
    cost_s = make_plan(folder, "full", results=results, job_s=0.0).jobs[0].cost_s
    before = make_plan(folder, "full", results=results, job_s=2.5 * cost_s).jobs
    done = before[1]
    assert len(done.digests) == 2
    for digest in done.digests:
        (results / "runs" / digest).mkdir(parents=True)
        (results / "runs" / digest / "summary.json").write_text("{}")
    after = make_plan(folder, "full", results=results, job_s=2.5 * cost_s).jobs
    assert {job.digests for job in before} - {job.digests for job in after} == {done.digests}


def test_a_run_on_disk_is_not_bound_to_one_that_is_missing(folder, tmp_path):
    results = tmp_path / "results"
    first = make_plan(folder, "full", results=results, job_s=1e9).jobs[0].digests[0]
    (results / "runs" / first).mkdir(parents=True)
    (results / "runs" / first / "summary.json").write_text("{}")
    sizes = [len(job.digests) for job in make_plan(folder, "full", results=results, job_s=1e9).jobs]
    assert sorted(sizes) == [1, 4, 7]


def test_runs_of_different_code_share_a_job_and_keep_its_code(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "code_digest", lambda scenario: f"code of {scenario.protocol.rounds}")
    results = tmp_path / "results"
    job = make_plan(folder, "full", results=results, job_s=1e9).jobs[0]
    assert len(job.digests) == 8
    assert job.code == combined(["code of 4", "code of 2"]) != "code of 2"
    for digest in job.digests:
        (results / "runs" / digest).mkdir(parents=True)
        (results / "runs" / digest / "summary.json").write_text("{}")
        (results / "runs" / digest / "code.json").write_text(json.dumps({"own": "code of 2", "job": job.code}))
    jobs = {job.digests: job.code for job in make_plan(folder, "full", ["nbafl/fig2"], results, 1e9).jobs}
    kept = [code for digests, code in jobs.items() if len(digests) == 1]
    assert kept == [job.code] * 4
    assert [code for digests, code in jobs.items() if len(digests) == 4] == ["code of 4"]


@pytest.mark.parametrize(
    ("costs_s", "there", "threads"),
    [
        ([300.0, 50.0, 50.0], False, [6, 1, 1]),
        ([300.0, 500.0, 500.0], True, [8, 8, 8]),
        ([100.0] * 16, False, [1] * 16),
        ([60.0], False, [3]),
        ([5.0], False, [1]),
    ],
)
def test_a_job_gets_the_cores_that_others_leave(costs_s, there, threads):
    first, *rest = (WorkflowJob("a", (str(n),), "code", cost_s) for n, cost_s in enumerate(costs_s))
    jobs = [first, *(replace(job, on_disk=there) for job in rest)]
    plan = Plan("full", {}, {}, {}, jobs, frozenset(), {}, {})
    assert [plan.threads(job, cores=8) for job in jobs] == threads


def test_faults_of_several_files_are_reported_together(folder, write, described, tmp_path):
    write({**described, "titel": "x"}, "nbafl/bad")
    with pytest.raises(ScenarioError, match=r"bad\.yaml: titel: is no field") as one:
        make_plan(folder, "quick", results=tmp_path)
    assert one.value.source.endswith("bad.yaml")
    write({**described, "axis": {}}, "nbafl/worse")
    with pytest.raises(ScenarioError, match="2 faults") as two:
        make_plan(folder, "quick", results=tmp_path)
    assert len(two.value.faults) == 2


@pytest.fixture
def nothing_on_disk(monkeypatch, tmp_path):
    """No data set on disk, and a network that must not be used."""
    monkeypatch.delenv("ASYNCFL_DATA_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "no-downloads"))

    def refuse(name):
        raise AssertionError(f"{name} was downloaded")

    monkeypatch.setattr("asyncfl.data.download._download", refuse)


def with_data(described, **fields):
    scenario = described["scenario"]
    return {**described, "scenario": {**scenario, "data": {**scenario["data"], **fields}}}


def test_planning_without_data_runs_what_needs_none(folder, write, described, tmp_path, nothing_on_disk):
    write(with_data(described, source="real"), "outside/mnist")
    write(with_data(described, dataset="shakespeare", source="auto"), "outside/plays")
    plan = make_plan(folder, "quick", results=tmp_path / "results")
    assert list(plan.selected) == ["nbafl/fig2", "nbafl/fig3"]
    assert plan.without_data == {
        "outside/mnist": "needs MNIST on disk: asyncfl data fetch mnist, or set ASYNCFL_DATA_DIR",
        "outside/plays": "needs Shakespeare on disk: asyncfl data fetch shakespeare, or set ASYNCFL_DATA_DIR",
    }
    assert {row["experiment"] for row in index_rows(plan.experiments)} == {"nbafl/fig2", "nbafl/fig3"}


def test_data_that_only_the_other_scale_needs_are_not_asked_for(folder, write, described, tmp_path, nothing_on_disk):
    write({**with_data(described, source="real"), "quick": {"data.source": "embedded"}}, "outside/mnist")
    assert "outside/mnist" in make_plan(folder, "quick", results=tmp_path / "results").selected
    assert "outside/mnist" in make_plan(folder, "full", results=tmp_path / "results").without_data


def test_only_selected_experiments_are_checked(folder, write, described, tmp_path):
    write(with_data(described, clients=0), "own/faulty")
    assert list(make_plan(folder, "quick", ["nbafl/fig2"], tmp_path / "results").selected) == ["nbafl/fig2"]
    with pytest.raises(ScenarioError, match=r"scenario\.data\.clients"):
        make_plan(folder, "quick", ["own"], tmp_path / "results")


def test_results_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"results folder .*file/results: .*Not a directory; choose another"):
        check_writable(tmp_path / "file" / "results")
    check_writable(tmp_path / "not" / "yet")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_users_files_in_the_results_folder_are_kept(folder, tmp_path):
    results = tmp_path / "thesis"
    results.mkdir()
    (results / "README.md").write_text("what this is")
    check_writable(results)
    (results / "index.html").write_text("precious")
    with pytest.raises(OutputError, match=r"thesis: index\.html in it is not of this workflow; move it away"):
        make_plan(folder, "quick", results=results)
    (results / "logs").mkdir()
    (results / "logs" / "report_on_claims.log").touch()
    check_writable(results)


@pytest.mark.parametrize("name", ["papers", "papers/runs"])
def test_pages_are_not_written_through_a_link(folder, tmp_path, name):
    results, home = tmp_path / "results", tmp_path / "home"
    (home / "runs").mkdir(parents=True)
    (results / "logs").mkdir(parents=True)
    (results / "logs" / "report_on_claims.log").touch()
    (results / name).parent.mkdir(exist_ok=True)
    (results / name).symlink_to(home)
    with pytest.raises(OutputError, match=f"{name} is a link, and what is in it is replaced; remove the link"):
        make_plan(folder, "quick", results=results)


def test_a_folder_of_pages_that_is_not_of_the_workflow_is_kept(folder, tmp_path):
    (tmp_path / "results" / "papers" / "runs").mkdir(parents=True)
    check_writable(tmp_path / "results")  # a killed call leaves empty folders
    (tmp_path / "results" / "papers" / "runs" / "mine.html").write_text("precious")
    with pytest.raises(OutputError, match="papers in it is not of this workflow"):
        make_plan(folder, "quick", results=tmp_path / "results")


def test_what_is_only_planned_may_lie_where_nothing_can_be_written(folder, tmp_path):
    (tmp_path / "file").write_text("")
    assert make_plan(folder, "quick", results=tmp_path / "file" / "results", write=False).jobs


def test_scenarios_are_found_again_by_their_digest(folder, tmp_path):
    plan = make_plan(folder, "full", results=tmp_path)
    wanted = {digest: plan.origins[digest] for digest in digests(plan)[-2:]}
    found = scenarios(folder, "full", wanted)
    assert {digest: scenario.digest() for digest, scenario in found.items()} == {digest: digest for digest in wanted}
    assert not plan.growing
    for origin in (plan.jobs[0].experiment, "gone/meanwhile"):
        with pytest.raises(ScenarioError, match="changed while the workflow ran"):
            scenarios(folder, "full", {"0" * 16: origin})


def test_an_attack_without_attackers_changes_no_code_digest(write, described, tmp_path):
    folder = write(described, "nbafl/fig2").parents[1]
    code = make_plan(folder, "quick", results=tmp_path).jobs[0].code
    idle = {"attack": {"kind": "sign_flip"}, "attackers": 0.0}
    write({**described, "scenario": {**described["scenario"], "threats": idle}}, "nbafl/fig2")
    again = make_plan(folder, "quick", results=tmp_path).jobs[0]
    assert again.code == code


def test_runs_of_later_looks_are_jobs_of_their_own(write, described, tmp_path):
    described["seeds"] = {"quick": {"looks": [2, 3]}, "full": 3}
    folder = write(described, "nbafl/fig2").parents[1]
    plan = make_plan(folder, "quick", results=tmp_path)
    planned = plan.with_looks["nbafl/fig2"]
    first, then = planned.looks
    assert planned.cells == first
    counts = [i % 2 for i in range(len(first))]
    assert planned.at(counts) == [(first, then)[look][i] for i, look in enumerate(counts)]
    later = {cell.digest for cell in then}
    assert later.isdisjoint(cell.digest for cell in first)
    jobs = [job for job in plan.jobs if later & set(job.digests)]
    assert [len(job.digests) for job in jobs] == [1] * len(later)
    there = tmp_path / "runs" / jobs[0].digests[0]
    there.mkdir(parents=True)
    (there / "summary.json").write_text("{}")
    for own, kept in ((jobs[0].code, "that of its job"), ("other", jobs[0].code)):
        (there / "code.json").write_text(json.dumps({"own": own, "job": "that of its job"}))
        again = make_plan(folder, "quick", results=tmp_path).jobs
        assert [job.code for job in again if job.digests == jobs[0].digests] == [kept]
    found = scenarios(folder, "quick", dict.fromkeys(later, "nbafl/fig2"))
    assert {len(scenario.seeds) for scenario in found.values()} == {3}
    assert plan.growing == {cell.digest for look in planned.looks for cell in look}
    experiment = plan.experiments["nbafl/fig2"]
    there = {cell.digest for cell in planned.at(counts)}
    assert runs_among(experiment, "quick", there) == planned.at(counts)


def test_a_cell_that_one_experiment_lists_grows_where_another_looks_at_it(write, described, tmp_path):
    listed = {**described, "seeds": {"quick": 2, "full": 3}}
    folder = write(listed, "nbafl/fig2").parents[1]
    write({**described, "seeds": {"quick": {"looks": [2, 3]}, "full": 3}}, "nbafl/fig3")
    plan = make_plan(folder, "quick", results=tmp_path)
    shared = [cell.digest for cell in plan.selected["nbafl/fig2"].cells]
    assert shared == [cell.digest for cell in plan.selected["nbafl/fig3"].cells]
    assert plan.growing >= set(shared)
    assert make_plan(folder, "quick", ["nbafl/fig2"], tmp_path).growing == plan.growing
