"""ShareFetch and ShareAcknowledge: sessions, waits, acknowledgements, locks, restarts."""

from typing import Any

import pytest

from coterie.coordinator.share_state.requests import ShareKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.share_acknowledge import (
    ShareAcknowledgePartition,
    ShareAcknowledgeTopic,
)
from coterie.protocol.messages.share_fetch import ShareFetchTopic, ShareForgottenTopic
from coterie.protocol.messages.share_session_parts import AcknowledgementBatch
from coterie.protocol.records import iterate_batches
from coterie.server.share import sessions
from tests.unit.server.manual import Client, restarted
from tests.unit.server.produced import batch, produce, values_of
from tests.unit.server.share_clients import GROUP, LOCK_MS, ShareMember, Sharing, acquired

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


def lone_part(response: Any) -> Any:
    """Return the only partition of a response."""
    ((part,),) = [each.partitions for each in response.responses]
    return part


def test_records_are_acquired_and_accepted() -> None:
    """[share-partitions/fetch]"""
    sharing = Sharing(10)
    one = sharing.member("one")
    # The first fetch loads the share partition, and waits for that.
    response = one.fetch(max_wait_ms=500)
    assert acquired(response) == [(0, 9, 1)]
    assert response.acquisition_lock_timeout_ms == LOCK_MS
    part = lone_part(response)
    assert values_of(part.records) == [b"v"] * 10
    assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (0, 0)
    assert one.acknowledge((0, 9, ACCEPT)) == (0, None)
    assert one.acquire() == []
    assert one.acknowledge((0, 9, ACCEPT)) == (0, None), "below the start offset"


def test_acknowledgements_travel_with_a_fetch() -> None:
    """The error of an acknowledgement is apart from that of the fetch."""
    sharing = Sharing(2, 2)
    one = sharing.member("one")
    assert one.acquire(max_records=1, max_wait_ms=500) == [(0, 1, 1)]
    part = lone_part(one.fetch((0, 1, ACCEPT), (2, 3, ACCEPT)))
    assert part.acknowledge_error_code == ErrorCode.INVALID_REQUEST
    assert part.acknowledge_error_message.startswith("Batch record not found")
    assert [each.first_offset for each in part.acquired_records] == [2]
    assert lone_part(one.fetch((0, 3, ACCEPT))).acknowledge_error_code == ErrorCode.NONE


def test_two_members_get_different_records() -> None:
    """A record is held by one of them; a released one goes to whoever asks next."""
    sharing = Sharing(3, 3)
    one, two = sharing.member("one"), sharing.member("two")
    assert one.acquire(max_records=1, max_wait_ms=500) == [(0, 2, 1)]
    assert two.acquire() == [(3, 5, 1)]
    assert two.acknowledge((0, 2, ACCEPT))[0] == ErrorCode.INVALID_RECORD_STATE
    assert one.acknowledge((0, 2, ACCEPT, RELEASE, REJECT)) == (0, None)
    assert two.acquire() == [(1, 1, 2)]


def test_fetch_waits_for_records() -> None:
    """It is answered by a Produce, and at the end of its wait."""
    sharing = Sharing()
    one = sharing.member("one")
    one.client.send(one.fetch_request(max_wait_ms=500), 2)
    one.advance()
    one.client.loop.advance(400)
    assert one.client.answers() == []
    sharing.produce(1)
    one.client.loop.turn()
    ((_, response),) = one.client.answers()
    assert acquired(response) == [(0, 0, 1)]
    one.client.send(one.fetch_request(max_wait_ms=500, topics=[]), 2)
    one.client.loop.advance(500)
    ((_, response),) = one.client.answers()
    assert response.responses == []


def test_lock_expires_and_wakes_a_fetch() -> None:
    """The record is delivered again at that moment."""
    sharing = Sharing(2)
    one, two = sharing.member("one"), sharing.member("two")
    assert one.acquire(max_wait_ms=500) == [(0, 1, 1)]
    two.client.send(two.fetch_request(max_wait_ms=60_000), 2)
    one.client.loop.advance(LOCK_MS - 1)
    assert two.client.answers() == []
    one.client.loop.advance(1)
    one.client.loop.turn()
    ((_, response),) = two.client.answers()
    assert acquired(response) == [(0, 1, 2)]
    assert one.acknowledge((0, 1, ACCEPT))[0] == ErrorCode.INVALID_RECORD_STATE


