"""What a suite's file may say, and what is said of what it may not."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.suites.expansion import Entry, entries_of, joined
from harness.suites.ordering import ordered, waited_nights
from harness.suites.suite import Suite, SuiteError, load_suite, parse_suite, seconds_of

HERE = Path("nightly.toml")


def suite_of(text: str) -> Suite:
    return parse_suite(f'name = "nightly"\n{text}', HERE)


def names(text: str) -> list[str]:
    return [each.name for each in entries_of(suite_of(text))]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("budgt = '1h'", "there is no key 'budgt'; did you mean 'budget'?"),
        ("[axes]\nsystem = []", "there is no key 'axes.system'; did you mean 'axes.systems'?"),
        ("[repeat]\nsame_sed = 1", "'repeat.same_sed'; did you mean 'repeat.same_seed'?"),
        ("[[exclude]]\nhost = 'x'", "did you mean 'exclude.0.hosts'?"),
        ("[[entries]]\nnam = 'x'", "entries.0.name is missing"),
        ("budget = 'long'", "budget cannot be 'long': write a time such as 30m, 8h or 1h30m"),
        ("parallel = 0", "parallel cannot be 0"),
        ("[axes]\nseeds = 0", "axes.seeds cannot be 0: use a number from 1"),
        ("[axes]\nseeds = [3, 3]", "name one or more seeds, each once"),
        ("[axes]\nconfigurations = ['slow']", "there is no [configurations.slow]"),
        ("[[entries]]\nname = 'a'\n[[entries]]\nname = 'a'", "two of them have the name 'a'"),
        ("x = ", "is not valid TOML"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(text: str, said: str) -> None:
    with pytest.raises(SuiteError) as refused:
        suite_of(text)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no entry: give it [axes] or [[entries]]"),
        (
            "[hunt]",
            "has no entries; to see its possible settings, type: logquake hunt FILE --dry-run",
        ),
        ("[axes]\nscenarios = ['leader-epoc-9*']", "no scenario matches 'leader-epoc-9*'"),
        ("[plan]\ntime_limt_s = 9\n[axes]", "did you mean 'time_limit_s'?"),
        ("[axes]\nnemeses = ['kil']", "nemesis: 'kil' does not exist"),
        ("[axes]\nhosts = ['podman']", "hosts cannot be 'podman'"),
        ("[axes]\nworkloads = ['txn']\n[plan]\nacks = '1'", "transactions need acks"),
        (
            "[axes]\nsystems = ['kafka:4.3.1', 'kafka:4.3.1']",
            "two entries with the name log/kafka:4.3.1",
        ),
    ],
)
def test_an_entry_that_cannot_be_is_refused_before_the_night(text: str, said: str) -> None:
    with pytest.raises(SuiteError) as refused:
        entries_of(suite_of(text))
    assert said in str(refused.value)


def test_an_entry_may_be_simulated() -> None:
    (entry,) = entries_of(suite_of("[axes]\nsystems = ['reference']\nhosts = ['simulated']"))
    assert entry.plan(1).is_simulated


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="cannot be read: No such file"):
        load_suite(tmp_path / "none.toml")


def test_entries_are_called_by_what_they_are() -> None:
    assert names("""
[axes]
systems = ["kafka:4.3.1"]
configurations = ["default", "one-ack"]
hosts = ["namespace"]
nemeses = ["partition+kill", "none"]
seeds = 2
[configurations.one-ack]
acks = "1"
""") == [
        "log/kafka:4.3.1/namespace/partition+kill#1",
        "log/kafka:4.3.1/namespace/partition+kill#2",
        "log/kafka:4.3.1/namespace/none#1",
        "log/kafka:4.3.1/namespace/none#2",
        "log/kafka:4.3.1/one-ack/namespace/partition+kill#1",
        "log/kafka:4.3.1/one-ack/namespace/partition+kill#2",
        "log/kafka:4.3.1/one-ack/namespace/none#1",
        "log/kafka:4.3.1/one-ack/namespace/none#2",
    ]


def test_what_a_kind_of_hosts_needs_is_given_to_it_alone() -> None:
    suite = suite_of("""
[axes]
hosts = ["namespace", "docker"]
[hosts.docker]
image = "java:21"
""")
    images = {each.labels["hosts"]: each.plan(1).image for each in entries_of(suite)}
    assert images == {"namespace": None, "docker": "java:21"}


def test_excluded_entries_are_gone_and_weights_multiply() -> None:
    suite = suite_of("""
