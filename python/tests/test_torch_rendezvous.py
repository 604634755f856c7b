"""How the ranks of a group find each other: where rank 0 listens, and which of its addresses the others take."""

import json
import socket

import pytest
import torch
import torch.distributed as dist
from processes import processes, values
from torch_ranks import join, same

import hcomm
from hcomm.torch import rendezvous


def test_all_addresses_are_offered():
    listener, addresses = rendezvous.listen()
    with listener:
        port = listener.getsockname()[1]
        hosts = [address.rpartition(":")[0] for address in addresses]
        assert len(hosts) == len(set(hosts)) and all(address.endswith(f":{port}") for address in addresses)
        assert hosts == [f"[{host}]" if ":" in host else host for host in hcomm._native.own_addresses({})]
        for address in addresses:
            assert rendezvous.reachable([address], 5) == address
            family = socket.AF_INET6 if address.startswith("[") else socket.AF_INET
            with socket.socket(family) as attempt:
                attempt.connect((address.rpartition(":")[0].strip("[]"), port))


def test_interfaces_are_chosen_by_their_setting(monkeypatch):
    monkeypatch.setenv("HCOMM_SOCKET_IFNAME", "=lo")
    listener, addresses = rendezvous.listen()
    listener.close()
    assert all(address.startswith(("127.", "[::1]")) for address in addresses), addresses
    monkeypatch.setenv("HCOMM_SOCKET_IFNAME", "=none9")
    with pytest.raises(hcomm.errors.SettingError, match="HCOMM_SOCKET_IFNAME==none9 takes no network interface"):
        rendezvous.listen()


def test_the_address_that_answers_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as free:
        closed = f"127.0.0.1:{free.getsockname()[1]}"
    # Of a network that is for documentation: nobody answers.
    silent = "192.0.2.1:9"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        there = f"127.0.0.1:{listener.getsockname()[1]}"
        assert rendezvous.reachable([closed, silent, "[::1]:1", there], 20) == there
    assert rendezvous.reachable([closed, "127.0.0.1:1"], 0.2) == closed


def test_rank_0_is_found_where_it_is_not_first_in_its_list():
    values(processes(3, _found))


def _found(place):
    listen = rendezvous.listen

    def listen_late():
        listener, addresses = listen()
        return listener, ["127.0.0.1:1", *addresses]

    rendezvous.listen = listen_late
    join(place)
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    same(tensor, torch.full((3,), 3.0))
    dist.destroy_process_group()


def test_what_is_no_handle():
    handle = rendezvous.Handle()
    try:
        assert len(json.loads(handle.text)["hcomm"]) >= 1
        for bad in ("", "{}", '{"hcomm": []}', '{"hcomm": [1]}', '{"hcomm": "node1:1"}'):
            with pytest.raises(ValueError, match="is no handle of hcomm's"):
                handle.members([handle.text, bad])
    finally:
        handle.close()
