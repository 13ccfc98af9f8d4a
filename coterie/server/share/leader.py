"""What a broker keeps for the share groups that read the partitions it leads.

Share partitions are loaded by the first fetch and kept until a connection is closed that has opened
a session of their group, and none is left. Every change that a member makes is persisted before it
is answered; the end of a lock is persisted too, but nobody waits for it [share-partitions/leader].

Locks end by one timer of the event loop, at the deadline of the first lock of all.
"""

from asyncio import TimerHandle
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import chain

from coterie.coordinator.kernel.event import Event
from coterie.coordinator.kernel.timer_wheel import TimingWheel
from coterie.coordinator.share_partition.acknowledgement import (
    AcknowledgedBatch,
    Refusal,
    acknowledge,
)
from coterie.coordinator.share_partition.in_flight import StateWrite, Transition
from coterie.coordinator.share_partition.partition import MemberRecords, SharePartition
from coterie.coordinator.share_state.requests import NO_OFFSET, Read, ShareKey, StateResult, Write
from coterie.protocol.errors import DEFAULT_MESSAGES, ErrorCode
from coterie.protocol.messages.share_facts import LOCK_TIMEOUT, RELEASE
from coterie.server.config.config import Config
from coterie.server.config.share_leaders import ShareSettings
from coterie.server.environment import Environment
from coterie.server.logs.log_opener import LogOpener
from coterie.server.logs.partition import OPEN, Partition
from coterie.server.network.delayed_response import Exchange
from coterie.server.share.failures import deliveries_failed
from coterie.server.share.limits import READ_AT_ONCE
from coterie.server.share.loaded import DROPPING, LoadedPartition, error_of_leader
from coterie.server.share.reading import first_offset
from coterie.server.share.sessions import SessionKey, ShareSession, ShareSessions
from coterie.server.share_state.persister import Persister
from coterie.server.slices import Slices
from coterie.storage.errors import StorageError

# The answer to acknowledgements of one partition.
Acknowledged = Callable[[ErrorCode, str | None], None]

_REFUSED_WRITE = "Error in write state RPC. "


