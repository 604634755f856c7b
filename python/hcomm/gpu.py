"""`enable_gpu_direct`: whether devices' memory can be used without a copy through the host's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GpuDirect:
    """What became of `enable_gpu_direct()`. True as a condition where it took effect."""

    enabled: bool
    """Whether it took effect."""
    reason: str
    """Why not; empty where it did."""

    def __bool__(self) -> bool:
        return self.enabled


def enable_gpu_direct() -> GpuDirect:
    """Asks for messages between devices' memory and the network without a copy through the host's.

    Takes no effect in this version, and says why.

    >>> import hcomm
    >>> bool(hcomm.enable_gpu_direct()), hcomm.enable_gpu_direct().reason
    (False, 'this version of hcomm has transports for memory of the CPU only: shared memory and TCP')
    """
    return GpuDirect(False, "this version of hcomm has transports for memory of the CPU only: shared memory and TCP")
