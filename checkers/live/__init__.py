"""Judge a run while it is still running, with the same checks as for a finished run.

- `kernels`: the checks that can judge a run before its end.
- `window`: the recent rows of the run, in bounded memory.
- `history`: a filter that drops old answers about leaders and replicas, to save memory.
- `look`: one pass of the checks. Two passes that agree make a violation.

No code in this package reads files. `harness.watcher` reads them.
"""
