import pytest

from asyncfl.base.errors import ScenarioError
from asyncfl.experiments.files import find, rule_name


def faults(folder):
    with pytest.raises(ScenarioError) as caught:
        find(folder)
    return {fault.field: fault.message for fault in caught.value.faults}


@pytest.fixture
def folder(tmp_path):
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


def test_files_in_the_order_of_their_numbers_without_hidden_ones(folder):
    root = folder("a/fig10.yaml", "a/fig9.yaml", "b-c.yaml", ".checkpoints/a.yaml", "a/.#fig9.yaml", "a/notes.txt")
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
def test_a_name_that_cannot_be_that_of_an_experiment_is_a_fault_of_its_file(folder, files, said):
    found = faults(folder(*files))
    assert list(found) == list(said)
    assert all(said[file] in found[file] for file in said)
