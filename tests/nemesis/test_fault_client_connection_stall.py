"""The fault `client-connection-stall`: of clients' connections to the targets some are late."""

from pathlib import Path

from cluster.protocol import CLIENTS
from nemesis.client_connection_stall import client_connection_stall
from tests.nemesis.proofs import half_stall_proof
from tests.nemesis.simulated_room import half_stall_as_drawn
from tests.nemesis.virtual_links import VirtualLinks, WholeLinks, begun, healed

PROOF_OF = [("client-connection-stall", half_stall_proof("clients-n2"))]
SHOWS_OF = [("client-connection-stall", half_stall_as_drawn)]


def test_both_ways_to_clients_stall_in_part_and_no_link_of_brokers(tmp_path: Path) -> None:
    links = VirtualLinks(tmp_path)

    def work() -> None:
        fault, effect = begun(client_connection_stall, links.site)
        assert {*fault.links} == {(CLIENTS, "n2"), ("n2", CLIENTS)}
        assert effect is not None
        assert healed(fault) is not None

    links.play(work)


def test_whole_links_that_stall_are_no_effect(tmp_path: Path) -> None:
    links = VirtualLinks(tmp_path, WholeLinks)
    assert not links.proven(client_connection_stall)
