"""The distributed tests that PyTorch's wheel carries, without the file that starts them there. Every test is a job of forked processes:
new interpreters, as PyTorch itself starts them, would each import torch first, which takes longer than all tests together."""

import torch.multiprocessing
from torch.testing._internal.distributed import distributed_test as upstream


class TestDistributed(upstream.TestDistBackend, upstream.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)
