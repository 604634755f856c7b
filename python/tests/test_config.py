"""Settings by the program: chunk size, precision of the wires, and all others; and what has to agree."""

import os

import numpy as np
import pytest
from processes import processes, ranks, values
from samples import numbers, same, total

import hcomm
from hcomm import errors


def test_chunk_size():
    values(processes(1, _chunk_sizes))


def _chunk_sizes(_):
    assert hcomm.config.chunk_size() == 0
    for size, expected in (("8MB", 8_000_000), ("64KiB", 65536), (65536, 65536), ("1e6", None), ("128", 128), (None, 0)):
        if expected is not None:
            hcomm.config.set_chunk_size(size)
            assert hcomm.config.chunk_size() == expected
    hcomm.config.set_chunk_size("2MiB")
    for wrong in ("a lot", "-1", "12 parsecs", "", "1", 64, "9999GiB"):
        with pytest.raises(errors.SettingError, match="HCOMM_TILE_BYTES"):
            hcomm.config.set_chunk_size(wrong)
        assert hcomm.config.chunk_size() == 2 << 20
    assert "HCOMM_TILE_BYTES='2MiB'" in hcomm.config.describe()
    with pytest.raises(errors.SettingError, match="HCOMM_TILE_BYTES"):
        hcomm.config.set("HCOMM_TILE_BYTS", "4KiB")
    with pytest.raises(errors.SettingError, match="HCOMM_DEPTH"):
        hcomm.config.set("HCOMM_DEPTH", "none")


def test_chunk_size_of_a_communicator():
    values(processes(2, _chunks_of_communicator))


def _chunks_of_communicator(place):
    hcomm.config.set_chunk_size("4KiB")
    comm = place.init()
    assert comm.settings["HCOMM_TILE_BYTES"] == "4KiB"
    same(comm.all_reduce(numbers(comm.rank, 50_000)), total(2, 50_000))
    tiles = hcomm.plan("all_reduce", bytes="1MB").svg()
    hcomm.config.set_chunk_size("16KiB")
    assert comm.settings["HCOMM_TILE_BYTES"] == "16KiB" and hcomm.config.chunk_size() == 16384
    assert hcomm.init() is comm
    assert hcomm.plan("all_reduce", bytes="1MB").svg() != tiles
    same(comm.all_reduce(numbers(comm.rank, 50_000)), total(2, 50_000))
    hcomm.config.set("HCOMM_ALGORITHM", "all_reduce=ring")
    assert hcomm.plan("all_reduce", count=100).algorithm == "ring"
    assert comm.settings["HCOMM_TILE_BYTES"] == "16KiB"
    hcomm.config.set("HCOMM_ALGORITHM", None)
    hcomm.config.set_chunk_size(None)
    assert comm.settings["HCOMM_TILE_BYTES"] in ("0", "0B")
    same(hcomm.all_reduce(numbers(comm.rank, 50_000)), total(2, 50_000))


def test_settings_leave_nothing_behind():
    ranks(2, _nothing_behind)


def _nothing_behind(comm):
    def some():
        for size in ("4KiB", "8KiB") * 5:
            hcomm.config.set_chunk_size(size)
        comm.barrier()

    some()
    before = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), len(hcomm._state.live)
    some()
    assert len(os.listdir("/proc/self/fd")) <= before[0] + 2
    assert len(os.listdir("/proc/self/task")) <= before[1] + 1
    assert len(hcomm._state.live) == before[2] == 1


def test_all_ranks_set_the_same():
    values(processes(3, _different_values))


def _different_values(place):
    comm = place.init()
    for change, name in (
        (lambda: hcomm.config.set_precision("fp16" if comm.rank == 1 else "bf16"), "the precision"),
        (lambda: hcomm.config.set_chunk_size("8KiB" if comm.rank == 1 else "16KiB"), "HCOMM_TILE_BYTES"),
    ):
        with pytest.raises(errors.SettingMismatchError, match="rank 1") as caught:
            change()
        assert caught.value.name == name and len(caught.value.values) == 3
        assert caught.value.values[0] == caught.value.values[2] != caught.value.values[1]
    # Nothing was set.
    assert hcomm.config.precision() == "fp32" and hcomm.config.chunk_size() == 0
    same(comm.all_reduce(numbers(comm.rank, 500)), total(3, 500))


def test_precision_has_to_agree_at_the_start():
    for outcome in processes(2, _precision_at_start):
        assert type(outcome.value) is errors.SettingMismatchError, str(outcome)


def _precision_at_start(place):
    if place.rank == 0:
        hcomm.config.set_precision("bf16")
    try:
        place.init()
    except errors.SettingMismatchError as error:
        return error


PRECISIONS = {"fp16": "f16", "bf16": "bf16"}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_precision(precision):
    ranks(2, _precision, precision)


def narrow_type(precision):
    import ml_dtypes

    return np.dtype("f2") if precision == "fp16" else np.dtype(ml_dtypes.bfloat16)


