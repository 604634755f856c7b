"""How ranks find each other by what their launcher has set, and `init` in the module's words."""

import os
import secrets
import subprocess
import sys

import numpy as np
import pytest
from processes import free_port, processes, values
from samples import numbers, same, total

import hcomm

TOKEN = secrets.token_hex(32)


def hcomm_launch(rank, port):
    return {"HCOMM_RANK": rank, "HCOMM_WORLD": 2, "HCOMM_ADDRESS": f"127.0.0.1:{port}", "HCOMM_TOKEN": TOKEN}


def torchrun(rank, port):
    ranks = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": 2}
    return ranks | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "a job"}


@pytest.mark.parametrize("launcher", [hcomm_launch, torchrun], ids=lambda launcher: launcher.__name__)
def test_launchers(launcher):
    values(processes(2, _launched, launcher, free_port()))


def _launched(place, launcher, port):
    os.environ |= {name: str(value) for name, value in launcher(place.rank, port).items()}
    comm = hcomm.init()
    assert (comm.rank, comm.world) == (place.rank, 2)
    assert hcomm.init() is comm
    same(hcomm.all_reduce(numbers(comm.rank, 9)), total(2, 9))


def test_alone():
    values(processes(1, _alone))


def _alone(_):
    assert not hcomm.is_initialized()
    with hcomm.init() as comm:
        assert (comm.rank, comm.world, comm.links[0:0]) == (0, 1, [])
        same(comm.all_reduce(numbers(0, 9)), numbers(0, 9))
    assert not hcomm.is_initialized()
    assert hcomm.init() is not comm


def test_settings_reach_the_communicator():
    values(processes(2, _settings))


def _settings(place):
    os.environ["HCOMM_DEPTH"] = "4"
    hcomm.config.set("HCOMM_TRANSPORT", "tcp")
    comm = place.init()
    assert comm.settings["HCOMM_DEPTH"] == "4" and comm.settings["HCOMM_TRANSPORT"] == "tcp"
    assert comm.links[1 - comm.rank].startswith("tcp")
    assert comm.duplicate().settings["HCOMM_DEPTH"] == "4"


def test_importing_costs_no_thread_and_no_numpy():
    program = "import sys, os, hcomm; print(len(os.listdir('/proc/self/task')), 'numpy' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["1", "False", "False"], done


def test_ranks_come_at_different_times():
    values(processes(3, _late))


def _late(place):
    import time

    time.sleep([0.4, 0, 0.8][place.rank])
    comm = place.init()
    same(comm.all_reduce(np.array([comm.rank])), np.array([3]))


def test_what_is_no_number_is_told_of():
    with pytest.raises(hcomm.errors.RefusedError, match="rank is '0' and world 2; expected two whole numbers"):
        hcomm.init(rank="0", world=2, address="127.0.0.1:1")


def test_variables_of_others_may_be_no_text():
    values(processes(1, _odd_environment))


def _odd_environment(_):
    os.environb[b"SOMEBODYS"] = b"\xff"
    os.environ["HCOMM_TRANSPORT"] = ""
    with hcomm.init() as comm:
        assert comm.world == 1 and comm.settings["HCOMM_TRANSPORT"] == "auto"


def test_ranks_may_be_threads_and_nothing_waits_for_their_rendezvous():
    values(processes(1, _threads, free_port()))


def _threads(_, port):
    import threading

    made = {}

    def rank(own):
        made[own] = hcomm.init(rank=own, world=2, address=f"127.0.0.1:{port}")

    first = threading.Thread(target=rank, args=[0])
    first.start()
    hcomm.enable_profiling()
    second = threading.Thread(target=rank, args=[1])
    second.start()
    first.join(30), second.join(30)
    assert sorted(made) == [0, 1] and {comm.rank for comm in made.values()} == {0, 1}


def test_an_interrupted_init_frees_its_port():
    values(processes(2, _again))


def _again(place):
    import signal
    import time

    if place.rank == 0:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            hcomm.init(rank=0, world=3, address=place.address, token="an earlier try")
        assert time.monotonic() - begun < 20
    else:
        time.sleep(1)
    same(place.init().all_reduce(np.array([place.rank])), np.array([1]))
