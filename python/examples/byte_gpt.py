"""What gpt_ddp.py and gpt_fsdp.py have in common: a small GPT over bytes, the text that it learns, and the loop that trains it.

The text is Python's own documentation, which comes with every interpreter. All that is random comes from fixed seeds, so that two runs with as
many ranks end with the same parameters.
"""

import argparse
import gc
import hashlib
import os
import pydoc_data.topics
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

CONTEXT = 128  # bytes that the model looks back
WIDTH = 128
HEADS = 4
LAYERS = 4
SEQUENCES = 8  # of each rank in each step


class Block(nn.Module):
    """Attention to the bytes before, then a small network for each byte by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(WIDTH)
        self.queries_keys_values = nn.Linear(WIDTH, 3 * WIDTH)
        self.attended = nn.Linear(WIDTH, WIDTH)
        self.network = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        # (batch, length, 3 * width) -> three of (batch, heads, length, width / heads)
        split = self.queries_keys_values(self.before_attention(x)).view(batch, length, 3, HEADS, -1)
        queries, keys, values = split.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        x = x + self.attended(seen.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.network(x)


class Gpt(nn.Module):
    """From bytes to the logits of the byte after each. The same on every rank: its first parameters come from a fixed seed."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.bytes = nn.Embedding(256, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.last = nn.LayerNorm(WIDTH)
        self.logits = nn.Linear(WIDTH, 256, bias=False)

    def forward(self, text: Tensor) -> Tensor:
        x = self.bytes(text) + self.places(torch.arange(text.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.logits(self.last(x))


class Text:
    """Sequences drawn from the text, others on every rank."""

    def __init__(self, rank: int) -> None:
        text = "".join(pydoc_data.topics.topics.values()).encode()
        self.text = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
        self.random = torch.Generator().manual_seed(1000 + rank)

    def batch(self) -> tuple[Tensor, Tensor]:
        """Bytes, and for each the one that follows."""
        starts = torch.randint(len(self.text) - CONTEXT, (SEQUENCES,), generator=self.random)
        sequences = torch.stack([self.text[start : start + CONTEXT + 1] for start in starts])
        return sequences[:, :-1], sequences[:, 1:]


def arguments(description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=["hcomm", "gloo"], default="hcomm")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--ranks", type=int, default=2, help="how many to start, where no launcher has started this one")
    parsed = parser.parse_args()
    if "RANK" not in os.environ:
        start_ranks(parsed.ranks)
    return parsed


def start_ranks(ranks: int) -> None:
    """Becomes a launcher that runs this same command line once per rank."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.execv(sys.executable, [sys.executable, *launcher, *sys.argv])


def join(backend: str) -> None:
    """This process becomes a rank of the job."""
    # Ranks of one machine share its processors.
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))
    dist.init_process_group(backend, timeout=timedelta(minutes=2))


def leave() -> None:
    """Ends this rank's part of the job. By now the model must have gone, and what refers to it in a circle: whoever holds on to the group keeps
    its threads alive into the end of the interpreter, which does not go well."""
    gc.collect()
    dist.destroy_process_group()


def train(model: nn.Module, steps: int) -> None:
    """Trains a model that makes the ranks' gradients one by itself, and tells how it goes."""
    rank, world = dist.get_rank(), dist.get_world_size()
    text, optimizer = Text(rank), torch.optim.AdamW(model.parameters(), lr=2e-3)
    start = time.perf_counter()
    for step in range(1, steps + 1):
        inputs, targets = text.batch()
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 1 or step % 10 == 0 or step == steps:
            # Every rank has a loss of its own; what counts is their mean.
            mean = loss.detach()
            dist.all_reduce(mean)
            speed = step * world * SEQUENCES * CONTEXT / (time.perf_counter() - start)
            if rank == 0:
                print(f"step {step:4}  loss {mean.item() / world:.3f}  {speed:8.0f} tokens/s", flush=True)


def check_alike(parameters: list[Tensor]) -> None:
    """Prints a digest of the parameters, and fails unless all ranks have the very same ones."""
    digest = hashlib.sha256()
    for parameter in parameters:
        digest.update(parameter.detach().contiguous().numpy().tobytes())
    own, digests = digest.hexdigest(), [""] * dist.get_world_size()
    dist.all_gather_object(digests, own)
    print(f"rank {dist.get_rank()}: parameters {own}\n", end="", flush=True)
    if set(digests) != {own}:
        sys.exit(f"rank {dist.get_rank()}: the ranks have ended with different parameters")
