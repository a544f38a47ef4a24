"""The server's protocol as a state machine without clock or sockets."""

from asyncfl.server.aggregation import DefencePlan
from asyncfl.server.machine import Server, ServerPhase, ServerPlan
from asyncfl.server.protocol import AnyProtocol, Buffered, FedAsync, FedBuff, Protocol, Scoring, Sync

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
