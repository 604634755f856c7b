"""Process groups of torch.distributed: how they come to be and end, works and futures, time limits, failures, what torch's tools see of them."""

import os
import subprocess
import sys
import time
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import torch.distributed as dist  # noqa: E402
from processes import processes, values  # noqa: E402
from torch_ranks import grouped, in_group, join, own, same, sums  # noqa: E402


@pytest.mark.parametrize("backend", ["hcomm", "cpu:hcomm"])
def test_no_import_of_ours(backend):
    grouped(2, _named, backend, backend=backend)


def _named(rank, backend):
    group = dist.group.WORLD
    assert dist.get_backend() == ("hcomm" if ":" not in backend else dist.get_backend())
    assert group.rank() == rank and group.size() == 2
    assert "hcomm" in str(dist.get_backend_config(group))
    dist.all_reduce(buffer := own(rank, 5))
    same(buffer, sums(2, 5))


PROGRAM = """
import os, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group(os.environ["TEST_BACKEND"])
buffer = torch.full((4,), dist.get_rank() + 1.0)
dist.all_reduce(buffer)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {buffer.tolist()}", flush=True)
work = dist.all_reduce(buffer, async_op=True)
future = work.get_future().then(lambda done: done.value()[0].sum())
assert future.wait().item() == 24
if os.environ["TEST_ENDING"] == "destroy":
    dist.destroy_process_group()
elif os.environ["TEST_ENDING"] == "in flight":
    dist.irecv(torch.zeros(3), 1 - dist.get_rank())
"""


@pytest.mark.parametrize(("backend", "ending"), [("hcomm", "destroy"), ("cpu:hcomm", "nothing"), ("hcomm", "in flight")])
def test_torchrun(backend, ending, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", str(program)]
    environment = os.environ | {"TEST_BACKEND": backend, "TEST_ENDING": ending, "HCOMM_CLOSE_DEADLINE": "1500ms"}
    done = subprocess.run(launcher, capture_output=True, text=True, timeout=100, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    for rank in (0, 1):
        assert f"rank {rank} of 2: [3.0, 3.0, 3.0, 3.0]" in done.stdout


# Groups.


def test_groups():
    grouped(3, _groups)


def _groups(rank):
    pair = dist.new_group([0, 2])
    if rank == 1:
        assert pair == dist.GroupMember.NON_GROUP_MEMBER
    else:
        assert (dist.get_rank(pair), dist.get_world_size(pair)) == (rank // 2, 2)
        dist.all_reduce(buffer := own(rank, 6), group=pair)
        same(buffer, own(0, 6) + own(2, 6))
        dist.broadcast(buffer := own(rank, 6), src=2, group=pair)
        same(buffer, own(2, 6))
    alone = [dist.new_group([each]) for each in range(3)][rank]
    dist.all_reduce(buffer := own(rank, 6), group=alone)
    same(buffer, own(rank, 6))
    for _ in range(5):
        group = dist.new_group([0, 1, 2])
        dist.all_reduce(buffer := own(rank, 6), group=group)
        same(buffer, sums(3, 6))
        dist.destroy_process_group(group)
    mixed = dist.new_group(backend="gloo")
    dist.all_reduce(buffer := own(rank, 6), group=mixed)
    same(buffer, sums(3, 6))


def test_split_group():
    grouped(3, _split)


def _split(rank):
    part = dist.split_group(split_ranks=[[0, 2]])
    if rank == 1:
        assert part in (None, dist.GroupMember.NON_GROUP_MEMBER)
        return
    assert dist.get_rank(part) == rank // 2
    dist.all_reduce(buffer := own(rank, 6), group=part)
    same(buffer, own(0, 6) + own(2, 6))


def test_split_group_keeps_the_order():
    """Position in the list is the rank in the new group."""
    grouped(2, _split_order)


def _split_order(rank):
    part = dist.split_group(split_ranks=[[1, 0]])
    assert dist.get_rank(part) == 1 - rank
    dist.all_gather_into_tensor(output := torch.zeros(6), own(rank, 3), group=part)
    same(output, torch.cat([own(1, 3), own(0, 3)]))


def test_one_job_after_the_other():
    from processes import free_port

    values(processes(2, _jobs, [f"127.0.0.1:{free_port()}" for _ in range(3)]))


def _jobs(place, addresses):
    before = len(os.listdir("/proc/self/task"))
    for address in addresses:
        place_ = type(place)(place.rank, place.world, address)
        in_group(place_, _sum, ())
    until = time.monotonic() + 5
    while len(os.listdir("/proc/self/task")) > before + 1 and time.monotonic() < until:
        time.sleep(0.01)
    # The thread of callbacks, and torch's own.
    assert len(os.listdir("/proc/self/task")) <= before + 3


def _sum(rank):
    dist.all_reduce(buffer := own(rank, 5))
    same(buffer, sums(2, 5))


def test_many_groups():
    grouped(2, _many_groups)


def _many_groups(rank):
    def some(count):
        for _ in range(count):
            group = dist.new_group([0, 1])
            dist.all_reduce(torch.ones(3), group=group)
            dist.destroy_process_group(group)
        dist.barrier()

    some(10)
    before = len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))
    some(60)
    time.sleep(0.3)
    assert len(os.listdir("/proc/self/task")) <= before[0] + 1
    assert len(os.listdir("/proc/self/fd")) <= before[1] + 2


# Works and futures.


def test_works():
    grouped(2, _works)


def _works(rank):
    found = torch.zeros(3)
    work = dist.irecv(found, 1 - rank)
    assert not work.is_completed() and not work.is_success()
    with pytest.raises(dist.DistBackendError, match="goes on"):
        work.wait(timedelta(milliseconds=30))
    dist.barrier()
    dist.send(own(rank, 3), 1 - rank)
    assert work.wait() and work.is_completed() and work.is_success()
    assert work.exception() is None
    assert work.source_rank() == 1 - rank
    same(found, own(1 - rank, 3))
    work = dist.all_reduce(buffer := own(rank, 3), async_op=True)
    work.wait()
    assert work.result()[0] is buffer or torch.equal(work.result()[0], buffer)


def test_futures():
    grouped(2, _futures)


def _futures(rank):
    early = dist.irecv(found := torch.zeros(3), 1 - rank).get_future()
    chained = early.then(lambda done: done.value()[0] * 2)
    assert not early.done()
    dist.barrier()
    dist.send(own(rank, 3), 1 - rank)
    same(chained.wait(), own(1 - rank, 3) * 2)
    assert early.value()[0].data_ptr() == found.data_ptr()
    work = dist.all_reduce(buffer := own(rank, 3), async_op=True)
    work.wait()
    same(work.get_future().wait()[0], buffer)
    assert work.get_future() is work.get_future()
    failing = dist.group.WORLD.recv([torch.zeros(3)], 1 - rank, 77)
    future = failing.get_future()
    dist.group.WORLD.abort()
    with pytest.raises(RuntimeError, match="abort"):
        future.wait()


# What torch's tools see.


@pytest.mark.parametrize("level", ["INFO", "DETAIL"])
def test_debug(level):
    values(processes(2, _debugged, level))


def _debugged(place, level):
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = level
    dist.set_debug_level_from_env()
    assert dist.get_debug_level().name == level
    in_group(place, _debugged_group, ())


def _debugged_group(rank):
    dist.all_reduce(buffer := own(rank, 5))
    same(buffer, sums(2, 5))
    dist.all_gather(outputs := [torch.zeros(5) for _ in range(2)], own(rank, 5))
    same(outputs[1], own(1, 5))
    group = dist.new_group([0, 1])
    work = dist.all_reduce(buffer := own(rank, 5), group=group, async_op=True)
    work.wait()
    same(buffer, sums(2, 5))
    dist.barrier()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2))
    model(torch.ones(2, 3)).sum().backward()


