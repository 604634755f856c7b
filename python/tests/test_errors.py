"""What can go wrong: every class of `hcomm.errors`, its facts, its text."""

import contextlib
import os
import pickle
import signal
import time
import traceback

import numpy as np
import pytest
from processes import processes, ranks, values
from samples import numbers, same, total

import hcomm
from hcomm import errors

CLASSES = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.HcommError)]


def check(error, kind, words, **facts):
    """Its class, its text, its facts, and that it survives pickling."""
    assert type(error) is kind, traceback.format_exception(error)
    text = str(error)
    assert words in text, text
    for leftover in ("Error {", "Some(", "Failure::", "\n", '\\"'):
        assert leftover not in text, text
    assert text[0] == text[0].lower() or text[0].isupper()
    for name, fact in facts.items():
        assert getattr(error, name) == fact, (name, getattr(error, name), fact)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (kind, text, vars(error))


def raised(call, *args, **options):
    with pytest.raises(errors.HcommError) as caught:
        call(*args, **options)
    return caught.value


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_classes(kind):
    error = kind("a sentence", rank=3, more=[1, 2])
    assert isinstance(error, hcomm.HcommError) and str(error) == "a sentence" and error.rank == 3
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind and vars(again) == vars(error) and str(again) == str(error)
    assert kind.__doc__


def test_not_initialized():
    values(processes(1, _not_initialized))


def _not_initialized(_):
    for call in (hcomm.rank, hcomm.world, hcomm.barrier, lambda: hcomm.all_reduce(np.ones(2)), lambda: hcomm.split(0)):
        check(raised(call), errors.NotInitializedError, "call hcomm.init() first")
    check(raised(hcomm.plan, "all_reduce"), errors.NotInitializedError, "hcomm.init()")
    hcomm.finalize()


def test_refused():
    ranks(2, _refused)


def _refused(comm):
    ones = np.ones(6, "f4")
    check(raised(comm.all_reduce, ones, "summ"), errors.RefusedError, "'summ'")
    check(raised(comm.all_reduce_async, ones, "premulsum:x"), errors.RefusedError, "x")
    check(raised(comm._native.start, "all_rduce", ones, ones), errors.RefusedError, "all_rduce")
    check(raised(comm.plan, "all_reduce", 5, dtype="f33"), errors.RefusedError, "f33")
    for call in (comm.all_reduce, comm.all_reduce_async):
        with pytest.raises(ValueError, match="fp17"):
            call(ones, precision="fp17")
    with pytest.raises(TypeError):
        comm.all_reduce(ones, priority="high")
    with pytest.raises((TypeError, ValueError)):
        comm.all_reduce_async(ones, priority="high")
    with pytest.raises(ValueError, match="-2"):
        comm.all_reduce_async(ones, timeout=-2)
    comm.barrier()


def test_refused_on_all_ranks():
    """These are announced to the peers: every rank of such a call hears of it, and goes on."""
    ranks(2, _refused_on_all)


