"""Reductions, by the names under which every call takes them.

>>> from hcomm import ReduceOp, premul_sum
>>> ReduceOp.SUM == "sum"
True
>>> premul_sum(0.5)
'premulsum:0.5'
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class ReduceOp(StrEnum):
    """How contributions are combined, element by element. Calls take the plain names as well."""

    SUM = "sum"
    """Sum; wraps for integers, `or` for bool."""
    AVG = "average"
    """Sum divided by the number of ranks; of integers toward zero, and in a type in which the sum of those of up to 32 bits does not wrap."""
    PRODUCT = "product"
    """Product; wraps for integers, `and` for bool."""
    MIN = "min"
    """Smallest; a NaN from any rank gives NaN."""
    MAX = "max"
    """Largest; a NaN from any rank gives NaN."""
    BAND = "band"
    """Bitwise and, of integers and bool."""
    BOR = "bor"
    """Bitwise or, of integers and bool."""
    BXOR = "bxor"
    """Bitwise exclusive or, of integers and bool."""
    LAND = "land"
    """Logical and: 1 where every contribution is not 0."""
    LOR = "lor"
    """Logical or: 1 where any contribution is not 0."""
    LXOR = "lxor"
    """Logical exclusive or: 1 where an odd number of contributions are not 0."""


ALIASES: Final = {"avg": "average", "mean": "average", "prod": "product"}
"""Other names that calls take."""


def premul_sum(factor: float) -> str:
    """The sum of contributions that are first multiplied by a factor."""
    return f"premulsum:{float(factor)!r}"


def name_of(op: str) -> str:
    """The name that the engine knows.

    Raises `TypeError` for what is no name.
    """
    if not isinstance(op, str):
        raise TypeError(f"a reduction {op!r}; expected a name such as 'sum', or hcomm.ReduceOp.SUM")
    return ALIASES.get(op, op)
