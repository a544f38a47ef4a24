import numpy as np

from asyncfl.data import CATALOG
from asyncfl.experiments.columns import TARGETS, measured_columns
from asyncfl.experiments.labels import COLUMNS, DOMAINS, axis_label, column_label, legend_label, value_label


def test_axes_and_columns_in_words_and_symbols():
    assert axis_label("privacy.epsilon") == r"$\epsilon$"
    assert axis_label("privacy.epsilon", plain_text=True) == "epsilon"
    assert axis_label("world.device.spread") == "spread"
    assert column_label("train_loss") == "training loss"
    assert column_label("own_column") == "own column"
    assert column_label("test_accuracy_mnist_m") == "test accuracy on MNIST-M"
    assert column_label("test_accuracy_domains_min") == "accuracy on worst domain"
    assert column_label("test_accuracy_other") == "test accuracy other"
    assert column_label("mnist") == "mnist"
    assert column_label("rounds_to_70") == "rounds to 70 %"
    assert column_label("time_to_70") == "virtual time to 70 %"


def test_values_in_words():
    assert value_label(np.inf, "privacy.epsilon") == "no noise"
    assert value_label(float("inf")) == "∞"
    assert value_label({"kind": "share", "share": 0.2}) == "share"
    assert value_label(None) == "none"
    assert legend_label("privacy.clip_norm", 20) == "$C$ = 20"
    assert legend_label("defence", "Krum") == "Krum"
    assert legend_label("partition", "Dirichlet 0.5") == "Dirichlet 0.5"


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
