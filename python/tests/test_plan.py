"""Plans as objects."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest
from processes import ranks

import hcomm
from hcomm import errors

COLLECTIVES = "all_reduce all_gather reduce_scatter broadcast reduce gather scatter all_to_all barrier".split()


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective(collective):
    plan = hcomm.plan(collective, count=0 if collective == "barrier" else 1000, world=4)
    assert (plan.world, plan.collective) == (4, collective)
    assert plan.nodes >= 4 and plan.algorithm and int(plan.id, 16) >= 0
    assert plan.dot().startswith("digraph") and plan.dot().count("->") >= 1
    assert ElementTree.fromstring(plan.svg()).tag.endswith("svg")
    assert plan._repr_svg_() == plan.svg()
    assert "<html" in plan.html().lower()
    assert plan.algorithm in plan.explain()
    assert plan.verify()
    assert json.loads(plan.json())


def test_facts():
    ring = hcomm.plan("all_reduce", bytes="1MB", world=4, algorithm="ring")
    again = hcomm.plan("all_reduce", bytes="1MB", world=4, algorithm="ring")
    assert ring.algorithm == "ring" and ring.id == again.id
    assert hcomm.plan("all_reduce", bytes="1MB", world=5, algorithm="ring").id != ring.id
    assert hcomm.plan("all_reduce", bytes="1MB", world=8, hosts=2).world == 8
    assert hcomm.plan("all_reduce", bytes=1000, world=2, dtype="bf16", op="avg").world == 2
    assert hcomm.plan("reduce", count=5, world=3, root=2, dtype="complex64").collective == "reduce"
    assert ring.html() != hcomm.plan("all_reduce", bytes="64MB", world=4, algorithm="ring").html()


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"collective": "all_rduce"}, errors.RefusedError, "all_rduce"),
        ({"dtype": "f33"}, errors.RefusedError, "f33"),
        ({"op": "sun"}, errors.RefusedError, "sun"),
        ({"bytes": "huge"}, errors.RefusedError, "huge"),
        ({"collective": "broadcast", "root": 4}, errors.RefusedError, "4"),
        ({"world": 0}, errors.RefusedError, "0 ranks"),
        ({"hosts": 3}, errors.RefusedError, "4 ranks on 3 hosts"),
        ({"world": 5000}, errors.RefusedError, "5000"),
        ({"algorithm": "rnig"}, errors.PlanError, "rnig"),
        ({"collective": "broadcast", "algorithm": "two_shot"}, errors.PlanError, "two_shot"),
        ({"op": "band"}, errors.RefusedError, "band"),
    ],
)
def test_refusals(options, kind, words):
    with pytest.raises(kind, match=words) as caught:
        hcomm.plan(**{"collective": "all_reduce", "world": 4} | options)
    assert "Error {" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"count": -1}, "count -1"),
        ({"count": 1, "world": -2}, "ranks -2"),
        ({"count": 1, "bytes": "1MB"}, "count and bytes"),
        ({"count": 1, "ranks": 2, "world": 2}, "ranks and world"),
        ({"count": 4, "world": 10**9}, "at most 1024"),
        ({"count": 4, "world": 2**62}, "at most 1024"),
    ],
)
def test_numbers_that_make_no_sense(options, words):
    with pytest.raises(errors.RefusedError, match=words):
        hcomm.plan("all_reduce", **{"world": 2} | options)


def test_plans_of_a_communicator():
    ranks(3, _of_communicator)


def _of_communicator(comm):
    assert hcomm.plan("all_reduce", bytes="4MB").world == 3
    own = comm.algorithm("all_reduce=ring").plan("all_reduce", 100_000)
    assert own.algorithm == "ring" and own.world == 3
    assert hcomm.plan("all_gather", bytes="1MB", world=2).world == 2
    assert hcomm.plan("all_reduce", algorithm="ring").algorithm == "ring"
    half = comm.split(0 if comm.rank < 2 else 1)
    assert half.plan("all_reduce", 10).world == half.world


def test_json_is_read_by_the_command(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(hcomm.plan("all_reduce", bytes="1MB", world=3).json())
    done = subprocess.run([sys.executable, "-m", "hcomm", "import", str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
