"""Brings packages into a folder of their own, so that nothing of the system changes: from PyPI and from Debian."""

import os
import shutil
import subprocess
import sys


class Unavailable(Exception):
    """A peer cannot be had here; the text says why."""


def run(command, log, **more):
    """Runs a command with its output at the end of `log`. Raises Unavailable with the last line of that output."""
    with open(log, "ab") as out:
        try:
            code = subprocess.run(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, **more).returncode
        except OSError as error:
            raise Unavailable(f"{command[0]} cannot be run: {error.strerror}") from error
    if code:
        lines = log.read_text(errors="replace").strip().splitlines() or ["no output"]
        raise Unavailable(f"{os.path.basename(command[0])} ended with {code}: {lines[-1].strip()} (all of it: {log})")


def pypi(folder, *packages):
    """Installs packages into a virtual environment that is `folder`."""
    log = folder / "log"
    run([sys.executable, "-m", "venv", str(folder)], log)
    run([str(folder / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", *packages], log)


def debian(folder, *packages):
    """Unpacks packages, and what they depend on as far as the system lacks it, below `folder`/root."""
    if not shutil.which("apt-get"):
        raise Unavailable("there is no apt-get here, and it is had from Debian's packages")
    archives, log = folder / "archives", folder / "log"
    (archives / "partial").mkdir(parents=True)
    options = [f"--option=Dir::Cache::archives={archives}", "--option=Debug::NoLocking=true", "--no-install-recommends"]
    command = ["apt-get", "install", "--download-only", "--reinstall", "--quiet", "--yes", *options, *packages]
    try:
        run(command, log)
    except Unavailable:
        run(["apt-get", "update", "--quiet"], log)
        run(command, log)
    for archive in sorted(archives.glob("*.deb")):
        run(["dpkg-deb", "--extract", str(archive), str(folder / "root")], log)
    shutil.rmtree(archives)