def _refused_on_all(comm):
    five, six = np.ones(5, "f4"), np.ones(6, "f4")
    error = _outcome(comm.all_reduce_into, five, six)
    assert type(error) is errors.BufferSizeError
    check(error, errors.BufferSizeError, "6", which="input", elements=5, expected=6, dtype="f32")
    error = _outcome(comm.all_reduce_into, five, np.ones(5, "f8"))
    check(error, errors.DTypeError, "f64", input="f32", output="f64")
    assert isinstance(error, TypeError) and isinstance(error, ValueError)
    check(_outcome(comm.broadcast, five, 2), errors.RankError, "rank 2", rank=2, world=2)
    check(_outcome(comm.reduce, five, "sum", 17), errors.RankError, "17", rank=17, world=2)
    check(_outcome(comm.all_reduce, five, "band"), errors.PlanError, "band of f32")
    check(_outcome(comm.all_gather, five, six), errors.BufferSizeError, "6", which="output", elements=6, expected=10)
    check(_outcome(comm.reduce_scatter, five, np.ones(2, "f4")), errors.BufferSizeError, "")
    _outcome(comm.all_gather_v, five, np.ones(9, "f4"), [5, 5])
    _outcome(comm.all_gather_v, five, np.ones(10, "f4"), [5])
    _outcome(comm.all_gather_v, five, np.ones(10, "f4"), [5, 5, 5])
    _outcome(comm.all_to_all_v, five, [2, 2], np.ones(4, "f4"), [2, 2])
    check(_outcome(comm.algorithm, "broadcast=ring"), errors.PlanError, "broadcast of f32 in a world of 2 is not supported by 'ring'")
    memory = np.ones(9, "f4")
    check(_outcome(comm.all_reduce_into, memory[:6], memory[3:]), errors.OverlapError, "")
    same(comm.all_reduce(numbers(comm.rank, 5)), total(2, 5))


def _outcome(call, *args, **options):
    error = raised(call, *args, **options)
    assert isinstance(error, ValueError), repr(error)
    assert "Error {" not in str(error)
    return error


def test_messages_to_ranks_that_do_not_exist():
    ranks(2, _rank_of_message)


def _rank_of_message(comm):
    check(raised(comm.send, np.ones(2), 2), errors.RankError, "2", rank=2, world=2)
    check(raised(comm.recv, np.ones(2), 9), errors.RankError, "9", rank=9, world=2)
    for call in (comm.send, comm.recv):
        with pytest.raises((OverflowError, ValueError, TypeError)):
            call(np.ones(2), -1)
        with pytest.raises((OverflowError, ValueError, TypeError)):
            call(np.ones(2), 0, -5)
    comm.barrier()


def test_unknown_algorithm():
    ranks(1, _unknown_algorithm)


def _unknown_algorithm(comm):
    error = raised(comm.algorithm, "rnig")
    assert isinstance(error, errors.PlanError) and "rnig" in str(error) and "ring" in str(error)
    with pytest.raises(errors.PlanError, match="rnig"):
        hcomm.plan("all_reduce", bytes="1MB", world=4, algorithm="rnig")


def test_mismatch():
    ranks(2, _mismatch)


DIFFERENT = [
    (lambda comm: comm.all_reduce(np.ones(5, "f4")), lambda comm: comm.all_reduce(np.ones(6, "f4"))),
    (lambda comm: comm.all_reduce(np.ones(5, "f4")), lambda comm: comm.all_reduce(np.ones(5, "i4"))),
    (lambda comm: comm.all_reduce(np.ones(5, "f4")), lambda comm: comm.all_reduce(np.ones(5, "f4"), "max")),
    (lambda comm: comm.all_reduce(np.ones(5, "f4")), lambda comm: comm.barrier()),
    (lambda comm: comm.all_reduce(np.ones(5, "f4")), lambda comm: comm.all_reduce(np.ones(5, "f4"), precision="bf16")),
]


def _mismatch(comm):
    for calls in DIFFERENT:
        other = comm.duplicate()
        error = raised(calls[comm.rank], other)
        check(error, errors.CallMismatchError, "rank", rank=comm.rank, other=1 - comm.rank)
        assert error.call and error.other_call and error.call != error.other_call
        leave(other)


def test_two_roots():
    """Both send, and neither waits for anything: told with the next call at the latest."""
    for error in ranks(2, _two_roots):
        check(error, errors.CallMismatchError, "root 1")


def _two_roots(comm):
    def calls():
        comm.broadcast(np.ones(5, "f4"), comm.rank)
        comm.barrier()

    error = raised(calls)
    leave(comm)
    return error


def leave(comm):
    """Closing raises the first failure once more."""
    with contextlib.suppress(errors.OperationError):
        comm.close()


def test_peer_refused():
    ranks(2, _peer_refused)


