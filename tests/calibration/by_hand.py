"""Events written by hand, as a run that a world is fitted to."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from asyncfl.calibration.observations import ObservedRun
from asyncfl.trace.events import SCHEMA, Event, Kind
from asyncfl.trace.tasks import KINDS, codes, tasks_of


def observe_run(
    *events: tuple[float, Kind, dict[str, Any]], samples: tuple[int, ...] = (10, 20), epochs: int = 2
) -> Any:
    """A run of (time, kind, other columns); of its scenario only the epochs are there."""
    made = [Event(time_s=time_s, seq=seq, seed=0, kind=kind, **more) for seq, (time_s, kind, more) in enumerate(events)]
    rows = [{name: getattr(one, name) for name in SCHEMA.names} for one in made]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    scenario: Any = SimpleNamespace(training=SimpleNamespace(epochs=epochs))
    return ObservedRun("run", scenario, np.array(samples), table, tasks_of(table), codes(table["kind"], KINDS))
