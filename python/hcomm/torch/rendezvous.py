"""How the ranks of a group find each other: rank 0 listens and says where, in torch's store or, for reconfiguration, in a handle."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import selectors
import socket
import time
from datetime import timedelta
from typing import Any, cast

import torch.distributed as dist

from .. import _native, _state
from ..communicator import Communicator
from ..startup import check_settings

KEY = "hcomm"
"""Where rank 0 leaves its addresses and the group's token."""

PATIENCE = timedelta(seconds=120)
"""How long ranks wait for each other at most, where the group's own timeout is longer."""


def connect_by_store(store: Any, rank: int, world: int, timeout: timedelta) -> _native.Communicator:
    """The communicator of the ranks that share a store (of their own: its keys are taken)."""
    if world == 1:
        return connect(rank, world, "127.0.0.1:1", secrets.token_hex(32), timeout, None)
    if rank == 0:
        listener, addresses = listen()
        address, token = addresses[0], secrets.token_hex(32)
        store.set(KEY, json.dumps([addresses, token]))
    else:
        listener = None
        addresses, token = json.loads(store.get(KEY))
        address = reachable(addresses, min(timeout, PATIENCE).total_seconds())
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


def listen() -> tuple[socket.socket, list[str]]:
    """A socket that the other ranks can reach, and the addresses at which they may: those of all interfaces that are up, or of those that
    HCOMM_SOCKET_IFNAME takes. Which of them leads here from another host only that one knows.
    """
    hosts = _native.own_addresses(_state.overrides)
    if socket.has_dualstack_ipv6():
        listener = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    else:
        listener = socket.create_server(("", 0))
    port = listener.getsockname()[1]
    return listener, [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host in hosts]


def reachable(addresses: list[str], seconds: float) -> str:
    """Of the addresses of a process that listens, the one that answers first from here; where none does within the time, the first of them, with
    which the rendezvous goes on to try.
    """
    if len(addresses) == 1:
        return addresses[0]
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        answered = _answering(addresses, min(until, time.monotonic() + ATTEMPT))
        if answered is not None:
            return answered
    return addresses[0]


ATTEMPT = 5.0
"""Seconds after which all addresses are tried again."""


def _answering(addresses: list[str], until: float) -> str | None:
    """The first to take a connection, of several that are tried at once."""
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as waiting:
        for address in addresses:
            host, _, port = address.rpartition(":")
            family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
            with contextlib.suppress(OSError):
                attempt = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
                attempt.setblocking(False)
                attempt.connect_ex((host.strip("[]"), int(port)))
                waiting.register(attempt, selectors.EVENT_WRITE, address)
        while waiting.get_map():
            for key, _ in waiting.select(max(until - time.monotonic(), 0.0)):
                attempt = cast(socket.socket, key.fileobj)
                if attempt.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                    return str(key.data)
                waiting.unregister(attempt)
            if time.monotonic() >= until:
                return None
    # All were refused.
    time.sleep(min(0.05, max(until - time.monotonic(), 0.0)))
    return None


class Handle:
    """What a process gives its peers so that they can be reconfigured together: where it listens. One process of them becomes rank 0."""

    def __init__(self) -> None:
        self._listener, addresses = listen()
        self.text = json.dumps({"hcomm": addresses, "nonce": secrets.token_hex(8)})

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
            _addresses(member)
        return members

    def connect(self, uuid: int, members: list[str], timeout: timedelta) -> tuple[int, int, _native.Communicator]:
        """This process's rank, the world size, and the communicator of the processes whose handles these are."""
        rank, world = members.index(self.text), len(members)
        token = hashlib.sha256(json.dumps([uuid, members]).encode()).hexdigest()
        listener = self._listener if rank == 0 else None
        if rank != 0:
            self._listener.close()
        addresses = _addresses(members[0])
        address = addresses[0] if rank == 0 else reachable(addresses, min(timeout, PATIENCE).total_seconds())
        return rank, world, connect(rank, world, address, token, timeout, listener)

    def close(self) -> None:
        """Stops listening."""
        self._listener.close()


def _addresses(handle: str) -> list[str]:
    """Where the process of a handle listens."""
    try:
        addresses = json.loads(handle)["hcomm"]
    except (ValueError, KeyError, TypeError):
        addresses = None
    if not isinstance(addresses, list) or not addresses or not all(isinstance(address, str) for address in addresses):
        raise ValueError(f"'{handle}' is no handle of hcomm's")
    return addresses


def default_timeout() -> timedelta:
    """torch's, for groups without one."""
    return dist.distributed_c10d.default_pg_timeout
