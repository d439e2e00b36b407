"""What doctor says of faults on each kind of hosts."""

import io

import pytest
from rich.console import Console

from cluster.hosts.abilities import NO_LINKS
from cluster.hosts.choose import HostKind
from cluster.protocol import Ability, UserError
from harness.cli import exit_code
from harness.offers import WHICH_SSH, Offer, offers, print_offers
from nemesis.registry import KINDS, unsuited_by
from nemesis.schedule import deal_schedule
from results.record.plan import NEMESIS_KINDS, Plan


def _printed(offered: list[Offer], width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO())
    print_offers(offered, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_has_every_family_and_numbers_each_reason_once(width: int) -> None:
    why_not = dict.fromkeys(Ability, "") | {Ability.CUT: "there is no nft"}
    offered = [
        Offer(hosts=HostKind.NAMESPACE, why_not=why_not),
        Offer(hosts=HostKind.DOCKER, unusable="dockerd does not run"),
    ]
    lines = _printed(offered, width)
    assert max(map(len, lines)) <= width
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in lines if line[0] not in " ("}
    assert rows["partition"].startswith("no (1) no (2) isolate, halves, one-way-in,")
    assert rows["kill"] == "works no (2)"
    assert {each for kind in KINDS.values() for each in kind.families} == set(rows) - {"--nemesis"}
    assert [line.rstrip() for line in lines[-2:]] == [
        "(1) there is no nft", "(2) dockerd does not run"
    ]  # fmt: skip


def test_what_is_offered_is_what_a_run_would_deal() -> None:
    offered = {offer.hosts: offer for offer in offers()}
    assert offered[HostKind.SSH].unusable == WHICH_SSH
    processes = offered[HostKind.PROCESS]
    assert processes.refusal("partition") == NO_LINKS
    assert processes.cut_by_nodes() == ("partition", "splits")
    assert offered[HostKind.NAMESPACE].cut_by_nodes() == ()
    able = {each for each, why_not in processes.why_not.items() if not why_not}
    plan = Plan(nemesis=("all",), time_limit_s=3000)
    faults = deal_schedule(plan, abilities=able).faults
    dealt = {KINDS[each.kind].family_for(plan.hosts) for each in faults}
    for family in NEMESIS_KINDS:
        refused = processes.refusal(family) or unsuited_by(family, plan)
        assert bool(refused) == (family not in dealt), family


def test_machines_that_were_named_are_tried_and_said_to_be_unusable() -> None:
    offered = {offer.hosts: offer for offer in offers("ssh:/nonexistent/hosts.toml")}
    assert "/nonexistent/hosts.toml" in offered[HostKind.SSH].unusable
    with pytest.raises(UserError, match="is not one of auto, namespace"):
        offers("sssh:hosts.toml")


def test_doctor_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert "faults that each kind of hosts supports on this machine:" in shown
    assert "--nemesis" in shown
    assert NO_LINKS.split()[0] in shown
    assert "with --system reference also partition, splits" in " ".join(shown.split())
