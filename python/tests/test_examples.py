"""The examples learn, end alike on all ranks, and end as they do by gloo: with two ranks there is one order in which to add."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def run(name, *arguments):
    """The output of an example that two ranks have run."""
    pytest.importorskip("torch" if name.startswith("gpt") else "numpy")
    command = [sys.executable, "-m", "hcomm", "launch", "-n", "2", "--no-prefix", sys.executable, str(EXAMPLES / name), *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def digest(output):
    """What both ranks' parameters have come to."""
    found = dict(re.findall(r"^rank (\d): parameters ([0-9a-f]{64})$", output, re.MULTILINE))
    assert found.keys() == {"0", "1"} and found["0"] == found["1"], output
    return found["0"]


def losses(output):
    found = [float(loss) for loss in re.findall(r"^step +\d+ +loss ([\d.]+)", output, re.MULTILINE)]
    assert len(found) > 1, output
    return found


@pytest.fixture(scope="module")
def by_gloo():
    return digest(run("gpt_ddp.py", "--backend", "gloo", "--steps", "10"))


@pytest.mark.parametrize("name", ["gpt_ddp.py", "gpt_fsdp.py"])
def test_a_gpt_learns_as_it_does_by_gloo(name, by_gloo):
    output = run(name, "--backend", "hcomm", "--steps", "10")
    first, *_, last = losses(output)
    assert first > 5 and last < 4, output
    assert digest(output) == by_gloo


def test_a_network_of_numpy_learns():
    output = run("numpy_data_parallel.py")
    digest(output)
    first, *_, last = losses(output)
    assert last < first / 4, output
    assert float(re.findall(r"right ([\d.]+)%", output)[-1]) > 95


def test_a_gpt_starts_its_own_ranks():
    pytest.importorskip("torch")
    command = [sys.executable, str(EXAMPLES / "gpt_ddp.py"), "--ranks", "2", "--steps", "2"]
    alone = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    done = subprocess.run(command, capture_output=True, text=True, env=alone, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    digest(done.stdout)