[axes]
workloads = ["log", "txn"]
nemeses = ["kill", "pause"]
[[exclude]]
workload = "txn"
nemesis = "pause"
[[weights]]
workload = "log"
weight = 2
[[weights]]
nemesis = "k*"
weight = 3
""")
    found = {each.name.split("/", 1)[0] + each.labels["nemesis"]: each.weight
             for each in entries_of(suite)}  # fmt: skip
    assert found == {"logkill": 6, "logpause": 2, "txnkill": 3}


def test_scenarios_are_entries_with_the_systems_that_they_know() -> None:
    found = names("[axes]\nworkloads = []\nhosts = ['namespace']\nscenarios = ['leader-epoch-1']")
    assert found
    assert all(name.startswith("leader-epoch-1+rule=") for name in found)
    assert len(set(found)) == len(found)
    assert not any(name.startswith("log/") for name in found)


def test_a_plan_by_hand_has_the_suites_plan_behind_it() -> None:
    (entry,) = entries_of(
        suite_of("""
[plan]
rate = 50
[plan.budgets]
isr_s = 9
[[entries]]
name = "by-hand"
seeds = [7]
[entries.plan]
acks = "1"
[entries.plan.budgets]
election_s = 8
""")
    )
    plan = entry.plan(entry.seed_of("tonight"))
    assert (entry.name, plan.seed, plan.rate, plan.acks) == ("by-hand#7", 7, 50, "1")
    assert (plan.budgets.isr_s, plan.budgets.election_s) == (9, 8)


def test_fresh_seeds_are_others_each_night_and_named_ones_are_not() -> None:
    (fresh,) = entries_of(suite_of("[axes]"))
    (named,) = entries_of(suite_of("[axes]\nseeds = [5]"))
    assert fresh.seed_of("monday") != fresh.seed_of("tuesday")
    assert fresh.seed_of("monday") == fresh.seed_of("monday")
    assert {named.seed_of("monday"), named.seed_of("tuesday")} == {5}


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59))
def test_periods_are_read_as_they_are_written(hours: int, minutes: int, seconds: int) -> None:
    text = f"{hours}h{minutes}m{seconds}s"
    assert seconds_of(text) == hours * 3600 + minutes * 60 + seconds


@given(st.dictionaries(st.sampled_from(["rate", "acks"]), st.integers()),
       st.dictionaries(st.sampled_from(["rate", "nodes"]), st.integers()))  # fmt: skip
def test_later_layers_win(under: dict[str, int], over: dict[str, int]) -> None:
    assert joined(under, over) == {**under, **over}


weighed = st.dictionaries(
    st.text("abc", min_size=1, max_size=4), st.floats(0.1, 10), min_size=1, max_size=8
)


@given(weighed, st.text(max_size=5))
def test_no_entry_waits_for_ever(weights: dict[str, float], salt: str) -> None:
    """One is played a night; after so many nights as the weights allow, each has had its turn."""
    entries = [Entry(name=name, values={}, weight=weight) for name, weight in weights.items()]
    nights: list[list[str]] = []
    for number in range(round(len(entries) * (max(weights.values()) / 0.1 + 1)) + 1):
        waited = waited_nights(entries, nights)
        nights.append([ordered(entries, waited=waited, night=f"{salt}{number}")[0].name])
        if {name for night in nights for name in night} == set(weights):
            return
    raise AssertionError(nights)


@given(st.permutations(["a", "b", "c", "d"]), st.text(max_size=5))
def test_a_nights_order_does_not_hang_on_the_files(names_: list[str], night: str) -> None:
    entries = [Entry(name=name, values={}) for name in names_]
    found = [each.name for each in ordered(entries, waited={}, night=night)]
    again = [each.name for each in ordered(entries[::-1], waited={}, night=night)]
    assert found == again
    assert sorted(found) == ["a", "b", "c", "d"]


def test_what_weighs_more_and_waited_longer_comes_first() -> None:
    entries = [Entry(name=name, values={}, weight=weight)
               for name, weight in (("light", 1.0), ("heavy", 3.0), ("old", 1.0))]  # fmt: skip
    waited = waited_nights(entries, [["light", "heavy", "old"], *[["light", "heavy"]] * 4])
    assert waited == {"light": 1, "heavy": 1, "old": 5}
    assert [each.name for each in ordered(entries, waited=waited, night="n")] == [
        "old", "heavy", "light",
    ]  # fmt: skip
