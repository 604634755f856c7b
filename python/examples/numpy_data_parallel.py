"""Trains a small network with NumPy on data of every rank's own: each gradient is averaged over the ranks while the next one is computed.

    hcomm launch -n 2 python numpy_data_parallel.py
    torchrun --nproc-per-node 2 numpy_data_parallel.py              any launcher will do
    python numpy_data_parallel.py                                   one rank, by itself
"""

import argparse
import hashlib
import sys
from collections.abc import Iterator

import numpy as np

import hcomm

ARMS = 3  # of the spiral: the classes
SAMPLES = 256  # of each rank in each step
RATE = 0.5


def spiral(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points of the plane on intertwined arms, and the number of each point's arm."""
    arm = random.integers(ARMS, size=SAMPLES)
    distance = random.random(SAMPLES)
    angle = 4 * distance + 2 * np.pi * arm / ARMS + 0.1 * random.standard_normal(SAMPLES)
    points = np.stack([distance * np.cos(angle), distance * np.sin(angle)], axis=1)
    return points.astype(np.float32), arm


class Network:
    """Layers with tanh between them; softmax and cross entropy at the end."""

    def __init__(self, *widths: int) -> None:
        # The same seed everywhere, so that all ranks begin with the same parameters.
        random = np.random.default_rng(1)
        shapes = list(zip(widths, widths[1:]))
        self.weights = [random.standard_normal(shape, np.float32) * np.float32(np.sqrt(2 / shape[0])) for shape in shapes]
        self.biases = [np.zeros(out, np.float32) for _, out in shapes]

    def forward(self, points: np.ndarray) -> list[np.ndarray]:
        """The input of every layer, then the classes' probabilities."""
        inputs = [points]
        for weight, bias in zip(self.weights[:-1], self.biases):
            inputs.append(np.tanh(inputs[-1] @ weight + bias))
        scores = np.exp(inputs[-1] @ self.weights[-1] + self.biases[-1])
        return [*inputs, scores / scores.sum(axis=1, keepdims=True)]

    def backward(self, inputs: list[np.ndarray], classes: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Each parameter with its gradient, last layer first, as soon as it is known."""
        error = (inputs[-1] - np.eye(ARMS, dtype=np.float32)[classes]) / np.float32(len(classes))
        for layer in reversed(range(len(self.weights))):
            yield self.weights[layer], inputs[layer].T @ error
            yield self.biases[layer], error.sum(axis=0)
            error = (error @ self.weights[layer].T) * (1 - inputs[layer] ** 2)


def train(comm: hcomm.Communicator, network: Network, steps: int) -> None:
    random = np.random.default_rng(1000 + comm.rank)
    for step in range(1, steps + 1):
        points, classes = spiral(random)
        inputs = network.forward(points)
        updates = []
        # What is started inside runs while the loop goes on; leaving the scope waits for all of it.
        with hcomm.overlap_scope():
            for parameter, gradient in network.backward(inputs, classes):
                hcomm.all_reduce_async(gradient, op="avg")
                updates.append((parameter, gradient))
        for parameter, gradient in updates:
            parameter -= RATE * gradient
        if step == 1 or step % 200 == 0 or step == steps:
            report(comm, step, inputs[-1], classes)


def report(comm: hcomm.Communicator, step: int, probabilities: np.ndarray, classes: np.ndarray) -> None:
    """Prints the mean over all ranks."""
    loss = -np.log(probabilities[np.arange(len(classes)), classes]).mean()
    right = (probabilities.argmax(axis=1) == classes).mean()
    both = comm.all_reduce(np.array([loss, right]), op="avg")
    if comm.rank == 0:
        print(f"step {step:5}  loss {both[0]:.3f}  right {both[1]:.1%}", flush=True)


def check_alike(comm: hcomm.Communicator, network: Network) -> None:
    """Prints a digest of the parameters, and fails unless all ranks have the very same ones."""
    digest = hashlib.sha256(b"".join(part.tobytes() for part in [*network.weights, *network.biases]))
    own = np.frombuffer(digest.digest(), np.uint8)
    digests = np.empty((comm.world, len(own)), np.uint8)
    comm.all_gather(own, digests)
    print(f"rank {comm.rank}: parameters {digest.hexdigest()}\n", end="", flush=True)
    if (digests != own).any():
        sys.exit(f"rank {comm.rank}: the ranks have ended with different parameters")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    steps = parser.parse_args().steps
    with hcomm.init() as comm:
        network = Network(2, 64, 64, ARMS)
        train(comm, network, steps)
        check_alike(comm, network)


if __name__ == "__main__":
    main()
