"""Bugs planted into share partitions, their sessions and states, with the checks that find them.

A text is replaced where one branch of a verdict, one of several conditions or one assignment is
wrong: neither an argument nor a call stands for it.
"""

from tests.faults import answers, does_nothing, given
from tests.planting import Plant

_ACKNOWLEDGE = "coterie.coordinator.share_partition.acknowledgement"
_ACKNOWLEDGING = f"{_ACKNOWLEDGE}:_Acknowledging"
_ACQUIRE = "coterie.coordinator.share_partition.acquisition"
_TAKING = f"{_ACQUIRE}:_Taking"
_PARTITION = "coterie.coordinator.share_partition.partition:SharePartition"
_STATES = "coterie.coordinator.share_state.shard:ShareStateShard"
_OFFSETS = "coterie.coordinator.groups.share.offsets"
_SESSIONS = "coterie.server.share.sessions:ShareSessions"
_FETCHING = "coterie.server.share.fetching:ShareFetching"
_LOOKING = "coterie.server.share.looking"
_LEADER = "coterie.server.share.leader:ShareLeader"
_READING = "coterie.server.share.reading"
_HANDLER = "coterie.server.handlers.share_fetch"

_OF_ACKNOWLEDGEMENTS = (
    Plant(
        "whatever is said of a record it is accepted",
        f"{_ACKNOWLEDGING}._decide",
        "after = STATE_AFTER[kind]",
        "after = STATE_AFTER[AcknowledgeType.ACCEPT]",
        ("share_records/accepted",),
    ),
    Plant(
        "released records are delivered for ever",
        f"{_ACKNOWLEDGING}._decide",
        "if after is AVAILABLE:",
        "if False:",
        ("share_records/last_delivery",),
    ),
    Plant(
        "a member decides about records of another one",
        f"{_ACKNOWLEDGING}.apply",
        "whole.member_id != self.transition.member_id:",
        "whole.member_id == NO_MEMBER:",
        ("share_partitions/records_of_another_member",),
    ),
    Plant(
        "ranges before a refused one stay applied",
        f"{_ACKNOWLEDGE}:acknowledge",
        "partition.undo(transition, delivery_limit)",
        "pass",
        ("share_records/all_or_nothing",),
    ),
    Plant(
        "what is below the start offset is refused",
        f"{_ACKNOWLEDGE}:acknowledge",
        "continue",
        "return _NOT_FOUND",
        ("share_records/twice",),
    ),
    Plant(
        "ranges of acknowledgements may overlap",
        f"{_ACKNOWLEDGE}:shape_error",
        " or batch.first_offset < last_offset",
        "",
        ("share_records/ranges_that_overlap",),
    ),
    Plant(
        "the number of acknowledge types is not compared",
        f"{_ACKNOWLEDGE}:shape_error",
        "if len(types) > 1 and len(types) != batch.last_offset - batch.first_offset + 1:",
        "if False:",
        ("share_partitions/refused_acknowledgements/wrong_number_of_types",),
    ),
    Plant(
        "locks may be renewed by any request",
        f"{_ACKNOWLEDGE}:shape_error",
        fault=given(may_renew=True),
        kinds=("share_partitions/refused_acknowledgements/renewal_without_flag",),
    ),
    Plant(
        "the end of what was acquired is not compared",
        f"{_ACKNOWLEDGE}:_find",
        "if found[-1].last_offset < batch.last_offset:",
        "if False:",
        ("share_partitions/refused_acknowledgements/past_the_end",),
    ),
    Plant(
        "renewals cannot be disabled",
        f"{_LEADER}.acknowledge",
        " if settings.may_renew else None",
        "",
        ("share_records/renewal_is_disabled",),
    ),
    Plant(
        "what a leader was refused stays in its memory",
        f"{_LEADER}._persist_transition",
        "if error in DROPPING:",
        "if False:",
        ("share_partitions/fenced_leader",),
    ),
    Plant(
        "a share partition that is not loaded takes acknowledgements",
        f"{_LEADER}.acknowledge",
        "done(unknown, DEFAULT_MESSAGES[unknown])",
        "done(ErrorCode.NONE, None)",
        ("share_records/not_loaded",),
    ),
)

