"""What the file of a command may say, and what is refused of it, and of a plan because of it."""

from pathlib import Path

import pytest
import tomli_w

from cluster.kafka.programs import Seat
from cluster.protocol import Ability, Endpoint, UserError
from cluster.systems.command import CommandPrograms, CommandSystem
from cluster.systems.command_file import CommandFile, filled, load_command
from cluster.systems.system import why_not
from harness.cli import exit_code
from harness.dry_run import dealt
from harness.staging import prepared
from results.record.declared import Sight
from results.record.plan import Plan, plan_from
from tests.systems.by_template import ROOT, reference_file

SHIPPED = [ROOT / "docs/systems/kfake.toml", ROOT / "docs/systems/tansu.toml"]
LEAST = {"what": "a broker", "argv": ["sh"]}


def written(folder: Path, **said: object) -> Path:
    file = folder / "broker.toml"
    file.write_text(tomli_w.dumps({**LEAST, **said}), encoding="utf-8")
    return file


def system(file: Path, **plan: object) -> CommandSystem:
    return CommandSystem(plan_from({"system": f"command:{file}", **plan}))


def test_of_a_file_that_says_little_nothing_is_promised(tmp_path: Path) -> None:
    declared = system(written(tmp_path)).declared()
    assert declared.sees == {Sight.ENDS}, "that a process ended we see ourselves"
    cannot = why_not(declared)
    assert "survives_kill" in cannot[Ability.KILL]
    assert "survives_kill" in cannot[Ability.STOP]
    assert cannot.keys() >= {Ability.FILES, Ability.QUORUM, Ability.TIME}
    assert cannot.keys().isdisjoint({Ability.PAUSE, Ability.CUT, Ability.APART})


def test_what_it_promises_is_taken_at_its_word(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        survives_kill=True,
        one_process=True,
        sees=["leader-epochs"],
        cannot={"pause": "it has a watchdog"},
        notes=["Its clock is a sundial."],
    )
    declared = system(file).declared()
    assert declared.sees == {Sight.ENDS, Sight.LEADER_EPOCHS}
    cannot = why_not(declared)
    assert cannot[Ability.PAUSE] == "it has a watchdog"
    assert cannot[Ability.APART] == "all brokers run in one process"
    assert Ability.KILL not in cannot
    assert declared.notes == ("Its clock is a sundial.",)


def test_alone_a_broker_is_apart_from_all_others(tmp_path: Path) -> None:
    alone = system(written(tmp_path, one_process=True, brokers=1))
    settled = CommandSystem(alone.settled(print))
    assert Ability.APART not in why_not(settled.declared())


