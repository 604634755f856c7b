"""hcomm as a backend of `torch.distributed`: `init_process_group("hcomm")`, or `"cpu:hcomm"`.

From torch 2.14 on nothing needs to be imported: torch finds `register` by the package's entry point. Earlier versions need
`import hcomm.torch` first.

- `operations`: what each call of torch's does. `backend`, `group`: the two classes through which torch makes them.
- `work`: the calls' ends, as torch waits for them. `rendezvous`: how the ranks of a group find each other.
- `ddp`: the communication hook for DistributedDataParallel.
"""

from __future__ import annotations

import torch.distributed as dist

from .ddp import DdpHook, ddp_hook

__all__ = ["DdpHook", "ddp_hook", "register"]


def register() -> None:
    """Makes `"hcomm"` known to torch; called by torch itself, or by the import of this module. Harmless where it is known already."""
    if "HCOMM" in getattr(dist.Backend, "_plugins", {}):
        return
    from .group import create

    dist.Backend.register_backend("hcomm", create, extended_api=True, devices=["cpu"])


register()
