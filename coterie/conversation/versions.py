"""The first version of each API that has a field or form which transcripts depend on."""

JOIN_PROTOCOL_TYPE_SINCE = 7
SYNC_PROTOCOL_SINCE = 5
LEAVE_MEMBERS_SINCE = 3
FETCH_GROUPS_SINCE = 8
# OffsetCommit and OffsetFetch name topics by id.
TOPIC_IDS_SINCE = 10
LIST_STATE_SINCE = 4
LIST_TYPE_SINCE = 5
