"""A personal model for each client beside the common one (Ditto)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from asyncfl.algorithms.algorithm import Algorithm
from asyncfl.base.quantities import MeasuredIn


class Ditto(Algorithm):
    """Clients train the common model as with FedAvg, and a model of their own that is pulled to it.

        v_i <- SGD on F_i(v) + pull / 2 |v - w|^2      w: the model that the client was sent

    A personal model starts as the initial model, is trained with each task on the task's batches, and is never sent.
    Losses and accuracies of a run are means over the clients' own models; the common model is that of a run without
    Ditto, bit for bit. The training of personal models takes no virtual time: clients do it after the upload. Source:
    Li, Hu, Beirami, Smith 2021 (Ditto), algorithm 1.
    """

    kind: Literal["ditto"] = "ditto"
    pull: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("1")] = 0.1
    """lambda: strength with which a personal model is pulled to the common one, above 0; the larger, the closer they
    are. The paper uses .1 to 2."""

    @property
    def personal_pull(self) -> float:
        return self.pull
