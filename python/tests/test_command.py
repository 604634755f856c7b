"""The command line as the package installs it, and the examples in the documentation."""

import doctest
import importlib
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
from processes import processes, values

import hcomm

SCRIPT = [str(Path(sys.executable).parent / "hcomm")]
MODULE = [sys.executable, "-m", "hcomm"]


def run(command, *arguments, limit=60, **options):
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=limit, **options)


@pytest.fixture(params=[SCRIPT, MODULE], ids=["script", "module"])
def command(request):
    if not Path(request.param[0]).exists():
        pytest.skip(f"{request.param[0]} is not installed beside this Python")
    return request.param


def test_help(command):
    done = run(command, "--help")
    assert done.returncode == 0 and done.stderr == ""
    for name in ("launch", "plan", "import", "bench", "tune", "doctor", "settings"):
        assert name in done.stdout


def test_mistakes(command):
    for arguments, words in ((["lunch"], "launch"), (["plan", "--world", "x"], "x"), (["launch", "-n"], "<N>"), ([], "")):
        done = run(command, *arguments)
        assert done.returncode == 2, (arguments, done)
        assert words in done.stderr and "Traceback" not in done.stderr


def test_settings(command):
    done = run(command, "settings", "--json", env={"HCOMM_DEPTH": "4", "PATH": ""})
    listed = {entry["name"]: entry for entry in json.loads(done.stdout)}
    assert listed["HCOMM_DEPTH"]["value"] == "4" and len(listed) > 15
    done = run(command, "settings", env={"HCOMM_DEPHT": "4"})
    assert done.returncode == 2 and "HCOMM_DEPTH" in done.stderr


def test_plan(command):
    done = run(command, "plan", "--help")
    assert done.returncode == 0 and "plan" in done.stdout


PROGRAM = """
import sys, hcomm, numpy
comm = hcomm.init()
found = comm.all_reduce(numpy.full(3, comm.rank + 1.0))
print(f"rank {comm.rank} of {comm.world}: {found.tolist()} {sys.argv[1:]}", flush=True)
sys.exit(int(sys.argv[1]) if comm.rank == 1 else 0)
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def test_launch(command, program):
    done = run(command, "launch", "-n", "2", sys.executable, program, "0", "word")
    assert done.returncode == 0, done
    for rank in (0, 1):
        assert f"rank {rank} of 2: [3.0, 3.0, 3.0] ['0', 'word']" in done.stdout


def test_launch_passes_a_failure_on(program):
    done = run(MODULE, "launch", "-n", "2", sys.executable, program, "7")
    assert done.returncode == 7, done


def test_launch_of_a_program_that_is_not_there():
    done = run(MODULE, "launch", "-n", "2", "/nonexistent/program")
    assert done.returncode not in (0, None) and "nonexistent" in done.stderr


def test_doctor():
    done = run(MODULE, "doctor", limit=120)
    assert done.returncode in (0, 1) and done.stdout and "Traceback" not in done.stderr


def test_bench():
    done = run(MODULE, "bench", "--help")
    assert done.returncode == 0
    done = run(MODULE, "bench", *BENCH, limit=120)
    assert done.returncode == 0, done
    assert "1024" in done.stdout or "1 KiB" in done.stdout or "1KiB" in done.stdout, done.stdout


BENCH = ["all_reduce", "-n", "2", "--sizes", "1KiB,4KiB", "--iters", "20"]


def test_main_gives_the_exit_code(capfd):
    values(processes(1, _main))


def _main(_):
    from hcomm.__main__ import main

    sys.argv = ["hcomm", "settings"]
    assert main() == 0
    sys.argv = ["hcomm", "nonsense"]
    assert main() == 2


def modules():
    found = [hcomm.__name__, *(module.name for module in pkgutil.walk_packages(hcomm.__path__, "hcomm."))]
    return [name for name in found if not name.endswith("__main__") and ".torch" not in name]


@pytest.mark.parametrize("name", modules())
def test_examples_in_docstrings(name):
    tried = values(processes(1, _examples, name))[0]
    assert tried[0] == 0, f"{tried[0]} of {tried[1]} examples failed"


def _examples(_, name):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    hcomm.finalize()
    return result.failed, result.attempted


def test_most_modules_have_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    examples = {name: sum(len(test.examples) for test in finder.find(importlib.import_module(name))) for name in modules()}
    for name in ("hcomm.calls", "hcomm.config", "hcomm.errors", "hcomm.ops", "hcomm.overlap", "hcomm.plans", "hcomm.profiling", "hcomm.startup", "hcomm.gpu"):
        assert examples[name] > 0, name
