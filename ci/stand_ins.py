"""Makes a stand-in for the CUDA libraries that a torch wheel links to, so that torch can be imported on a machine without them.

All of them are one small library under many names: it defines every function that torch's libraries look for and none of them
has, each in the version under which it is looked for. Nothing on a CPU calls these functions; one that is called all the same
returns an error, which is how torch finds that there is no GPU.

usage: stand_ins.py FOLDER        of torch's libraries; needs ldd, readelf and a C compiler
"""

import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ONE = "libstand_in.so"
# CUDA's code for a driver that is too old for the library; to other libraries' callers, some failure.
ERROR = 35
# What the compiler puts into every program with kernels calls these before main, and takes any answer.
AT_LOADING = "__cuda"
# The driver's own library, which torch opens only where there is a GPU, as it does what is linked to it.
DRIVER = "libcuda.so.1"


def listing(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def needs(library):
    """The libraries that this one needs: the names of those that the loader does not find, and the paths of the others."""
    found = dict(re.findall(r"^\s*(\S+) => (not found|/\S+)", listing("ldd", library), re.MULTILINE))
    missing = {name for name, path in found.items() if path == "not found"}
    return missing, {path for name, path in found.items() if name not in missing}


def versions(library):
    """By the name of each library that this one needs: the versions that it wants there."""
    wanted, file = defaultdict(set), None
    for line in listing("readelf", "--wide", "--version-info", library).splitlines():
        if found := re.search(r"Version: \d+\s+File: (\S+)", line):
            file = found[1]
        elif "Version definition" in line or "Version symbols" in line:
            file = None
        elif file and (found := re.search(r"Name: (\S+)", line)):
            wanted[file].add(found[1])
    return wanted


def symbols(library):
    """What the library defines, and what it only uses as pairs of a name and a version ("" for none)."""
    defined, used = set(), set()
    for line in listing("readelf", "--wide", "--dyn-syms", library).splitlines():
        columns = line.split()
        if len(columns) < 8 or not columns[0].rstrip(":").isdigit():
            continue
        (binding, section), (name, _, version) = (columns[4], columns[6]), columns[7].partition("@")
        if section != "UND":
            defined.add(name)
        elif binding != "WEAK":
            used.add((name, version.lstrip("@")))
    return defined, used


def wanted(libraries):
    """The missing libraries' names, and by version the functions that stand-ins have to define."""
    needed = {library: needs(library) for library in libraries}
    users = [library for library, (missing, _) in needed.items() if DRIVER not in missing]
    names = set().union(*(needed[user][0] for user in users))
    there = set(map(str, libraries)).union(*(needed[user][1] for user in users))
    defined = set().union(*(symbols(library)[0] for library in there))
    used = set().union(*(symbols(user)[1] for user in users))

    versioned = {version: set() for user in users for file, found in versions(user).items() if file in names for version in found}
    for name, version in used:
        if version in versioned:
            versioned[version].add(name)
    # Python's own are the interpreter's; the rest without a version is what those libraries have that give out none.
    without = {name for name, version in used if not version and name not in defined and not re.match("_?Py", name)}
    return names, {**versioned, "stand_in": without}


def build(target, functions):
    """Compiles the one library."""
    nodes = [f"{version} {{ global: {' '.join(f'{name};' for name in sorted(names))} }};\n" for version, names in functions.items()]
    answers = {name: 0 if name.startswith(AT_LOADING) else ERROR for names in functions.values() for name in names}
    code = [f"long {name}(void) {{ return {answer}; }}\n" for name, answer in sorted(answers.items())]
    with tempfile.TemporaryDirectory() as folder:
        source, script = Path(folder, "stand_in.c"), Path(folder, "versions")
        source.write_text("".join(code))
        script.write_text("".join(nodes))
        options = ["-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,--version-script={script},-soname,{ONE}"]
        subprocess.run(["cc", *options, "-o", target, source], check=True)


def main():
    folder = Path(sys.argv[1]).resolve()
    names, functions = wanted(sorted(folder.glob("*.so")))
    if not names:
        return print("no library is missing")
    build(folder / ONE, functions)
    for name in names:
        (folder / name).symlink_to(ONE)
    print(f"{sum(map(len, functions.values()))} functions stand in for {', '.join(sorted(names))}")


if __name__ == "__main__":
    main()
