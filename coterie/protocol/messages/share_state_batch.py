"""The unit of delivery state, in messages and records of the share coordinator (KIP-932)."""

from coterie.protocol.wire import Int8, Int16, Int64, Struct, struct


@struct
class ShareStateBatch(Struct):
    """A range of offsets, both ends included, in one state.

    `delivery_state` is 0 AVAILABLE, 2 ACKNOWLEDGED or 4 ARCHIVED.
    """

    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16
