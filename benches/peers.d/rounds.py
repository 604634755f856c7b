"""Runs hcomm and its peers in turns, and keeps their rows: "library,collective,ranks,bytes,median_us,stream_us"."""

import sys
from collections import defaultdict

from catalogue import Unavailable, output

# Cores flip between a fast and a slow state of their link within seconds, which small messages feel: those get more rounds.
SMALL_BYTES = 1024
SMALL_ROUNDS = 9 / 5
FLOOR_FROM_BYTES = 2 << 20
COLUMNS = {"median": 4, "stream": 5}


class Hcomm:
    """This project's own command, as a contestant."""

    name, title = "hcomm", "hcomm"

    def __init__(self, binary, arguments):
        self.binary, self.arguments = binary, arguments

    def rows(self, job, sizes):
        where = ["--ranks", str(job.ranks), "--transport", job.transport]
        rows = output([self.binary, "bench", job.collective, *where, "--sizes", sizes, "--csv", *self.arguments], None, job.seconds)
        return "\n".join(line.partition(",")[2] for line in rows.splitlines())


def measure(contestants, job, sizes, rounds, write):
    """Gives `write` every row as it comes. Who fails is left out of the rounds after; without hcomm there is no comparison."""
    left_out = set()
    for number in range(whole_rounds(min(sizes), rounds)):
        now = [size for size in sizes if number < whole_rounds(size, rounds)]
        for contestant in turned(contestants, number):
            if contestant.name in left_out:
                continue
            try:
                take_turn(contestant, job, now, write)
            except Unavailable as reason:
                if contestant.name == "hcomm":
                    sys.exit(f"peers: hcomm gave no figures: {reason}")
                print(f"peers: {contestant.title} is left out: {reason}", file=sys.stderr)
                left_out.add(contestant.name)


def take_turn(contestant, job, sizes, write):
    """One contestant in one round."""
    if contestant.name == "floor":
        sizes = [size for size in sizes if size >= FLOOR_FROM_BYTES]
    if not sizes:
        return
    out = contestant.rows(job, ",".join(str(size) for size in sizes))
    rows = [line for line in out.splitlines() if line.count(",") == 4 and line.startswith(f"{job.collective},")]
    if len(rows) != len(sizes):
        raise Unavailable(f"it printed {len(rows)} rows of {len(sizes)}")
    for row in rows:
        write(f"{contestant.name},{row}")


def whole_rounds(size, rounds):
    """In how many rounds a size takes part."""
    return round(rounds * SMALL_ROUNDS) if size <= SMALL_BYTES else rounds


def turned(contestants, number):
    """Another one begins in each round."""
    first = number % len(contestants)
    return contestants[first:] + contestants[:first]


def figures(rows, column):
    """Microseconds of all rounds, by library and bytes."""
    found = defaultdict(lambda: defaultdict(list))
    for row in rows:
        words = row.strip().split(",")
        found[words[0]][int(words[3])].append(float(words[COLUMNS[column]]))
    return found
