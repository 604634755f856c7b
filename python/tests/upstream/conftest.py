"""Prepares PyTorch's own tests for a backend that they do not know. `run` says how by two variables of the environment:

BACKEND      the name by which the tests ask torch.distributed for their backend
UNDER_TEST   the backend that they get, whatever that name says; PyTorch's own where it is not set
"""

import os

import torch.distributed as dist
from torch.testing._internal import common_distributed

# What a backend has to be listed for, so that the tests of it are not skipped.
FEATURES = ("ddp", "subgroup", "plugin")

asked, under_test = os.environ["BACKEND"], os.environ.get("UNDER_TEST")


def list_features(backend):
    for feature in FEATURES:
        common_distributed.DistTestCases.backend_feature[feature].add(backend)


def put_in_place_of(name, backend):
    """Who asks for `name` gets `backend`. Its type stays that of a backend from elsewhere."""
    for each in (name, backend):
        dist.Backend._ensure_backend_registered(each)
    plugins = dist.Backend._plugins
    plugins[name.upper()] = plugins[backend.upper()]


def expect_own_names_in_profiles():
    """Else the tests look for events such as gloo:all_reduce."""
    from torch.testing._internal.distributed import distributed_test

    distributed_test.PROFILING_SUPPORTED_BACKENDS.clear()
    distributed_test.SEND_RECV_PROFILING_SUPPORTED_BACKENDS.clear()


if under_test:
    list_features(under_test)
    put_in_place_of(asked, under_test)
    expect_own_names_in_profiles()