def test_renewal() -> None:
    """A renewed record stays with its member; a request that renews fetches nothing."""
    sharing = Sharing(2)
    one = sharing.member("one")
    assert one.acquire(max_wait_ms=500) == [(0, 1, 1)]
    one.client.loop.advance(LOCK_MS - 1)
    assert one.acknowledge((0, 1, RENEW), is_renew_ack=True) == (0, None)
    one.client.loop.advance(LOCK_MS - 1)
    limits = {"min_bytes": 0, "max_bytes": 0, "max_records": 0}
    part = lone_part(one.fetch((0, 1, RENEW, ACCEPT), is_renew_ack=True, **limits))
    assert part.acknowledge_error_code == ErrorCode.NONE
    refusal = one.client.call(one.fetch_request(is_renew_ack=True), 2)
    assert refusal.error_code == ErrorCode.INVALID_REQUEST
    sharing.set_group(renew_acknowledge_enable="false")
    error, text = one.acknowledge((0, 0, RENEW), is_renew_ack=True)
    assert error == ErrorCode.INVALID_RECORD_STATE
    assert text == "Renewing acquisition locks is not enabled for the group."


class TestSessions:
    """[share-partitions/sessions]"""

    def test_fetches_and_acknowledgements_share_a_counter(self) -> None:
        sharing = Sharing(1)
        one = sharing.member("one")
        assert one.acknowledge(share_session_epoch=3)[0] == ErrorCode.SHARE_SESSION_NOT_FOUND
        assert one.acknowledge(share_session_epoch=0)[0] == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        one.epoch = 0
        assert one.acquire() == [(0, 0, 1)]
        assert one.fetch(share_session_epoch=2).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        one.epoch = 1
        assert one.acknowledge() == (0, None)
        assert one.acquire() == []
        mode = one.fetch(share_acquire_mode=2)
        assert mode.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert one.fetch(topics=[]).error_code == ErrorCode.NONE, "the epoch was used"

    def test_opening_has_no_acknowledgements(self) -> None:
        one = Sharing(1).member("one")
        assert one.fetch((0, 0, ACCEPT)).error_code == ErrorCode.INVALID_REQUEST

    @pytest.mark.parametrize("member_id", [None, "", "x" * 37])
    def test_member_ids(self, member_id: str | None) -> None:
        one = Sharing(1).member("one")
        request = one.fetch_request()
        request.member_id = member_id
        assert one.client.call(request, 2).error_code == ErrorCode.INVALID_REQUEST
        request.member_id, request.group_id = "one", None
        assert one.client.call(request, 2).error_code == ErrorCode.INVALID_REQUEST

    def test_there_are_not_too_many(self) -> None:
        sharing = Sharing(1, settings={"group.share.max.share.sessions": "1"})
        one, two = sharing.member("one"), sharing.member("two")
        one.fetch()
        two.client.send(two.fetch_request(max_wait_ms=500), 2)
        two.client.loop.advance(499)
        assert two.client.answers() == []
        two.client.loop.advance(1)
        ((_, response),) = two.client.answers()
        assert response.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        one.epoch = 0
        assert one.fetch().error_code == ErrorCode.NONE, "reopened"
        one.client.transport.close()
        one.client.connection.connection_lost(None)
        two.client.loop.turn()
        assert two.fetch().error_code == ErrorCode.NONE

    def test_their_partitions_are_not_too_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sessions, "MAX_SHARED_PARTITIONS", 2)
        sharing = Sharing(1)
        one, two, three = map(sharing.member, ("one", "two", "three"))
        one.fetch()
        two.fetch()
        three.client.send(three.fetch_request(), 2)
        three.client.loop.advance(1)
        ((_, refused),) = three.client.answers()
        assert refused.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        one.epoch = 0
        assert not one.fetch().error_code, "reopened"
        forgotten = [ShareForgottenTopic(topic_id=sharing.topic_id, partitions=[0])]
        assert not one.fetch(topics=[], forgotten_topics_data=forgotten).error_code
        assert not three.fetch().error_code
        two.client.transport.close()
        two.client.connection.connection_lost(None)
        two.client.loop.turn()
        assert not one.fetch().error_code

    def test_final_fetch_acknowledges_and_releases(self) -> None:
        sharing = Sharing(4)
        one, two = sharing.member("one"), sharing.member("two")
        assert one.acquire(max_wait_ms=500) == [(0, 3, 1)]
        part = lone_part(one.fetch((0, 0, ACCEPT), share_session_epoch=-1))
        assert (part.acknowledge_error_code, part.records) == (ErrorCode.NONE, b"")
        assert two.acquire(max_wait_ms=500) == [(1, 3, 2)]
        final = two.fetch(share_session_epoch=-1, topics=[])
        assert final.error_code == ErrorCode.NONE
        again = two.fetch(share_session_epoch=-1, topics=[])
        assert again.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND

    def test_share_partitions_are_kept_until_the_connection_is_closed(self) -> None:
        """[share-partitions/leader]"""
        sharing = Sharing(4)
        one, two = sharing.member("one"), sharing.member("two")
        assert one.acquire(max_records=1, max_wait_ms=500) == [(0, 3, 1)]
        one.fetch(share_session_epoch=-1, topics=[])
        one.client.loop.turn()
        key = ShareKey(GROUP, sharing.topic_id, 0)
        assert sharing.broker.share.known(key) is not None
        two.fetch(topics=[])
        one.client.connection.connection_lost(None)
        assert sharing.broker.share.known(key) is not None, "the group has another session"
        two.client.connection.connection_lost(None)
        assert sharing.broker.share.known(key) is None

    def test_connection_is_closed_after_the_last_session(self) -> None:
        """What a group without sessions has loaded is forgotten."""
        sharing = Sharing(4)
        one = sharing.member("one")
        assert one.acquire(max_wait_ms=500) == [(0, 3, 1)]
        one.fetch(share_session_epoch=-1, topics=[])
        one.client.loop.turn()
        one.client.connection.connection_lost(None)
        assert sharing.broker.share.known(ShareKey(GROUP, sharing.topic_id, 0)) is None

    def test_connection_that_opened_it_ends_it(self) -> None:
        sharing = Sharing(2)
        one, two = sharing.member("one"), sharing.member("two")
        elsewhere = ShareMember(sharing, "one")
        assert one.acquire(max_wait_ms=500) == [(0, 1, 1)]
        elsewhere.epoch = 1
        assert elsewhere.acquire() == []
        elsewhere.client.connection.connection_lost(None)
        assert two.acquire() == []
        one.client.connection.connection_lost(None)
        two.client.loop.turn()
        assert two.acquire() == [(0, 1, 2)]

    def test_forgotten_partitions_are_not_fetched(self) -> None:
        sharing = Sharing()
        one = sharing.member("one")
        one.fetch()
        sharing.produce(1)
        forgotten = [ShareForgottenTopic(topic_id=sharing.topic_id, partitions=[0])]
        assert one.fetch(topics=[], forgotten_topics_data=forgotten).responses == []
        assert one.acquire() == [(0, 0, 1)]


