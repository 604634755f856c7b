"""Which objects calls take, how their elements may lie, and what is refused."""

import array
import ctypes

import ml_dtypes
import numpy as np
import pytest
from processes import ranks
from samples import NUMPY, numbers, same, total

import hcomm

COUNT = 23


def poisoned(shape, dtype):
    """Bytes that no result has all over."""
    made = np.empty(shape, dtype)
    made.reshape(-1).view(np.uint8)[:] = 0x5A
    return made


@pytest.mark.parametrize("world", [1, 2, 3])
def test_every_numpy_dtype(world):
    ranks(world, _every_dtype)


def _every_dtype(comm):
    for dtype in NUMPY:
        own, sums = numbers(comm.rank, COUNT, dtype), total(comm.world, COUNT, dtype)
        in_place = own.copy()
        assert comm.all_reduce(in_place) is in_place
        same(in_place, sums)
        apart = poisoned(COUNT, dtype)
        assert comm.all_reduce_into(own, apart) is apart
        same(apart, sums)
        same(own, numbers(comm.rank, COUNT, dtype))
        gathered = poisoned(COUNT * comm.world, dtype)
        comm.all_gather(own, gathered)
        same(gathered, np.concatenate([numbers(rank, COUNT, dtype) for rank in range(comm.world)]))
        listed = [own.copy(), own[:5].copy(), own[:0].copy()]
        comm.all_reduce(listed)
        same(listed[0], sums)
        same(listed[1], sums[:5])


def test_all_bit_patterns_move_as_they_are():
    ranks(2, _bit_patterns)


