"""Process groups of torch.distributed when something goes wrong: time limits, missing and killed ranks, aborts, and going on with other members."""

import os
import signal
import threading
import time
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import torch.distributed as dist  # noqa: E402
from processes import processes, values  # noqa: E402
from torch_ranks import grouped, join, own, same  # noqa: E402

def test_timeouts():
    outcomes = processes(2, _timeouts)
    assert outcomes[0].error is None, str(outcomes[0])


def _timeouts(place):
    join(place, timeout=timedelta(seconds=20))
    if place.rank:
        time.sleep(3)
        os._exit(0)
    start = time.monotonic()
    options = dist.AllreduceOptions()
    options.timeout = timedelta(milliseconds=400)
    with pytest.raises(dist.DistBackendError, match="(?i)timed out") as caught:
        dist.group.WORLD.allreduce([own(0, 300_000)], options).wait()
    assert 0.3 < time.monotonic() - start < 5
    assert type(caught.value.__cause__).__name__ == "DeadlineError"


def test_set_timeout():
    outcomes = processes(2, _set_timeout)
    assert outcomes[0].error is None, str(outcomes[0])


def _set_timeout(place):
    join(place, timeout=timedelta(seconds=20))
    dist.barrier()
    if place.rank:
        time.sleep(3)
        os._exit(0)
    dist.distributed_c10d._set_pg_timeout(timedelta(milliseconds=400), dist.group.WORLD)
    start = time.monotonic()
    with pytest.raises(dist.DistBackendError, match="(?i)timed out"):
        dist.all_reduce(own(0, 300_000))
    assert 0.3 < time.monotonic() - start < 5


def test_a_group_with_a_short_timeout():
    outcomes = processes(2, _short_timeout)
    assert outcomes[0].error is None, str(outcomes[0])


def _short_timeout(place):
    join(place, timeout=timedelta(milliseconds=800))
    if place.rank:
        time.sleep(3)
        os._exit(0)
    with pytest.raises(dist.DistBackendError, match="(?i)timed out"):
        dist.recv(torch.zeros(3), 1)


# Failures.


def test_monitored_barrier():
    outcomes = processes(3, _monitored)
    values(outcomes)


def _monitored(place):
    join(place)
    dist.monitored_barrier(timeout=timedelta(seconds=20))
    if place.rank == 2:
        time.sleep(1.5)
    elif place.rank == 0:
        with pytest.raises(RuntimeError, match="Rank 2 failed to pass monitoredBarrier in 300 ms"):
            dist.monitored_barrier(timeout=timedelta(milliseconds=300))
    else:
        with pytest.raises(RuntimeError, match="Rank 1 successfully reached monitoredBarrier"):
            dist.monitored_barrier(timeout=timedelta(seconds=5))


def test_monitored_barrier_names_all():
    values(processes(3, _monitored_all))


def _monitored_all(place):
    join(place)
    if place.rank == 0:
        with pytest.raises(RuntimeError, match="Ranks 1, 2 failed to pass monitoredBarrier in 300 ms"):
            dist.monitored_barrier(timeout=timedelta(milliseconds=300), wait_all_ranks=True)
    else:
        time.sleep(1)


def test_a_killed_peer():
    outcomes = processes(2, _killed)
    assert outcomes[1].exit_code == -signal.SIGKILL
    assert outcomes[0].error is None, str(outcomes[0])


def _killed(place):
    join(place)
    dist.barrier()
    if place.rank:
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    work = dist.irecv(torch.zeros(3), 1)
    with pytest.raises(dist.DistBackendError, match="rank 1") as caught:
        work.wait()
    assert type(caught.value.__cause__).__name__ == "PeerLostError"
    assert work.is_completed() and not work.is_success() and work.exception() is not None
    with pytest.raises(RuntimeError, match="rank 1"):
        work.get_future().wait()
    assert time.monotonic() - start < 10


def test_calls_that_differ():
    values(processes(2, _differ))


