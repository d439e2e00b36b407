"""Bugs named in librdkafka's changelog, each with an ordinary plan that triggers it."""

from dataclasses import dataclass

JAVA = "java"
_STRATEGY = "partition.assignment.strategy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """A bug named in librdkafka's changelog.

    Attributes:
        name: A short name.
        does: A sentence on the bug's effect.
        pull: The number of the pull request on GitHub that fixed the bug.
        plan: The plan's path below `docs/plans`, without `.toml`.
        says: A pattern that the verdict on a run with the bug matches, in new or older words.
        broken, fixed: A release with the bug, and a release with the fix.
        of_librdkafka, of_java: Additional options for each client. Both have the same effect, under
            each client's own names.
    """

    name: str
    does: str
    pull: int
    plan: str
    says: str
    broken: str
    fixed: str
    of_librdkafka: tuple[str, ...] = ()
    of_java: tuple[str, ...] = ()

    def command(self, client: str, seed: int) -> tuple[str, ...]:
        """Return the words of the command behind `logquake`."""
        java = client == JAVA
        which = ("--client-kind", JAVA) if java else ("--client-version", client)
        more = self.of_java if java else self.of_librdkafka
        return ("run", f"docs/plans/{self.plan}.toml", *which, *more, "--seed", str(seed))


STICKY = ("--client", f"{_STRATEGY}=cooperative-sticky")
JAVAS_STICKY = (
    "--client",
    f"{_STRATEGY}=org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
)
BUGS: tuple[Bug, ...] = (
    Bug(
        name="read-while-validated",
        does="A reader is given records again that its client fetched while it asked a new leader"
        " where an epoch ends.",
        pull=4261, plan="readers-behind", says="went backwards",
        broken="2.1.0", fixed="2.1.1",
    ),
    Bug(
        name="assignor-state",
        does="A member that ends before its first assignment by `cooperative-sticky` crashes.",
        pull=4381, plan="members-come-and-go", says="crashed",
        broken="2.2.0", fixed="2.3.0", of_librdkafka=STICKY, of_java=JAVAS_STICKY,
    ),
    Bug(
        name="topics-without-ids",
        does="A fetch of topics that have no ids yet crashes.",
        pull=4806, plan="half-upgraded", says="crashed",
        broken="2.5.3", fixed="2.6.0",
    ),
    Bug(
        name="fetch-of-old-brokers",
        does="A consumer asks brokers before Kafka 2.7 in a version that they do not know, and gets"
        " nothing.",
        pull=4871, plan="old-brokers", says="got no records|given nothing",
        broken="2.6.0", fixed="2.6.1",
    ),
)  # fmt: skip
"""The bugs, in the order of the releases that have them."""