def _peer_refused(comm):
    if comm.rank == 0:
        check(raised(comm.all_reduce_into, np.ones(5, "f4"), np.ones(6, "f4")), errors.BufferSizeError, "6")
    else:
        error = raised(comm.all_reduce_into, np.ones(5, "f4"), np.ones(5, "f4"))
        check(error, errors.PeerRefusedError, "rank 0", rank=0)
        assert "6" in error.reason and "all_reduce" in error.call
    leave(comm)


def test_peer_killed():
    outcomes = processes(3, _peer_killed)
    assert outcomes[1].exit_code == -signal.SIGKILL
    for outcome in (outcomes[0], outcomes[2]):
        assert outcome.error is None, str(outcome)
        error, seconds, after = outcome.value
        check(error, errors.PeerLostError, "rank 1", rank=1)
        assert error.cause and "all_reduce" in error.call and isinstance(error, ConnectionError)
        assert seconds < 10
        # And it stays so.
        assert isinstance(after, (errors.UnusableError, errors.PeerLostError)), repr(after)


def _peer_killed(place):
    comm = place.init()
    comm.all_reduce(np.ones(1000, "f4"))
    if comm.rank == 1:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    error = raised(comm.all_reduce, np.ones(1000, "f4"))
    seconds = time.monotonic() - start
    after = raised(comm.all_reduce, np.ones(1000, "f4"))
    if isinstance(after, errors.UnusableError):
        assert isinstance(after.__cause__, errors.PeerLostError)
    return error, seconds, after


def test_peer_left():
    error = ranks(2, _peer_left)[0]
    check(error, errors.PeerLeftError, "rank 1", rank=1)
    assert error.last >= 1
    assert isinstance(error, ConnectionError)


def _peer_left(comm):
    comm.barrier()
    if comm.rank == 1:
        return comm.close()
    error = raised(comm.all_reduce, np.ones(4))
    leave(comm)
    return error


def test_deadline():
    ranks(2, _deadline)


def _deadline(comm):
    check(raised(lambda: comm.recv_async(np.ones(3), 1 - comm.rank, 5, timeout=0.1).wait()), errors.DeadlineError, f"rank {1 - comm.rank}")
    comm.barrier()
    if comm.rank == 0:
        error = raised(lambda: comm.all_reduce_async(np.ones(300), timeout=0.2).wait())
        check(error, errors.DeadlineError, "rank 1")
        assert isinstance(error, TimeoutError)
        assert 0.15 < error.elapsed < 5 and "all_reduce" in error.call and "1" in error.waiting
    else:
        time.sleep(0.5)
        # What rank 0 had sent before is there; what is not cannot come.
        with contextlib.suppress(errors.OperationError):
            comm.all_reduce(np.ones(300))
    leave(comm)


def test_message_size():
    ranks(2, _message_size)


def _message_size(comm):
    if comm.rank == 0:
        comm.send(np.ones(7, "f4"), 1, 3)
    else:
        error = raised(comm.recv, np.ones(5, "f4"), 0, 3)
        check(error, errors.MessageSizeError, "28", rank=0, tag=3, bytes=28, room=20)
    comm.barrier()


def test_message_type():
    ranks(2, _message_type)


def _message_type(comm):
    if comm.rank == 0:
        comm.send(np.array([2, 255], "u1"), 1, 3)
    else:
        output = np.array([True, False])
        error = raised(comm.recv, output, 0, 3)
        check(error, errors.MessageTypeError, "u8", rank=0, receiver=1, tag=3, sent="u8", received="bool")
        assert list(output) == [True, False]
    comm.barrier()


def test_abort():
    ranks(2, _abort)


