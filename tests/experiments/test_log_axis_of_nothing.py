"""A logarithmic axis on which nothing was drawn, as where no run reached its target."""

import matplotlib.pyplot as plt

from asyncfl.experiments.figures.drawing import log_ticks


def test_an_axis_without_a_positive_number_has_no_ticks() -> None:
    figure, axes = plt.subplots()
    log_ticks(axes.yaxis, -0.05, 0.05)
    assert list(axes.yaxis.get_majorticklocs()) == []
    plt.close(figure)
