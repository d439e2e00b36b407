"""A harness with a fault of resources in force, until somebody kills it.

    python -m tests.nemesis.play_resources FOLDER KIND

Says `held` when the fault is confirmed.
"""

import sys
import threading
from pathlib import Path

from nemesis.ledger import Ledger
from nemesis.protocol import Patience
from nemesis.registry import KINDS
from results.record.paths import RunPaths
from tests.nemesis.servers import aimed, serving

DOES = {"handles": "wait", "processor": "spin", "memory": "grow"}


def main(folder: Path, kind: str) -> None:
    """Hold a fault of n2 for ever."""
    with serving(folder, DOES[kind.rpartition("-")[2]]) as (cluster, hosts):
        fault = aimed(KINDS[kind].make, cluster, hosts)
        Ledger(RunPaths(folder).ledger).write(1, fault.undo())
        fault.inject()
        assert fault.confirm(Patience(limit_s=10)) is not None
        sys.stdout.write("held\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
