"""What can go wrong: one class per kind, all of them `HcommError`. An error's text is a sentence; its facts are attributes.

Raised by a call whose arguments are wrong (nothing was sent; other ranks get `PeerRefusedError`): `RefusedError` and its kinds. Raised by an
operation that could not finish: `OperationError` and its kinds; outputs may be partly written.

>>> error = PeerLostError("rank 2 is lost", rank=2, cause="killed by signal 9", call="all_reduce(f32, sum, 8)")
>>> error.rank, isinstance(error, HcommError)
(2, True)
"""

from __future__ import annotations

from typing import Any


class HcommError(Exception):
    """Everything that hcomm raises."""

    def __init__(self, text: str, **facts: Any) -> None:
        super().__init__(text)
        for name, fact in facts.items():
            setattr(self, name, fact)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args[0], dict(vars(self)))


def _restored(kind: type[HcommError], text: str, facts: dict[str, Any]) -> HcommError:
    return kind(text, **facts)


class NotInitializedError(HcommError, RuntimeError):
    """There is no communicator yet: call `hcomm.init()`."""


class ForkError(HcommError, RuntimeError):
    """A communicator from before a fork was used in the child."""


class OutOfMemoryError(HcommError, MemoryError):
    """The machine has no room for the communicator's buffers."""


# Making a communicator.


class CreateError(HcommError, RuntimeError):
    """There is no communicator: a file of settings cannot be used, or the system refused a thread or a descriptor."""


class SettingError(CreateError, ValueError):
    """A setting with an unknown name or a bad value; the text suggests the right one."""


class EnvironmentError(CreateError, ValueError):
    """The environment does not say which rank this is."""


class RendezvousError(CreateError, ConnectionError):
    """The ranks did not find each other in time."""

    ranks: list[int] = []
    """Those that did not come, where that is known."""
    within: float = 0.0
    """How long they were waited for, in seconds."""


class SettingMismatchError(CreateError, ValueError):
    """The ranks have set different values where they must agree."""

    name: str
    """What was set."""
    values: list[str]
    """By rank."""


# Calls that are refused.


class RefusedError(HcommError, ValueError):
    """A call's arguments are wrong. Nothing was sent or written."""

    reason: str = ""


class ArrayError(RefusedError, TypeError):
    """An object without memory that a call can use, or with elements of a type that hcomm does not have."""


class ReadOnlyError(RefusedError, BufferError):
    """An output that may not be written."""


class BufferSizeError(RefusedError):
    """A buffer has the wrong size."""

    which: str
    """`input` or `output`."""
    elements: int
    """Elements that it has."""
    expected: int
    """Elements that it needs."""
    dtype: str
    """Their type."""


class DTypeError(RefusedError, TypeError):
    """Input and output have different types of elements."""

    input: str
    output: str


class OverlapError(RefusedError):
    """Input and output, or arrays of a list, share memory without being in place."""


class RankError(RefusedError):
    """A rank that does not exist."""

    rank: int
    world: int


class PlanError(RefusedError):
    """No algorithm does what was asked, or not the one that was asked for."""


class UnusableError(HcommError, RuntimeError):
    """The communicator cannot start operations any more; `__cause__` says why."""


# Operations that fail.


class OperationError(HcommError, RuntimeError):
    """An operation ended without its result. Outputs may be partly written."""

    call: str = ""
    """Which operation."""


class PeerLostError(OperationError, ConnectionError):
    """A rank died, or more than one."""

    rank: int
    """Who; of several the lowest."""
    ranks: list[int]
    """All that are known to be dead."""
    cause: str
    """How it is known of `rank`."""


class PeerLeftError(OperationError, ConnectionError):
    """A rank closed its communicator before it made this call."""

    rank: int
    last: int
    """Collective calls that it made."""
    because: str | None
    """The error because of which it left, where it said so."""


class CallMismatchError(OperationError):
    """Two ranks made different calls: a fault of the program."""

    rank: int
    """This rank; its call is `call`."""
    other: int
    other_call: str


class PeerRefusedError(OperationError):
    """Another rank's call was refused, so that it takes no part."""

    rank: int
    reason: str


class DeadlineError(OperationError, TimeoutError):
    """The operation did not end in time."""

    elapsed: float
    """Seconds."""
    waiting: str
    """What it waited for, in words."""


class AbortedError(OperationError):
    """A rank gave up, or `abort` was called."""

    rank: int
    cause: str


class MessageSizeError(OperationError):
    """A message does not fit where it is to go."""

    rank: int
    """The sender."""
    tag: int
    bytes: int
    room: int


class MessageTypeError(OperationError):
    """A message's elements are of another type than its receive takes."""

    rank: int
    """The sender."""
    receiver: int
    tag: int
    sent: str
    """The name of the type sent."""
    received: str
    """The name of the type that the receive takes."""


class BufferBusyError(OperationError):
    """Another operation uses the same buffer."""


class PredecessorError(OperationError):
    """An operation that this one comes after has failed."""

    cause: str


class ClosedError(OperationError):
    """The communicator was closed."""
