"""Times calls on NumPy arrays whose elements do not lie side by side, against a copy by NumPy before the call (and back after it), in turns.

    hcomm launch -n 2 python python/benches/strided.py

The times are medians over the rounds, of the same 4 MB; a ratio is that of the medians.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

import hcomm

BYTES = 4_000_000
ROUNDS = 21
CALLS = 5


def arrangements(dtype: str) -> dict[str, np.ndarray]:
    """Views of as many elements, by how they lie."""
    count = BYTES // np.dtype(dtype).itemsize
    side = int(count**0.5)
    return {
        "every second": np.zeros(2 * count, dtype)[::2],
        "columns": np.zeros((side, 2 * side), dtype)[:, :side],
        "transposed": np.zeros((side, side), dtype).T,
        "last axis first": np.zeros((64, count // 64 // 32, 32), dtype).transpose(2, 0, 1),
    }


def by_hand(array: np.ndarray) -> None:
    packed = np.ascontiguousarray(array)
    hcomm.all_reduce(packed)
    array[...] = packed


def seconds(call: Callable[[np.ndarray], object], array: np.ndarray) -> float:
    hcomm.barrier()
    start = time.perf_counter()
    for _ in range(CALLS):
        call(array)
    return (time.perf_counter() - start) / CALLS


def main() -> None:
    comm = hcomm.init()
    kinds: dict[str, Callable[[np.ndarray], object]] = {"hcomm": hcomm.all_reduce, "by hand": by_hand}
    if comm.rank == 0:
        print(f"{'layout':>16}  {'type':>5}  {'hcomm':>9}  {'by hand':>9}  ratio")
    for dtype in ("f4", "u1", "c16"):
        for name, array in arrangements(dtype).items():
            times: dict[str, list[float]] = {kind: [] for kind in kinds}
            for turn in range(ROUNDS + 1):
                for kind, call in kinds.items():
                    taken = seconds(call, array)
                    if turn:
                        times[kind].append(taken)
            ours, theirs = (statistics.median(times[kind]) * 1e3 for kind in kinds)
            if comm.rank == 0:
                print(f"{name:>16}  {dtype:>5}  {ours:>6.2f} ms  {theirs:>6.2f} ms  {ours / theirs:>5.2f}", flush=True)


if __name__ == "__main__":
    main()
