"""The log in memory, against lists that are searched from end to end."""

from collections.abc import Sequence
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from cluster.reference.log.batches import batch
from cluster.reference.log.epochs import NONE, LeaderEpochs
from cluster.reference.log.log import Log
from cluster.reference.machine import Append, Effect, Flush, Truncate
from tests.reference.batch_maker import produced

SIZES = st.lists(st.integers(min_value=1, max_value=4), min_size=1, max_size=8)
OFFSETS = st.integers(min_value=0, max_value=40)


def log_of(sizes: Sequence[int], *, flush_messages: int = 1 << 60) -> tuple[Log, list[Effect]]:
    """Append a batch of each size, every other one in a new epoch."""
    log, out = Log("t-0", flush_messages=flush_messages), list[Effect]()
    for number, size in enumerate(sizes):
        values = [b"%d" % number * size for _ in range(size)]
        log.append_as_leader(produced(*values), epoch=number // 2, out=out)
    return log, out


@given(
    sizes=SIZES,
    offset=OFFSETS,
    until=OFFSETS,
    max_bytes=st.integers(min_value=0, max_value=900),
    at_least_one=st.booleans(),
)
def test_a_read_gives_whole_batches(
    *, sizes: list[int], offset: int, until: int, max_bytes: int, at_least_one: bool
) -> None:
    log, _ = log_of(sizes)
    bounds = [0, *accumulate(sizes)]
    until = max(each for each in bounds if each <= until)
    wanted, room = list[bytes](), max_bytes
    for each in log.batches():
        if each.end_offset <= offset or each.end_offset > until:
            continue
        if len(each.data) > room and (wanted or not at_least_one):
            break
        wanted.append(each.data)
        room -= len(each.data)
    found = log.read(offset, max_bytes=max_bytes, until=until, at_least_one=at_least_one)
    assert found == b"".join(wanted)


@given(SIZES, OFFSETS)
def test_a_truncation_cuts_before_the_batch_that_holds_the_offset(
    sizes: list[int], offset: int
) -> None:
    log, _ = log_of(sizes)
    kept = [each for each in log.batches() if each.end_offset <= offset]
    out: list[Effect] = []
    log.truncate(offset, out=out)
    assert list(log.batches()) == kept
    assert log.end_offset == sum(sizes[: len(kept)])
    assert log.last_epoch == (kept[-1].leader_epoch if kept else -1)
    cut = [each for each in out if isinstance(each, Truncate)]
    assert [each.offset for each in cut] == ([log.end_offset] if len(kept) < len(sizes) else [])


@given(SIZES)
def test_a_follower_has_what_its_leader_has(sizes: list[int]) -> None:
    leader, _ = log_of(sizes)
    follower, out = Log("t-0"), list[Effect]()
    follower.append_as_follower(leader.read(0, max_bytes=1 << 20), out=out)
    assert list(follower.batches()) == list(leader.batches())
    assert follower.epochs.lines == leader.epochs.lines


@given(SIZES, st.integers(min_value=1, max_value=6))
def test_flushes_come_after_so_many_messages(sizes: list[int], every: int) -> None:
    log, out = log_of(sizes, flush_messages=every)
    unflushed = 0
    for effect in out:
        if isinstance(effect, Append):
            assert unflushed < every
            unflushed += batch(effect.data).count
        elif isinstance(effect, Flush):
            assert unflushed >= every
            unflushed = 0
    assert log.recovery_point == log.end_offset - unflushed


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=8),
    st.integers(-1, 12),
    st.integers(31, 40),
)
def test_where_an_epoch_ends(lines: list[tuple[int, int]], asked: int, log_end: int) -> None:
    epochs = LeaderEpochs()
    for epoch, start in lines:
        epochs.assign(epoch, start)
    kept = [(each.epoch, each.start_offset) for each in epochs.lines]
    assert kept == sorted(kept)
    assert len({epoch for epoch, _ in kept}) == len({start for _, start in kept}) == len(kept)
    later = [start for epoch, start in kept if epoch > asked]
    floor = [epoch for epoch, _ in kept if epoch <= asked]
    if asked < 0 or not kept or asked > kept[-1][0]:
        assert epochs.end_of(asked, log_end=log_end) == NONE
    else:
        end = later[0] if later else log_end
        assert epochs.end_of(asked, log_end=log_end) == (floor[-1] if floor else asked, end)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=8), st.integers(0, 35))
def test_what_a_cut_leaves_of_epochs(lines: list[tuple[int, int]], end: int) -> None:
    epochs = LeaderEpochs()
    for epoch, start in lines:
        epochs.assign(epoch, start)
    before = epochs.lines
    assert epochs.truncate(end) == any(each.start_offset >= end for each in before)
    assert list(epochs.lines) == [each for each in before if each.start_offset < end]
