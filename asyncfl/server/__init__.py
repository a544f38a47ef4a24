"""The protocol without clock or sockets: what the server does with what it hears."""

from asyncfl.server.machine import Phase, Server, ServerPlan
from asyncfl.server.protocol import AnyProtocol, Buffered, FedAsync, FedBuff, Protocol, Scoring, Sync
from asyncfl.server.tribunal import DefencePlan

__all__ = [
    "AnyProtocol",
    "Buffered",
    "DefencePlan",
    "FedAsync",
    "FedBuff",
    "Phase",
    "Protocol",
    "Scoring",
    "Server",
    "ServerPlan",
    "Sync",
]
