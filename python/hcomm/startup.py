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
    that all ranks share and others do not know.

    A second call without arguments gives the same communicator.

    Raises `RendezvousError` with the ranks that did not come, `EnvironmentError` for variables that make no sense, `SettingError` for a setting
    that does not exist, `SettingMismatchError` where the ranks have set different values by `hcomm.config`.

    >>> import hcomm
    >>> comm = hcomm.init()
    >>> comm.rank, comm.world
    (0, 1)
    >>> comm.close()
    """
    explicit = (rank, world, address)
    with _state.lock:
        if token is not None and address is None:
            raise RefusedError("a token goes with rank, world and address; HCOMM_TOKEN is that of the environment")
        if all(value is None for value in explicit):
            if _state.default is not None:
                return _state.default
            native = _native.Communicator.from_environment(_state.overrides)
        elif rank is None or world is None or address is None:
            raise RefusedError("rank, world and address go together; give all three, or none to take them from the environment")
        elif not _are_numbers(rank, world):
            raise RefusedError(f"rank is {rank!r} and world {world!r}; expected two whole numbers, such as int(os.environ['RANK'])")
        elif not 0 <= rank < world:
            raise RefusedError(f"rank {rank} of a world of {world}; expected 0 to world - 1")
        else:
            secret = hashlib.sha256((token or address).encode()).hexdigest()
            native = _native.Communicator.connect((rank, world), address, secret, _state.overrides)
        made = Communicator(native)
        check_settings(made)
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
