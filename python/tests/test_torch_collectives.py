"""Every operation of torch.distributed on tensors of the CPU, with every type that it takes."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import torch.distributed as dist  # noqa: E402
from samples import TORCH  # noqa: E402
from torch_ranks import grouped, own, same, sums, world  # noqa: E402

WORLDS = [1, 2, 3]
COUNT = 12
OTHERS = ["float8_e4m3fnuz", "float8_e5m2fnuz", "complex32"]
"""Types that move, but do not reduce."""


@pytest.mark.parametrize("ranks", WORLDS)
def test_every_dtype(ranks):
    grouped(ranks, _every_dtype)


def _every_dtype(rank):
    for name in TORCH:
        _reductions(rank, name)
    for name in TORCH:
        _moves(rank, name)
    for name in OTHERS:
        _moves(rank, name)


def _reductions(rank, name):
    expected = sums(world(), COUNT * world(), name)
    mine = slice(COUNT * rank, COUNT * (rank + 1))
    buffer = own(rank, COUNT * world(), name)
    assert dist.all_reduce(buffer) is None
    same(buffer, expected)
    work = dist.all_reduce(other := own(rank, COUNT * world(), name), async_op=True)
    assert work.wait() and work.is_completed()
    same(other, expected)
    for root in range(world()):
        dist.reduce(buffer := own(rank, COUNT * world(), name), dst=root)
        if rank == root:
            same(buffer, expected)
    inputs = list(own(rank, COUNT * world(), name).chunk(world()))
    dist.reduce_scatter(output := torch.zeros_like(inputs[0]), inputs)
    same(output, expected[mine])
    dist.reduce_scatter_tensor(output := torch.zeros_like(inputs[0]), own(rank, COUNT * world(), name))
    same(output, expected[mine])


def _moves(rank, name):
    parts = [numbers_of(each, name) for each in range(world())]
    for root in range(world()):
        dist.broadcast(buffer := parts[rank].clone(), src=root)
        same(buffer, parts[root])
        outputs = [torch.zeros_like(parts[0]) for _ in parts] if rank == root else None
        dist.gather(parts[rank], outputs, dst=root)
        for found, expected in zip(outputs or [], parts, strict=False):
            same(found, expected)
        dist.scatter(output := torch.zeros_like(parts[0]), [each.clone() for each in parts] if rank == root else None, src=root)
        same(output, parts[rank])
    dist.all_gather(outputs := [torch.zeros_like(parts[0]) for _ in parts], parts[rank])
    for found, expected in zip(outputs, parts, strict=True):
        same(found, expected)
    dist.all_gather_into_tensor(output := torch.zeros(COUNT * world(), dtype=parts[0].dtype), parts[rank])
    _same_bits(output, parts)
    exchanged = [_block(parts[each], rank) for each in range(world())]
    dist.all_to_all_single(output := torch.zeros_like(parts[0]), parts[rank])
    _same_bits(output, exchanged)
    dist.all_to_all(outputs := [torch.zeros_like(each) for each in exchanged], [_block(parts[rank], each) for each in range(world())])
    _same_bits(outputs, exchanged)


def numbers_of(rank, name):
    """Of types in which torch can compute nothing, bytes."""
    if name in OTHERS:
        dtype = getattr(torch, name)
        return own(rank, COUNT * dtype.itemsize, "uint8").view(dtype)
    return own(rank, COUNT, name)


def _block(part, at):
    size = COUNT // world()
    return part[at * size : (at + 1) * size]


def _same_bits(found, expected):
    """Types that torch cannot concatenate are compared as bytes."""
    as_bytes = lambda tensors: torch.cat([each.contiguous().view(torch.uint8) for each in tensors])  # noqa: E731
    same(as_bytes([found] if isinstance(found, torch.Tensor) else found), as_bytes(expected))


FOLDS = {
    "SUM": lambda parts: torch.stack(parts).sum(0),
    "AVG": lambda parts: torch.stack(parts).double().mean(0),
    "PRODUCT": lambda parts: torch.stack(parts).prod(0),
    "MIN": lambda parts: torch.stack(parts).amin(0),
    "MAX": lambda parts: torch.stack(parts).amax(0),
    "BAND": lambda parts: _bits(parts, torch.bitwise_and),
    "BOR": lambda parts: _bits(parts, torch.bitwise_or),
    "BXOR": lambda parts: _bits(parts, torch.bitwise_xor),
}
BITWISE = ("BAND", "BOR", "BXOR")


def _bits(parts, fold):
    result = parts[0]
    for part in parts[1:]:
        result = fold(result, part)
    return result


@pytest.mark.parametrize("ranks", [2, 3])
def test_every_reduction(ranks):
    grouped(ranks, _every_reduction)


def _every_reduction(rank):
    for op, fold in FOLDS.items():
        for name in ("uint8", "int32", "int64", "float32", "float64", "bfloat16"):
            if op in BITWISE and "float" in name:
                continue
            dtype = getattr(torch, name)
            # Multiples of the world size, so that an average is exact.
            parts = [((torch.arange(19) * (each + 2) + each) % 3 * world()).to(dtype) for each in range(world())]
            expected = fold(parts).to(dtype)
            reduction = getattr(dist.ReduceOp, op)
            dist.all_reduce(buffer := parts[rank].clone(), reduction)
            same(buffer, expected)
            dist.reduce(buffer := parts[rank].clone(), dst=world() - 1, op=reduction)
            if rank == world() - 1:
                same(buffer, expected)
            dist.reduce_scatter_tensor(output := torch.zeros_like(expected), parts[rank].repeat(world()), reduction)
            same(output, expected)
    for factor in (0.5, 4, torch.tensor([3.0])):
        dist.all_reduce(buffer := own(rank, 9), dist._make_nccl_premul_sum(factor))
        same(buffer, sums(world(), 9) * float(factor))
    with pytest.raises((ValueError, RuntimeError), match="(?i)band|bitwise"):
        dist.all_reduce(own(rank, 9), dist.ReduceOp.BAND)
    dist.all_reduce(buffer := own(rank, 9))
    same(buffer, sums(world(), 9))


@pytest.mark.parametrize("ranks", [2, 3])
def test_blocks_of_different_sizes(ranks):
    grouped(ranks, _different_sizes)


def _different_sizes(rank):
    sizes = [2 * each if each != 1 else 0 for each in range(world())]
    dist.all_gather(outputs := [torch.zeros(size, 3) for size in sizes], own(rank, 3 * sizes[rank]).view(-1, 3))
    for each, found in enumerate(outputs):
        same(found, own(each, 3 * sizes[each]).view(-1, 3))
    inputs = list(own(rank, sum(sizes)).split(sizes))
    dist.reduce_scatter(output := torch.zeros(sizes[rank]), inputs)
    same(output, sums(world(), sum(sizes)).split(sizes)[rank])
    table = [[(2 * i + 3 * j + i * j) % 4 for j in range(world())] for i in range(world())]
    came = [row[rank] for row in table]
    output = torch.zeros(sum(came), 2)
    dist.all_to_all_single(output, own(rank, 2 * sum(table[rank])).view(-1, 2), came, table[rank])
    expected = [own(each, 2 * sum(row)).view(-1, 2).split(row)[rank] for each, row in enumerate(table)]
    same(output, torch.cat(expected))
    outputs = [torch.zeros(size, 2) for size in came]
    dist.all_to_all(outputs, list(own(rank, 2 * sum(table[rank])).view(-1, 2).split(table[rank])))
    same(torch.cat(outputs), torch.cat(expected))


def test_layouts():
    grouped(3, _layouts)


def _layouts(rank):
    expected = sums(3, 24)
    turned = own(rank, 24).view(4, 6).t().contiguous().t()
    dist.all_reduce(turned)
    same(turned.contiguous(), expected.view(4, 6))
    wide = torch.zeros(24, 2)
    wide[:, 0] = own(rank, 24)
    dist.all_reduce(wide[:, 0])
    same(wide[:, 0].contiguous(), expected)
    assert not bool(wide[:, 1].any())
    dist.all_reduce(scalar := torch.tensor(rank + 1.0))
    assert scalar.item() == 6
    dist.all_reduce(torch.empty(0, 4))
    # Views of one tensor, one after the other and not.
    whole = torch.zeros(3, 24)
    dist.all_gather(list(whole.unbind(0)), own(rank, 24))
    same(whole, torch.stack([own(each, 24) for each in range(3)]))
    columns = torch.zeros(24, 3)
    dist.all_gather(list(columns.unbind(1)), own(rank, 24))
    same(columns, torch.stack([own(each, 24) for each in range(3)], 1))
    grown = own(rank, 5).requires_grad_()
    dist.all_reduce(grown.detach())
    same(grown.detach(), sums(3, 5))


def test_several_at_once():
    grouped(2, _several)


def _several(rank):
    buffers = [own(rank, 5), own(rank, 7), own(rank, 6, "int64")]
    dist.all_reduce_coalesced(buffers[:2])
    same(buffers[0], sums(2, 5))
    same(buffers[1], sums(2, 7))
    dist.all_gather_coalesced([[torch.zeros(5), torch.zeros(7)] for _ in range(2)], [own(rank, 5), own(rank, 7)])
    lists = [[torch.zeros(5), torch.zeros(7)] for _ in range(2)]
    dist.all_gather_coalesced(lists, [own(rank, 5), own(rank, 7)])
    for each in range(2):
        same(lists[each][0], own(each, 5))
        same(lists[each][1], own(each, 7))
    with dist._coalescing_manager(async_ops=True) as manager:
        for buffer in (first := own(rank, 5), second := own(rank, 900)):
            dist.all_reduce(buffer)
    manager.wait()
    same(first, sums(2, 5))
    same(second, sums(2, 900))
    with dist._coalescing_manager():
        dist.all_gather_into_tensor(gathered := torch.zeros(10), own(rank, 5))
        dist.all_gather_into_tensor(also := torch.zeros(14), own(rank, 7))
    same(gathered, torch.cat([own(0, 5), own(1, 5)]))
    same(also, torch.cat([own(0, 7), own(1, 7)]))
    with dist._coalescing_manager():
        dist.reduce_scatter_tensor(scattered := torch.zeros(5), own(rank, 10))
        dist.reduce_scatter_tensor(too := torch.zeros(7), own(rank, 14))
    same(scattered, sums(2, 10).chunk(2)[rank])
    same(too, sums(2, 14).chunk(2)[rank])


def test_objects():
    grouped(3, _objects)


def _objects(rank):
    mine = {"rank": rank, "text": "x" * (50 * rank), "tensor": own(rank, 3).tolist()}
    dist.all_gather_object(every := [None] * 3, mine)
    assert [each["rank"] for each in every] == [0, 1, 2] and every[2]["text"] == "x" * 100
    dist.broadcast_object_list(listed := [mine, rank], src=1)
    assert listed[0]["rank"] == 1 and listed[1] == 1
    dist.gather_object(mine, gathered := [None] * 3 if rank == 2 else None, dst=2)
    assert gathered is None or [each["rank"] for each in gathered] == [0, 1, 2]
    dist.scatter_object_list(scattered := [None], [f"for {each}" for each in range(3)] if rank == 0 else None, src=0)
    assert scattered == [f"for {rank}"]
    if rank == 0:
        dist.send_object_list([mine, "and"], dst=2)
    elif rank == 2:
        received = [None, None]
        assert dist.recv_object_list(received, src=0) == 0
        assert received[0]["rank"] == 0 and received[1] == "and"


@pytest.mark.parametrize("ranks", [2, 3])
def test_messages(ranks):
    grouped(ranks, _messages)


def _messages(rank):
    after, before = (rank + 1) % world(), (rank - 1) % world()
    works = [dist.isend(own(rank, size), after, tag=tag) for tag, size in ((3, 4), (9, 6))]
    for tag, size in ((9, 6), (3, 4)):
        assert dist.recv(found := torch.zeros(size), before, tag=tag) == before
        same(found, own(before, size))
    assert all(work.wait() for work in works)
    operations = [
        dist.P2POp(dist.isend, own(rank, 70_000), after),
        dist.P2POp(dist.irecv, big := torch.zeros(70_000), before),
        dist.P2POp(dist.isend, own(rank, 3, "bfloat16"), after, tag=5),
        dist.P2POp(dist.irecv, small := torch.zeros(3, dtype=torch.bfloat16), before, tag=5),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    same(big, own(before, 70_000))
    same(small, own(before, 3, "bfloat16"))
    if rank:
        dist.send(own(rank, 8), 0, tag=2)
        dist.send(own(rank + 10, 8), 0, tag=2)
        return
    senders = [dist.recv(found := torch.zeros(8), tag=2)]
    same(found, own(senders[0], 8))
    for _ in range(2 * (world() - 1) - 1):
        senders.append(dist.recv(torch.zeros(8), tag=2))
    assert sorted(senders) == sorted(2 * list(range(1, world())))


@pytest.mark.parametrize("ranks", [1, 2])
def test_messages_to_oneself(ranks):
    grouped(ranks, _messages_to_oneself)


def _messages_to_oneself(rank):
    """torch refuses `send` and `recv` of oneself; in a batch they are what moves a pipeline's own block."""
    operations = [
        dist.P2POp(dist.isend, own(rank, 70_000), rank),
        dist.P2POp(dist.isend, own(rank + 5, 3, "bfloat16"), rank, tag=5),
        dist.P2POp(dist.irecv, small := torch.zeros(3, dtype=torch.bfloat16), rank, tag=5),
        dist.P2POp(dist.irecv, big := torch.zeros(70_000), rank),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    same(big, own(rank, 70_000))
    same(small, own(rank + 5, 3, "bfloat16"))


def test_sparse():
    grouped(3, _sparse)


def _sparse(rank):
    dense = torch.zeros(4, 5)
    dense[rank, 1], dense[3, rank] = rank + 1.0, 2.0
    hybrid = torch.sparse_coo_tensor(torch.tensor([[rank, rank + 1]]), own(rank, 6).view(2, 3), (5, 3))
    expected = sum(_dense(each) for each in range(3))
    dist.all_reduce(found := dense.to_sparse())
    assert torch.equal(found.to_dense(), expected)
    dist.all_reduce(found := hybrid.clone())
    blocks = sum(torch.sparse_coo_tensor([[each, each + 1]], own(each, 6).view(2, 3), (5, 3)).to_dense() for each in range(3))
    assert torch.equal(found.to_dense(), blocks)
    dist.all_reduce(found := dense.to_sparse(), dist.ReduceOp.AVG)
    assert torch.equal(found.to_dense(), expected / 3)
    dist.all_reduce(nothing := torch.zeros(4, 5).to_sparse())
    assert nothing.to_dense().abs().sum() == 0
    with pytest.raises((ValueError, RuntimeError), match="sum or average"):
        dist.all_reduce(dense.to_sparse(), dist.ReduceOp.MAX)


def _dense(rank):
    dense = torch.zeros(4, 5)
    dense[rank, 1], dense[3, rank] = rank + 1.0, 2.0
    return dense


def test_functional_collectives():
    grouped(2, _functional)


def _functional(rank):
    import torch.distributed._functional_collectives as functional

    group = dist.group.WORLD
    same(functional.all_reduce(own(rank, 6), "sum", group).wait(), sums(2, 6))
    same(functional.all_gather_tensor(own(rank, 6), 0, group).wait(), torch.cat([own(0, 6), own(1, 6)]))
    same(functional.reduce_scatter_tensor(own(rank, 6), "sum", 0, group).wait(), sums(2, 6).chunk(2)[rank])
    exchanged = functional.all_to_all_single(own(rank, 6), None, None, group).wait()
    same(exchanged, torch.cat([own(0, 6).chunk(2)[rank], own(1, 6).chunk(2)[rank]]))
    same(functional.broadcast(own(rank, 6), 1, group).wait(), own(1, 6))
    found = functional.all_reduce_coalesced([own(rank, 3), own(rank, 4)], "sum", group)
    same(found[1].wait(), sums(2, 4))


def test_many_in_flight():
    grouped(2, _many_in_flight)


def _many_in_flight(rank):
    buffers = [own(rank, 10 + each) for each in range(300)]
    works = [dist.all_reduce(buffer, async_op=True) for buffer in buffers]
    for work in reversed(works):
        work.wait()
    for buffer in buffers:
        same(buffer, sums(2, len(buffer)))


def test_strided_tensors_of_types_that_only_move():
    grouped(2, _strided_others)


def _strided_others(rank):
    for name in OTHERS:
        parts = [numbers_of(each, name) for each in range(2)]
        spread = torch.zeros(3 * COUNT, dtype=parts[0].dtype)[::3]
        spread.copy_(parts[rank])
        found = [torch.zeros(2 * COUNT, dtype=parts[0].dtype)[::2] for _ in parts]
        dist.all_gather(found, spread)
        for each, expected in zip(found, parts, strict=True):
            same(each.contiguous(), expected)
        dist.broadcast(spread, src=1)
        same(spread.contiguous(), parts[1])
        scalar = parts[rank][3]
        dist.broadcast(scalar, src=0)
        same(scalar, parts[0][3])
