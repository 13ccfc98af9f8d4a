"""Coterie in tests: a broker in a thread of its own, faults, and views of topics and groups.

    with Broker(topics={"orders": 3}) as kafka:
        run_service(kafka.bootstrap_servers)
        kafka.group("billing").wait_stable(members=2)

With pytest the fixture `kafka` is such a broker (`coterie.pytest_plugin`). This module is public:
everything that it exports keeps its name and meaning.
"""

from typing import TYPE_CHECKING, Any

from coterie.protocol.errors import ErrorCode
from coterie.server.present import MemberSession
from coterie.server.share.seen_records import InFlight, SharePartition
from coterie.testing.actions import (
    AnswerError,
    AnswerGarbage,
    CloseAfter,
    CloseBefore,
    CoordinatorLoads,
    CoordinatorMoves,
    CutAnswer,
    Delay,
    DiskFull,
    NeverAnswer,
    NoLeader,
    SlowDisk,
    Throttle,
)
from coterie.testing.broker import Broker
from coterie.testing.case import KafkaTestCase
from coterie.testing.cluster import Cluster, cluster
from coterie.testing.errors import (
    BrokerLeak,
    BrokerNotStarted,
    FaultNotHit,
    RequestNotSeen,
    WaitTimedOut,
    WrongUse,
)
from coterie.testing.faults import Fault
from coterie.testing.groups import Group
from coterie.testing.members import Member
from coterie.testing.records import Record
from coterie.testing.requests import Request, Requests
from coterie.testing.security import Security
from coterie.testing.share_deliveries import EndedDelivery
from coterie.testing.streams_tasks import Task
from coterie.testing.virtual_time import VirtualClock
from coterie.testing.waiting import Waiting

if TYPE_CHECKING:
    from coterie.control.process_broker import ProcessBroker
    from coterie.control.process_cluster import ProcessCluster

__all__ = [
    "AnswerError",
    "AnswerGarbage",
    "Broker",
    "BrokerLeak",
    "BrokerNotStarted",
    "CloseAfter",
    "CloseBefore",
    "Cluster",
    "CoordinatorLoads",
    "CoordinatorMoves",
    "CutAnswer",
    "Delay",
    "DiskFull",
    "EndedDelivery",
    "ErrorCode",
    "Fault",
    "FaultNotHit",
    "Group",
    "InFlight",
    "KafkaTestCase",
    "Member",
    "MemberSession",
    "NeverAnswer",
    "NoLeader",
    "ProcessBroker",
    "ProcessCluster",
    "Record",
    "Request",
    "RequestNotSeen",
    "Requests",
    "Security",
    "SharePartition",
    "SlowDisk",
    "Task",
    "Throttle",
    "VirtualClock",
    "WaitTimedOut",
    "Waiting",
    "WrongUse",
    "cluster",
]


def __getattr__(name: str) -> Any:
    # Most tests have their broker in a thread, and start faster without this import.
    if name == "ProcessBroker":
        from coterie.control.process_broker import ProcessBroker

        return ProcessBroker
    if name == "ProcessCluster":
        from coterie.control.process_cluster import ProcessCluster

        return ProcessCluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
