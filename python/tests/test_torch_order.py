"""In which order callbacks of futures run, and where."""

import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch_ranks import grouped, same


def test_callbacks_run_in_the_order_of_the_calls():
    grouped(3, _in_order)


def _in_order(rank):
    # Calls of a callback come between those of the program as it happens, so that they are another group's.
    told, futures, others = [], [], dist.new_group()
    for number in range(12):
        # The first are the longest, so that they end last.
        tensor = torch.full((1 + (11 - number) ** 5,), float(rank))
        future = dist.all_reduce(tensor, async_op=True).get_future()
        futures.append(future.then(lambda done, number=number: _tell(told, number, done.value()[0], others)))
    for future in futures:
        same(future.wait(), torch.tensor(9.0))
    assert told == list(range(12))


def _tell(told, number, reduced, others):
    """Communicates from within a callback, and waits for that, too."""
    told.append(number)
    assert reduced[0] == 3
    time.sleep(0.002 * (number % 3))
    other = torch.tensor(3.0)
    dist.all_reduce(other, group=others, async_op=True).get_future().then(lambda done: done.value()).wait()
    return other


def test_a_message_that_does_not_come_holds_up_nobody():
    grouped(2, _messages)


def _messages(rank):
    received = torch.zeros(3)
    pending = dist.irecv(received, 1 - rank).get_future()
    reduced = dist.all_reduce(torch.ones(2), async_op=True).get_future().wait()
    same(reduced[0], torch.full((2,), 2.0))
    assert not pending.done()
    dist.barrier()
    dist.send(torch.full((3,), float(rank)), 1 - rank)
    same(pending.wait()[0], torch.full((3,), 1.0 - rank))


class _Model(torch.nn.Module):
    def __init__(self, is_checkpointed=False, leaves_out=False):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(24, 24) for _ in range(6))
        self.is_checkpointed, self.leaves_out = is_checkpointed, leaves_out

    def forward(self, input):
        for layer in self.layers[: -1 if self.leaves_out else None]:
            input = checkpoint(layer, input, use_reentrant=True) if self.is_checkpointed else layer(input)
        return input


def _trained(rank, hook, steps=4, is_checkpointed=False, leaves_out=False, **options):
    torch.manual_seed(0)
    model = DistributedDataParallel(_Model(is_checkpointed, leaves_out), bucket_cap_mb=0.003, **options)
    if hook is not None:
        model.register_comm_hook(*hook())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(steps):
        optimizer.zero_grad()
        torch.manual_seed(1 + step * 10 + rank)
        model(torch.randn(5, 24, requires_grad=is_checkpointed)).pow(2).mean().backward()
        optimizer.step()
    own = torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])
    everys = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(everys, own)
    for other in everys:
        same(other, own)
    return own


def _power_sgd():
    return powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook


def test_power_sgd_of_several_buckets():
    grouped(3, lambda rank: _trained(rank, _power_sgd, 10))


def _waiting_hook(_, bucket):
    """Waits, which nobody should in a hook, but may."""
    future = dist.all_reduce(bucket.buffer() / dist.get_world_size(), async_op=True).get_future()
    first = future.then(lambda done: done.value()[0]).wait()
    return dist.all_reduce(torch.zeros(1), async_op=True).get_future().then(lambda _: first)


HOOKS = {
    "none": None,
    "fp16": lambda: (None, default_hooks.fp16_compress_hook),
    "waits": lambda: (None, _waiting_hook),
}
WAYS = {
    "plain": {},
    "static": {"static_graph": True},
    "views": {"gradient_as_bucket_view": True},
    "checkpoints": {"is_checkpointed": True, "static_graph": True},
    "unused": {"find_unused_parameters": True, "leaves_out": True},
}


def test_every_way_of_training():
    grouped(2, _ways)


def _ways(rank):
    for way, options in WAYS.items():
        trained = {name: _trained(rank, hook, **options) for name, hook in HOOKS.items()}
        for name, found in trained.items():
            assert torch.allclose(found, trained["none"], atol=2e-3), (way, name)
