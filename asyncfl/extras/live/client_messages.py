"""Messages between a live server and one client.

The server gives a client tasks and requests for scores, and the client answers each once. Clients report durations, in
seconds since they had the message that they answer, never times of day: no two clocks have to agree. A message that
says what one of the server's says (`asyncfl.protocol.messages`) is that one, or derives from it. Each field of a
message declares what it discloses about training data (`asyncfl.base.disclosure`).
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct, field

from asyncfl.base.arrays import Vector
from asyncfl.base.disclosure import BATCHES, BUDGETS, LOSSES, PAYLOADS, Leak, Public, Released
from asyncfl.base.message import CHOICE, Count, Message, ServerNumber, Text
from asyncfl.protocol.messages import Dispatch, Fate, ScoreAnswer, Stop, TaskAnswer

Number: TypeAlias = Annotated[int, Meta(ge=-1, le=2**53)]
Turn: TypeAlias = Annotated[int, Meta(ge=0, le=2**31)]
"""A larger turn would draw the noise of another one: half of a stream's number is the client's."""
Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=1e12)]
_TIME = Leak(BATCHES, Public("devices, links and availability decide it, not the values of samples"))
Word: TypeAlias = Annotated[str, Meta(max_length=100)]
Tasks: TypeAlias = Annotated[tuple[Count, ...], Meta(max_length=100)]
Payloads: TypeAlias = Annotated[
    dict[str, Vector], Leak(PAYLOADS, Public("none, or the algorithm declares that they tell nothing uncounted"))
]
"""Name -> (size,) float32: the algorithm's vectors, as it declares them."""


class ClientEvent(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Something that happened at a client, for the trace."""

    after_s: Annotated[Seconds, _TIME]
    """Seconds after the client had the task, or the request."""
    kind: Annotated[Word, Leak(BUDGETS, Public("links, availability, and noise and number of uploads decide it"))]
    size: Annotated[Number, Public("the model's and the compression's size")] = -1
    attempt: Annotated[Number, Public("the link decides it")] = -1
    detail: Annotated[
        Text, Leak(BUDGETS, Public("direction, epochs by a deadline, or noise and number of uploads"))
    ] = ""


MOST_MODELS = 4096
"""Most models of a request for scores."""

SENT = "sent"
"""Kind of a note of a message of a request for scores, for its bytes: it is no event."""

Report: TypeAlias = Annotated[
    tuple[ClientEvent, ...], Meta(max_length=4096), Leak(BUDGETS, Public("see `ClientEvent`"))
]
"""Events at a client, in their order."""


# --- by clients ---------------------------------------------------------------------------------------------------


class Hello(Message, frozen=True):
    """A client introduces itself."""

    client: Annotated[Number, Public("the experiment numbers the clients")]
    """Number of the client; -1: it may be any."""
    samples: Annotated[Count, Public("neighbouring data sets replace samples or updates, and keep their number")]
    spent: Annotated[Text | None, Leak(BUDGETS, Public("noise and number of uploads decide it"))] = None
    """Why the client cannot afford a single upload; None: it can."""
    remembers: Annotated[bool, Public("whether the client was given a task before")] = False
    """Whether it goes on with the budget, personal layers and compression error of earlier tasks."""
    online: Annotated[bool, Public("the world decides it")] = True
    """Whether the world has it online."""
    tasks: Annotated[Tasks, Public("availability decides it")] = ()
    """Tasks that it is still at."""
    instance: Annotated[Word, Public("the run names it")] = ""
    """Name of the node, by which a client that is back is told from another node with its number."""


class Update(TaskAnswer, frozen=True):
    """A task is done. The model comes with it: (1, n_parameters), with the noise of the privacy scheme."""

    loss: Annotated[float | None, Leak(LOSSES, Public("not sent"))]
    """Mean training loss of the last local epoch; None: not needed (`Scenario.reports_losses`)."""
    added_std: Annotated[float, Leak(BUDGETS, Public("it follows from the scheme and the number of samples"))]
    """Standard deviation of the noise that was added when the training was over."""
    epsilon: Annotated[float | None, Leak(BUDGETS, Public("the scheme's, the same in each run"))]
    """Budget of this upload; None: the same for all."""
    report: Report
    epochs: Annotated[Annotated[int, Meta(ge=1, le=2**53)] | None, Public("the speed of the device decides it")] = None
    """Passes over its samples that it comes of; None: all of a task."""
    payloads: Payloads = field(default_factory=dict)


class Gone(TaskAnswer, frozen=True):
    """A task has ended without an update."""

    fate: Annotated[
        Fate, Leak(BUDGETS, Public("availability, links, deadlines, and noise and number of uploads decide it"))
    ]
    report: Report


class Scores(ScoreAnswer, frozen=True):
    """The answer to a request for scores, of at most `MOST_MODELS` models."""

    report: Report


class Spent(Message, frozen=True):
    """The client's privacy budget is spent: after the task that it is at, it answers no more."""

    detail: Annotated[Text, Leak(BUDGETS, Public("noise and number of uploads decide it"))]


class Trace(Message, frozen=True):
    """Events of a task or request that the client abandons, for the trace alone: the server decides nothing by them."""

    task: Annotated[Number, Public("the server gave this number")]
    """Its task; -1: a request for scores."""
    report: Report


# --- by the server ------------------------------------------------------------------------------------------------


class Welcome(Message, frozen=True):
    """The first message to a client on another machine: its data, network, noise and world follow from it."""

    scenario: Annotated[str, Meta(max_length=200_000), Public("the operator wrote it")]
    """The scenario as YAML."""
    seed: Annotated[Count, Public("the operator chose it; no noise is drawn from it")]
    exposures: Annotated[Count, Public("the scenario's, or measured on a clock without data")]
    """Uploads of one client that an eavesdropper is assumed to hold."""


class Begin(Message, frozen=True):
    """The run begins now."""


class Task(Dispatch, frozen=True):
    """Train this model: (1, n_parameters), with the noise of its updates or the server's."""

    turn: Annotated[Turn, CHOICE]
    """Tasks that the client was given before."""
    attacks: Annotated[bool, Public("the experiment draws the attackers")] = False
    """Whether the client is to attack: the experiment's affair, not the federation's."""
    payloads: Payloads = field(default_factory=dict)


class ClientScoreRequest(Message, frozen=True):
    """A `ScoreRequest` as its client gets it: the models come with it, (n_models, n_parameters), updates with the noise
    of their clients."""

    request: ServerNumber
    turn: Annotated[Turn, Released("the updates that the detector compares")]
    """Requests that the client was sent before."""
    last_version: Annotated[Count, CHOICE] = 0
    """Base version of its task that was collected last."""
    last_turn: Annotated[Turn, CHOICE] = 0
    attacks: Annotated[bool, Public("the experiment draws the attackers")] = False
    """Whether that task was an attacker's."""


FromClient: TypeAlias = Update | Gone | Scores | Spent | Trace
FromServer: TypeAlias = Begin | Task | ClientScoreRequest | Stop