def _bit_patterns(comm):
    for dtype in NUMPY:
        if dtype == bool:
            continue
        size = 64 * 16
        parts = [np.random.default_rng(rank).integers(0, 256, size, "u1").view(dtype) for rank in range(comm.world)]
        gathered = poisoned(size // dtype.itemsize * comm.world, dtype)
        comm.all_gather(parts[comm.rank], gathered)
        same(gathered, np.concatenate(parts))


def arrangements(values):
    """The same elements, laid out in every way: (name, array, what holds its memory)."""
    rows = values.reshape(4, 6)
    spread, wide = poisoned(48, values.dtype), poisoned((8, 9), values.dtype)
    spread[::2] = values
    wide[::2, 1:7] = rows
    flipped = values[::-1].copy()
    fortran = np.asfortranarray(rows)
    cube = values.reshape(2, 3, 4).transpose(2, 0, 1).copy().transpose(1, 2, 0)
    raw = bytearray(values.nbytes + 1)
    unaligned = np.frombuffer(raw, values.dtype, offset=1)
    unaligned[:] = values
    return [
        ("strided", spread[::2], spread),
        ("window", wide[::2, 1:7], wide),
        ("negative", flipped[::-1], flipped),
        ("negative rows", rows[::-1].copy()[::-1], rows),
        ("fortran", fortran, fortran),
        ("transposed cube", cube, cube),
        ("ones in the shape", values.copy().reshape(1, 24, 1), values),
        ("unaligned", unaligned, raw),
    ]


def test_every_arrangement():
    ranks(3, _every_arrangement)


def _every_arrangement(comm):
    for dtype in ("i2", "f4", "c16", ml_dtypes.bfloat16):
        own, sums = numbers(comm.rank, 24, dtype), total(comm.world, 24, dtype)
        for name, laid_out, _ in arrangements(own):
            comm.all_reduce(laid_out)
            assert laid_out.ravel().tobytes() == sums.tobytes(), (name, dtype)
        for name, laid_out, _ in arrangements(own):
            comm.all_reduce_async(laid_out).wait()
            assert laid_out.ravel().tobytes() == sums.tobytes(), (name, dtype)
        for (name, laid_out, _), (_, to, _) in zip(arrangements(own), arrangements(poisoned(24, dtype)), strict=True):
            comm.all_reduce_into(laid_out, to)
            assert to.ravel().tobytes() == sums.tobytes(), (name, dtype)
            assert laid_out.ravel().tobytes() == own.tobytes(), (name, dtype)


def test_what_lies_between_strided_elements_stays():
    ranks(2, _between)


def _between(comm):
    memory = np.full((6, 5), -7, "i4")
    memory[1:6:2, 4:0:-2] = numbers(comm.rank, 6, "i4").reshape(3, 2)
    comm.all_reduce(memory[1:6:2, 4:0:-2])
    expected = np.full((6, 5), -7, "i4")
    expected[1:6:2, 4:0:-2] = total(comm.world, 6, "i4").reshape(3, 2)
    same(memory, expected)


def test_ranks_may_lay_out_differently():
    ranks(3, _differently)


def _differently(comm):
    own = numbers(comm.rank, 24, "f8")
    laid_out = [array for name, array, _ in arrangements(own) if name in ("fortran", "negative", "strided")][comm.rank]
    comm.all_reduce(laid_out)
    same(laid_out.ravel(), total(comm.world, 24, "f8"))


def test_no_dimension_and_no_elements():
    ranks(2, _scalar_and_empty)


def _scalar_and_empty(comm):
    scalar = np.array(comm.rank + 0.5)
    comm.all_reduce(scalar)
    assert scalar == 2.0
    for shape in ((0,), (0, 5), (3, 0, 2)):
        empty = np.empty(shape, "f4")
        assert comm.all_reduce(empty) is empty
        comm.all_gather(empty, empty.copy())
    comm.all_reduce([])
    comm.all_reduce([np.empty(0, "f4"), np.empty(0, "i8")])


def test_lists_of_mixed_types_and_layouts():
    ranks(2, _lists)


def _lists(comm):
    own = numbers(comm.rank, 24, "f4")
    arrays = [array for _, array, _ in arrangements(own)] + [numbers(comm.rank, 7, "i8"), numbers(comm.rank, 9, "f4"), np.array(0.0)]
    assert comm.all_reduce(arrays) is arrays
    for array_ in arrays[:8]:
        assert array_.ravel().tobytes() == total(2, 24, "f4").tobytes()
    same(arrays[8], total(2, 7, "i8"))
    same(arrays[9], total(2, 9, "f4"))
    parts = (numbers(comm.rank, 5, "f4"), numbers(comm.rank, 3, "u1")[::2])
    assert comm.all_reduce_async(parts).wait() is parts
    same(parts[1], total(2, 3, "u1")[::2])


def test_arrays_of_a_list_that_overlap():
    ranks(2, _overlapping_list)


def _overlapping_list(comm):
    memory = numbers(comm.rank, 9)
    for listed in ([memory, memory], [memory[:5], memory[4:]], [memory[6:], numbers(0, 3), memory]):
        for call in (comm.all_reduce, lambda given: comm.all_reduce_async(given).wait()):
            with pytest.raises(hcomm.errors.OverlapError):
                call(listed)
    same(memory, numbers(comm.rank, 9))
    # The root only reads.
    comm.broadcast([memory, memory] if comm.rank == 0 else [np.empty(9, "f4"), np.empty(9, "f4")])
    same(comm.all_reduce(memory), total(2, 9))


def test_strided_arrays_overlap_where_they_share_a_byte():
    ranks(1, _sharing)


def _sharing(comm):
    """Pairs of views of one block of memory; what NumPy finds by its own search is what is refused."""
    random = np.random.default_rng(5)
    seen = {True: 0, False: 0}
    for _ in range(3000):
        dtype = np.dtype(random.choice(["u1", "i2", "f4", "c16"]))
        memory = np.zeros(4096, "u1")
        pair = [view(random, memory, dtype) for _ in range(2)]
        shared = np.shares_memory(*pair)
        seen[shared] += 1
        try:
            comm.all_reduce(pair)
            assert not shared, described(pair)
        except hcomm.errors.OverlapError:
            assert shared, described(pair)
    assert min(seen.values()) > 300, seen


def view(random, memory, dtype):
    """A view of the memory: a matrix, some of its rows and columns, a transposition or a reversal of them."""
    columns = int(random.integers(2, 12))
    start = int(random.integers(0, 3)) * dtype.itemsize + int(random.choice([0, 0, 0, 1]))
    rows = min(12, (memory.size - start) // dtype.itemsize // columns)
    matrix = memory[start : start + rows * columns * dtype.itemsize].view(dtype).reshape(rows, columns)
    first, step = random.integers(0, 3, 2)
    row, skip = random.integers(0, 3, 2)
    cut = matrix[row % rows :: skip + 1, first % columns :: step + 1]
    cut = cut[:, : int(random.integers(1, cut.shape[1] + 1))]
    if random.integers(0, 2):
        cut = cut[::-1]
    return cut.T if random.integers(0, 2) else cut


def described(pair):
    return [(one.dtype, one.shape, one.strides, one.__array_interface__["data"][0]) for one in pair]


def test_columns_in_flight_at_once():
    ranks(2, _columns)


def _columns(comm):
    matrix, peer = np.zeros((500, 4)), 1 - comm.rank
    other = comm.duplicate()
    # As in a halo exchange: the edges are received and sent while the inner columns are reduced, in either order.
    works = [comm.recv_async(matrix[:, 0], peer, tag=1), other.recv_async(matrix[:, 3], peer, tag=2)]
    calls = [(comm, matrix[:, 1]), (other, matrix[:, 2])]
    for each, column in calls if comm.rank == 0 else calls[::-1]:
        column[...] = comm.rank + 1
        works.append(each.all_reduce_async(column))
    for each, tag in ((other, 2), (comm, 1)):
        each.send(np.full(500, comm.rank + 10.0 * tag), peer, tag=tag)
    for work in works:
        work.wait()
    assert (matrix == [peer + 10, 3, 3, peer + 20]).all(), matrix[:3]


def test_calls_on_an_array_in_use_return_at_once():
    ranks(2, _in_use)


def _in_use(comm):
    memory, other = np.zeros((300, 2), "f4"), comm.duplicate()
    strided, peer = memory[:, 1], 1 - comm.rank
    if comm.rank == 0:
        works = [comm.recv_async(strided, peer, tag=tag) for tag in (1, 1, 2)]
        works.append(comm.send_async(strided, peer, tag=3))
        works.append(comm.all_reduce_async(strided, precision="bf16"))
    other.barrier()
    if comm.rank == 1:
        for value, tag in ((5, 1), (6, 1), (7, 2)):
            comm.send(np.full(300, value, "f4"), peer, tag=tag)
        comm.recv(found := np.zeros(300, "f4"), peer, tag=3)
        assert (found == 7).all()
        same(comm.all_reduce(np.ones(300, "f4"), precision="bf16"), np.full(300, 8, "f4"))
        return
    for work in works:
        work.wait()
    assert (memory == [0, 8]).all()


def test_neighbours_in_memory_count_as_one():
    ranks(2, _neighbours)


def _neighbours(comm):
    memory = numbers(comm.rank, 20, "f4")
    comm.all_reduce([memory[:8], memory[8:9], memory[9:20]])
    same(memory, total(2, 20, "f4"))


def test_messages_of_lists():
    ranks(2, _messages_of_lists)


def _messages_of_lists(comm):
    lengths = (300, 1, 7)
    if comm.rank == 0:
        comm.send([numbers(at, length) for at, length in enumerate(lengths)], 1)
        comm.send([numbers(5, 12).reshape(3, 4).T, numbers(6, 3)], 1)
    else:
        found = [poisoned(length, "f4") for length in lengths]
        assert comm.recv(found, 0) == (0, 308)
        check_blocks(found, [numbers(at, length) for at, length in enumerate(lengths)])
        turned, rest = poisoned((4, 3), "f4"), poisoned(6, "f4")
        comm.recv([turned, rest[::2]], 0)
        same(turned, numbers(5, 12).reshape(3, 4).T.copy())
        same(rest[::2].copy(), numbers(6, 3))


def test_blocks_that_lie_apart():
    ranks(3, _apart)


def _apart(comm):
    rank, world = comm.rank, comm.world
    for dtype in ("u1", "f4", "c16"):
        for count in (0, 1, 24, 30_000):
            parts = [numbers(each, count * world, dtype) for each in range(world)]
            blocks = [np.split(part, world) for part in parts]
            sums = np.split(total(world, count * world, dtype), world)
            own = [block.copy() for block in blocks[rank]]
            found = [poisoned(count, dtype) for _ in range(world)]
            check_blocks(comm.all_gather(own[1], found), [blocks[each][1] for each in range(world)])
            check_blocks(comm.all_to_all(own, found), [blocks[each][rank] for each in range(world)])
            same(comm.reduce_scatter(own, poisoned(count, dtype)), sums[rank])
            gathered = comm.gather(own[0], found if rank == 1 else None, root=1)
            check_blocks(gathered or [], [blocks[each][0] for each in range(world)] if rank == 1 else [])
            same(comm.scatter(own if rank == 2 else None, poisoned(count, dtype), root=2), blocks[2][rank])
            check_blocks(own, blocks[rank])


def check_blocks(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        same(one, other)


def test_blocks_laid_out_in_every_way():
    ranks(3, _apart_and_strided)


def _apart_and_strided(comm):
    own = [numbers(comm.rank + at, 24) for at in range(comm.world)]
    ways = len(arrangements(own[0]))
    for way in range(ways):
        given = [arrangements(block)[(way + at) % ways][1] for at, block in enumerate(own)]
        found = [arrangements(poisoned(24, "f4"))[(way + 3 * at) % ways][1] for at in range(comm.world)]
        comm.all_to_all(given, found)
        for at, block in enumerate(found):
            same(block.ravel(), numbers(at + comm.rank, 24))


def test_an_input_that_is_one_of_the_outputs():
    ranks(2, _own_block)


def _own_block(comm):
    found = [numbers(comm.rank, 9) for _ in range(comm.world)]
    comm.all_gather(found[comm.rank], found)
    check_blocks(found, [numbers(0, 9), numbers(1, 9)])
    given = [numbers(comm.rank, 9), numbers(comm.rank, 9)]
    comm.reduce_scatter(given, given[comm.rank])
    same(given[comm.rank], total(2, 9))
    given = [numbers(comm.rank, 9), numbers(comm.rank + 5, 9)]
    comm.all_to_all(given, given[::-1])
    check_blocks(given[::-1], [numbers(comm.rank * 5, 9), numbers(1 + comm.rank * 5, 9)])


def test_buffers_that_are_no_numpy():
    ranks(2, _buffers)


def _buffers(comm):
    own = numbers(comm.rank, 12, "u1")
    raw = bytearray(own.tobytes())
    assert comm.all_reduce(raw) is raw
    assert raw == total(2, 12, "u1").tobytes()
    view = memoryview(bytearray(own.tobytes())).cast("B", (3, 4))
    comm.all_reduce(view)
    assert view.tobytes() == total(2, 12, "u1").tobytes()
    every_other = memoryview(bytearray(own.tobytes()))[::2]
    comm.all_reduce(every_other)
    assert every_other.tobytes() == total(2, 12, "u1")[::2].tobytes()
    for code in "bBhHiIlLqQfd":
        values = array.array(code, numbers(comm.rank, 12, code).tolist())
        comm.all_reduce(values)
        assert values.tolist() == total(2, 12, code).tolist(), code
    numbers_of_c = (ctypes.c_int32 * 12)(*numbers(comm.rank, 12, "i4").tolist())
    comm.all_reduce(numbers_of_c)
    assert list(numbers_of_c) == total(2, 12, "i4").tolist()
    gathered = bytearray(24)
    comm.all_gather(own.tobytes(), gathered)
    assert gathered == numbers(0, 12, "u1").tobytes() + numbers(1, 12, "u1").tobytes()


class OnlyDLPack:
    """Something of which nothing is known but that it speaks DLPack."""

    def __init__(self, array_, versions=True):
        self.array = array_
        self.versions = versions
        self.dtype = array_.dtype

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        if not self.versions and options:
            raise TypeError("no options here")
        return self.array.__dlpack__(**options)


def test_dlpack():
    ranks(2, _dlpack)


def _dlpack(comm):
    for dtype in "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64 complex128".split():
        own, sums = numbers(comm.rank, 24, dtype), total(2, 24, dtype)
        for versions in (True, False):
            for name, laid_out, _ in arrangements(own):
                if name in ("unaligned",):
                    continue
                comm.all_reduce(OnlyDLPack(laid_out, versions))
                assert laid_out.ravel().tobytes() == sums.tobytes(), (dtype, name, versions)
    listed = [OnlyDLPack(numbers(comm.rank, 5)), OnlyDLPack(numbers(comm.rank, 6))]
    comm.all_reduce(listed)
    same(listed[1].array, total(2, 6))


class OfDates(np.ndarray):
    """Its buffer has no format for its elements, but it speaks DLPack, as arrays of JAX do whose elements are bfloat16."""

    def __dlpack_device__(self):
        return self.shown.__dlpack_device__()

    def __dlpack__(self, **options):
        return self.shown.__dlpack__(**options)


def test_where_one_way_fails_the_next_is_taken():
    ranks(2, _next_way)


def _next_way(comm):
    given = np.zeros(5, "M8[s]").view(OfDates)
    given.shown = numbers(comm.rank, 5)
    comm.all_reduce(given)
    same(given.shown, total(2, 5))


class OnAnotherDevice(OnlyDLPack):
    def __dlpack_device__(self):
        return (2, 0)


def readonly(array_):
    array_.flags.writeable = False
    return array_


def repeated():
    return np.lib.stride_tricks.as_strided(np.zeros(4, "f4"), (3, 4), (0, 4), writeable=True)


UNUSABLE = [
    (lambda: np.zeros(3, ">f4"), TypeError, "f"),
    (lambda: np.zeros(3, ">c16"), TypeError, "Zd"),
    (lambda: np.array([1, "two", None]), TypeError, "O"),
    (lambda: np.array(["one", "three"]), TypeError, "w"),
    (lambda: np.array([b"one", b"three"]), TypeError, "s"),
    (lambda: np.zeros(3, "m8[s]"), (TypeError, ValueError), "m"),
    (lambda: np.zeros(3, [("a", "i4"), ("b", "f4")]), TypeError, "T{"),
    (lambda: np.zeros(3, np.longdouble), TypeError, "g"),
    (lambda: np.zeros(3, ml_dtypes.float8_e4m3b11fnuz), TypeError, "float8_e4m3b11fnuz"),
    (lambda: np.zeros(3, ml_dtypes.int4), TypeError, "int4"),
    (lambda: "text", TypeError, "str"),
    (lambda: 3.5, TypeError, "float"),
    (lambda: [1, 2], TypeError, "int"),
    (lambda: {"a": 1}, TypeError, "dict"),
    (lambda: OnAnotherDevice(np.zeros(3)), TypeError, "device type 2"),
    (lambda: readonly(np.zeros(3)), BufferError, "read-only"),
    (lambda: readonly(np.zeros(6))[::2], BufferError, "read-only"),
    (lambda: readonly(np.zeros(3, ml_dtypes.bfloat16)), BufferError, "read-only"),
    (lambda: OnlyDLPack(readonly(np.zeros(3))), BufferError, "read-only"),
    (lambda: b"bytes", BufferError, "read-only"),
    (lambda: np.broadcast_to(np.zeros(4), (3, 4)), BufferError, "read-only"),
    (repeated, ValueError, "share memory"),
    (lambda: np.lib.stride_tricks.as_strided(np.zeros(6), (4, 3), (8, 8), writeable=True), ValueError, "share memory"),
]


@pytest.mark.parametrize("at", range(len(UNUSABLE)))
def test_unusable(at):
    ranks(2, _unusable, at)


def _unusable(comm, at):
    make, kind, words = UNUSABLE[at]
    for call in (comm.all_reduce, comm.all_reduce_async, lambda output: comm.all_reduce_into(np.zeros(3, "f4"), output)):
        with pytest.raises(kind, match=words) as caught:
            call(make())
        assert "Error {" not in str(caught.value)
    # Nothing has been sent, and the next call is as good as the first.
    same(comm.all_reduce(numbers(comm.rank, 5)), total(2, 5))


def test_inputs_may_be_readonly_and_repeat():
    ranks(2, _readonly_inputs)


def _readonly_inputs(comm):
    found = np.empty((3, 4), "f4")
    comm.all_reduce_into(np.broadcast_to(numbers(comm.rank, 4), (3, 4)), found)
    same(found, np.broadcast_to(total(2, 4), (3, 4)).copy())
    given = numbers(0, 6)
    given.flags.writeable = comm.rank != 0
    comm.broadcast(given if comm.rank == 0 else np.empty(6, "f4"))
    source = readonly(numbers(comm.rank, 6))
    if comm.rank == 0:
        comm.send(source, 1)
    else:
        received = np.empty(6, "f4")
        comm.recv(received, 0)
        same(received, numbers(0, 6))


def test_overlap_without_being_in_place():
    ranks(2, _overlap)


def _overlap(comm):
    memory = numbers(comm.rank, 12)
    for input, output in ((memory[:8], memory[4:]), (memory[4:], memory[:8])):
        with pytest.raises(hcomm.errors.OverlapError):
            comm.all_reduce_into(input, output)
    same(comm.all_reduce(numbers(comm.rank, 5)), total(2, 5))


def test_the_same_memory_is_in_place():
    ranks(2, _same_memory)


def _same_memory(comm):
    memory = numbers(comm.rank, 12)
    comm.all_reduce_into(memory, memory[:])
    same(memory, total(2, 12))
    blocks = np.zeros(24, "f4")
    blocks[12 * comm.rank :][:12] = numbers(comm.rank, 12)
    comm.all_gather(blocks[12 * comm.rank :][:12], blocks)
    same(blocks, np.concatenate([numbers(0, 12), numbers(1, 12)]))
    scattered = numbers(comm.rank, 12)
    comm.reduce_scatter(scattered, scattered[6 * comm.rank :][:6])
    same(scattered[6 * comm.rank :][:6], total(2, 12)[6 * comm.rank :][:6])


def test_arrays_live_as_long_as_their_operations():
    ranks(2, _kept)


def _kept(comm):
    import gc

    work = None
    if comm.rank == 0:
        work = comm.recv_async(np.zeros(1000, "f8")[::2], 1)
        gc.collect()
        filler = [np.full(1000, 7.0) for _ in range(50)]
    comm.barrier()
    if comm.rank == 1:
        comm.send(numbers(1, 500, "f8"), 0)
    else:
        assert work.wait() == (1, 500)
        assert all((block == 7.0).all() for block in filler)
    raw = bytearray(8)
    pending = comm.recv_async(raw, 1 - comm.rank)
    with pytest.raises(BufferError):
        raw.extend(b"more")
    comm.barrier()
    comm.send(bytes(range(8)), 1 - comm.rank)
    pending.wait()
    assert raw == bytes(range(8))
