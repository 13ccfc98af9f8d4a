"""Requests of any API with values that name things which exist: a topic, a group, a transaction.

Arbitrary values rarely pass the first check of a handler. Here each field takes its value from a
short list for its name, so requests of every API reach the state behind the handler.
"""

import random
from typing import Any

from coterie.protocol.fields import Declaration
from coterie.protocol.schema import FieldType, WireField, fields_of
from tests.unit.server.produced import batch

# Values by the name of a field, or by its end. `t` has two partitions. Nothing here makes a broker
# refuse connections, which would end the run.
_NAMED: dict[str, tuple[Any, ...]] = {
    "transactional_id": ("x", "y", None),
    "transactional_ids": ("x", "y", ""),
    "transactional_id_pattern": ("x", "[xy]*", "(", None),
    "group_id": ("g", "h"),
    "group_ids": ("g", "h"),
    "groups_names": ("g", "h"),
    "member_id": ("", "m"),
    "group_instance_id": (None, "i"),
    "producer_id": (0, 1, -1, 1000),
    "producer_epoch": (0, 0, 1, -1, 32766),
    "generation_id": (-1, 1),
    "partition_index": (0, 1, 2),
    "partition_indexes": (0, 1, 2),
    "partitions": (0, 1, 2),
    "partition": (0, 1),
    "topic": ("t", "t", "u", "__consumer_offsets"),
    "topic_name": ("t", "u", "__cluster_metadata"),
    "name": ("t", "u", "retention.ms", "cleanup.policy", "group.version", "interval.ms", "g"),
    "feature": ("transaction.version", "group.version", "metadata.version", "no"),
    "max_version_level": (0, 1, 2, 30),
    "upgrade_type": (1, 2, 3, 4),
    "entity_type": ("user", "client-id", "ip", "no"),
    "entity_name": ("a", None, "127.0.0.1"),
    "match": ("a", None),
    "match_type": (0, 1, 2, 3),
    "key": ("producer_byte_rate", "controller_mutation_rate", "connection_creation_rate", "x"),
    "key_type": (0, 1, 2),
    "value": ("1000", "compact,delete", None, "-1"),
    "config_operation": (0, 1, 2, 3),
    "resource_type": (2, 4, 8, 16, 32, 3),
    "resource_name": ("t", "1", "", "g"),
    "resource_types": (2, 4, 8, 16, 32),
    "configuration_keys": ("retention.ms", "no"),
    "session_id": (0, 1),
    "session_epoch": (-1, 0, 1),
    "timestamp": (-1, -2, -3, -4, 0),
    "max_wait_ms": (0, 10),
    "timeout_ms": (0, 1000),
    "transaction_timeout_ms": (1000, 900_000, 0),
    "session_timeout_ms": (10_000,),
    "isolation_level": (0, 1),
    "state_filters": ("Ongoing", "Empty", "no"),
    "transaction_version": (0, 1, 2),
    "coordinator_epoch": (0, 1),
    "committed_offset": (0, 5),
    "offset": (0, -1, 5),
    "replicas": (1, 1, 2),
    "election_type": (0, 1, 2),
    "mechanism": (1, 2, 3),
    "iterations": (4096, 1),
    "compression_type": (0, 1, 4, 9),
    "path": ("memory", "/x"),
    "protocol_type": ("consumer",),
    "replica_id": (-1,),
    "replication_factor": (1, -1),
    "num_partitions": (1, -1, 3),
    "count": (3, 2),
    "acks": (1, -1),
}
_OF_KINDS: dict[str, tuple[Any, ...]] = {
    "string": ("t", "g", "", "x"),
    "boolean": (False, True),
    "bytes": (b"", b"\0\0"),
    "records": (
        batch(b"a"),
        batch(b"b", producer=(0, 0, 0)),
        batch(b"c", producer=(0, 0, 0), transactional=True),
    ),
    "float64": (1000.0, 0.5, -1.0),
    "uint16": (0, 1),
    "uuid": (bytes(16), bytes(range(16))),
}
_NUMBERS = (0, 1, -1)


def sensible(cls: type[Declaration], chance: random.Random) -> Any:
    """Return an instance of a request in which every field of every version has a value."""
    return cls(**{field.name: _field(field, chance) for field in fields_of(cls)})


def _field(field: WireField, chance: random.Random) -> Any:
    if field.declared.tag is not None and chance.random() < 0.7:
        return field.default
    return _value(field.type, field.name, chance)


def _value(kind: FieldType, name: str, chance: random.Random) -> Any:
    if kind.element is not None:
        count = chance.choice((0, 1, 1, 1, 2))
        return [_value(kind.element, name, chance) for _ in range(count)]
    if kind.struct is not None:
        return sensible(kind.struct, chance)
    assert kind.wire is not None
    wire = kind.wire.kind
    fitting = [each for each in _NAMED.get(name, ()) if _fits(each, wire, optional=kind.optional)]
    return chance.choice(fitting or _OF_KINDS.get(wire, _NUMBERS))


def _fits(value: Any, wire: str, *, optional: bool) -> bool:
    if value is None:
        return optional
    if isinstance(value, str):
        return wire == "string"
    return wire.startswith("int") and abs(value) < 1 << int(wire.removeprefix("int")) - 1
