"""Run a node: `python -m cluster.reference.process server.properties`; see `program`."""

import sys

# If Hypothesis is installed, kio registers strategies. That takes a third of the start-up time.
sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type] # None: as if there were none

from cluster.reference.process.program import main  # noqa: E402 - after Hypothesis is hidden

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
