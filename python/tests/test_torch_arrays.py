"""torch's tensors in hcomm's own calls."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from processes import ranks  # noqa: E402
from samples import TORCH, numbers, total  # noqa: E402
from torch_ranks import own, same, sums  # noqa: E402


def test_every_dtype():
    ranks(2, _every_dtype)


def _every_dtype(comm):
    for name in TORCH:
        expected = sums(2, 23, name)
        same(comm.all_reduce(own(comm.rank, 23, name)), expected)
        output = torch.empty(23, dtype=expected.dtype)
        comm.all_reduce_into(own(comm.rank, 23, name), output)
        same(output, expected)
        listed = [own(comm.rank, 23, name), own(comm.rank, 4, name)]
        comm.all_reduce(listed)
        same(listed[1], expected[:4])
        gathered = torch.empty(46, dtype=expected.dtype)
        comm.all_gather(own(comm.rank, 23, name), gathered)
        same(gathered, torch.cat([own(0, 23, name).view(torch.uint8), own(1, 23, name).view(torch.uint8)]).view(expected.dtype))


def test_every_arrangement():
    ranks(3, _every_arrangement)


def _every_arrangement(comm):
    for name in ("float32", "bfloat16", "complex64", "bool"):
        values, expected = own(comm.rank, 24, name), sums(3, 24, name)
        spread = torch.zeros(72, dtype=values.dtype)
        spread[::3] = values
        comm.all_reduce(spread[::3])
        same(spread[::3], expected)
        assert not bool(spread[1::3].any()) and not bool(spread[2::3].any())
        turned = values.reshape(4, 6).t().contiguous().t()
        comm.all_reduce(turned)
        same(turned, expected.reshape(4, 6))
        last = values.reshape(1, 2, 3, 4).clone().to(memory_format=torch.channels_last)
        comm.all_reduce(last)
        same(last, expected.reshape(1, 2, 3, 4))


def test_no_dimension_and_no_elements():
    ranks(2, _scalar_and_empty)


def _scalar_and_empty(comm):
    scalar = torch.tensor(comm.rank + 0.5)
    comm.all_reduce(scalar)
    assert scalar.item() == 2.0
    empty = torch.empty(0, 4)
    assert comm.all_reduce(empty) is empty


def test_gradients():
    ranks(2, _gradients)


def _gradients(comm):
    weight = torch.nn.Parameter(own(comm.rank, 6, "float32"))
    comm.broadcast(weight)
    same(weight.data, own(0, 6, "float32"))
    (weight * own(comm.rank, 6, "float32")).sum().backward()
    comm.all_reduce(weight.grad)
    same(weight.grad, sums(2, 6, "float32"))
    assert weight.requires_grad and weight.is_leaf


def test_torch_and_numpy_meet():
    ranks(2, _meet)


def _meet(comm):
    values = numbers(comm.rank, 9)
    comm.all_reduce(values if comm.rank == 0 else torch.from_numpy(values))
    assert values.tolist() == total(2, 9).tolist()


class Tensor(torch.Tensor):
    pass


UNUSABLE = [
    (lambda: torch.zeros(3, dtype=torch.complex64).conj(), TypeError, "conj"),
    (lambda: torch.zeros(3, dtype=torch.complex64).conj().imag, TypeError, "neg"),
    (lambda: torch.zeros(4).expand(3, 4), ValueError, "share memory"),
    (lambda: torch.zeros(6).as_strided((4, 3), (1, 1)), ValueError, "share memory"),
    (lambda: torch.zeros(3, device="meta"), TypeError, "meta"),
    (lambda: torch.zeros(3).to_sparse(), TypeError, "layout torch.sparse_coo"),
    (lambda: torch.zeros(3, dtype=torch.float8_e4m3fnuz), TypeError, "float8_e4m3fnuz"),
    (lambda: torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.qint8), TypeError, "qint8"),
]


@pytest.mark.parametrize("at", range(len(UNUSABLE)))
def test_unusable(at):
    ranks(2, _unusable, at)


def _unusable(comm, at):
    make, kind, words = UNUSABLE[at]
    for call in (comm.all_reduce, comm.all_reduce_async, lambda output: comm.all_reduce_into(torch.zeros(3), output)):
        with pytest.raises(kind, match=words):
            call(make())
    same(comm.all_reduce(own(comm.rank, 5, "float32")), sums(2, 5, "float32"))


def test_subclasses_are_tensors():
    ranks(2, _subclass)


def _subclass(comm):
    made = own(comm.rank, 5, "float32").as_subclass(Tensor)
    comm.all_reduce(made)
    same(made.as_subclass(torch.Tensor), sums(2, 5, "float32"))
