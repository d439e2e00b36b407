"""What a machine and a cluster can do, as small protocols.

Abilities that not every host has (`CanPartition`) are protocols of their own: a nemesis asks for
them with `isinstance`, and a host need not lie.

One module a theme: `machines`, `links` between them, `brokers`, the files of their `logs`; `errors`
for what fails. Others import from here.
"""

from cluster.protocol.brokers import (
    CanExcuse,
    CanFindCoordinators,
    CanKill,
    CanMakeTopics,
    CanMoveLeaders,
    CanPause,
    CanTellBack,
    CanTellTime,
    Cluster,
    ClusterView,
    CoordinatorKind,
    Ended,
    Endpoint,
    HasControllers,
    PartitionState,
    PartitionSummary,
    ReadsAllAtStart,
    SharesProcesses,
    Summary,
)
from cluster.protocol.errors import (
    ClusterError,
    UserError,
)
from cluster.protocol.links import (
    CLIENTS,
    CanPartition,
    CanShape,
    Link,
    Measured,
    Quality,
)
from cluster.protocol.logs import Batch, HasLogs, Logs, Vote
from cluster.protocol.machines import (
    OF_SYSTEMS,
    Ability,
    CanAudit,
    CanLimitDisk,
    CanLosePower,
    CanShiftClock,
    CanSlowDisk,
    Command,
    Disk,
    HasFiles,
    HasSoftware,
    Hosts,
    PowerCut,
    ProcessId,
    TellsRoom,
)

__all__ = [
    "CLIENTS",
    "OF_SYSTEMS",
    "Ability",
    "Batch",
    "CanAudit",
    "CanExcuse",
    "CanFindCoordinators",
    "CanKill",
    "CanLimitDisk",
    "CanLosePower",
    "CanMakeTopics",
    "CanMoveLeaders",
    "CanPartition",
    "CanPause",
    "CanShape",
    "CanShiftClock",
    "CanSlowDisk",
    "CanTellBack",
    "CanTellTime",
    "Cluster",
    "ClusterError",
    "ClusterView",
    "Command",
    "CoordinatorKind",
    "Disk",
    "Ended",
    "Endpoint",
    "HasControllers",
    "HasFiles",
    "HasLogs",
    "HasSoftware",
    "Hosts",
    "Link",
    "Logs",
    "Measured",
    "PartitionState",
    "PartitionSummary",
    "PowerCut",
    "ProcessId",
    "Quality",
    "ReadsAllAtStart",
    "SharesProcesses",
    "Summary",
    "TellsRoom",
    "UserError",
    "Vote",
]
