"""The program `python -m cluster.reference.process`: runs one node until a signal ends it.

The node's folder is the folder of its settings file. This folder contains `logs/` and the control
socket. The settings name the log dir. At SIGTERM the node hands over its leaderships and ends. A
node that fails logs the reason, prints it to standard error, and exits with 1.
"""

import asyncio
import errno
import os
import signal
import sys
import traceback
from contextlib import ExitStack, closing
from pathlib import Path
from uuid import uuid4

import uvloop

from cluster.files.damage import DamagedFileError
from cluster.reference.broker.boot import BootError, boot
from cluster.reference.log.disk import FolderDisk
from cluster.reference.log.recovery import DamagedLogError
from cluster.reference.machine import StopAsked
from cluster.reference.process.control import Control
from cluster.reference.process.cuts import cuts_of
from cluster.reference.process.driver import Driver
from cluster.reference.process.formatting import cluster_key
from cluster.reference.process.journal import Journal
from cluster.reference.settings import Settings, SettingsError, parsed

USAGE = "usage: python -m cluster.reference.process server.properties"


def main(arguments: list[str]) -> int:
    """Run a node; return the exit code."""
    if len(arguments) != 1:
        print(USAGE, file=sys.stderr)  # noqa: T201 - the program's own words
        return 2
    file = Path(arguments[0]).absolute()
    os.chdir(file.parent)
    journal = Journal(file.parent / "logs")
    try:
        settings = parsed(file.read_text(encoding="utf-8"))
        with closing(FolderDisk(Path(settings.log_dirs))) as disk:
            uvloop.run(_run(settings, disk, journal))
    except (SettingsError, DamagedFileError, DamagedLogError, BootError, OSError) as refusal:
        return _end_with(journal, str(refusal))
    except Exception:  # noqa: BLE001 - the interpreter of a node
        return _end_with(journal, traceback.format_exc())
    finally:
        journal.close()
    return 0


async def _run(settings: Settings, disk: FolderDisk, journal: Journal) -> None:
    loop = asyncio.get_running_loop()
    booted = boot(settings, disk, incarnation=uuid4())
    node = booted.machine
    driver = Driver(
        settings.node_id,
        booted.storage,
        key=cluster_key(Path(settings.log_dirs)),
        journal=journal,
        find=node.address,
    )
    for text in booted.said:
        journal.say(text)
    with ExitStack() as opened:  # uvloop does not end while any of its resources is open.
        opened.callback(driver.close)
        control = Control(driver.cuts)
        opened.callback(control.close)
        await control.open()
        # Only after the socket is open, because Logquake first writes the file, then connects.
        driver.cuts.cut(cuts_of(Path()))
        # While a node is stopped, its cuts may change. When it resumes, it must know the new cuts
        # before it sends. A handler of the event loop would run too late: after the node has read
        # the bytes that arrived meanwhile.
        before = signal.signal(
            signal.SIGCONT, lambda _number, _frame: driver.cuts.also(cuts_of(Path()))
        )
        opened.callback(signal.signal, signal.SIGCONT, before)
        servers = []
        for host, port in booted.listens_at:
            server = await loop.create_server(driver.door, host, port, start_serving=False)
            opened.callback(server.close)
            servers.append(server)
        loop.add_signal_handler(signal.SIGTERM, driver.take, StopAsked())
        driver.start(node)
        # No connection is accepted earlier, because there was no machine for its requests.
        for server in servers:
            await server.start_serving()
            # uvloop reports no error if another process, also bound to the port, listens already.
            if not all(server.sockets):
                raise OSError(
                    errno.EADDRINUSE, ("another process already listens at a listener's address")
                )
        await driver.ended.wait()
    await asyncio.sleep(0)  # Connections are closed properly.
    if driver.failure is not None:
        raise driver.failure


def _end_with(journal: Journal, why: str) -> int:
    journal.say(why, level="FATAL")
    print(why, file=sys.stderr)  # noqa: T201 - the program's own words
    return 1
