"""What stands under a figure of its data and seeds."""

import pytest

from asyncfl.experiments.figure_files import data_in_words

MNIST = "MNIST, complete (60000 + 10000 images)"


@pytest.mark.parametrize(
    ("provenances", "said"),
    [
        ([MNIST, MNIST], MNIST),
        ([MNIST, f"{MNIST}; USPS, complete; MNIST-M"], f"{MNIST}; in some cells also USPS, complete; MNIST-M"),
        (
            [f"{MNIST}; tested on the training split", MNIST],
            f"{MNIST}; in some cells also tested on the training split",
        ),
        ([MNIST, "USPS, complete"], f"{MNIST}; USPS, complete"),
        ([f"{MNIST}; a", f"b; {MNIST}"], f"{MNIST}; in some cells also a; b"),
        (["a; b", "b; c", "c; a"], "a; b; c"),
        ([], ""),
    ],
)
def test_each_data_set_is_named_once(provenances: list[str], said: str) -> None:
    assert data_in_words(provenances) == said
