"""`enable_profiling` and `get_profile_stats`: what the calls of this process came to.

>>> import numpy, hcomm
>>> comm = hcomm.init()
>>> hcomm.enable_profiling()
>>> for _ in range(3):
...     _ = hcomm.all_reduce(numpy.ones(1000, "f4"))
>>> stats = hcomm.get_profile_stats()
>>> stats["all_reduce"]["calls"], stats["all_reduce"]["bytes"]
(3, 12000)
>>> hcomm.enable_profiling(False)
>>> comm.close()
"""

from __future__ import annotations

import copy
from typing import Any

from . import _native, _state

Link = tuple[float, bool, str]
"""Bytes per second, whether they were measured, and what kinds of links the ranks have."""

_KEPT: dict[tuple[str, str, str], dict[str, Any]] = {}
"""What closed communicators have kept, by call, type and algorithm."""
_KEPT_EXPOSED: dict[str, float] = {}
_KEPT_OVERFLOWS: dict[str, int] = {}
_KEPT_LINKS: list[Link] = []


def enable_profiling(on: bool = True) -> None:
    """Keeps times and sizes of all calls of this process from now on, of every communicator, those of torch's groups included. Switching it on
    begins anew; switching it off keeps what there is. Each rank may do as it likes.
    """
    with _state.lock:
        if on:
            _KEPT.clear()
            _KEPT_EXPOSED.clear()
            _KEPT_OVERFLOWS.clear()
            _KEPT_LINKS.clear()
        _state.is_profiling = on
        for native in list(_state.live):
            native.record_statistics(on)


def get_profile_stats() -> ProfileStats:
    """What has been kept since `enable_profiling()`.

    A dict by call (`all_reduce`, ..., `send`, `recv`) of dicts:

    - `calls`, `failures`; `bytes` of the full buffers in all; `sent_bytes`, what this rank sent to others (half with `set_precision("fp16")`);
    - `time_min`, `time_median`, `time_p99`, `time_max`, `time_total`: seconds from the call to its end, the quantiles to within 2 %;
    - `exposed_time`: the seconds for which the program's threads waited: the whole of blocking calls, and every wait for a work or for a
      future of torch's, those of DistributedDataParallel included;
    - `bus_bandwidth`: bytes per second as nccl-tests counts them, and `link_share`, its share of `link_bandwidth`, what the slowest link of
      this rank carries each way while nothing else uses it; `link` is its kind, and `link_measured` says whether that was measured by
      `hcomm tune`, or is the usual figure of that kind;
    - `overflows`: elements that became infinite in a narrower precision: what this rank gave, or what it got where nothing that it gave did;
    - `sizes`: calls by the least power of two below their bytes;
    - `by_size`: for each of these and each algorithm a dict of `from_bytes`, `algorithm`, `calls`, `time_median`, `time_p99` and `time_total`;
    - `kinds`: the same numbers of calls, bytes and bytes sent by type of elements and algorithm.
    """
    rows = copy.deepcopy(_KEPT)
    exposed, links = dict(_KEPT_EXPOSED), list(_KEPT_LINKS)
    with _state.lock:
        for native in list(_state.live):
            _gather(native, rows, exposed, links)
    stats = ProfileStats()
    overflows = _overflows()
    for name in dict.fromkeys(call for call, _, _ in rows):
        own = [row for (call, _, _), row in rows.items() if call == name]
        stats[name] = _summary(own, exposed.get(name, 0.0), min(links, default=(0.0, False, "")))
        stats[name]["overflows"] = overflows.get(name, 0)
    return stats


class ProfileStats(dict[str, dict[str, Any]]):
    """A dict that prints as a table."""

    def __str__(self) -> str:
        if not self:
            return "no calls since hcomm.enable_profiling()"
        head = ("call", "calls", "bytes", "sent", "min", "median", "p99", "exposed", "bus", "of link")
        lines = [head, *(_line(name, row) for name, row in self.items())]
        table = _table(lines)
        sizes = [_size_line(name, size) for name, row in self.items() for size in row["by_size"]]
        by_size = _table([("call", "bytes from", "algorithm", "calls", "median", "p99", "total"), *sizes])
        note = [f"{name}: {row['overflows']} elements became infinite" for name, row in self.items() if row["overflows"]]
        return "\n".join([*table, _link(next(iter(self.values()))), *note, "", *by_size])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text("..." if cycle else str(self))


def retire(native: _native.Communicator) -> None:
    """Keeps what a communicator has, before it closes."""
    if _state.is_profiling:
        _gather(native, _KEPT, _KEPT_EXPOSED, _KEPT_LINKS)
        _add_counts(_KEPT_OVERFLOWS, native.overflows())
        del _KEPT_LINKS[1:]


_state.retire = retire


def _gather(
    native: _native.Communicator,
    rows: dict[tuple[str, str, str], dict[str, Any]],
    exposed: dict[str, float],
    links: list[Link],
) -> None:
    for row in native.statistics():
        key = (row["call"], row["dtype"], row["algorithm"])
        _add(rows.setdefault(key, {}), row)
    for name, seconds in native.exposed().items():
        exposed[name] = exposed.get(name, 0.0) + seconds
    kinds = {link.split()[0].rstrip(":") for rank, link in enumerate(native.links) if rank != native.rank}
    links.append((*native.link(), " and ".join(sorted(kinds))))


def _overflows() -> dict[str, int]:
    """By call, of all communicators."""
    counts = dict(_KEPT_OVERFLOWS)
    with _state.lock:
        for native in list(_state.live):
            _add_counts(counts, native.overflows())
    return counts


