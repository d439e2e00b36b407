"""The sections of a run's page. Each module computes one section from the record as plain values.

The modules read tables and the verdict, and produce no HTML. `results/report.py` passes their
results to the templates. `results/show.py` prints some of these results in a terminal.

`investigation.py` investigates a failure once, for page and terminal. The main anomaly is the
example that shows the failure best. The code calls this example the witness. These modules help:

- `case.py` reads all recorded data about the main anomaly.
- `witness.py` describes the events of the main anomaly in sentences.
- `close_up.py` draws the period around the main anomaly. `moments.py` lists the events of this
  period as rows.
- `broker_logs.py` finds the log lines of brokers from this period.
- `breach.py` names the broken promise.
- `recurrence.py` asks the index whether the failure occurred before.

The phrases that page, terminal and index share are in `results/wording`.

`story.py` describes a scripted run. These modules help:

- `scenes.py` determines the log of each replica at each step. `logs.py` groups consecutive records
  of these logs.
- `changes.py` compares a step with the step before.
- `axis.py` and `drawing.py` compute the drawing of a step.
- `checkpoints.py` shows the lines of the brokers' checkpoint files.
- `endings.py` determines the fate of each message.
- `twins.py` finds a run of the same scenario under another rule. The page shows both runs side by
  side.
"""
