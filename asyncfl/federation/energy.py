"""Energy that clients used, by kind of work.

It is computed from the trace, for simulated and live runs alike. A broken-off phase counts for as long as it lasted,
and an unfinished phase until the end of the run. Requests for scores are not counted.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from asyncfl.trace.tasks import tasks_of
from asyncfl.world.power import Power

Joules = NDArray[np.float64]


def energy(events: pa.Table, clients: int, power: Power) -> dict[str, Joules]:
    """Compute (clients,) joules per column: `energy_compute_j`, `_send_j`, `_receive_j`, `_idle_j`.

    `events`: the whole trace of one seed. `power`: watts of a device by activity.
    """
    tasks = tasks_of(events)
    # A phase without an end lasted until the end of its task or of the run.
    left_s = np.where(np.isnan(tasks.left_s), tasks.end_s, tasks.left_s)

    def seconds(began_s: NDArray[np.float64], ended_s: NDArray[np.float64]) -> Joules:
        lasted_s = np.nan_to_num(np.where(np.isnan(ended_s), left_s, ended_s) - began_s)
        return np.bincount(tasks.client, weights=lasted_s, minlength=clients).astype(np.float64)

    compute_s = seconds(tasks.training_started_s, tasks.trained_s)
    send_s = seconds(tasks.upload_started_s, tasks.uploaded_s)
    receive_s = seconds(tasks.download_started_s, tasks.downloaded_s)
    times_s = events["time_s"].to_numpy()
    idle_s = float(times_s.max(initial=0.0)) - compute_s - send_s - receive_s
    return {
        "energy_compute_j": power.compute_w * compute_s,
        "energy_send_j": power.send_w * send_s,
        "energy_receive_j": power.receive_w * receive_s,
        # Rounding aside it is never negative: a client is at one task at a time.
        "energy_idle_j": power.idle_w * np.maximum(idle_s, 0.0),
    }
