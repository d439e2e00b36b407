"""How results are put into words, wherever they are shown: page, terminal, index, exports, site.

- `headline`: a verdict in a sentence, with the evidence that shows it best; `reasons` chooses among
  what keeps a run from a verdict, `resting` says what a verdict rests on.
- `naming`: short names of ops and values (`docs/running.md`), put into sentences when they are
  printed; `verdict.json` keeps numbers.
- `faults`, `effects`, `links`: a run's faults as lines, what was measured of them, who was cut off.
- `glossary`: what terms mean. `plural`: counts with their noun.
- `inert`: text of others, made harmless to look at.

It imports `results.record` and `results.tables` only, and all that shows results may import it.
"""
