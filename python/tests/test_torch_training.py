"""What trains models over process groups: DDP, FSDP, DTensor, optimizers that share their state, checkpoints. Where gloo does the same, bit for bit
the same comes out.
"""

import os
import warnings

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

# Each takes seconds to import, which the ranks would spend by themselves.
import torch._dynamo  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as checkpoint  # noqa: E402
import torch.distributed.fsdp  # noqa: E402
import torch.distributed.optim  # noqa: E402
import torch.distributed.pipelining  # noqa: E402
import torch.distributed.tensor  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch_ranks import grouped, own, same, sums  # noqa: E402

BACKENDS = ["hcomm", "gloo"]


def model():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 64), nn.LayerNorm(64), nn.Linear(64, 5))


def trained(wrapped, rank, steps=6, optimizer=None):
    """Trains on data that differ by rank and step; the losses."""
    optimizer = optimizer or torch.optim.AdamW(wrapped.parameters(), lr=1e-2)
    random = torch.Generator().manual_seed(100 + rank)
    losses = []
    for _ in range(steps):
        inputs, targets = torch.randn(8, 20, generator=random), torch.randint(5, (8,), generator=random)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(wrapped(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def bits(parameters):
    return [parameter.detach().clone().view(torch.uint8).numpy().tobytes() for parameter in parameters]


def compared(world, body, *args):
    """Both backends' results on all ranks; the ranks' parameters and, on two ranks, those of the two backends are the same bits. (A sum of three
    depends on its order.)
    """
    by_backend = [grouped(world, body, *args, backend=backend) for backend in BACKENDS]
    for results in by_backend:
        for result in results[1:]:
            assert result[0] == results[0][0], "the ranks' parameters differ"
    if world == 2:
        assert by_backend[0] == by_backend[1], "the backends' results differ"
    for found, expected in zip(*by_backend, strict=True):
        assert torch.allclose(torch.tensor(found[1]), torch.tensor(expected[1]), rtol=1e-3)
    return by_backend[0]


@pytest.mark.parametrize("world", [2, 3])
def test_ddp_is_what_it_is_by_gloo(world):
    results = compared(world, _ddp)
    assert len({tuple(losses) for _, losses in results}) == world


def _ddp(rank):
    # Small buckets, so that there are several.
    wrapped = DistributedDataParallel(model(), bucket_cap_mb=0.01)
    losses = trained(wrapped, rank)
    return bits(wrapped.module.parameters()), losses


def test_ddp_with_buffers_and_unused_parameters():
    compared(2, _ddp_unusual)


class Unusual(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.norm, self.used, self.other = nn.BatchNorm1d(20), nn.Linear(20, 5), nn.Linear(20, 5)
        self.steps = 0

    def forward(self, inputs):
        self.steps += 1
        return (self.used if self.steps % 2 else self.other)(self.norm(inputs))


def _ddp_unusual(rank):
    wrapped = DistributedDataParallel(Unusual(), find_unused_parameters=True)
    losses = trained(wrapped, rank)
    with wrapped.no_sync():
        wrapped(torch.ones(4, 20)).sum().backward()
    return bits(wrapped.module.parameters()), losses


def test_hook_is_the_default_in_fp32():
    results = grouped(2, _hooked, None)
    assert results[0] == results[1] == grouped(2, _hooked, "none")[0]


def test_hook_in_fewer_bits():
    exact = grouped(2, _hooked, None)[0]
    for precision in ("fp16", "bf16"):
        results = grouped(2, _hooked, precision)
        assert results[0] == results[1] != exact


def _hooked(rank, precision):
    from hcomm.torch import DdpHook, ddp_hook

    wrapped = DistributedDataParallel(model(), bucket_cap_mb=0.01)
    if precision != "none":
        wrapped.register_comm_hook(None if precision is None else DdpHook(precision=precision), ddp_hook)
    losses = trained(wrapped, rank)
    assert losses[-1] < losses[0] * 2
    return bits(wrapped.module.parameters())


def test_hook_sends_half_the_bytes():
    grouped(2, _hook_bytes)


def _hook_bytes(rank):
    import hcomm
    from hcomm.torch import DdpHook, ddp_hook

    sent = []
    for precision in ("fp32", "fp16"):
        wrapped = DistributedDataParallel(model())
        wrapped.register_comm_hook(DdpHook(precision=precision), ddp_hook)
        hcomm.enable_profiling()
        wrapped(torch.ones(2, 20)).sum().backward()
        sent.append(hcomm.get_profile_stats()["all_reduce"]["bytes"])
    size = sum(parameter.numel() for parameter in model().parameters())
    assert sent == [4 * size, 2 * size]


def test_hook_rounds_as_it_says():
    grouped(2, _hook_rounds)


def _hook_rounds(rank):
    from hcomm.torch import DdpHook, ddp_hook

    wrapped = DistributedDataParallel(nn.Linear(7, 1, bias=False))
    wrapped.register_comm_hook(DdpHook(precision="fp16"), ddp_hook)
    inputs = [torch.linspace(0.1, 0.9, 7) * (each + 1) for each in range(2)]
    wrapped(inputs[rank]).sum().backward()
    halves = [each.half().float() / 2 for each in inputs]
    assert torch.allclose(wrapped.module.weight.grad[0], (halves[0] + halves[1]), rtol=2e-3, atol=0)
    assert torch.equal(wrapped.module.weight.grad, wrapped.module.weight.grad.half().float())


def test_hook_refuses_other_backends():
    grouped(1, _hook_of_gloo, backend="gloo")


def _hook_of_gloo(rank):
    from hcomm.torch import ddp_hook

    wrapped = DistributedDataParallel(nn.Linear(3, 3))
    wrapped.register_comm_hook(None, ddp_hook)
    with pytest.raises((TypeError, RuntimeError), match="hcomm's hook needs a process group of hcomm's"):
        wrapped(torch.ones(2, 3)).sum().backward()


def test_fsdp2_is_what_it_is_by_gloo():
    compared(2, _fsdp2)


def _fsdp2(rank):
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    wrapped = model()
    for part in (wrapped[0], wrapped[2]):
        fully_shard(part, mesh=mesh)
    fully_shard(wrapped, mesh=mesh)
    losses = trained(wrapped, rank)
    return bits([parameter.full_tensor() for parameter in wrapped.parameters()]), losses


def test_fsdp1():
    grouped(2, _fsdp1)


def _fsdp1(rank):
    from torch.distributed.fsdp import FullyShardedDataParallel

    warnings.simplefilter("ignore")
    try:
        wrapped = FullyShardedDataParallel(model(), device_id=torch.device("cpu"))
        losses = trained(wrapped, rank)
    except RuntimeError as error:
        pytest.fail(f"FSDP1: {error}")
    reference = DistributedDataParallel(model())
    expected = trained(reference, rank)
    assert torch.allclose(torch.tensor(losses), torch.tensor(expected), rtol=1e-4)
    with FullyShardedDataParallel.summon_full_params(wrapped):
        for found, wanted in zip(wrapped.parameters(), reference.module.parameters(), strict=True):
            assert torch.allclose(found.flatten(), wanted.flatten(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("world", [2, 3])
def test_dtensor(world):
    grouped(world, _dtensor)


def _dtensor(rank):
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

    world = dist.get_world_size()
    mesh = init_device_mesh("cpu", (world,))
    whole = torch.arange(7.0 * 5).view(7, 5) + 1
    placements = [Replicate(), Shard(0), Shard(1)]
    for before in placements:
        spread = distribute_tensor(whole, mesh, [before])
        for after in placements:
            moved = spread.redistribute(mesh, [after])
            same(moved.full_tensor(), whole)
            if isinstance(after, Shard):
                same(moved.to_local().contiguous(), whole.chunk(world, after.dim)[rank].contiguous())
    partial = DTensor.from_local(own(rank, 12).view(4, 3), mesh, [Partial()])
    same(partial.redistribute(mesh, [Replicate()]).to_local(), sums(world, 12).view(4, 3))
    same(partial.redistribute(mesh, [Shard(0)]).full_tensor(), sums(world, 12).view(4, 3))
    product = distribute_tensor(whole, mesh, [Shard(1)]) @ distribute_tensor(whole.t().contiguous(), mesh, [Shard(0)])
    same(product.full_tensor(), whole @ whole.t())


def test_device_mesh_of_two_dimensions():
    grouped(4, _mesh)


def _mesh(rank):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    assert tuple(mesh.get_coordinate()) == (rank // 2, rank % 2)
    dist.all_reduce(buffer := own(rank, 5), group=mesh.get_group("tensor"))
    same(buffer, own(rank // 2 * 2, 5) + own(rank // 2 * 2 + 1, 5))
    dist.all_reduce(buffer := own(rank, 5), group=mesh["data"].get_group())
    same(buffer, own(rank % 2, 5) + own(rank % 2 + 2, 5))


def test_zero_redundancy_optimizer():
    compared(2, _zero)


def _zero(rank):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    wrapped = DistributedDataParallel(model())
    optimizer = ZeroRedundancyOptimizer(wrapped.parameters(), optimizer_class=torch.optim.Adam, lr=1e-2)
    losses = trained(wrapped, rank, optimizer=optimizer)
    optimizer.consolidate_state_dict(to=1)
    if rank == 1:
        assert len(optimizer.state_dict()["state"]) == len(list(wrapped.parameters()))
    return bits(wrapped.module.parameters()), losses


def test_checkpoint(tmp_path):
    grouped(2, _checkpoint, str(tmp_path))
    assert os.listdir(tmp_path)
    # By as many ranks as not, and by another backend.
    grouped(3, _restored, str(tmp_path))
    grouped(1, _restored, str(tmp_path), backend="gloo")


def _sharded(mesh, scale):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    whole = (torch.arange(9.0 * 4).view(9, 4) + 1) * scale
    return {"sharded": distribute_tensor(whole, mesh, [Shard(0)]), "whole": distribute_tensor(whole, mesh, [Replicate()]), "step": 7 * scale}


def _checkpoint(rank, folder):
    warnings.simplefilter("ignore")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    checkpoint.save(_sharded(mesh, 1), checkpoint_id=folder)


def _restored(rank, folder):
    warnings.simplefilter("ignore")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    state = _sharded(mesh, 0)
    checkpoint.load(state, checkpoint_id=folder)
    expected = torch.arange(9.0 * 4).view(9, 4) + 1
    same(state["sharded"].full_tensor(), expected)
    same(state["whole"].to_local(), expected)
    assert state["step"] == 7


def test_pipeline_stages_send_to_each_other():
    grouped(2, _pipeline)


def _pipeline(rank):
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    torch.manual_seed(1)
    stages = [nn.Linear(4, 6), nn.Linear(6, 2)]
    inputs = torch.arange(8.0 * 4).view(8, 4) / 10
    stage = PipelineStage(stages[rank], rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    if rank == 0:
        schedule.step(inputs)
    else:
        output = schedule.step(target=torch.zeros(8, 2), losses=[])
        assert torch.allclose(output, stages[1](stages[0](inputs)), rtol=1e-5)
    assert all(parameter.grad is not None for parameter in stages[rank].parameters())
