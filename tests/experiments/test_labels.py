from asyncfl.data import CATALOG
from asyncfl.experiments.columns import TARGETS, measured_columns
from asyncfl.experiments.labels import COLUMNS, DOMAINS, legend_label


def test_a_label_that_says_nothing_alone_has_its_axis_beside_it():
    assert legend_label("L", "measured") == "$L$ = measured"
    assert legend_label("L", 1) == "$L$ = 1"
    assert [legend_label("epsilon", text) for text in ("100", "1e-3", ".5")] == [
        r"$\epsilon$ = 100",
        r"$\epsilon$ = 1e-3",
        r"$\epsilon$ = .5",
    ]
    assert legend_label("privacy.epsilon", float("inf")) == "no noise"


def test_every_data_set_has_its_name_on_figures():
    assert {name: dataset.title for name, dataset in CATALOG.items()} == DOMAINS


def test_labels_are_those_of_columns_that_exist():
    known = {*measured_columns("ends", domains=["mnist"]), "round", "bound"}
    assert [name for name in COLUMNS if name not in known and not name.startswith(tuple(TARGETS))] == []
