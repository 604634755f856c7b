"""Every call of a communicator, blocking and not, in worlds of one to four."""

import inspect

import numpy as np
import pytest
from processes import ranks
from samples import numbers, same, total

import hcomm
from hcomm.calls import Calls

COUNT = 37
WORLDS = [1, 2, 3, 4]


def blocking(comm, name):
    return getattr(comm, name)


def background(comm, name):
    """The call's form with `_async`, waited for; where there is none, the call."""
    start = getattr(comm, f"{name}_async", None)
    if start is None:
        return getattr(comm, name)
    return lambda *args, **options: start(*args, **options).wait()


FORMS = [blocking, background]


def gathered(world, count=COUNT):
    return np.concatenate([numbers(rank, count) for rank in range(world)])


def counts(world):
    """Elements of every rank's block; one of them has none."""
    return [0 if rank == world // 2 and world > 1 else 3 + 4 * rank for rank in range(world)]


def block(values, sizes, rank):
    start = sum(sizes[:rank])
    return values[start : start + sizes[rank]]


def pairs(world):
    """What rank i sends to rank j, as a table of elements."""
    return [[(2 * i + 3 * j + i * j) % 5 for j in range(world)] for i in range(world)]


def all_reduce(comm, form):
    buffer = numbers(comm.rank, COUNT)
    assert form(comm, "all_reduce")(buffer) is buffer
    same(buffer, total(comm.world, COUNT))


def all_reduce_into(comm, form):
    output = np.full(COUNT, -1, "f4")
    assert form(comm, "all_reduce_into")(numbers(comm.rank, COUNT), output, "max") is output
    same(output, numbers(comm.world - 1, COUNT))


def reduce_scatter(comm, form):
    output = np.full(COUNT, -1, "f4")
    assert form(comm, "reduce_scatter")(numbers(comm.rank, COUNT * comm.world), output) is output
    same(output, total(comm.world, COUNT * comm.world)[COUNT * comm.rank :][:COUNT])


def reduce_scatter_in_place(comm, form):
    buffer = numbers(comm.rank, COUNT * comm.world)
    assert form(comm, "reduce_scatter_in_place")(buffer) is buffer
    own = slice(COUNT * comm.rank, COUNT * (comm.rank + 1))
    same(buffer[own], total(comm.world, COUNT * comm.world)[own])


def reduce_scatter_v(comm, form):
    sizes = counts(comm.world)
    output = np.full(sizes[comm.rank], -1, "f4")
    assert form(comm, "reduce_scatter_v")(numbers(comm.rank, sum(sizes)), output, sizes) is output
    same(output, block(total(comm.world, sum(sizes)), sizes, comm.rank))


def reduce(comm, form):
    for root in range(comm.world):
        buffer = numbers(comm.rank, COUNT)
        assert form(comm, "reduce")(buffer, root=root) is buffer
        if comm.rank == root:
            same(buffer, total(comm.world, COUNT))


def reduce_into(comm, form):
    for root in range(comm.world):
        input, output = numbers(comm.rank, COUNT), np.full(COUNT, -1, "f4") if comm.rank == root else None
        assert form(comm, "reduce_into")(input, output, "sum", root) is output
        same(input, numbers(comm.rank, COUNT))
        if comm.rank == root:
            same(output, total(comm.world, COUNT))


def all_gather(comm, form):
    output = np.full(COUNT * comm.world, -1, "f4")
    assert form(comm, "all_gather")(numbers(comm.rank, COUNT), output) is output
    same(output, gathered(comm.world))


def all_gather_in_place(comm, form):
    buffer = np.full(COUNT * comm.world, -1, "f4")
    buffer[COUNT * comm.rank :][:COUNT] = numbers(comm.rank, COUNT)
    assert form(comm, "all_gather_in_place")(buffer) is buffer
    same(buffer, gathered(comm.world))


def all_gather_v(comm, form):
    sizes = counts(comm.world)
    output = np.full(sum(sizes), -1, "f4")
    assert form(comm, "all_gather_v")(numbers(comm.rank, sizes[comm.rank]), output, sizes) is output
    same(output, np.concatenate([numbers(rank, size) for rank, size in enumerate(sizes)]))


def broadcast(comm, form):
    for root in range(comm.world):
        buffer = numbers(comm.rank, COUNT)
        assert form(comm, "broadcast")(buffer, root) is buffer
        same(buffer, numbers(root, COUNT))
        listed = [numbers(comm.rank, 5), numbers(comm.rank, 3, "i8")]
        form(comm, "broadcast")(listed, root=root)
        same(listed[1], numbers(root, 3, "i8"))


def gather(comm, form):
    for root in range(comm.world):
        output = np.full(COUNT * comm.world, -1, "f4") if comm.rank == root else None
        assert form(comm, "gather")(numbers(comm.rank, COUNT), output, root) is output
        if comm.rank == root:
            same(output, gathered(comm.world))


def gather_v(comm, form):
    sizes = counts(comm.world)
    for root in range(comm.world):
        output = np.full(sum(sizes), -1, "f4") if comm.rank == root else None
        given = sizes if comm.rank == root else None
        assert form(comm, "gather_v")(numbers(comm.rank, sizes[comm.rank]), output, given, root) is output
        if comm.rank == root:
            same(output, np.concatenate([numbers(rank, size) for rank, size in enumerate(sizes)]))


def scatter(comm, form):
    for root in range(comm.world):
        input = numbers(root, COUNT * comm.world) if comm.rank == root else None
        output = np.full(COUNT, -1, "f4")
        assert form(comm, "scatter")(input, output, root) is output
        same(output, numbers(root, COUNT * comm.world)[COUNT * comm.rank :][:COUNT])


def scatter_v(comm, form):
    sizes = counts(comm.world)
    for root in range(comm.world):
        is_root = comm.rank == root
        output = np.full(sizes[comm.rank], -1, "f4")
        input = numbers(root, sum(sizes)) if is_root else None
        assert form(comm, "scatter_v")(input, sizes if is_root else None, output, root) is output
        same(output, block(numbers(root, sum(sizes)), sizes, comm.rank))


def all_to_all(comm, form):
    output = np.full(COUNT * comm.world, -1, "f4")
    assert form(comm, "all_to_all")(numbers(comm.rank, COUNT * comm.world), output) is output
    same(output, _exchanged(comm))


def all_to_all_in_place(comm, form):
    buffer = numbers(comm.rank, COUNT * comm.world)
    assert form(comm, "all_to_all_in_place")(buffer) is buffer
    same(buffer, _exchanged(comm))


def _exchanged(comm):
    return np.concatenate([numbers(rank, COUNT * comm.world)[COUNT * comm.rank :][:COUNT] for rank in range(comm.world)])


def all_to_all_v(comm, form):
    table = pairs(comm.world)
    sent, came = table[comm.rank], [row[comm.rank] for row in table]
    output = np.full(sum(came), -1, "f4")
    assert form(comm, "all_to_all_v")(numbers(comm.rank, sum(sent)), sent, output, came) is output
    same(output, np.concatenate([block(numbers(rank, sum(row)), row, comm.rank) for rank, row in enumerate(table)]))


def barrier(comm, form):
    assert form(comm, "barrier")() is None


def send(comm, form):
    """Around the ring, which may be one rank, two tags out of order, then from whichever comes first."""
    after, before = (comm.rank + 1) % comm.world, (comm.rank - 1) % comm.world
    works = [comm.send_async(numbers(comm.rank, size), after, tag) for tag, size in ((1, 5), (2, 9), (1, 6))]
    found = np.full(12, -1, "f4")
    for tag, size in ((2, 9), (1, 5), (1, 6)):
        assert form(comm, "recv")(found, before, tag) == (before, size)
        same(found[:size], numbers(before, size))
    assert [work.wait() for work in works] == [None] * 3
    comm.barrier()
    if comm.rank == 0:
        _receive_from_any(comm, form)
    else:
        assert form(comm, "send")(numbers(comm.rank, 3 + comm.rank, "i4"), 0, 7) is None
        assert form(comm, "send")(numbers(comm.rank, 0, "i4"), 0, 8) is None


recv = send


def _receive_from_any(comm, form):
    for tag, size in ((7, lambda rank: 3 + rank), (8, lambda _: 0)):
        senders = set()
        for _ in range(comm.world - 1):
            found = np.full(12, -1, "i4")
            rank, elements = form(comm, "recv")(found, tag=tag)
            assert elements == size(rank)
            same(found[:elements], numbers(rank, elements, "i4"))
            senders.add(rank)
        assert senders == set(range(1, comm.world))


CASES = {name: value for name, value in list(globals().items()) if inspect.isfunction(getattr(Calls, name, None)) and name[0] != "_"}


def test_every_call_has_a_case():
    calls = {name.removesuffix("_async") for name in vars(Calls) if not name.startswith("_")}
    assert calls == CASES.keys()


def test_the_module_has_every_call():
    public = {name for name in vars(Calls) if not name.startswith("_")}
    for name in public:
        own, method = getattr(hcomm, name), getattr(Calls, name)
        assert own.__doc__ == method.__doc__ and own.__name__ == name
        assert ["self", *inspect.signature(own).parameters] == list(inspect.signature(method).parameters)


@pytest.mark.parametrize("world", WORLDS)
def test_every_call(world):
    ranks(world, _every_call)


def _every_call(comm):
    for case in CASES.values():
        for form in FORMS:
            case(comm, form)
        case(OfModule(), blocking)


class OfModule:
    """The calls of the module, which are those of the default communicator."""

    def __getattr__(self, name):
        made = getattr(hcomm, name)
        return made() if name in ("rank", "world") else made


@pytest.mark.parametrize("world", [2, 3])
def test_every_call_over_tcp(world, monkeypatch):
    monkeypatch.setenv("HCOMM_TRANSPORT", "tcp")
    ranks(world, _every_call_over_tcp)


def _every_call_over_tcp(comm):
    assert all("tcp" in link for rank, link in enumerate(comm.links) if rank != comm.rank)
    for case in CASES.values():
        case(comm, background)
