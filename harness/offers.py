"""Which faults each kind of hosts can play on this machine, and why it cannot play other faults."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cluster.hosts.abilities import abilities_of
from cluster.hosts.choose import HostKind, choose_hosts
from cluster.protocol import Ability, UserError
from harness.elsewhere import INSTEAD
from nemesis.families import elsewhere_by
from nemesis.registry import kinds_of, needs_of, unsuited_by
from results.record.plan import NEMESIS_KINDS, Plan

WHICH_SSH = "to test your machines, type: logquake doctor --hosts ssh:HOSTS.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The faults that one kind of hosts can play on this machine.

    Attributes:
        hosts: The kind of hosts.
        unusable: Why this kind of hosts cannot be used at all; an empty string if it can be used.
        why_not: The reason why this kind of hosts lacks an ability. The reason is empty for each
            ability that the hosts have.
    """

    hosts: HostKind
    unusable: str = ""
    why_not: Mapping[Ability, str] = field(default_factory=dict)

    def refusal(self, family: str) -> str:
        """Return why a family of faults cannot be played; the reason is empty if it can be."""
        if self.unusable:
            return self.unusable
        if other := elsewhere_by(family, self.hosts):
            return INSTEAD.format(other)
        reasons = [self.why_not.get(need, "") for need in sorted(needs_of(family))]
        return "; ".join(dict.fromkeys(filter(None, reasons)))

    def cut_by_nodes(self) -> tuple[str, ...]:
        """Return the families that work only if the nodes cut their own links."""
        if self.hosts is not HostKind.PROCESS:
            return ()
        there = replace(self, why_not={**self.why_not, Ability.CUT: ""})
        plan = Plan(system="reference")
        families = [each for each in NEMESIS_KINDS if _kinds(each) and not unsuited_by(each, plan)]
        return tuple(each for each in families if self.refusal(each) and not there.refusal(each))


def offers(hosts: str | None = None) -> list[Offer]:
    """Check every kind of hosts. This takes some seconds.

    Args:
        hosts: The hosts that represent their kind, such as `ssh:HOSTS.toml`. If None, ssh hosts are
            not checked, because Logquake does not know which machines they are.

    Raises:
        UserError: There is no such kind.
    """
    named = (hosts or "").partition(":")[0]
    if hosts is not None and named not in {*HostKind}:
        choose_hosts(hosts)  # Raises an error unless it is `auto`.
        return offers()
    kinds = [kind.value for kind in HostKind if kind is not HostKind.ATTACHED]
    forms = dict(zip(kinds, kinds, strict=True)) | ({named: hosts} if hosts else {})
    return [_offer(HostKind(kind), form) for kind, form in forms.items()]


def _offer(kind: HostKind, form: str) -> Offer:
    if form == HostKind.SSH:
        return Offer(hosts=kind, unusable=WHICH_SSH)
    try:
        if kind is HostKind.DOCKER:  # The image is not known.
            from cluster.hosts.docker.image import try_daemon  # noqa: PLC0415 - as in `choose`

            try_daemon()
            return Offer(hosts=kind, why_not=abilities_of(kind))
        chosen = choose_hosts(form)
        return Offer(hosts=kind, why_not=abilities_of(chosen.hosts))
    except UserError as refusal:
        return Offer(hosts=kind, unusable=str(refusal))


def print_offers(offered: Sequence[Offer], console: Console) -> None:
    """Print which fault families each kind of hosts supports: a table, then the reasons."""
    reasons: dict[str, int] = {}
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("--nemesis", *(offer.hosts.value for offer in offered)):
        table.add_column(column, no_wrap=True)
    table.add_column("kinds", style="dim", overflow="fold")
    for family in filter(_kinds, NEMESIS_KINDS):
        cells = [_cell(offer.refusal(family), reasons) for offer in offered]
        kinds = _kinds(family)
        table.add_row(family, *cells, ", ".join(kinds) if kinds != (family,) else "")
    console.print(table)
    notes = Table.grid(padding=(0, 1))
    for reason, number in reasons.items():
        notes.add_row(Text(f"({number})"), Text(reason))
    for offer in offered:
        if families := offer.cut_by_nodes():
            more = (
                f"with --system reference also {', '.join(families)}, because its nodes cut"
                " their own links"
            )
            notes.add_row(Text("process:"), Text(more))
    console.print(notes, style="yellow")


def _kinds(family: str) -> tuple[str, ...]:
    return kinds_of(family, frozenset(Ability))


def _cell(refusal: str, reasons: dict[str, int]) -> Text:
    if not refusal:
        return Text("works", "green")
    return Text(f"no ({reasons.setdefault(refusal, len(reasons) + 1)})", "yellow")
