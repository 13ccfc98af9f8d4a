"""Brokers of a cluster, chosen by what they are for a group, an id or a partition.

    place other at non-coordinator of orders
    place follower at follower of sales-0

From then on the client of that name talks to that broker. `$other` is its number; `$other_host` and
`$other_port` are where it listens. Several brokers may fit; the smallest number is taken.
"""

import asyncio
import re
from typing import NamedTuple

from coterie.conformance.over_tcp.target import ANSWER_LIMIT_S, Target
from coterie.conversation.learnt_names import LearntNames
from coterie.conversation.syntax import TranscriptError, parse_partition
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_PLACE = re.compile(r"(?P<client>[a-z]\w*) at (?P<role>[a-z-]+) of (?P<subject>\S+)")
_NOT = "non-"
_POLL_S = 0.05
_GROUP, _TRANSACTION = 0, 1


class Place(NamedTuple):
    """A client, and what the broker that it talks to is for a subject."""

    client: str
    role: str
    subject: str


def parse_place(text: str) -> Place:
    """Return the parts of `place`, without this word.

    Raises:
        TranscriptError: it is malformed.
    """
    match = _PLACE.fullmatch(text)
    if match is None:
        raise TranscriptError(f"place {text}: it is CLIENT at ROLE of SUBJECT")
    return Place(match["client"], match["role"], match["subject"])


async def broker_at(place: Place, target: Target, names: LearntNames) -> int:
    """Return the number of the broker; wait until there is one.

    Raises:
        TranscriptError: there is no such role, or no broker has it in time.
    """
    for _ in range(int(ANSWER_LIMIT_S / _POLL_S)):
        found = await _fitting(place, target, names)
        if found:
            return min(found)
        await asyncio.sleep(_POLL_S)
    raise TranscriptError(f"no broker is {place.role} of {place.subject}")


async def _fitting(place: Place, target: Target, names: LearntNames) -> set[int]:
    brokers = set(target.cluster)
    role = place.role.removeprefix(_NOT)
    match role:
        case "coordinator":
            those = await _coordinator(target, names.group(place.subject), _GROUP)
        case "transaction-coordinator":
            those = await _coordinator(target, names.group(place.subject), _TRANSACTION)
        case "leader" | "follower" | "replica":
            those = await _replicas(role, place.subject, target, names)
        case _:
            raise TranscriptError(f"no broker can be {place.role}")
    is_negated = role != place.role
    return (brokers - those if those else set()) if is_negated else those


async def _coordinator(target: Target, key: str, key_type: int) -> set[int]:
    request = FindCoordinatorRequest(key=key, coordinator_keys=[key], key_type=key_type)
    answer = await target.call(request, FindCoordinatorResponse)
    found = answer.coordinators[0] if answer.coordinators else answer
    return {found.node_id} if found.error_code == ErrorCode.NONE else set()


async def _replicas(role: str, subject: str, target: Target, names: LearntNames) -> set[int]:
    """Return the brokers of a partition, when all of its replicas are in sync."""
    topic, index = parse_partition(subject)
    described = await target.topic(names.own(topic))
    for each in described.partitions:
        if each.partition_index == index and set(each.isr_nodes) == set(each.replica_nodes):
            replicas = set(each.replica_nodes)
            return {
                "leader": {each.leader_id},
                "follower": replicas - {each.leader_id},
                "replica": replicas,
            }[role]
    return set()