def test_names_stand_for_what_differs_from_node_to_node() -> None:
    assert filled("tcp://{host}:{port} {{}}", {"host": "h", "port": "1"}) == "tcp://h:1 {}"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"argv": []}, "argv"),
        (
            {"argv": ["sh", "{prot}"]},
            r"\{prot\} in '\{prot\}' does not exist; use one of id, node, host",
        ),
        ({"argv": ["sh", "{port!r}"]}, r"\{port!r\} in"),
        ({"argv": ["sh", "{port.real}"]}, r"\{port.real\} in"),
        ({"argv": ["sh", "{"]}, "write a literal brace twice"),
        ({"argv": ["./{node}"]}, r"\{node\} in './\{node\}': .* may use only \{here\}"),
        ({"prepare": ["{folder}/x"]}, r"may use only \{here\}"),
        ({"software": ["{heer}/x"]}, r"may use only \{here\}"),
        ({"software": ["{"]}, "write a literal brace twice"),
        ({"environment": {"A": "{b}"}}, r"\{b\} in"),
        ({"files": {"../x": ""}}, "is outside of the node's folder"),
        ({"files": {"/etc/x": ""}}, "is outside of the node's folder"),
        ({"cannot": {"fly": "no wings"}}, "'fly' does not exist; use one of cut"),
        ({"sees": ["everything"]}, "sees"),
        ({"lacks": ["acks"]}, "lacks"),
        ({"first_id": 100}, "are reserved for controllers"),
        ({"colour": "red"}, "an unknown key 'colour'"),
        ({"what": ""}, "what"),
    ],
)
def test_what_nobody_understands_is_refused(
    tmp_path: Path, said: dict[str, object], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        load_command(written(tmp_path, **said))


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the file does not exist or is empty"):
        load_command(tmp_path / "absent.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("= 1", encoding="utf-8")
    with pytest.raises(UserError, match="is not valid TOML at line 1"):
        load_command(broken)
    broken.write_text('what = "x"', encoding="utf-8")
    with pytest.raises(UserError, match="argv is missing"):
        load_command(broken)


def test_a_file_that_others_may_write_starts_nothing(tmp_path: Path) -> None:
    file = written(tmp_path, argv=["{here}/own"], software=["{here}/own"])
    load_command(file)
    file.chmod(0o664)
    with pytest.raises(UserError, match=r"other users can write .*chmod go-w"):
        load_command(file)


def test_a_program_that_is_not_there_is_told_with_the_remedy(tmp_path: Path) -> None:
    absent = system(written(tmp_path, argv=["./bin/absent"], install="make bin/absent"))
    with pytest.raises(UserError, match=r"bin/absent.* does not exist; type: make bin/absent"):
        absent.prepare(print)
    with pytest.raises(UserError, match="is not in PATH"):
        system(written(tmp_path, argv=["surely-no-such-program"])).prepare(print)


def test_a_relative_program_lies_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "own").touch()
    programs = CommandPrograms(load_command(written(tmp_path, argv=["./own"])), tmp_path)
    assert programs.program("./own") == tmp_path / "own"
    assert programs.program("sh").is_absolute()


def test_templates_are_filled_for_each_node(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        argv=["sh", "-c", "{id} {node} {host}:{port} {inner_port} {ids} {bootstrap}", "{here}"],
        environment={"PEERS": "{peers} {inner_peers}"},
        files={"conf/a.json": '{{"dir": "{data}"}}'},
    )
    programs = CommandPrograms(load_command(file), tmp_path)
    ports = {"n1": 9092, "n2": 9094}
    seat = Seat(
        plan=Plan(),
        node="n2",
        folder=tmp_path,
        endpoints={
            node: Endpoint(host=f"host-{node}", broker_port=port, controller_port=0)
            for node, port in ports.items()
        },
        inner_ports={node: port + 1 for node, port in ports.items()},
    )
    argv = programs.argv(seat, lambda: None)
    assert argv[1:] == [
        "-c",
        "2 n2 host-n2:9094 9095 1,2 host-n1:9092,host-n2:9094",
        str(tmp_path),
    ]
    assert programs.environment(seat) == {"PEERS": "1@host-n1:9092 1@host-n1:9093"}
    programs.configure(seat)
    assert (tmp_path / "conf/a.json").read_text() == f'{{"dir": "{tmp_path}/data"}}'
    assert (tmp_path / "data").is_dir()


def test_a_plan_gets_the_ids_and_the_number_of_brokers(tmp_path: Path) -> None:
    file = written(tmp_path, first_id=111, brokers=1)
    plan = system(file).settled(print)
    assert (plan.nodes, plan.replication, plan.min_insync) == (1, 1, 1)
    assert plan.broker_ids == (111,)
    assert plan.system == f"command:{file}"
    again = CommandSystem(plan).settled(print)
    assert again == plan, "a stored plan is as it was"


def test_ids_follow_the_first(tmp_path: Path) -> None:
    plan = system(written(tmp_path, first_id=0), nodes=5).settled(print)
    assert plan.broker_ids == (0, 1, 2, 3, 4)
    assert plan.replication == 3


@pytest.mark.parametrize(
    ("key", "words"), [("nodes", "has nodes = 3"), ("replication", "has replication = 3")]
)
def test_brokers_that_there_are_not_are_refused(tmp_path: Path, key: str, words: str) -> None:
    with pytest.raises(UserError, match=f"runs with 1 broker.*{words}"):
        system(written(tmp_path, brokers=1), **{key: 3}).settled(print)


@pytest.mark.parametrize(
    ("lacks", "plan", "words"),
    [
        ("groups", {"workload": "groups"}, "use --workload log"),
        ("transactions", {"workload": "txn"}, "use --workload log"),
        ("idempotence", {}, "add --no-idempotence"),
    ],
)
def test_what_it_lacks_is_not_asked_of_it(
    tmp_path: Path, lacks: str, plan: dict[str, object], words: str
) -> None:
    file = written(tmp_path, lacks=[lacks])
    with pytest.raises(UserError, match=f"a broker has no {lacks}.*{words}"):
        system(file, **plan).refuse(keep=False)
    system(file, workload="log", idempotence=False).refuse(keep=False)


def test_it_is_not_kept(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="remove --keep"):
        system(written(tmp_path)).refuse(keep=True)


def test_the_record_has_the_hashes_of_file_and_programs(tmp_path: Path) -> None:
    told = system(reference_file(tmp_path)).told().brokers
    assert told["version"] == "the reference cluster, by a file"
    programs = told["programs"]
    assert isinstance(programs, dict)
    assert all(len(each) == 64 for each in (told["file"], *programs.values()))


@pytest.mark.parametrize("file", SHIPPED, ids=lambda it: it.stem)
def test_files_that_ship_can_be_read(file: Path) -> None:
    shipped = load_command(file)
    assert shipped.survives_kill, "or no kill would be dealt"
    assert shipped.install
    assert CommandSystem(Plan(system=f"command:{file}")).declared().what == shipped.what


def test_every_key_has_a_line_in_the_page() -> None:
    page = (ROOT / "docs/systems/README.md").read_text(encoding="utf-8")
    missing = [key for key in CommandFile.model_fields if f"`{key}`" not in page]
    assert missing == []


def test_a_run_that_wants_faults_and_can_have_none_is_refused(tmp_path: Path) -> None:
    none = dict.fromkeys(("pause", "elect", "reassign", "topics"), "it has a watchdog")
    file = written(tmp_path, cannot=none)
    default: dict[str, object] = {"system": f"command:{file}", "hosts": "process"}
    told = 'no fault is possible: faults of .* are left out: .*; .* add --nemesis ""'
    with pytest.raises(UserError, match=told):
        prepared(plan_from(default), keep=False, say=print)
    with pytest.raises(UserError, match=told):
        dealt(plan_from(default))
    assert not dealt(plan_from({**default, "nemesis": ""})).schedule.faults
    assert prepared(plan_from({**default, "nemesis": ""}), keep=False, say=print).plan.nemesis == ()


def test_a_dry_run_shows_the_plan_with_what_the_system_tells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, brokers=2, first_id=4)
    assert exit_code(["run", "--dry-run", "--system", f"command:{file}", "--hosts", "process"]) == 0
    shown = capsys.readouterr().out
    assert "nodes = 2" in shown
    assert "broker_ids = [" in shown
