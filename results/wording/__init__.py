"""The wording of results, shared by page, terminal, index, exports and site.

- `headline` describes a verdict in one sentence and gives the best evidence. `reasons` chooses the
  main reason for an unknown verdict. `resting` lists the comparisons behind a verdict.
- `naming`: short names of ops and values (`docs/running.md`). In printed sentences, short names
  replace the numbers, but `verdict.json` keeps the numbers.
- `faults`, `effects`, `links`: a run's faults as lines, the measured effects, and the nodes that
  were cut off.
- `glossary`: the meanings of terms. `evidence`: the meanings of the keys of evidence. `plural`: a
  count and its noun, in the singular or plural.
- `inert`: text from outside, made safe to display.

This package imports only `results.record` and `results.tables`. All code that shows results may
import it.
"""
