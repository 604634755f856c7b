"""Numbers to send: they differ in every element and every rank, and their sums over a few ranks are exact in the type."""

import ml_dtypes
import numpy as np

NUMPY = [
    np.dtype(name)
    for name in "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64 complex128".split()
] + [np.dtype(kind) for kind in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)]
TORCH = (
    "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64 complex64 complex128 float8_e4m3fn float8_e5m2"
).split()


def numbers(rank, count, dtype="f4"):
    """What a rank contributes. 8-bit floats hold only the integers up to 8 or 16, bool only two values: there, patterns that differ by rank."""
    dtype = np.dtype(dtype)
    at = np.arange(count)
    if dtype == bool:
        return (at >> rank) % 3 == 0
    if dtype.itemsize == 1 and dtype.name.startswith("float"):
        return ((at * 3 + rank * (1 + at % 2)) % 4 + 1).astype(dtype)
    if dtype.kind == "c":
        return (at * 5 + rank + 1 - 1j * (at + 7 * rank)).astype(dtype)
    return (at * 5 + rank + 1).astype(dtype)


def total(world, count, dtype="f4"):
    """The sum of what all ranks contribute."""
    dtype = np.dtype(dtype)
    parts = [numbers(rank, count, dtype) for rank in range(world)]
    if dtype == bool:
        return np.logical_or.reduce(parts)
    wide = complex if dtype.kind == "c" else np.int64 if dtype.kind in "iu" else float
    return sum(part.astype(wide) for part in parts).astype(dtype)


def same(found, expected):
    """Asserts that two arrays have the same type, shape and bits."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if found.tobytes() != expected.tobytes():
        raise AssertionError(f"found {found.ravel()[:40]}, expected {expected.ravel()[:40]}")
