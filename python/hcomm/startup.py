"""`init`: how the default communicator comes to be."""

from __future__ import annotations

import hashlib

from . import _native, _state
from .communicator import Communicator
from .errors import RefusedError, SettingMismatchError


def init(
    *,
    rank: int | None = None,
    world: int | None = None,
    address: str | None = None,
    token: str | None = None,
) -> Communicator:
    """The communicator of this process's job, which the calls of the module `hcomm` go to.

    Without arguments it comes from the environment that torchrun, mpirun, srun or `hcomm launch` set up; a process that none of them started is
    a world of one. Explicitly: this process's `rank` of `world`, the `address` (`HOST:PORT`) at which rank 0 listens, and a `token`, any text
    that all ranks share and others do not know. Without a token, ranks of one host (the address is a loopback one) share a secret that rank 0
    leaves in a file of this user; ranks of several hosts share none, so that whoever reaches the address can join.

    A second call without arguments gives the same communicator.

    Raises `RendezvousError` with the ranks that did not come, `EnvironmentError` for variables that make no sense, `SettingError` for a setting
    that does not exist, `SettingMismatchError` where the ranks have set different values by `hcomm.config`.

    >>> import hcomm
    >>> comm = hcomm.init()
    >>> comm.rank, comm.world
    (0, 1)
    >>> comm.close()
    """
    if token is not None and address is None:
        raise RefusedError("a token goes with rank, world and address; HCOMM_TOKEN is that of the environment")
    if rank is None and world is None and address is None:
        # Threads that ask for the one rank of this process get the same one.
        with _state.making:
            return _state.default or _adopt(_native.Communicator.from_environment(dict(_state.overrides)))
    if rank is None or world is None or address is None:
        raise RefusedError("rank, world and address go together; give all three, or none to take them from the environment")
    if not _are_numbers(rank, world):
        raise RefusedError(f"rank is {rank!r} and world {world!r}; expected two whole numbers, such as int(os.environ['RANK'])")
    if not 0 <= rank < world:
        raise RefusedError(f"rank {rank} of a world of {world}; expected 0 to world - 1")
    secret = None if token is None else hashlib.sha256(token.encode()).hexdigest()
    return _adopt(_native.Communicator.connect((rank, world), address, secret, dict(_state.overrides)))


def _adopt(native: _native.Communicator) -> Communicator:
    """Makes a new communicator the default one. No lock is held while ranks wait for each other, so that other threads may be ranks too."""
    made = Communicator(native)
    check_settings(made)
    with _state.lock:
        _state.adopt(native)
        _state.default = made
    return made


def _are_numbers(rank: object, world: object) -> bool:
    return all(hasattr(number, "__index__") and not isinstance(number, bool) for number in (rank, world))


def is_initialized() -> bool:
    """Whether there is a default communicator."""
    return _state.default is not None


def check_settings(communicator: Communicator) -> None:
    """Raises `SettingMismatchError` on every rank where the ranks' programs have set different values. A collective call."""
    own = [f"{name} to {value!r}" for name, value in sorted(_state.overrides.items())]
    own += [f"the precision to {_state.wire}"] if _state.wire is not None else []
    check_agreement(communicator, "what the program sets by hcomm.config", " and ".join(own) or "nothing")


def check_agreement(communicator: Communicator, name: str, value: str) -> None:
    """Raises `SettingMismatchError` on every rank where the ranks' values differ. A collective call."""
    if communicator.world == 1:
        return
    own = hashlib.sha256(value.encode()).digest()
    digests = bytearray(len(own) * communicator.world)
    communicator.all_gather(own, digests)
    if digests == own * communicator.world:
        return
    text = value.encode()[:TEXT_BYTES].ljust(TEXT_BYTES, b"\0")
    texts = bytearray(TEXT_BYTES * communicator.world)
    communicator.all_gather(text, texts)
    values = [texts[at : at + TEXT_BYTES].rstrip(b"\0").decode(errors="replace") for at in range(0, len(texts), TEXT_BYTES)]
    shown = ", ".join(f"rank {rank}: {value}" for rank, value in enumerate(values))
    raise SettingMismatchError(f"{name} differs between the ranks ({shown}); expected the same on all", name=name, values=values)


TEXT_BYTES = 512
"""What of a rank's value others are shown."""