def fractions(rank, count):
    return (np.random.default_rng(rank).standard_normal(count) * 100).astype("f4")


def folded(precision, count, world=2):
    """Rounded as they are sent, summed in float32, rounded once."""
    narrow = narrow_type(precision)
    return sum(fractions(rank, count).astype(narrow).astype("f4") for rank in range(world)).astype(narrow).astype("f4")


def _precision(comm, precision):
    hcomm.config.set_precision(precision)
    assert hcomm.config.precision() == precision
    expected = folded(precision, 3000)
    assert (expected != fractions(0, 3000) + fractions(1, 3000)).any()
    same(comm.all_reduce(fractions(comm.rank, 3000)), expected)
    same(comm.all_reduce_async(fractions(comm.rank, 3000)).wait(), expected)
    apart, strided = np.empty(3000, "f4"), np.zeros(6000, "f4")[::2]
    same(comm.all_reduce_into(fractions(comm.rank, 3000), apart), expected)
    strided[:] = fractions(comm.rank, 3000)
    same(comm.all_reduce(strided), expected)
    own = np.empty(1500, "f4")
    same(comm.reduce_scatter(fractions(comm.rank, 3000), own), expected[1500 * comm.rank :][:1500])
    root = fractions(comm.rank, 3000)
    comm.reduce(root, root=1)
    if comm.rank == 1:
        same(root, expected)
    listed = [fractions(comm.rank, 3000), numbers(comm.rank, 5, "f8")]
    comm.all_reduce(listed)
    same(listed[0], expected)
    same(listed[1], total(2, 5, "f8"))
    with comm.group() as group:
        group.all_reduce(grouped := fractions(comm.rank, 3000))
    same(grouped, expected)
    _others_are_left_alone(comm)


def _others_are_left_alone(comm):
    """Data that only moves, and other types."""
    gathered = np.empty(200, "f4")
    comm.all_gather(fractions(comm.rank, 100), gathered)
    same(gathered, np.concatenate([fractions(0, 100), fractions(1, 100)]))
    same(comm.broadcast(fractions(comm.rank, 100)), fractions(0, 100))
    same(comm.all_reduce(fractions(comm.rank, 100).astype("f8")), fractions(0, 100).astype("f8") + fractions(1, 100))
    hcomm.config.set_precision("fp32")
    same(comm.all_reduce(fractions(comm.rank, 100)), fractions(0, 100) + fractions(1, 100))
    for per_call in PRECISIONS:
        same(comm.all_reduce(fractions(comm.rank, 100), precision=per_call), folded(per_call, 100))
        same(comm.all_reduce_async(fractions(comm.rank, 100), precision=per_call).wait(), folded(per_call, 100))


def test_fp16_has_a_range():
    ranks(2, _range)


def _range(comm):
    large = np.array([1e6, 40000, 1e-9], "f4")
    assert comm.all_reduce(large.copy(), precision="fp16").tolist() == [np.inf, np.inf, 0]
    assert np.allclose(comm.all_reduce(large.copy(), precision="bf16"), 2 * large, rtol=0.01)


def test_ranks_with_the_same_bits():
    results = ranks(3, _bits)
    assert results[0] == results[1] == results[2]


def _bits(comm):
    return [comm.all_reduce(fractions(comm.rank, 100_000), precision=precision).tobytes() for precision in PRECISIONS]


def test_half_the_bytes_travel(monkeypatch):
    monkeypatch.setenv("HCOMM_ALGORITHM", "all_reduce=ring")
    ranks(2, _half_the_bytes)


def _half_the_bytes(comm):
    sent = {}
    for precision in ("fp32", *PRECISIONS):
        hcomm.config.set_precision(precision)
        hcomm.enable_profiling()
        for _ in range(3):
            comm.all_reduce(np.ones(40_000, "f4"))
        stats = hcomm.get_profile_stats()["all_reduce"]
        sent[precision] = stats["sent_bytes"]
        assert [kind["dtype"] for kind in stats["kinds"]] == [PRECISIONS.get(precision, "f32")]
    assert sent["fp32"] == 3 * 160_000
    assert sent["fp16"] * 2 == sent["bf16"] * 2 == sent["fp32"]


def test_unknown_precisions():
    values(processes(1, _unknown_precision))


def _unknown_precision(_):
    for wrong in ("fp8", "f16", "", "FP16"):
        with pytest.raises(ValueError, match="expected one of fp32, fp16, bf16"):
            hcomm.config.set_precision(wrong)
    assert hcomm.config.precision() == "fp32"
    hcomm.config.set_precision("bf16")
    assert hcomm.config.precision() == "bf16"


def test_gpu_direct():
    direct = hcomm.enable_gpu_direct()
    assert not direct and direct.enabled is False and "CPU" in direct.reason
    assert bool(hcomm.GpuDirect(True, "")) is True
