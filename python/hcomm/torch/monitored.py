"""monitored_barrier: a barrier that says who did not come. Everybody reports to rank 0, which answers all of them."""

from __future__ import annotations

import struct
import time
from datetime import timedelta

from .. import _native
from ..errors import DeadlineError, HcommError

TAG = 0xFFFF_FFF0
"""Above all tags that torch can give."""

_REPORT = struct.Struct("<Q")
_ANSWER = struct.Struct("<QQ")


class Monitor:
    """The monitored barriers of one group, by their number: a rank that gave up on one may still hear of it during the next."""

    def __init__(self) -> None:
        self._number = 0

    def barrier(self, communicator: _native.Communicator, timeout: timedelta, wait_all_ranks: bool) -> None:
        """Returns when all ranks have come; raises `RuntimeError` with the ranks that have not, up to `timeout`.

        `wait_all_ranks`: names all that did not come, not just the first.
        """
        self._number += 1
        if communicator.rank == 0:
            self._watch(communicator, timeout, wait_all_ranks)
        else:
            self._report(communicator, timeout)

    def _watch(self, communicator: _native.Communicator, timeout: timedelta, wait_all_ranks: bool) -> None:
        until = time.monotonic() + timeout.total_seconds()
        missing: list[int] = []
        late = False
        for rank in range(1, communicator.world):
            if timeout <= timedelta(0):
                late = True
                break
            try:
                has_come = self._has_come(communicator, rank, max(until - time.monotonic(), 0.001))
            except HcommError as error:
                self._answer(communicator, 1)
                raise RuntimeError(f"Rank {rank} failed to pass monitoredBarrier: {error}") from error
            if not has_come:
                missing.append(rank)
                if not wait_all_ranks:
                    break
        self._answer(communicator, 1 if missing or late else 0)
        within = f"{timeout / timedelta(milliseconds=1):.0f} ms"
        if late:
            raise RuntimeError(f"Rank 0 timed out in monitoredBarrier after {within}.")
        if len(missing) == 1 and not wait_all_ranks:
            raise RuntimeError(f"Rank {missing[0]} failed to pass monitoredBarrier in {within}")
        if missing:
            ranks = ", ".join(map(str, missing))
            raise RuntimeError(f"Ranks {ranks} failed to pass monitoredBarrier in {within}")

    def _has_come(self, communicator: _native.Communicator, rank: int, seconds: float) -> bool:
        report = bytearray(_REPORT.size)
        while True:
            try:
                communicator.recv(report, rank, TAG, {"timeout": seconds}).wait()
            except DeadlineError:
                return False
            if _REPORT.unpack(report)[0] == self._number:
                return True

    def _answer(self, communicator: _native.Communicator, verdict: int) -> None:
        answer = _ANSWER.pack(self._number, verdict)
        for rank in range(1, communicator.world):
            # Fits a slot, so that it does not wait for those who never ask.
            communicator.send(answer, rank, TAG)

    def _report(self, communicator: _native.Communicator, timeout: timedelta) -> None:
        communicator.send(_REPORT.pack(self._number), 0, TAG)
        seconds = max(timeout.total_seconds(), 0.001)
        answer = bytearray(_ANSWER.size)
        cause = "another rank did not come"
        while True:
            try:
                communicator.recv(answer, 0, TAG, {"timeout": seconds}).wait()
            except HcommError as error:
                cause = str(error)
                break
            number, verdict = _ANSWER.unpack(answer)
            if number == self._number and verdict == 0:
                return
            if number == self._number:
                break
        raise RuntimeError(
            f"Rank {communicator.rank} successfully reached monitoredBarrier, but received errors while waiting for send/recv "
            f"from rank 0: {cause}"
        )