def test_profiler():
    grouped(2, _profiled)


def _profiled(rank):
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        dist.all_reduce(own(rank, 5))
        dist.all_gather_into_tensor(torch.zeros(10), own(rank, 5))
        dist.all_reduce(own(rank, 5), async_op=True).wait()
        dist.barrier()
        (dist.send if rank else dist.recv)(torch.zeros(2), 1 - rank)
    names = {event.key: event.count for event in profiler.key_averages()}
    assert names["hcomm:all_reduce"] == 2 and names["hcomm:all_gather"] == 1 and names["hcomm:barrier"] == 1
    assert names["hcomm:send" if rank else "hcomm:recv"] == 1
    assert names["c10d::allreduce_"] == 2 and names["c10d::barrier"] == 1
    assert names["c10d::send" if rank else "c10d::recv_"] == 1


def test_nan_check():
    values(processes(2, _nan))


def _nan(place):
    os.environ["TORCH_DIST_NAN_CHECK"] = "1"
    join(place)
    dist.all_reduce(own(place.rank, 5))
    with pytest.raises(RuntimeError, match="(?i)nan"):
        dist.all_reduce(torch.tensor([1.0, float("nan")]))


def test_statistics_of_groups():
    grouped(2, _statistics)


def _statistics(rank):
    import hcomm

    hcomm.enable_profiling()
    group = dist.new_group([0, 1])
    for _ in range(3):
        dist.all_reduce(own(rank, 100), group=group)
    dist.destroy_process_group(group)
    dist.all_reduce(own(rank, 100))
    assert hcomm.get_profile_stats()["all_reduce"]["calls"] == 4
    assert hcomm.get_profile_stats()["all_reduce"]["bytes"] == 1600
