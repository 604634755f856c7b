"""How the ranks of a group find each other: rank 0 listens and says where, in torch's store or, for reconfiguration, in a handle."""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import os
import secrets
import socket
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from .. import _native, _state
from ..communicator import Communicator
from ..startup import check_settings

KEY = "hcomm"
"""Where rank 0 leaves its address and the group's token."""

PATIENCE = timedelta(seconds=120)
"""How long ranks wait for each other at most, where the group's own timeout is longer."""


def connect_by_store(store: Any, rank: int, world: int, timeout: timedelta) -> _native.Communicator:
    """The communicator of the ranks that share a store (of their own: its keys are taken)."""
    if world == 1:
        return connect(rank, world, "127.0.0.1:1", secrets.token_hex(32), timeout, None)
    if rank == 0:
        listener, address = listen()
        token = secrets.token_hex(32)
        store.set(KEY, json.dumps([address, token]))
    else:
        listener = None
        address, token = json.loads(store.get(KEY))
    made = connect(rank, world, address, token, timeout, listener)
    if rank == 0:
        # All have read it. A store that cannot forget keeps it.
        with contextlib.suppress(NotImplementedError, RuntimeError):
            store.delete_key(KEY)
    return made


def connect(
    rank: int, world: int, address: str, token: str, timeout: timedelta, listener: socket.socket | None
) -> _native.Communicator:
    """A communicator of ranks that know where rank 0 listens."""
    overrides = dict(_state.overrides)
    seconds = timeout.total_seconds()
    overrides.setdefault("HCOMM_DEADLINE", f"{min(max(seconds, 0.001), MOST_SECONDS):.3f}s")
    if "HCOMM_RENDEZVOUS_DEADLINE" not in os.environ:
        patience = min(timeout, PATIENCE).total_seconds()
        overrides.setdefault("HCOMM_RENDEZVOUS_DEADLINE", f"{max(patience, 0.001):.3f}s")
    descriptor = None if listener is None else listener.detach()
    made = _native.Communicator.connect((rank, world), address, token, overrides, descriptor)
    check_settings(Communicator(made))
    return _state.adopt(made)


MOST_SECONDS = 30 * 24 * 3600
"""The longest deadline that the engine takes."""


def listen() -> tuple[socket.socket, str]:
    """A socket that the other ranks can reach, and its address."""
    host = _own_host()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, 0), family=family)
    port = listener.getsockname()[1]
    return listener, f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _own_host() -> str:
    """The address by which this machine reaches the one that torch's ranks meet at: who reaches that reaches this."""
    meeting = os.environ.get("MASTER_ADDR", "")
    with contextlib.suppress(OSError):
        for family, kind, _, _, place in socket.getaddrinfo(meeting or "localhost", 1, type=socket.SOCK_DGRAM):
            # Connecting a datagram socket sends nothing.
            with socket.socket(family, kind) as probe:
                probe.connect(place)
                host = str(probe.getsockname()[0])
                if ipaddress.ip_address(host.split("%")[0]).version == 4 or ":" in host:
                    return host
    return "127.0.0.1"


class Handle:
    """What a process gives its peers so that they can be reconfigured together: where it listens. One process of them becomes rank 0."""

    def __init__(self) -> None:
        self._listener, address = listen()
        self.text = json.dumps({"hcomm": address, "nonce": secrets.token_hex(8)})

    def members(self, handles: Any) -> list[str]:
        """The handles by rank: a list says the ranks, a set is put in order by its texts.

        Raises `ValueError` where they are no handles, one stands twice, or this process's is not among them.
        """
        members = sorted(handles) if isinstance(handles, (set, frozenset)) else list(handles)
        if len(set(members)) != len(members):
            raise ValueError("a handle stands twice among those of a reconfiguration")
        if self.text not in members:
            raise ValueError("this process's handle is not among those of the reconfiguration; it changes with each one")
        for member in members:
            _address(member)
        return members

    def connect(self, uuid: int, members: list[str], timeout: timedelta) -> tuple[int, int, _native.Communicator]:
        """This process's rank, the world size, and the communicator of the processes whose handles these are."""
        rank, world = members.index(self.text), len(members)
        token = hashlib.sha256(json.dumps([uuid, members]).encode()).hexdigest()
        listener = self._listener if rank == 0 else None
        if rank != 0:
            self._listener.close()
        return rank, world, connect(rank, world, _address(members[0]), token, timeout, listener)

    def close(self) -> None:
        """Stops listening."""
        self._listener.close()


def _address(handle: str) -> str:
    """Where the process of a handle listens."""
    try:
        address = json.loads(handle)["hcomm"]
    except (ValueError, KeyError, TypeError):
        address = None
    if not isinstance(address, str):
        raise ValueError(f"'{handle}' is no handle of hcomm's")
    return address


def default_timeout() -> timedelta:
    """torch's, for groups without one."""
    return dist.distributed_c10d.default_pg_timeout
