"""The server's protocol as a state machine without clock or sockets."""

from asyncfl.protocol.aggregation import DefencePlan
from asyncfl.protocol.machine import Server, ServerPhase, ServerPlan
from asyncfl.protocol.settings import AnyProtocol, Buffered, FedAsync, FedBuff, Protocol, Scoring, Sync

__all__ = [
    "AnyProtocol",
    "Buffered",
    "DefencePlan",
    "FedAsync",
    "FedBuff",
    "Protocol",
    "Scoring",
    "Server",
    "ServerPhase",
    "ServerPlan",
    "Sync",
]
