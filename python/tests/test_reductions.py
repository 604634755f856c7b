"""Every reduction, by every name that calls take."""

import numpy as np
import pytest
from processes import ranks
from samples import numbers, same

import hcomm

FOLDS = {
    "sum": lambda parts: sum(parts[1:], parts[0]),
    "average": lambda parts: (sum(part.astype("f8") for part in parts) / len(parts)),
    "product": lambda parts: np.multiply.reduce(parts),
    "min": lambda parts: np.minimum.reduce(parts),
    "max": lambda parts: np.maximum.reduce(parts),
    "band": lambda parts: np.bitwise_and.reduce(parts),
    "bor": lambda parts: np.bitwise_or.reduce(parts),
    "bxor": lambda parts: np.bitwise_xor.reduce(parts),
    "land": lambda parts: np.logical_and.reduce(parts),
    "lor": lambda parts: np.logical_or.reduce(parts),
    "lxor": lambda parts: np.logical_xor.reduce(parts),
}
BITWISE = ("band", "bor", "bxor")


def test_the_reductions_are_all_here():
    assert {str(op) for op in hcomm.ReduceOp} == FOLDS.keys()


@pytest.mark.parametrize("world", [2, 4])
def test_every_reduction(world):
    ranks(world, _every_reduction)


def _every_reduction(comm):
    for op in hcomm.ReduceOp:
        for dtype in ("u1", "i4", "i8", "f4", "f8"):
            if op in BITWISE and dtype.startswith("f"):
                continue
            # Small and with zeros, so that products and averages are exact and logical ones differ.
            parts = [((np.arange(29) * (rank + 2) + rank) % 4).astype(dtype) for rank in range(comm.world)]
            expected = FOLDS[op](parts).astype(dtype)
            same(comm.all_reduce(parts[comm.rank].copy(), op), expected)
            same(comm.all_reduce(parts[comm.rank].copy(), str(op)), expected)
            own = np.full(29, 77, dtype)
            comm.reduce_scatter(np.tile(parts[comm.rank], comm.world), own, op)
            same(own, expected)
            buffer = parts[comm.rank].copy()
            comm.reduce_async(buffer, op, comm.world - 1).wait()
            if comm.rank == comm.world - 1:
                same(buffer, expected)


def test_aliases_and_premultiplied_sums():
    ranks(2, _aliases)


def _aliases(comm):
    for alias, name in hcomm.ops.ALIASES.items():
        same(comm.all_reduce(numbers(comm.rank, 9, "f8"), alias), comm.all_reduce(numbers(comm.rank, 9, "f8"), name))
    for factor in (0.5, -3, 0.1, 1e-3):
        expected = sum(numbers(rank, 9, "f8") * factor for rank in range(2))
        assert np.allclose(comm.all_reduce(numbers(comm.rank, 9, "f8"), hcomm.premul_sum(factor)), expected, rtol=1e-15)
    same(comm.all_reduce(np.array([-7, 7, 3], "i4"), "avg"), np.array([-7, 7, 3], "i4"))
    same(comm.all_reduce(np.array([-7, 7, 3], "i4") * comm.rank, "avg"), np.array([-3, 3, 1], "i4"))
    found = comm.all_reduce(np.array([np.nan, 1, -0.0], "f4") if comm.rank else np.array([1, np.nan, 0.0], "f4"), "min")
    assert np.isnan(found[:2]).all() and np.signbit(found[2])


def test_calls_in_the_background_reduce_as_they_are_told():
    ranks(3, _in_background)


def _in_background(comm):
    parts = [np.arange(12, dtype="f8") * (7 - rank) - 3 * rank for rank in range(3)]
    least, own = np.minimum.reduce(parts), parts[comm.rank]
    rest = {"priority": 1, "timeout": 30}
    same(comm.all_reduce_async(own.copy(), "min", **rest).wait(), least)
    same(comm.all_reduce_async([own.copy()], "min", **rest).wait()[0], least)
    same(comm.all_reduce_into_async(own, np.empty(12), "min", **rest).wait(), least)
    same(comm.reduce_scatter_async(own, np.empty(4), "min", **rest).wait(), least[4 * comm.rank :][:4])
    sizes = [5, 0, 7]
    block = least[sum(sizes[: comm.rank]) :][: sizes[comm.rank]]
    same(comm.reduce_scatter_v_async(own, np.empty(sizes[comm.rank]), sizes, "min", **rest).wait(), block)
    same(comm.reduce_scatter_v(own, np.empty(sizes[comm.rank]), sizes, "min"), block)
    for call in (comm.reduce_async, comm.reduce):
        found = call(own.copy(), "min", 2)
        found = found.wait() if isinstance(found, hcomm.Work) else found
        if comm.rank == 2:
            same(found, least)
    output = np.empty(12) if comm.rank == 1 else None
    comm.reduce_into_async(own, output, "min", 1, **rest).wait()
    if comm.rank == 1:
        same(output, least)


def test_averages_of_integers_do_not_wrap():
    ranks(3, _averages)


def _averages(comm):
    for dtype in ("i1", "u1", "i2", "u2", "i4", "u4"):
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        given = np.array([least, most, most - comm.rank, comm.rank], dtype)
        same(comm.all_reduce(given.copy(), "avg"), np.array([least, most, most - 1, 1], dtype))
        apart = np.zeros(8, dtype)[::2]
        comm.all_reduce_into(given, apart, "avg")
        same(apart.copy(), np.array([least, most, most - 1, 1], dtype))
        blocks = [np.full(5, most, dtype) for _ in range(comm.world)]
        same(comm.reduce_scatter(blocks, np.zeros(5, dtype), "avg"), np.full(5, most, dtype))


def test_overflows_are_counted_and_said_once():
    ranks(2, _overflows)


def _overflows(comm):
    hcomm.enable_profiling()
    with pytest.warns(RuntimeWarning, match="3 elements of all_reduce became infinite") as caught:
        for _ in range(2):
            assert np.isinf(comm.all_reduce(np.full(3, 1e5, "f4"), precision="fp16")).all()
    assert len(caught) == 1
    # Too large only as a sum, and of one rank's only.
    assert np.isinf(comm.all_reduce(np.full(4, 5e4, "f4"), precision="fp16")).all()
    assert np.isinf(comm.all_reduce(np.array([1e5 if comm.rank else 1, 1, np.inf], "f4"), precision="fp16")).sum() == 2
    comm.all_reduce(np.full(3, 1e30, "f4"), precision="bf16")
    counted = hcomm.get_profile_stats()["all_reduce"]["overflows"]
    assert counted == 6 + 4 + (1 if comm.rank else 0), counted
    assert "became infinite" in str(hcomm.get_profile_stats())
