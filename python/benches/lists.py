"""Times the calls of torch.distributed that take lists of tensors, on hcomm and on gloo, in turns in the same processes, and prints the ratios.

    hcomm launch -n 2 python python/benches/lists.py [BYTES]

BYTES (4 MB) is what all blocks of a list have together. "apart": every tensor has memory of its own, as programs have them; "together": they are
views of one. The times are medians over the rounds; a ratio is that of the medians.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist

ROUNDS = 21
CALLS = 5
Tensors = list[torch.Tensor]


def apart(count: int, dtype: torch.dtype) -> Tensors:
    return [torch.zeros(count // dist.get_world_size(), dtype=dtype) for _ in range(dist.get_world_size())]


def together(count: int, dtype: torch.dtype) -> Tensors:
    return list(torch.zeros(count, dtype=dtype).chunk(dist.get_world_size()))


def calls(inputs: Tensors, outputs: Tensors, group: dist.ProcessGroup) -> dict[str, Callable[[], None]]:
    """By name, the calls that take lists, on these."""
    rank = dist.get_rank()
    own, at_root = inputs[rank], rank == 0
    return {
        "all_gather": lambda: dist.all_gather(outputs, own, group=group),
        "gather": lambda: dist.gather(own, outputs if at_root else None, group=group),
        "scatter": lambda: dist.scatter(outputs[rank], inputs if at_root else None, group=group),
        "reduce_scatter": lambda: dist.reduce_scatter(outputs[rank], inputs, group=group),
        "all_to_all": lambda: dist.all_to_all(outputs, inputs, group=group),
    }


def seconds(call: Callable[[], None]) -> float:
    dist.barrier()
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - start) / CALLS


def main() -> None:
    size = int(float(sys.argv[1])) if len(sys.argv) > 1 else 4_000_000
    torch.set_num_threads(1)
    dist.init_process_group("hcomm")
    gloo = dist.new_group(backend="gloo")
    if dist.get_rank() == 0:
        print(f"{'call':>14}  {'type':>8}  {'apart':>9}  {'together':>9}  {'gloo':>9}  apart/together  apart/gloo")
    for dtype in (torch.float32, torch.uint8):
        count = size // dtype.itemsize
        kinds = {
            "apart": calls(apart(count, dtype), apart(count, dtype), dist.group.WORLD),
            "together": calls(together(count, dtype), together(count, dtype), dist.group.WORLD),
            "gloo": calls(apart(count, dtype), apart(count, dtype), gloo),
        }
        for name in kinds["apart"]:
            times: dict[str, list[float]] = {kind: [] for kind in kinds}
            for turn in range(ROUNDS + 1):
                for kind, made in kinds.items():
                    taken = seconds(made[name])
                    if turn:
                        times[kind].append(taken)
            ours, side_by_side, theirs = (statistics.median(times[kind]) * 1e3 for kind in kinds)
            if dist.get_rank() == 0:
                print(
                    f"{name:>14}  {str(dtype)[6:]:>8}  {ours:>6.2f} ms  {side_by_side:>6.2f} ms  {theirs:>6.2f} ms"
                    f"  {ours / side_by_side:>14.2f}  {ours / theirs:>10.2f}",
                    flush=True,
                )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
