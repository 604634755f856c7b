"""Trains a small GPT with FSDP2: every rank keeps its part of each parameter, of its gradient and of the optimizer's state, and has whole ones
only while it computes with them.

    python gpt_fsdp.py --ranks 2                                    starts its ranks by itself
    torchrun --nproc-per-node 2 gpt_fsdp.py                         or by torchrun
    hcomm launch -n 2 python gpt_fsdp.py --steps 300                or by hcomm
    python gpt_fsdp.py --backend gloo                               the same by torch's own backend, to compare
"""

import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import byte_gpt


def learn(steps: int) -> None:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = byte_gpt.Gpt()
    # Each block is gathered by itself, the next one while this one computes; the rest of the model goes together.
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    byte_gpt.train(model, steps)
    byte_gpt.check_alike([parameter.full_tensor() for parameter in model.parameters()])


def main() -> None:
    arguments = byte_gpt.arguments(__doc__)
    byte_gpt.join(arguments.backend)
    learn(arguments.steps)
    byte_gpt.leave()


if __name__ == "__main__":
    main()
