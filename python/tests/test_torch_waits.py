"""What the program waits for, as it is counted and as torch.profiler sees it."""

import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile
from torch_ranks import grouped

import hcomm

DELAY = 0.4


def _exposed():
    return sum(row["exposed_time"] for row in hcomm.get_profile_stats().values())


def _late(rank):
    if rank == 1:
        time.sleep(DELAY)


def test_waits_for_futures_are_exposed():
    grouped(2, _futures)


def _futures(rank):
    hcomm.enable_profiling()
    dist.barrier()
    before = _exposed()
    _late(rank)
    future = dist.all_reduce(torch.ones(1000), async_op=True).get_future()
    future.then(lambda done: done.value()).wait()
    waited = _exposed() - before
    assert waited > DELAY / 2 if rank == 0 else waited < DELAY / 2, waited
    dist.barrier()
    before = _exposed()
    future = dist.all_reduce(torch.ones(1000), async_op=True).get_future()
    time.sleep(DELAY)
    future.wait()
    assert _exposed() - before < DELAY / 2, "it was hidden"


class _Late(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input):
        return input.clone()

    @staticmethod
    def backward(ctx, gradient):
        _late(dist.get_rank())
        return gradient


class _Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, input):
        return self.last(_Late.apply(self.first(input)))


def test_what_ddp_waits_for_is_exposed():
    for hook in (False, True):
        grouped(2, _ddp, hook)


def _ddp(rank, is_hooked):
    model = DistributedDataParallel(_Model(), bucket_cap_mb=0.0001)
    if is_hooked:
        model.register_comm_hook(None, hcomm.torch.ddp_hook)
    for _ in range(2):
        model(torch.ones(4, 8)).sum().backward()
    hcomm.enable_profiling()
    dist.barrier()
    before = _exposed()
    model(torch.ones(4, 8)).sum().backward()
    waited = _exposed() - before
    assert waited > DELAY / 2 if rank == 0 else waited < DELAY / 2, waited


def test_the_profiler_sees_whole_operations():
    grouped(2, _profiled)


def _profiled(rank):
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as seen:
        dist.barrier()
        _late(rank)
        work = dist.all_reduce(torch.ones(30, 4), async_op=True)
        torch.ones(3).add(1)
        work.wait()
        dist.barrier()
        _late(rank)
        dist.all_reduce(torch.ones(5))
        outputs = [torch.empty(2, 3), torch.empty(2, 3)]
        dist.all_gather(outputs, torch.ones(2, 3), async_op=True).wait()
        sent = dist.isend(torch.ones(7), 1 - rank)
        dist.irecv(torch.ones(7), 1 - rank).wait()
        sent.wait()
    events = {}
    for event in seen.events():
        events.setdefault(event.name, []).append(event)
    whole, blocking = events["hcomm:all_reduce"]
    assert whole.input_shapes[0] == [30, 4] and blocking.input_shapes[0] == [5]
    assert events["hcomm:all_gather"][0].input_shapes[0] == [2, 3]
    assert events["hcomm:send"][0].input_shapes[0] == events["hcomm:recv"][0].input_shapes[0] == [7]
    assert whole.is_async and not blocking.is_async
    if rank == 0:
        for event in (whole, blocking):
            assert event.time_range.elapsed_us() > DELAY / 2 * 1e6, event
