"""Tensors and groups used in ways that torch allows and one does not expect."""

import contextlib
import threading
import time

import pytest
from processes import processes, ranks, values

torch = pytest.importorskip("torch", reason="torch is not installed")
import torch.distributed as dist  # noqa: E402
from torch_ranks import grouped, join  # noqa: E402

import hcomm  # noqa: E402
from hcomm import errors  # noqa: E402


def test_tensors_without_memory():
    ranks(1, _without_memory)


def _without_memory(comm):
    freed = torch.ones(5)
    freed.untyped_storage().resize_(0)
    for tensor in (freed, torch.ones(3).to_sparse(), torch.empty(3, device="meta"), torch._efficientzerotensor(5)):
        with pytest.raises(TypeError, match="memory|device"):
            comm.all_reduce(tensor)


def test_a_tensor_that_exchanges_its_memory():
    """The operation goes on with the memory that it was given."""
    ranks(2, _exchange)


def _exchange(comm):
    tensor = torch.ones(1 << 20)
    before = tensor.detach()
    if comm.rank == 1:
        time.sleep(0.3)
    work = comm.all_reduce_async(tensor)
    tensor.data = torch.zeros(1)
    work.wait()
    assert (before == 2).all()


def test_several_operations_on_one_tensor():
    grouped(2, _several)


def _several(rank):
    tensor = torch.ones(3)
    for work in [dist.all_reduce(tensor, async_op=True) for _ in range(3)]:
        work.wait()
    assert torch.equal(tensor, torch.full((3,), 8.0))


def test_lists_of_wrong_lengths():
    grouped(2, _lengths)


def _lengths(rank):
    outputs = [torch.zeros(1), torch.zeros(3)] if rank == 0 else None
    # Who only sends may have done so before the root refuses.
    expected = pytest.raises(dist.DistBackendError, match="length of its block") if rank == 0 else contextlib.suppress(dist.DistBackendError)
    with expected:
        dist.gather(torch.full((2,), rank + 1.0), outputs)


def test_threads_that_share_a_group_get_their_own_works():
    grouped(1, _threads)


def _threads(_):
    missing = []

    def run():
        for _ in range(300):
            if dist.all_reduce(torch.ones(200), async_op=True) is None:
                missing.append(1)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not missing


def test_futures_that_wait_for_futures():
    grouped(2, _nested)


def _nested(rank):
    inner = []

    def again(done):
        inner.append(dist.all_reduce(torch.ones(5), async_op=True).get_future().wait())
        return done.value()

    dist.all_reduce(torch.ones(5), async_op=True).get_future().then(again).wait()
    assert torch.equal(inner[0][0], torch.full((5,), 2.0))


def test_a_group_destroyed_by_a_callback():
    grouped(2, _destroyed)


def _destroyed(rank):
    done = dist.all_reduce(torch.ones(5), async_op=True).get_future().then(lambda _: dist.destroy_process_group())
    done.wait()
    assert not dist.is_initialized()


def test_settings_that_differ():
    values(processes(2, _settings))


def _settings(place):
    hcomm.config.set_precision(["fp32", "bf16"][place.rank])
    with pytest.raises(dist.DistBackendError, match="hcomm.config differs between the ranks.*bf16"):
        join(place)
    hcomm.config.set_precision("fp32")


def test_a_group_that_was_never_configured_ends():
    values(processes(1, _never_configured))


def _never_configured(place):
    join(place, enable_reconfigure=True)
    dist.group.WORLD.abort()
    dist.destroy_process_group()


def test_handles_that_are_none():
    grouped(2, _handles)


def _handles(rank):
    own = dist._get_reconfigure_handle()
    for handles in (["x", own], ['{"hcomm": 5}', own], [own, own], ["y"]):
        with pytest.raises(ValueError, match="handle"):
            dist._reconfigure(uuid=1, handles=handles)
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    assert torch.equal(tensor, torch.full((2,), 2.0)), "the group goes on"


def test_monitored_barrier_says_what_became_of_a_rank():
    grouped(2, _monitored)


def _monitored(rank):
    if rank == 1:
        return
    with pytest.raises(RuntimeError, match="Rank 1 failed to pass monitoredBarrier.*(closed|lost)") as caught:
        dist.monitored_barrier()
    assert isinstance(caught.value.__cause__, errors.HcommError)
