"""Trains a small GPT with DistributedDataParallel: every rank has all of the model and its own part of the data.

    python gpt_ddp.py --ranks 2                                     starts its ranks by itself
    torchrun --nproc-per-node 2 gpt_ddp.py                          or by torchrun
    hcomm launch -n 2 python gpt_ddp.py --steps 300                 or by hcomm
    python gpt_ddp.py --backend gloo                                the same by torch's own backend, to compare
"""

from torch.nn.parallel import DistributedDataParallel

import byte_gpt


def learn(steps: int) -> None:
    # Averages gradients over the ranks while the backward pass still computes others.
    model = DistributedDataParallel(byte_gpt.Gpt())
    byte_gpt.train(model, steps)
    byte_gpt.check_alike(list(model.parameters()))


def main() -> None:
    arguments = byte_gpt.arguments(__doc__)
    byte_gpt.join(arguments.backend)
    learn(arguments.steps)
    byte_gpt.leave()


if __name__ == "__main__":
    main()
