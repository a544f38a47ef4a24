"""Traces of runs: kinds of events, the recorder, and queries on recorded traces."""

from asyncfl.trace.events import SCHEMA, EventsTable, Kind
from asyncfl.trace.recorder import Recorder

__all__ = ["SCHEMA", "EventsTable", "Kind", "Recorder"]
