"""State of a run between two steps as a pickle, without what is prepared again when the run goes on."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from asyncfl.base.errors import RunError, shortened
from asyncfl.simulation.prepare import Federation
from asyncfl.simulation.round_recorder import RoundRecorder


def prepared_parts(federation: Federation, rounds: RoundRecorder) -> dict[str, Any]:
    """Return what a run that goes on prepares again: name -> object."""
    learner = federation.learner
    built = {"data": federation.data, "learner": learner, "whole": getattr(learner, "whole", None)}
    if (known := federation.plan.defence.context) is not None:
        functions = {f"known.{field.name}": getattr(known, field.name) for field in fields(known)}
        built |= {"known": known, **{name: one for name, one in functions.items() if callable(one)}}
    if rounds.evaluator is not None:
        built["backdoor"] = rounds.evaluator.backdoor
        if rounds.evaluator.learner is not learner:
            built["evaluator.learner"] = rounds.evaluator.learner
    built["instrument"] = rounds.instrument
    return {name: one for name, one in built.items() if one is not None}


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, fixed: Mapping[str, Any]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._names = {id(one): name for name, one in fixed.items()}

    def persistent_id(self, obj: Any) -> str | None:
        return self._names.get(id(obj))


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, fixed: Mapping[str, Any]) -> None:
        super().__init__(file)
        self._fixed = fixed

    def persistent_load(self, pid: str) -> Any:
        # What only one of both has, such as workers, is None for the other.
        return self._fixed.get(pid)


def saved(state: Any, fixed: Mapping[str, Any]) -> memoryview:
    """Return the bytes of a state. `fixed`: parts that are only named there. Raises RunError where a component of the
    user's own cannot be pickled."""
    content = io.BytesIO()
    try:
        _Pickler(content, fixed).dump(state)
    except Exception as error:
        raise RunError(f"the state of a component cannot be pickled: {shortened(str(error), 200)}") from None
    return content.getbuffer()


def restored(content: bytes, fixed: Mapping[str, Any]) -> Any:
    """Return the state that `saved` wrote. `fixed`: name -> part in place of the one that was named so."""
    return _Unpickler(io.BytesIO(content), fixed).load()
