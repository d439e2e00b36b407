"""The wording of results, shared by page, terminal, index, exports and site.

- `headline`: a verdict in a sentence, with its best evidence. `reasons` chooses the main reason for
  an unknown verdict. `resting` lists the comparisons behind a verdict.
- `naming`: short names of ops and values (`docs/running.md`). When a sentence is printed, short
  names replace the numbers; `verdict.json` keeps the numbers.
- `faults`, `effects`, `links`: a run's faults as lines, their measured effects, and the nodes that
  were cut off.
- `glossary`: the meanings of terms. `plural`: counts with their noun.
- `inert`: text from outside, made safe to display.

This package imports only `results.record` and `results.tables`. All code that shows results may
import it.
"""
