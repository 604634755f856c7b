"""Times `torch.distributed.all_reduce` on hcomm and on gloo, in turns in the same processes, and prints the ratios.

    hcomm launch -n 2 python python/benches/all_reduce.py

The times are medians over the rounds; a ratio is that of the medians. What is measured is what a program waits: Python, torch's dispatcher and all.
"""

from __future__ import annotations

import statistics
import time

import torch
import torch.distributed as dist

SIZES = [1 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20]
ROUNDS = 7


def seconds(group: dist.ProcessGroup, tensor: torch.Tensor, calls: int) -> float:
    """Of one call, over `calls` in a row."""
    dist.barrier(group)
    start = time.perf_counter()
    for _ in range(calls):
        dist.all_reduce(tensor, group=group)
    return (time.perf_counter() - start) / calls


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("hcomm")
    groups = {"hcomm": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    if dist.get_rank() == 0:
        print(f"{'bytes':>10}  {'hcomm':>10}  {'gloo':>10}  gloo/hcomm")
    for size in SIZES:
        tensor = torch.zeros(size // 4)
        calls = max(3, min(500, (64 << 20) // size))
        times: dict[str, list[float]] = {name: [] for name in groups}
        for _ in range(ROUNDS):
            for name, group in groups.items():
                times[name].append(seconds(group, tensor, calls))
        ours, theirs = (statistics.median(times[name]) * 1e6 for name in ("hcomm", "gloo"))
        if dist.get_rank() == 0:
            print(f"{size:>10}  {ours:>7.1f} us  {theirs:>7.1f} us  {theirs / ours:>9.2f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
