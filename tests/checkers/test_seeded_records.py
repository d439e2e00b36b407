"""Records that are measured must be those of a run that is judged whole."""

from pathlib import Path

from benchmarks.seeded import Shape, write_many
from checkers.run import judge_runs
from results.record.terms import Validity


def test_a_seeded_record_is_valid_and_each_check_that_applies_has_rows(tmp_path: Path) -> None:
    (root,) = write_many(tmp_path, 1, Shape(ops=4_000, partitions=2))
    (verdict,) = judge_runs([root], engine="local")
    assert (verdict.valid, verdict.unknown_because) == (Validity.VALID, ())
    looked = {name: rows for name, rows in verdict.checked.items() if rows is not None}
    assert {"metadata-divergence", "isr-not-restored", "double-vote"} <= looked.keys()
    bare = {name for name, rows in looked.items() if not rows}
    assert bare > {"acknowledged-below-min-isr", "log-end-regression", "high-watermark-ahead"}
    told = " ".join(sentence for each in verdict.basis for sentence in each.unshown)
    assert "no client sent a message while an ISR was too small" in told
    assert "no log end was reported after a high watermark" in told
    assert "no fault ended brokers that other members of an ISR could replace" in told
    assert len(bare) == 4
