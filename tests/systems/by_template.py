"""The reference cluster as any broker that a command line starts: what its file would say.

It needs no other program than this Python, has a process of its own for each broker, and asks for
all that a file can have: files, a command before the first start, a second port.
"""

import sys
from pathlib import Path

import tomli_w

ROOT = Path(__file__).resolve().parents[2]
_SETTINGS = """
process.roles=broker,controller
node.id={id}
listeners=BROKER://{host}:{port},CONTROLLER://{host}:{inner_port}
controller.quorum.voters={id}@{host}:{inner_port},{inner_peers}
controller.listener.names=CONTROLLER
log.dirs={data}
broker.session.timeout.ms=3000
auto.create.topics.enable=false
min.insync.replicas=2
"""
_FORMAT = """
import sys
from pathlib import Path
from cluster.reference.process.formatting import META, meta_properties
from cluster.reference.wire.peers import KEY_FILE
node, folder = int(sys.argv[1]), Path(sys.argv[2])
ids = {"cluster_id": "L" * 22, "directory_id": f"{node:022d}"}
(folder / META).write_text(meta_properties(node, **ids), encoding="utf-8")
key = folder / KEY_FILE
key.touch(mode=0o600)
key.write_text("ab" * 32 + "\\n", encoding="ascii")
"""


def reference_file(folder: Path, **others: object) -> Path:
    """Write the file, and the script that it names; return where."""
    (folder / "format.py").write_text(_FORMAT, encoding="utf-8")
    python = [sys.executable, "-P"]
    said = {
        "what": "the reference cluster, by a file",
        "argv": [*python, "-m", "cluster.reference.process", "{folder}/conf/own.properties"],
        "prepare": [*python, "{here}/format.py", "{id}", "{data}"],
        "environment": {"PYTHONPATH": str(ROOT)},
        "files": {"conf/own.properties": _SETTINGS},
        "survives_kill": True,
        **others,
    }
    file = folder / "by-a-file.toml"
    file.write_text(tomli_w.dumps(said), encoding="utf-8")
    return file