class TestErrors:
    def test_of_partitions(self) -> None:
        """Each partition has its own error; the others are served."""
        sharing = Sharing(1)
        one = sharing.member("one")
        request = one.fetch_request(max_wait_ms=500)
        unknown = one.fetch_request().topics[0].partitions[0]
        unknown.partition_index = 7
        request.topics[0].partitions.append(unknown)
        other = one.fetch_request().topics[0].partitions[0]
        request.topics.append(ShareFetchTopic(topic_id=bytes([9] * 16), partitions=[other]))
        response = one.client.call(request, 2)
        found = {
            (topic.topic_id == sharing.topic_id, each.partition_index): each.error_code
            for topic in response.responses
            for each in topic.partitions
        }
        assert found == {
            (True, 0): ErrorCode.NONE,
            (True, 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            (False, 0): ErrorCode.UNKNOWN_TOPIC_ID,
        }

    def test_of_a_group_without_state(self) -> None:
        sharing = Sharing(1)
        one = sharing.member("one")
        request = one.fetch_request(max_wait_ms=500)
        request.group_id = "other"
        part = lone_part(one.client.call(request, 2))
        assert part.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        ended = one.acknowledge((0, 0, ACCEPT), share_session_epoch=1)
        assert ended[0] == ErrorCode.SHARE_SESSION_NOT_FOUND

    def test_of_the_opening_fetch_is_told_once(self) -> None:
        """[share-partitions/fetch-answers]: with a later one the next answer names it again."""
        sharing = Sharing()
        sharing.set_group(auto_offset_reset="by_duration:PT1H")
        one = sharing.member("one")
        assert lone_part(one.fetch(max_wait_ms=500)).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        sharing.set_group(auto_offset_reset="latest")
        for _ in range(2):
            # The first one loads the share partition, and does not wait for that.
            assert one.fetch(topics=[]).responses == []

    def test_of_partitions_without_acknowledgements(self) -> None:
        """[share-partitions/acknowledgement]: those that do not exist are answered."""
        sharing = Sharing(1)
        one = sharing.member("one")
        assert one.acquire(max_wait_ms=500) == [(0, 0, 1)]
        assert one.acknowledged().responses == []
        known = ShareAcknowledgePartition(partition_index=0, acknowledgement_batches=[])
        unknown = ShareAcknowledgePartition(partition_index=9, acknowledgement_batches=[])
        topic = ShareAcknowledgeTopic(topic_id=sharing.topic_id, partitions=[known, unknown])
        part = lone_part(one.acknowledged(topics=[topic]))
        assert part.partition_index == 9
        assert part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        bad = ShareAcknowledgePartition(
            partition_index=0, acknowledgement_batches=[AcknowledgementBatch.of(1, 0, [ACCEPT])]
        )
        topic = ShareAcknowledgeTopic(topic_id=bytes([9] * 16), partitions=[bad])
        part = lone_part(one.acknowledged(topics=[topic]))
        assert part.error_code == ErrorCode.UNKNOWN_TOPIC_ID, "before the shape is looked at"

    def test_named_partitions_are_answered_with_acknowledgements_that_make_sense(self) -> None:
        """[share-partitions/fetch-answers]"""
        sharing = Sharing(1)
        one = sharing.member("one")
        assert one.acquire(max_wait_ms=500) == [(0, 0, 1)]
        sharing.broker.controller.create("other", 1, {})
        other = sharing.broker.topics.by_name["other"].topic_id
        named = ShareAcknowledgePartition(partition_index=0, acknowledgement_batches=[])
        for first, answered in ((1, 1), (0, 2)):
            batches = [AcknowledgementBatch.of(first, 0, [ACCEPT])]
            asked = ShareAcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
            topics = [
                ShareAcknowledgeTopic(topic_id=sharing.topic_id, partitions=[asked]),
                ShareAcknowledgeTopic(topic_id=other, partitions=[named]),
            ]
            assert len(one.acknowledged(topics=topics).responses) == answered

    def test_of_a_deleted_topic(self) -> None:
        sharing = Sharing(1)
        one = sharing.member("one")
        assert one.acquire(max_wait_ms=500) == [(0, 0, 1)]
        sharing.broker.delete_topic(sharing.broker.topics.by_name["t"])
        assert one.acknowledge((0, 0, ACCEPT))[0] == ErrorCode.UNKNOWN_TOPIC_ID


class TestStartOffset:
    def test_latest_is_where_the_log_ends_at_the_first_fetch(self) -> None:
        sharing = Sharing(3)
        sharing.set_group()
        one = sharing.member("one")
        assert one.acquire() == []
        sharing.produce(2)
        assert one.acquire() == [(3, 4, 1)]

    def test_by_duration_waits_for_a_record_in_time(self) -> None:
        sharing = Sharing(3)
        one = sharing.member("one")
        one.client.loop.advance(10_000)
        sharing.set_group(auto_offset_reset="by_duration:PT5S")
        part = lone_part(one.fetch(max_wait_ms=500))
        assert part.error_code == ErrorCode.OFFSET_NOT_AVAILABLE

    def test_another_offset_fences_the_leader(self) -> None:
        """[share-partitions/persister-errors]"""
        sharing = Sharing(5)
        one = sharing.member("one")
        assert one.acquire(max_wait_ms=500) == [(0, 4, 1)]
        sharing.initialize(start_offset=3, state_epoch=4)
        error, text = one.acknowledge((0, 4, ACCEPT))
        assert error == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert text is not None
        assert "state epoch did not match" in text
        assert one.acquire(max_wait_ms=500) == [(3, 4, 1)]

    def test_deleted_records_are_skipped(self) -> None:
        sharing = Sharing(3, 3)
        one = sharing.member("one")
        assert one.acquire(max_records=1, max_wait_ms=500) == [(0, 2, 1)]
        sharing.broker.topics.by_name["t"].partitions[0].log.delete_records(4)
        assert one.acquire(max_wait_ms=500) == [], "the fetch that would read it is empty"
        assert one.acquire() == [(4, 5, 1)]
        assert one.acknowledge((0, 2, ACCEPT)) == (0, None)


@pytest.mark.parametrize("killed", [False, True])
def test_restart_loses_no_decision(killed: bool) -> None:
    """Accepted records stay so; others come back, with the count that was persisted and one."""
    sharing = Sharing(6)
    one = sharing.member("one")
    assert one.acquire(max_wait_ms=500) == [(0, 5, 1)]
    assert one.acknowledge((0, 1, ACCEPT)) == (0, None)
    assert one.acknowledge((2, 2, RELEASE)) == (0, None)
    sharing.broker.share.stop()
    sharing.broker = restarted(sharing.broker, killed=killed)
    sharing.set_group(auto_offset_reset="earliest")
    two = ShareMember(sharing, "two", Client(sharing.broker))
    assert two.acquire(max_wait_ms=500) == [(2, 2, 2), (3, 5, 1)]


def test_limit_of_deliveries_archives() -> None:
    """After the last attempt the record is not delivered any more."""
    sharing = Sharing(1, delivery_count_limit="2")
    one = sharing.member("one")
    assert one.acquire(max_wait_ms=500) == [(0, 0, 1)]
    assert one.acknowledge((0, 0, RELEASE)) == (0, None)
    assert one.acquire() == [(0, 0, 2)]
    assert one.acknowledge((0, 0, RELEASE)) == (0, None)
    assert one.acquire() == []
    sharing.produce(1)
    assert one.acquire() == [(1, 1, 1)]


def test_sessions_end_when_share_groups_are_switched_off() -> None:
    """[share-groups/switched-off]"""
    sharing = Sharing(4)
    one, two = sharing.member("one"), sharing.member("two")
    assert one.acquire(max_wait_ms=500) == [(0, 3, 1)]
    two.client.send(two.fetch_request(max_wait_ms=60_000), 2)
    assert two.client.answers() == []
    features = sharing.broker.features
    features.start_with({"share.version": 0})
    sharing.client.loop.turn()
    ((_, answer),) = two.client.answers()
    assert acquired(answer) == []
    assert len(sharing.broker.share.sessions) == 0
    assert one.fetch().error_code == ErrorCode.UNSUPPORTED_VERSION
    features.start_with({"share.version": 1})
    assert one.acknowledge((0, 3, ACCEPT))[0] == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert sharing.member("three").acquire(max_wait_ms=500) == [(0, 3, 1)]


def test_late_answer_about_a_dropped_partition_leaves_the_locks_of_its_successor() -> None:
    sharing = Sharing(4)
    one = sharing.member("one")
    assert one.acquire(max_wait_ms=500) == [(0, 3, 1)]
    leader, key = sharing.broker.share, ShareKey(GROUP, sharing.topic_id, 0)
    dropped = leader.known(key)
    assert dropped is not None
    leader.drop(dropped)
    assert one.acquire(max_wait_ms=500) == [(0, 3, 1)]
    # As when a write is answered.
    leader.locks_changed(dropped)
    sharing.client.loop.advance(LOCK_MS)
    assert one.acquire() == [(0, 3, 2)]


def test_records_larger_than_expected_are_read_in_parts() -> None:
    sharing = Sharing()
    for _ in range(20):
        assert not produce(sharing.client, batch(*[b"v" * 5_000] * 3)).error_code
    member = sharing.member("one")
    part = lone_part(member.fetch(max_records=50, max_wait_ms=500))
    assert [(each.first_offset, each.last_offset) for each in part.acquired_records] == [(0, 50)]
    read = [header for _, header in iterate_batches(part.records)]
    assert [each.base_offset for each in read] == list(range(0, 51, 3))


def test_one_record_is_wanted_and_more_bytes_are_waited_for() -> None:
    sharing = Sharing(1, 1)
    for _ in range(2):
        assert not produce(sharing.client, batch(b"v" * 20_000)).error_code
    member = sharing.member("one")
    # There are so many bytes, although it gets none but the first.
    assert member.acquire(max_records=1, min_bytes=30_000, max_wait_ms=60_000) == [(0, 0, 1)]


def test_fetch_gets_no_more_bytes_than_it_may() -> None:
    sharing = Sharing()
    for _ in range(4):
        assert not produce(sharing.client, batch(b"v" * 20_000)).error_code
    member = sharing.member("one")
    assert member.acquire(max_records=4, max_bytes=50_000, max_wait_ms=500) == [(0, 1, 1)]
