"""The parts of an attached cluster that need none: commands, status, contract, SCRAM."""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from pathlib import Path

import pytest

from checkers.weakest import as_weakest
from cluster.hosts.ledger import RUN_MARK
from cluster.kafka.sasl import Sasl, SaslError
from cluster.protocol import Endpoint
from cluster.systems.attached.asking import PROMISED, Told
from cluster.systems.attached.commands import CommandError, Runner, Said
from cluster.systems.attached.contract import budgets_for, played_settings, unread
from cluster.systems.attached.status import state_said
from results.record.attached_file import AttachedFile
from results.record.clock import stopwatch_s
from results.record.declared import Declared
from results.record.plan import Plan
from results.record.plan_parts import Budgets

PLAIN = {
    "min.insync.replicas": "2", "unclean.leader.election.enable": "false",
    "replica.lag.time.max.ms": "30000", "broker.session.timeout.ms": "9000",
    "offsets.topic.replication.factor": "3", "transaction.state.log.replication.factor": "3",
}  # fmt: skip


def told_of(*settings: Mapping[str, str] | None) -> Told:
    nodes = [f"n{number}" for number in range(1, len(settings) + 1)]
    return Told(
        cluster_id="it",
        endpoints={node: Endpoint(host="h", broker_port=1, controller_port=0) for node in nodes},
        settings={node: each for node, each in zip(nodes, settings, strict=True) if each},
    )


@pytest.mark.parametrize(
    ("code", "out", "state"),
    [
        (0, "running 4711", ("S", 4711)),
        (0, "paused 4711", ("T", 4711)),
        (0, "Ssl 4711", ("S", 4711)),
        (0, "Tl    4711", ("T", 4711)),
        (0, "exited 0", (None, 0)),
        (0, "gone", (None, 0)),
        (0, "Zs 4711", (None, 0)),
        (1, "", (None, 0)),
        (0, "", (None, 0)),
    ],
)
def test_a_status_is_a_state_and_a_process(
    code: int, out: str, state: tuple[str | None, int]
) -> None:
    assert state_said(1, Said(code=code, out=out, err="")) == state


@pytest.mark.parametrize(
    ("code", "out", "err", "why"),
    [
        (255, "", "no route to host", "exited with 255: no route to host"),
        (1, "", "no such container", "exited with 1: no such container"),
        (0, "restarting", "", "must print"),
        (0, "running", "", "must print"),
        (0, "S 1 S 2", "", "must print"),
    ],
)
def test_what_is_no_status_is_no_end_of_a_broker(code: int, out: str, err: str, why: str) -> None:
    with pytest.raises(CommandError, match=why):
        state_said(1, Said(code=code, out=out, err=err))


def runner(folder: Path, **commands: object) -> Runner:
    values = {"bootstrap": "h:1", "nodes": commands, "limits": {"command_s": 1}}
    return Runner(AttachedFile.model_validate(values), folder / "cluster.toml")


def test_a_command_gets_its_places_and_no_shell(tmp_path: Path) -> None:
    asked = runner(tmp_path, reach=["printf", "%s|", "{host}:{port}", "{{.State}}", "$HOME;{x}"])
    said = asked.run(2, "reach", {"host": "peer", "port": 9})
    assert said.out == "peer:9|{{.State}}|$HOME;{x}|"


def test_a_broker_that_a_command_starts_has_no_mark_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RUN_MARK, "/a/run")
    said = runner(tmp_path, start="env").run(1, "start", {}).out
    assert "PATH=" in said
    assert RUN_MARK not in said


def test_a_command_that_fails_or_hangs_is_one_sentence(tmp_path: Path) -> None:
    asked = runner(tmp_path, kill="sh -c 'echo not you >&2; exit 3'", pause="sleep 60")
    with pytest.raises(CommandError, match="`kill` of broker 1 exited with 3: not you"):
        asked.do(1, "kill", {})
    with pytest.raises(CommandError, match="`pause` of broker 1 did not end within 1 s") as late:
        asked.do(1, "pause", {})
    assert "sleep" not in str(late.value), "what is run is the user's, and stays in their file"
    with pytest.raises(CommandError, match="has no command `cut` for broker 1"):
        asked.do(1, "cut", {})


def test_what_a_command_leaves_running_is_not_waited_for(tmp_path: Path) -> None:
    began_s = stopwatch_s()
    asked = runner(tmp_path, start="sh -c 'sleep 20 & echo started'")
    assert asked.run(1, "start", {}).out == "started"
    assert stopwatch_s() - began_s < 15


def test_contract_and_budgets_follow_what_brokers_tell() -> None:
    told = told_of(PLAIN, {**PLAIN, "unclean.leader.election.enable": "true"})
    settings = played_settings(told)
    assert settings.of_all["min.insync.replicas"] == "2"
    assert settings.of_single == {"n2": {"unclean.leader.election.enable": "true"}}
    budgets = budgets_for(Budgets(isr_s=7), told)
    assert budgets.unavailable_s == Budgets().unavailable_s + 6
    assert budgets.isr_s == 7
    assert budgets_for(Budgets(), told).isr_s == Budgets().isr_s + 39


def test_what_cannot_be_read_promises_nothing() -> None:
    told = told_of(PLAIN, None)
    settings = played_settings(told)
    assert unread(told) == {*PROMISED}
    assert not unread(told) & {*settings.of_all, *settings.of_single}, "nobody invents them"
    assert settings.least_insync == 1
    plan = Plan(broker=dict(settings.of_all), min_insync=settings.least_insync)
    judged = as_weakest(plan, Declared(unread=unread(told)))
    assert judged.unclean_elections
    assert judged.least_insync == 1
    assert judged.internal_copies("offsets.topic.replication.factor") == 1
    assert plan.hanging_after_s > 60, "what is not told is waited for"
    assert unread(told_of(PLAIN, PLAIN)) == frozenset()


class ScramServer:
    """The other side, as RFC 5802 has it."""

    def __init__(self, password: str, *, knows_it: bool = True) -> None:
        self.salted = hashlib.pbkdf2_hmac("sha512", password.encode(), b"salt", 4096)
        self.knows_it, self.first, self.challenge = knows_it, "", ""

    def ask(self, message: bytes) -> bytes:
        text = message.decode()
        if not self.first:
            self.first = text.removeprefix("n,,")
            nonce = self.first.partition("r=")[2]
            salt = base64.b64encode(b"salt").decode()
            self.challenge = f"r={nonce}more,s={salt},i=4096"
            return self.challenge.encode()
        closing, _, proof = text.partition(",p=")
        signed = f"{self.first},{self.challenge},{closing}".encode()
        key = hmac.digest(self.salted, b"Client Key", "sha512")
        signature = hmac.digest(hashlib.sha512(key).digest(), signed, "sha512")
        mixed = bytes(one ^ other for one, other in zip(key, signature, strict=True))
        assert base64.b64decode(proof) == mixed
        server = hmac.digest(self.salted, b"Server Key", "sha512")
        answer = hmac.digest(server, signed, "sha512")
        return b"v=" + base64.b64encode(answer if self.knows_it else answer[::-1])


def test_scram_proves_both_sides() -> None:
    settings = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "a,b", "sasl.password": "pw"}
    server = ScramServer("pw")
    Sasl(settings).prove(server.ask)
    assert server.first.startswith("n=a=2Cb,")
    with pytest.raises(SaslError, match="did not prove"):
        Sasl(settings).prove(ScramServer("pw", knows_it=False).ask)
