"""all_reduce of sparse tensors: every rank gathers everybody's elements and adds them up."""

from __future__ import annotations

import torch

from .. import _native


def all_reduce(communicator: _native.Communicator, tensor: torch.Tensor, op: str) -> None:
    """Sums (or averages) a sparse COO tensor over all ranks, in place.

    Raises `ValueError` for another reduction or layout, and where the ranks' shapes differ.
    """
    if op not in ("sum", "average"):
        raise ValueError(f"a sparse all_reduce by '{op}'; expected sum or average")
    if tensor.layout != torch.sparse_coo:
        raise ValueError(f"a sparse all_reduce of layout {tensor.layout}; expected torch.sparse_coo")
    own = tensor.coalesce()
    counts = _agreed_counts(communicator, own)
    indices, values = own.indices().contiguous(), own.values().contiguous()
    rows, width = indices.size(0), values[:1].numel() if len(values) else _width(own)
    # Gathered by element, so that one rank's are one block.
    everys_indices = torch.empty((sum(counts), rows), dtype=indices.dtype)
    everys_values = torch.empty((sum(counts), *values.shape[1:]), dtype=values.dtype)
    gather(communicator, indices.t().contiguous(), everys_indices, [count * rows for count in counts])
    gather(communicator, values, everys_values, [count * width for count in counts])
    total = torch.sparse_coo_tensor(everys_indices.t(), everys_values, own.shape).coalesce()
    if op == "average":
        total = total / communicator.world
    tensor.copy_(total)


def gather(
    communicator: _native.Communicator, input: torch.Tensor, output: torch.Tensor, counts: list[int]
) -> None:
    """all_gather of blocks of different lengths."""
    communicator.run("all_gather", input, output, "sum", 0, {"counts": counts})


def _agreed_counts(communicator: _native.Communicator, own: torch.Tensor) -> list[int]:
    """How many elements each rank has; all must have the same shape."""
    fact = torch.tensor([own._nnz(), own.sparse_dim(), own.dim(), *own.shape], dtype=torch.int64)
    sizes = torch.zeros(communicator.world, dtype=torch.int64)
    communicator.run("all_gather", torch.tensor([len(fact)]), sizes)
    if not bool((sizes == len(fact)).all()):
        raise ValueError("the ranks' sparse tensors have different numbers of dimensions")
    facts = torch.zeros((communicator.world, len(fact)), dtype=torch.int64)
    communicator.run("all_gather", fact, facts)
    if not bool((facts[:, 1:] == fact[1:]).all()):
        raise ValueError("the ranks' sparse tensors have different shapes")
    return [int(count) for count in facts[:, 0]]


def _width(own: torch.Tensor) -> int:
    """Values of an element."""
    width = 1
    for extent in own.shape[own.sparse_dim() :]:
        width *= extent
    return width
