"""Sizes of buffers, as they are asked for."""

import sys

ELEMENT_BYTES = 4
# Those whose buffer every rank has a part of.
DIVIDE = ("all_gather", "reduce_scatter", "all_to_all")


def parse(words):
    """Bytes of "8,64K,2MiB": K, M and G stand for 1024, its square and its cube. Raises ValueError."""
    return sorted({one(word.strip()) for word in words.split(",")})


def one(word):
    digits = word.removesuffix("iB")
    shift = {"K": 10, "M": 20, "G": 30}.get(digits[-1:], 0)
    digits = digits[:-1] if shift else digits
    if not (digits.isascii() and digits.isdecimal()):
        raise ValueError(f"{word!r} is no size; expected one such as 8, 64K or 2M")
    return int(digits) << shift


def worthwhile(sizes, job):
    """Without those of which a rank would have no element, and so nothing to do; a barrier has one size. Raises ValueError where none is left."""
    if job.collective == "barrier":
        return [0]
    least = ELEMENT_BYTES * (job.ranks if job.collective in DIVIDE else 1)
    kept = [size for size in sizes if size >= least]
    if not kept:
        raise ValueError(f"every rank is to have an element; expected a size of {least} bytes or more")
    if len(kept) < len(sizes):
        print(f"peers: sizes below {least} bytes are left out: every rank is to have an element", file=sys.stderr)
    return kept