class ShareLeader:
    """The share sessions and share partitions of a broker.

    Attributes:
        sessions: the sessions.
        has_ended: whether the broker stops, so that nothing is loaded or acquired any more.
    """

    def __init__(
        self,
        config: Config,
        environment: Environment,
        opener: LogOpener,
        persister: Persister,
        slices: Slices,
        keep: Callable[[Sequence[Event]], None],
    ) -> None:
        """Start with nothing.

        Args:
            config: the settings of the broker and of groups.
            environment: its loop and clock are used.
            opener: opens logs.
            persister: asks share coordinators.
            slices: long work.
            keep: keeps events of groups.
        """
        self._settings = config.share_leaders
        self._loop = environment.loop
        self._now_ms = environment.now_ms
        self._opener = opener
        self._persister = persister
        self._slices = slices
        self._keep = keep
        self.sessions = ShareSessions(config.get_int("group.share.max.share.sessions"))
        self.has_ended = False
        self._loaded: dict[ShareKey, LoadedPartition] = {}
        # What sessions that have ended still release.
        self._ending: dict[SessionKey, Iterator[None]] = {}
        self._locks: TimingWheel[ShareKey] = TimingWheel(environment.now_ms())
        self._timer: TimerHandle | None = None
        self._timer_ms = 0

    def settings(self, group_id: str) -> ShareSettings:
        """Return the settings of a group as they are now."""
        return self._settings.of(group_id)

    # --- partitions -------------------------------------------------------------------------------

    def find(self, key: ShareKey, partition: Partition) -> LoadedPartition:
        """Return a share partition, and begin to load it if it is not there."""
        loaded = self._loaded.get(key)
        if loaded is not None:
            if loaded.partition is partition and loaded.leader_epoch == partition.leader_epoch:
                return loaded
            self.drop(loaded)
        loaded = self._loaded[key] = LoadedPartition(key, partition)
        self._load(loaded)
        return loaded

    def known(self, key: ShareKey) -> LoadedPartition | None:
        """Return a share partition that is loaded; None if it is not."""
        loaded = self._loaded.get(key)
        return None if loaded is None or loaded.share is None else loaded

    def drop(self, loaded: LoadedPartition) -> None:
        """Forget a share partition; the next fetch loads it."""
        if self._loaded.get(loaded.key) is loaded:
            del self._loaded[loaded.key]
            self._locks.cancel(loaded.key)
            loaded.wake()

    def give_up(self, partitions: Collection[Partition]) -> None:
        """Forget the share partitions of partitions that another broker leads now."""
        if not partitions:
            return
        for loaded in [each for each in self._loaded.values() if each.partition in partitions]:
            self.drop(loaded)

    def _load(self, loaded: LoadedPartition) -> None:
        def opened() -> None:
            if loaded.partition.state is OPEN:
                self._persister.ask(Read(loaded.key, loaded.leader_epoch), read)
            else:
                self._not_loaded(loaded, ErrorCode.KAFKA_STORAGE_ERROR)

        def read(result: StateResult) -> None:
            if self._loaded.get(loaded.key) is not loaded:
                return
            if result.error:
                self._not_loaded(loaded, error_of_leader(result.error))
            else:
                self._take(loaded, result)

        self._opener.open([loaded.partition], opened)

    def _take(self, loaded: LoadedPartition, result: StateResult) -> None:
        """Begin with what was persisted; without a start offset the group's settings decide."""
        now_ms = self._now_ms()
        start: int | None = result.start_offset
        if start == NO_OFFSET:
            try:
                settings = self.settings(loaded.key.group_id)
                start = first_offset(loaded.partition, settings, now_ms)
            except (StorageError, OSError):
                self._not_loaded(loaded, ErrorCode.KAFKA_STORAGE_ERROR)
                return
        if start is None:
            self._not_loaded(loaded, ErrorCode.OFFSET_NOT_AVAILABLE)
            return
        loaded.state_epoch = result.state_epoch
        # An administrator may have set any start offset.
        loaded.share = SharePartition(max(0, start), now_ms, list(result.batches))
        loaded.wake()

    def _not_loaded(self, loaded: LoadedPartition, error: ErrorCode) -> None:
        loaded.error = error
        loaded.wake()

    # --- changes ----------------------------------------------------------------------------------

    def acknowledge(
        self,
        key: ShareKey,
        member_id: str,
        batches: Sequence[AcknowledgedBatch],
        done: Acknowledged,
    ) -> None:
        """Apply what a member says about records of a partition.

        Args:
            key: the share partition.
            member_id: the member.
            batches: acknowledgements that make sense.
            done: called with NONE, or the reason for a refusal, when that is persisted.
        """
        loaded = self.known(key)
        if loaded is None or loaded.share is None:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            done(unknown, DEFAULT_MESSAGES[unknown])
            return
        settings = self.settings(key.group_id)
        deadline_ms = self._now_ms() + settings.lock_ms if settings.may_renew else None
        result = acknowledge(loaded.share, member_id, batches, settings.delivery_limit, deadline_ms)
        self.locks_changed(loaded)
        if isinstance(result, Refusal):
            done(*result)
        else:
            self._persist_transition(loaded, result, done)

    def _persist_transition(
        self, loaded: LoadedPartition, transition: Transition, done: Acknowledged
    ) -> None:
        share = loaded.share
        assert share is not None, f"{loaded.key} is loaded"

        def written(result: StateResult) -> None:
            if not result.error:
                share.complete(transition)
                given_up = [(transition.member_id, each) for each in transition.given_up]
                self._note_failed(loaded, RELEASE, given_up)
                self._changed(loaded)
                done(ErrorCode.NONE, None)
                return
            share.undo(transition, self.settings(loaded.key.group_id).delivery_limit)
            error = error_of_leader(result.error)
            if error in DROPPING:
                self.drop(loaded)
            else:
                self._changed(loaded)
            done(error, f"{_REFUSED_WRITE}{result.message}")

        if transition.write is None:
            # The start offset stays where it is until something is written, as in Kafka.
            done(ErrorCode.NONE, None)
        else:
            self._persist(loaded, transition.write, written)

    def _note_failed(
        self, loaded: LoadedPartition, cause: str, failed: Sequence[MemberRecords]
    ) -> None:
        """Note deliveries that have failed [journal/deliveries]."""
        if failed:
            fact = deliveries_failed(loaded.partition, cause, failed, self._now_ms())
            self._keep([Event(loaded.key.group_id, fact)])

    def _persist(
        self, loaded: LoadedPartition, write: StateWrite, done: Callable[[StateResult], None]
    ) -> None:
        request = Write(loaded.key, loaded.state_epoch, loaded.leader_epoch, *write)
        self._persister.ask(request, done)

    def release(self, key: ShareKey, member_id: str) -> None:
        """Release what a member has acquired: its session has ended."""
        loaded = self.known(key)
        if loaded is None or loaded.share is None:
            return
        limit = self.settings(key.group_id).delivery_limit
        transition = loaded.share.release(member_id, limit)
        self._persist_transition(loaded, transition, lambda _error, _message: None)

    def _changed(self, loaded: LoadedPartition) -> None:
        """Note that records may have become available."""
        self.locks_changed(loaded)
        loaded.wake()

    # --- sessions ---------------------------------------------------------------------------------

    def open_session(self, key: SessionKey, connection: Exchange) -> ShareSession | None:
        """Open a session, which ends with its connection; None if there are too many."""
        ending = self._ending.pop(key, None)
        if ending is not None:
            # What is released now would belong to the new session afterwards.
            for _ in ending:
                pass
        session = self.sessions.open(key, connection)
        if session is not None:
            connection.when_closed(session, partial(self.end_session, session))
        return session

    def end_session(self, session: ShareSession, *, is_final: bool = False) -> None:
        """End a session, and release what its member has acquired.

        Of a session of many partitions a part is released now, and the rest in later turns. What
        nobody uses then is forgotten when the connection is closed, as in Kafka.

        Args:
            session: the session.
            is_final: whether its member has ended it, on a connection that may be open.
        """
        if not self.sessions.remove(session):
            return
        group_id = session.key[0]
        session.connection.when_closed(session, None)
        released = self._released(session)
        if not is_final:
            released = chain(released, self._forgotten(group_id))
        elif any(ShareKey(group_id, *each) in self._loaded for each in session.partitions):
            session.connection.when_closed(group_id, partial(self._forget_unused, group_id))
        self._ending[session.key] = released

        def ended() -> None:
            if self._ending.get(session.key) is released:
                del self._ending[session.key]

        self._slices.begin(released, ended)

    def _released(self, session: ShareSession) -> Iterator[None]:
        group_id, member_id = session.key
        for count, (topic_id, index) in enumerate(list(session.partitions), 1):
            self.release(ShareKey(group_id, topic_id, index), member_id)
            if not count % READ_AT_ONCE:
                yield

    def _forget_unused(self, group_id: str) -> None:
        self._slices.begin(self._forgotten(group_id), lambda: None)

    def _forgotten(self, group_id: str) -> Iterator[None]:
        """Forget the share partitions of a group, unless it has a session."""
        for count, key in enumerate([key for key in self._loaded if key.group_id == group_id], 1):
            if self.sessions.has_group(group_id):
                return
            loaded = self._loaded.get(key)
            if loaded is not None:
                self.drop(loaded)
            if not count % READ_AT_ONCE:
                yield

    def forget(self) -> None:
        """Forget all sessions and share partitions: share groups were switched off.

        Nothing is released: what members have acquired is so again when share groups are on and
        their leader loads it [share-groups/switched-off].
        """
        self.sessions.clear()
        for loaded in list(self._loaded.values()):
            self.drop(loaded)

    def end(self) -> None:
        """End all sessions, because the broker stops in order: what members hold is released."""
        self.has_ended = True
        for session in self.sessions.all():
            self.end_session(session)

    # --- locks ------------------------------------------------------------------------------------

    def locks_changed(self, loaded: LoadedPartition) -> None:
        """Set the timer after a change of the locks of a share partition."""
        if self._loaded.get(loaded.key) is not loaded:
            # It was dropped; another one may have taken its place, with locks of its own.
            return
        share = loaded.share
        deadline_ms = None if share is None else share.next_deadline_ms()
        if deadline_ms is None:
            self._locks.cancel(loaded.key)
            return
        if self._locks.deadline_ms(loaded.key) != deadline_ms:
            self._locks.arm(loaded.key, deadline_ms)
            self._set_timer()

    def _set_timer(self) -> None:
        deadline_ms = self._locks.next_ms()
        if deadline_ms is None:
            return
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        delay_ms = max(0, deadline_ms - self._now_ms())
        self._timer = self._loop.call_later(delay_ms / 1000, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        now_ms = self._now_ms()
        try:
            for _, key in self._locks.advance(now_ms):
                loaded = self._loaded[key]
                assert loaded.share is not None, f"{key} has locks"
                limit = self.settings(key.group_id).delivery_limit
                failed: list[MemberRecords] = []
                write = loaded.share.expire_locks(now_ms, limit, failed)
                self._note_failed(loaded, LOCK_TIMEOUT, failed)
                if write is not None:
                    # The records are available whether this succeeds or not.
                    self._persist(loaded, write, lambda _result: None)
                self._changed(loaded)
        finally:
            self._set_timer()

    def stop(self) -> None:
        """Forget everything: the broker stops."""
        self.has_ended = True
        self.forget()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
