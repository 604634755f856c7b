"""Times a training step by DistributedDataParallel on hcomm and on gloo, in turns in the same processes, and how much of it is communication that
the program waits for: the step less the same step by DDP with a hook that communicates nothing.

    hcomm launch -n 2 python python/benches/ddp.py

The model has 100 MB of gradients in 25 MB buckets, DDP's usual ones.
"""

from __future__ import annotations

import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from torch.nn.parallel import DistributedDataParallel

import hcomm.torch

WIDTH, LAYERS, BATCH = 2048, 6, 64
ROUNDS = 9


def model() -> nn.Module:
    torch.manual_seed(0)
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH, bias=False), nn.Tanh())]
    return nn.Sequential(*layers)


def seconds(net: DistributedDataParallel, inputs: torch.Tensor, group: dist.ProcessGroup) -> float:
    dist.barrier(group)
    start = time.perf_counter()
    net(inputs).square().mean().backward()
    taken = time.perf_counter() - start
    net.zero_grad(set_to_none=False)
    return taken


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("hcomm")
    gloo = dist.new_group(backend="gloo")
    nets = {
        "nothing": DistributedDataParallel(model()),
        "hcomm": DistributedDataParallel(model()),
        "hcomm, hook": DistributedDataParallel(model()),
        "gloo": DistributedDataParallel(model(), process_group=gloo),
    }
    nets["nothing"].register_comm_hook(None, noop_hook)
    nets["hcomm, hook"].register_comm_hook(None, hcomm.torch.ddp_hook)
    inputs = torch.randn(BATCH, WIDTH)
    times: dict[str, list[float]] = {name: [] for name in nets}
    for turn in range(ROUNDS + 2):
        for name, net in nets.items():
            taken = seconds(net, inputs, gloo)
            if turn >= 2:
                times[name].append(taken)
    # Of both ranks: a step ends when the slower one does.
    steps = torch.tensor([statistics.median(times[name]) for name in nets])
    dist.all_reduce(steps, op=dist.ReduceOp.MAX)
    nothing, *others = steps.tolist()
    if dist.get_rank() == 0:
        gradients = sum(p.numel() for p in nets["gloo"].parameters()) * 4 / 1e6
        print(f"{gradients:.0f} MB of gradients; a step without communication {nothing * 1e3:.1f} ms")
        for name, step in zip(list(nets)[1:], others, strict=True):
            share = (step - nothing) / (others[-1] - nothing)
            print(f"{name:>12}: step {step * 1e3:7.1f} ms, exposed {(step - nothing) * 1e3:7.1f} ms, {share:.2f} of gloo's")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
