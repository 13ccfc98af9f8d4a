"""Structures that requests and responses of share sessions have in common (KIP-932)."""

from coterie.protocol.wire import Int8, Int32, Int64, String, Struct, struct


@struct
class AcknowledgementBatch(Struct):
    """A range of offsets, both ends included.

    `acknowledge_types` has one type for the whole range or one for each offset: 0 Gap, 1 Accept,
    2 Release, 3 Reject, 4 Renew.
    """

    first_offset: Int64
    last_offset: Int64
    acknowledge_types: list[Int8]


@struct
class ShareLeader(Struct):
    """The leader of a partition and its epoch; both are 0 where the client needs no hint."""

    leader_id: Int32
    leader_epoch: Int32


@struct
class ShareNodeEndpoint(Struct):
    """The address of a leader."""

    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None