def _differ(place):
    join(place)
    with pytest.raises(dist.DistBackendError, match="differ"):
        dist.all_reduce(own(0, 5 + place.rank))


def test_abort():
    values(processes(2, _abort))


def _abort(place):
    join(place)
    dist.barrier()
    if place.rank:
        with pytest.raises(dist.DistBackendError, match="abort"):
            dist.recv(torch.zeros(3), 0)
        return
    threading.Timer(0.3, dist.group.WORLD.abort).start()
    with pytest.raises(dist.DistBackendError, match="abort"):
        dist.recv(torch.zeros(3), 1)


def test_interrupted_wait():
    grouped(2, _interrupted)


def _interrupted(rank):
    if rank == 0:
        work = dist.irecv(found := torch.zeros(3), 1)
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            work.wait()
        dist.send(own(0, 1), 1)
        work.wait()
        same(found, own(1, 3))
    else:
        dist.recv(torch.zeros(1), 0)
        dist.send(own(1, 3), 0)


def test_wrong_arguments():
    grouped(2, _wrong)


def _wrong(rank):
    for call in (
        lambda: dist.all_gather_into_tensor(torch.zeros(5), torch.zeros(3)),
        lambda: dist.reduce_scatter_tensor(torch.zeros(2), torch.zeros(5)),
        lambda: dist.all_reduce(torch.zeros(4).expand(3, 4)),
        lambda: dist.all_to_all_single(torch.zeros(4), torch.zeros(4), [1, 2], [2, 2]),
        lambda: dist.send(torch.zeros(3), rank),
    ):
        with pytest.raises((ValueError, RuntimeError)) as caught:
            call()
        assert "Error {" not in str(caught.value)


# Other members.


def test_reconfigure():
    outcomes = processes(3, _reconfigured)
    assert [outcome.exit_code for outcome in outcomes] == [0, -signal.SIGKILL, 0], "\n".join(map(str, outcomes))
    for outcome in (outcomes[0], outcomes[2]):
        assert outcome.error is None, str(outcome)


def _reconfigured(place):
    torch.set_num_threads(1)
    host, port = place.address.rsplit(":", 1)
    store = dist.TCPStore(host, int(port), None, place.rank == 0, wait_for_workers=False)
    dist.init_process_group("hcomm", store=dist.PrefixStore("job", store), rank=place.rank, world_size=3, enable_reconfigure=True)
    assert dist.distributed_c10d._supports_reconfigure()
    _meet(store, place.rank, [0, 1, 2], 1)
    if place.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(dist.DistBackendError):
        dist.all_reduce(torch.ones(4))
        dist.all_reduce(torch.ones(4))
    _meet(store, place.rank, [0, 2], 2)


def _meet(store, rank, members, number):
    """The processes tell each other their handles, become one group, and compute together."""
    store.set(f"{number}/{rank}", dist.distributed_c10d._get_reconfigure_handle())
    handles = [store.get(f"{number}/{member}").decode() for member in members]
    work = dist.distributed_c10d._reconfigure(number, handles, timeout=timedelta(seconds=20))
    if work is not None:
        work.wait()
    group = dist.group.WORLD
    assert (group.rank(), group.size()) == (members.index(rank), len(members))
    buffer = own(rank, 6)
    group.allreduce([buffer]).wait()
    same(buffer, sum(own(member, 6) for member in members))


def test_reconfigure_refuses_what_is_no_handle():
    values(processes(1, _wrong_handles))


def _wrong_handles(place):
    torch.set_num_threads(1)
    dist.init_process_group("hcomm", store=dist.HashStore(), rank=0, world_size=1, enable_reconfigure=True)
    own_handle = dist.distributed_c10d._get_reconfigure_handle()
    for handles in (["nonsense"], [own_handle, own_handle], ["nonsense", own_handle]):
        with pytest.raises((ValueError, RuntimeError), match="handle"):
            dist.distributed_c10d._reconfigure(1, handles, timeout=timedelta(seconds=2))
