"""From figures to the table of ratios: hcomm's time over the best peer's, and over the memory floor."""

import math
import statistics
from dataclasses import dataclass

HEADINGS = ["bytes", "hcomm us", "best peer us", "which", "ratio", "over the memory floor"]


@dataclass(frozen=True)
class Line:
    """One size; `times` has the median of every library that has one, in microseconds."""

    size: int
    times: dict
    best: str

    @property
    def ratio(self):
        return self.times["hcomm"] / self.times[self.best]

    @property
    def over_floor(self):
        return self.times["hcomm"] / self.times["floor"] if "floor" in self.times else None


def lines(figures):
    """By size. Sizes that hcomm or all peers lack have no line."""
    found = []
    for size in sorted(figures["hcomm"]):
        times = {name: statistics.median(of[size]) for name, of in figures.items() if of.get(size)}
        peers = [name for name in times if name not in ("hcomm", "floor")]
        if peers:
            found.append(Line(size, times, min(peers, key=times.get)))
    return found


def mean(found):
    """The geometric mean of the ratios."""
    return math.exp(statistics.fmean(math.log(line.ratio) for line in found))


def size_text(size):
    """1536 is "1536", 2048 is "2 KiB"."""
    for unit, bits in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size and size % (1 << bits) == 0:
            return f"{size >> bits} {unit}"
    return str(size)


def time_text(us):
    """Three digits at least."""
    return f"{us:.0f}" if us >= 100 else f"{us:.1f}" if us >= 10 else f"{us:.2f}"


def text(found, titles):
    """The table, in Markdown and in straight columns."""
    rows = [HEADINGS, *(cells(line, titles) for line in found)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADINGS))]
    written = ["| " + " | ".join(cell.rjust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
    rule = "|" + "|".join("-" * (width + 1) + ":" for width in widths) + "|"
    return "\n".join([written[0], rule, *written[1:]])


def cells(line, titles):
    """One row, as text."""
    floor = "" if line.over_floor is None else f"{line.over_floor:.2f}"
    times = [time_text(line.times["hcomm"]), time_text(line.times[line.best])]
    return [size_text(line.size), *times, titles[line.best], f"{line.ratio:.2f}", floor]