_OF_ACQUISITION = (
    Plant(
        "only the first delivery is counted",
        f"{_TAKING}._take",
        "state.delivery_count += 1",
        "state.delivery_count = 1",
        ("share_partitions/decisions_by_record",),
    ),
    Plant(
        "batches of the log are cut at the limit of a member",
        f"{_TAKING}._take_new",
        "last_in_flight = min(last_offset, self._batch_end(first_offset + self.left - 1))",
        "last_in_flight = first_offset + self.left - 1",
        ("share_partitions/whole_batches",),
    ),
    Plant(
        "record by record whole batches are acquired",
        f"{_TAKING}._take_new",
        "if asked.by_records:",
        "if False:",
        ("share_partitions/exact_number",),
    ),
    Plant(
        "entries of an answer end anywhere",
        f"{_TAKING}._entries",
        "if batch.base_offset - begin >= least:",
        "if False:",
        ("share_records/batch_size",),
    ),
    Plant(
        "neighbours of equal counts are one entry",
        f"{_ACQUIRE}:_joined",
        "part.first_offset not in borders",
        "True",
        ("share_records/records_apart",),
    ),
    Plant(
        "any number of records is in flight",
        f"{_ACQUIRE}:acquire",
        "left = asked.max_in_flight - partition.in_flight_records",
        "left = asked.max_records",
        ("share_records/limit_of_records_in_flight",),
        also=(Plant("", f"{_PARTITION}.can_acquire", fault=answers(value=True)),),
    ),
    Plant(
        "suspects travel with others",
        f"{_TAKING}._has_suspects",
        fault=answers(value=False),
        kinds=("share_records/suspects",),
    ),
    Plant(
        "records of aborted transactions are delivered",
        f"{_READING}:_belongs",
        fault=answers(value=False),
        kinds=("share_records/aborted_records",),
    ),
    Plant(
        "records of open transactions are delivered",
        f"{_READING}:read",
        fault=given(is_committed=False),
        kinds=("share_records/open_transaction",),
    ),
    Plant(
        "a group begins at the front of the log",
        f"{_READING}:first_offset",
        "return partition.high_watermark",
        "return log.log_start_offset",
        ("share_records/latest",),
    ),
    Plant(
        "no group begins at the front of the log",
        f"{_READING}:first_offset",
        "if settings.reset == EARLIEST:",
        "if False:",
        ("share_records/earliest",),
    ),
    Plant(
        "a group that finds no young record begins at the end",
        f"{_READING}:first_offset",
        "return None if found is None else found[1]",
        "return partition.high_watermark if found is None else found[1]",
        ("share_records/by_duration",),
    ),
    Plant(
        "the first batch is limited, too",
        f"{_READING}:read",
        "is_strict = extent.is_strict or bool(found.data)",
        "is_strict = True",
        ("share_records/large_record",),
    ),
    Plant(
        "deleted records are waited for",
        f"{_LOOKING}:Looking._examine",
        "if share.next_fetch_offset() < log_start_offset:",
        "if False:",
        ("share_records/deleted_records",),
    ),
    Plant(
        "acquired records have no lock",
        f"{_TAKING}._take",
        "self.partition.lock(state, self.asked.lock_deadline_ms)",
        "pass",
        ("share_records/expired_lock",),
    ),
)

_OF_SESSIONS = (
    Plant(
        "a session that ends releases nothing",
        f"{_LEADER}.release",
        fault=does_nothing,
        kinds=("share_partitions/end_of_a_session",),
    ),
    Plant(
        "a session outlives its connection",
        f"{_LEADER}.open_session",
        "connection.when_closed(session, partial(self.end_session, session))",
        "pass",
        ("share_sessions/end_of_a_connection",),
    ),
    Plant(
        "the session of another connection ends with the first one",
        f"{_SESSIONS}.open",
        "replaced.connection.when_closed(replaced, None)",
        "pass",
        ("share_sessions/session_opened_anew",),
        also=(
            Plant(
                "",
                f"{_SESSIONS}.remove",
                "if self._sessions.get(session.key) is not session:",
                "if session.key not in self._sessions:",
            ),
        ),
    ),
    Plant(
        "the epoch of a share session is not compared",
        f"{_SESSIONS}.find",
        "if epoch != session.epoch:",
        "if False:",
        ("share_partitions/epochs_of_a_session",),
    ),
    Plant(
        "acknowledgements may open a session",
        f"{_HANDLER}:_session",
        "return ErrorCode.INVALID_REQUEST",
        "pass",
        ("share_sessions/opening_takes_no_acknowledgements",),
    ),
    Plant(
        "partitions are not forgotten",
        f"{_SESSIONS}.change",
        "session.partitions.pop(each, None)",
        "pass",
        ("share_sessions/forgotten_partition",),
    ),
    Plant(
        "an opening request forgets partitions",
        f"{_FETCHING}._begin",
        "() if self._is_opening else forgotten",
        "forgotten",
        ("share_sessions/forgotten_with_the_opening",),
    ),
    Plant(
        "only partitions with acknowledgements are answered",
        f"{_FETCHING}._begin",
        "make_sense or each in asked or errors[each]",
        "each in asked",
        ("share_sessions/listed_beside_acknowledgements",),
    ),
    Plant(
        "any acquire mode is accepted",
        f"{_FETCHING}._begin",
        "request.share_acquire_mode not in _ACQUIRE_MODES and session.partitions",
        "False",
        ("share_sessions/unknown_acquire_mode",),
    ),
    Plant(
        "an append does not end the wait of a share fetch",
        f"{_LOOKING}:_Watch.records_appended",
        fault=does_nothing,
        kinds=("share_records/waits_for_records",),
    ),
    Plant(
        "a share fetch that needs no bytes waits for some",
        f"{_LOOKING}:Looking._has_enough",
        ">= self._enough_bytes",
        ">= max(1, self._enough_bytes)",
        ("share_records/least_bytes_of_zero",),
    ),
)

_OF_STATES = (
    Plant(
        "old leaders may read and write states",
        f"{_STATES}._refusal",
        "if leader_epoch != NO_EPOCH and leader_epoch < state.leader_epoch:",
        "if False:",
        ("share_state/old_epochs",),
    ),
    Plant(
        "a state may begin anew with an older epoch",
        f"{_STATES}._initialize",
        "if state is not None and request.state_epoch < state.state_epoch:",
        "if False:",
        ("share_state/old_epochs",),
    ),
    Plant(
        "a summary has no start offset",
        f"{_STATES}._summary",
        "start_offset=state.start_offset,",
        "",
        ("share_state/summaries",),
    ),
    Plant(
        "the offsets of a group with members may change",
        f"{_OFFSETS}:_check_empty",
        "if group.members:",
        "if False:",
        ("share_offsets/refused",),
    ),
    Plant(
        "a topic without state is called unknown",
        f"{_OFFSETS}:_deleted",
        "text = _NOTHING_TEXT if exists else _UNKNOWN_TEXT",
        "text = _UNKNOWN_TEXT",
        ("share_offsets/deleted",),
    ),
)

SHARE_PLANTS: tuple[Plant, ...] = (
    *_OF_ACKNOWLEDGEMENTS,
    *_OF_ACQUISITION,
    *_OF_SESSIONS,
    *_OF_STATES,
)