def _add_counts(total: dict[str, int], more: dict[str, int]) -> None:
    for name, count in more.items():
        total[name] = total.get(name, 0) + count


_SUMS = ("calls", "failures", "bytes", "sent_bytes", "total_ns")


def _add(total: dict[str, Any], row: dict[str, Any]) -> None:
    """Adds statistics of the same kind of calls."""
    total.setdefault("dtype", row["dtype"])
    total.setdefault("algorithm", row["algorithm"])
    total["min_ns"] = min(total.get("min_ns", row["min_ns"]), row["min_ns"])
    total["max_ns"] = max(total.get("max_ns", 0), row["max_ns"])
    total["bus_bytes"] = total.get("bus_bytes", 0.0) + row["bus_bytes_per_s"] * row["total_ns"] / 1e9
    for name in _SUMS:
        total[name] = total.get(name, 0) + row[name]
    _count(total.setdefault("times", {}), row["times"])
    sizes = total.setdefault("sizes", {})
    for size, times in row["sizes"].items():
        _count(sizes.setdefault(size, {}), times)


def _count(counts: dict[int, int], more: dict[int, int]) -> None:
    for key, calls in more.items():
        counts[key] = counts.get(key, 0) + calls


def _summary(rows: list[dict[str, Any]], exposed: float, link: Link) -> dict[str, Any]:
    """The statistics of one call, over its kinds."""
    times: dict[int, int] = {}
    by_size: dict[tuple[int, str], dict[int, int]] = {}
    for row in rows:
        _count(times, row["times"])
        for size, own in row["sizes"].items():
            _count(by_size.setdefault((size, row["algorithm"]), {}), own)
    sizes: dict[int, int] = {}
    for (size, _), own in sorted(by_size.items()):
        sizes[size] = sizes.get(size, 0) + sum(own.values())
    total_ns = sum(row["total_ns"] for row in rows)
    bandwidth = sum(row["bus_bytes"] for row in rows) / (total_ns / 1e9) if total_ns else 0.0
    link_bandwidth, measured, kind = link
    return {
        "calls": sum(row["calls"] for row in rows),
        "failures": sum(row["failures"] for row in rows),
        "bytes": sum(row["bytes"] for row in rows),
        "sent_bytes": sum(row["sent_bytes"] for row in rows),
        "time_min": min(row["min_ns"] for row in rows) / 1e9,
        "time_median": _quantile(times, 0.5) / 1e9,
        "time_p99": _quantile(times, 0.99) / 1e9,
        "time_max": max(row["max_ns"] for row in rows) / 1e9,
        "time_total": total_ns / 1e9,
        "exposed_time": exposed,
        "bus_bandwidth": bandwidth,
        "link_bandwidth": link_bandwidth,
        "link_measured": measured,
        "link": kind,
        "link_share": bandwidth / link_bandwidth if link_bandwidth else 0.0,
        "sizes": sizes,
        "by_size": [_of_size(size, algorithm, own) for (size, algorithm), own in sorted(by_size.items())],
        "kinds": [
            {name: row[name] for name in ("dtype", "algorithm", "calls", "failures", "bytes", "sent_bytes")} for row in rows
        ],
    }


def _of_size(size: int, algorithm: str, times: dict[int, int]) -> dict[str, Any]:
    return {
        "from_bytes": size,
        "algorithm": algorithm,
        "calls": sum(times.values()),
        "time_median": _quantile(times, 0.5) / 1e9,
        "time_p99": _quantile(times, 0.99) / 1e9,
        "time_total": sum(ns * calls for ns, calls in times.items()) / 1e9,
    }


def _quantile(times: dict[int, int], part: float) -> float:
    place = max(part * sum(times.values()), 1)
    seen = 0
    for ns, calls in sorted(times.items()):
        seen += calls
        if seen >= place:
            return ns
    return 0


def _line(name: str, row: dict[str, Any]) -> tuple[str, ...]:
    return (
        name,
        str(row["calls"]) if not row["failures"] else f"{row['calls']} ({row['failures']} failed)",
        _bytes(row["bytes"]),
        _bytes(row["sent_bytes"]),
        *(_seconds(row[key]) for key in ("time_min", "time_median", "time_p99", "exposed_time")),
        f"{row['bus_bandwidth'] / 1e9:.2f} GB/s",
        f"{row['link_share']:.0%}",
    )


def _size_line(name: str, size: dict[str, Any]) -> tuple[str, ...]:
    times = (_seconds(size[key]) for key in ("time_median", "time_p99", "time_total"))
    return (name, _bytes(size["from_bytes"]), size["algorithm"], str(size["calls"]), *times)


def _link(row: dict[str, Any]) -> str:
    """What the share of the link is a share of."""
    if not row["link"]:
        return "link: none; this rank is alone"
    source = "measured by `hcomm tune`" if row["link_measured"] else "the usual figure; `hcomm tune` measures it"
    return f"of link: of {row['link_bandwidth'] / 1e9:.2f} GB/s each way, the slowest of this rank's links ({row['link']}); {source}"


def _table(lines: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    return ["  ".join(_aligned(line, widths)) for line in lines]


def _aligned(line: tuple[str, ...], widths: list[int]) -> list[str]:
    name, *numbers = line
    return [name.ljust(widths[0]), *(text.rjust(width) for text, width in zip(numbers, widths[1:], strict=True))]


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def _seconds(seconds: float) -> str:
    for factor, unit in ((1e6, "us"), (1e3, "ms")):
        if seconds * factor < 1000:
            return f"{seconds * factor:.1f} {unit}"
    return f"{seconds:.2f} s"