def _abort(comm):
    pending = comm.recv_async(np.ones(3), 1 - comm.rank)
    comm.barrier()
    if comm.rank == 0:
        comm.abort("no more data")
    error = raised(pending.wait)
    check(error, errors.AbortedError, "no more data", rank=0)
    assert "no more data" in error.cause
    assert str(pending.exception()) == str(error) and pending.done() and "no more data" in repr(pending)
    after = raised(comm.all_reduce, np.ones(3))
    assert isinstance(after, (errors.UnusableError, errors.AbortedError))
    leave(comm)


def test_closed():
    ranks(2, _closed)


def _closed(comm):
    other = comm.duplicate()
    other.close()
    error = raised(other.all_reduce, np.ones(3))
    assert isinstance(error, (errors.ClosedError, errors.UnusableError)), repr(error)
    assert "closed" in str(error)
    other.close()


SETTINGS = [
    ({"HCOMM_DEPTH": "1"}, "HCOMM_DEPTH"),
    ({"HCOMM_TILE_BYTES": "a lot"}, "a lot"),
    ({"HCOMM_TRANSPRT": "tcp"}, "HCOMM_TRANSPORT"),
    ({"HCOMM_TRANSPORT": "carrier pigeon"}, "carrier pigeon"),
    ({"HCOMM_DEADLINE": "-4s"}, "-4s"),
]


@pytest.mark.parametrize(("environment", "words"), SETTINGS)
def test_settings(environment, words, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    values(processes(1, _bad_setting, words))


def _bad_setting(_, words):
    check(raised(hcomm.init), errors.SettingError, words)
    assert not hcomm.is_initialized()


ENVIRONMENTS = [
    ({"HCOMM_RANK": "0"}, "HCOMM_WORLD"),
    ({"HCOMM_RANK": "2", "HCOMM_WORLD": "2"}, "2"),
    ({"HCOMM_RANK": "one", "HCOMM_WORLD": "2"}, "one"),
    ({"HCOMM_RANK": "0", "HCOMM_WORLD": "2"}, "HCOMM_ADDRESS"),
    ({"RANK": "0", "WORLD_SIZE": "2"}, "MASTER_PORT"),
]


@pytest.mark.parametrize(("environment", "words"), ENVIRONMENTS)
def test_environments(environment, words, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    values(processes(1, _bad_environment, words))


def _bad_environment(_, words):
    check(raised(hcomm.init), errors.EnvironmentError, words)


def test_missing_rank(monkeypatch):
    monkeypatch.setenv("HCOMM_RENDEZVOUS_DEADLINE", "500ms")
    outcomes = processes(3, _missing_rank)
    for outcome in outcomes[:2]:
        assert outcome.error is None, str(outcome)
    error = outcomes[0].value
    check(error, errors.RendezvousError, "2", ranks=[2])
    assert 0.4 < error.within < 5 and isinstance(error, ConnectionError)
    assert isinstance(outcomes[1].value, errors.RendezvousError)


def _missing_rank(place):
    return raised(place.init) if place.rank != 2 else None


def test_another_job(monkeypatch):
    """Whoever does not know the token is none of the ranks."""
    monkeypatch.setenv("HCOMM_RENDEZVOUS_DEADLINE", "1s")
    outcomes = processes(2, _another_job)
    for outcome in outcomes:
        assert isinstance(outcome.value, errors.RendezvousError), str(outcome)
        check(outcome.value, errors.RendezvousError, "")


def _another_job(place):
    return raised(hcomm.init, rank=place.rank, world=2, address=place.address, token=f"job {place.rank}")


def test_setting_mismatch():
    outcomes = processes(2, _different_settings)
    for outcome in outcomes:
        assert outcome.error is None, str(outcome)
        check(outcome.value, errors.SettingMismatchError, "rank 1", name="what the program sets by hcomm.config")
        assert "65536" in outcome.value.values[0] and "131072" in outcome.value.values[1]


def _different_settings(place):
    hcomm.config.set_chunk_size([65536, 131072][place.rank])
    error = raised(place.init)
    assert not hcomm.is_initialized()
    return error
