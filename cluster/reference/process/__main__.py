"""Run a node: `python -m cluster.reference.process server.properties`; see `program`."""

import sys

# If Hypothesis is installed, kio registers strategies with it. That takes a third of the start.
sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type] # None: as if there were none

from cluster.reference.process.program import main  # noqa: E402 - after what it must not find

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
