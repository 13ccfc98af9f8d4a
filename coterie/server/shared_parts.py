"""What the brokers of one process share: all that belongs to its data directory.

These are the directory and its lock, the logs with their flusher and maintenance, the metadata of
topics and its changes, the settings, and what is kept about security. One broker is the usual case;
several have a `Leadership` besides, which decides what each of them leads.

Invariant: it is opened before the first broker and closed after the last one.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from coterie.security.acl_store import AclStore
from coterie.security.credentials import Credentials
from coterie.security.delegation_tokens import DelegationTokens
from coterie.server.cluster.image import ClusterImage, Node
from coterie.server.config.broker_keys import AUTHORIZER_CLASS
from coterie.server.config.config import Config
from coterie.server.controller import Controller
from coterie.server.data_place import DataPlace, data_place
from coterie.server.environment import Environment
from coterie.server.failures import Failures
from coterie.server.features import Features
from coterie.server.file_handles import DEFAULT_HANDLES, FileHandles
from coterie.server.groups.journal import Journal
from coterie.server.groups.offsets_topic import OffsetsTopic, topic_at_start
from coterie.server.loggers import BROKER_SERVER
from coterie.server.logs.flusher import RESUME_AFTER_S, Flusher, FlushMode
from coterie.server.logs.logs import open_logs
from coterie.server.logs.maintenance import Maintenance
from coterie.server.logs.partition import Topic
from coterie.server.member import Member
from coterie.server.metadata.placing import Placing
from coterie.server.metadata.settings_file import SettingsFile
from coterie.server.metadata.topic_changes import Change, TopicChanges
from coterie.server.metadata.topics import Topics
from coterie.server.network.routes import Remake
from coterie.server.quotas.client_quotas import ClientQuotas
from coterie.server.security.security_log import SecurityLog
from coterie.server.services import SharedServices
from coterie.server.slices import Slices
from coterie.server.telemetry import Telemetry
from coterie.server.topic_deletions import TopicDeletions
from coterie.storage.errors import StorageError, describe_error, remedy_for
from coterie.storage.filesystem import FileSystem

if TYPE_CHECKING:
    from coterie.server.cluster.leadership import Leadership

# How long stopping waits for the disk. Containers are killed ten seconds after SIGTERM.
DRAIN_TIMEOUT_S = 5.0
_DRAIN_POLL_S = 0.01
# Making a topic takes milliseconds. A disk that hangs does not keep a broker alive.
_CHANGES_TIMEOUT_S = 1.0
# The threads that open logs. Much of their work is Python, which one thread runs at a time: two
# open 3,000 logs sooner than four, and the event loop waits less.
_DISK = "coterie-disk", 2


class Work(Protocol):
    """What may have something left to do."""

    @property
    def idle(self) -> bool:
        """Whether nothing is left."""


class _Written:
    """Appends to some logs; `left` says how many of the logs are not durable yet."""

    def __init__(self) -> None:
        self.left = 0

    @property
    def idle(self) -> bool:
        """Whether all of them are durable."""
        return not self.left

    def synced(self, _error: Exception | None) -> None:
        """Note that a log is durable, or has failed."""
        self.left -= 1


class SharedParts(SharedServices):
    """What the brokers of one process share.

    Attributes: those of `SharedServices`, and these.
        data: the data directory.
        disk: does work that waits for the disk.
        handles: how many files and connections may be open.
        maintenance: the background work on the logs.
        deletions: deletes topics.
        checks: lays the authorizer into the routes of a broker.
        members: the brokers that run.
        node_ids: the brokers of the cluster.
    """

    def __init__(
        self,
        config: Config,
        data_dir: str,
        environment: Environment,
        *,
        flush: FlushMode,
        handles: FileHandles = DEFAULT_HANDLES,
        filesystem: FileSystem | None = None,
        files_are_private: bool = False,
        brokers: int = 1,
    ) -> None:
        """Lock the data directory and open its topics.

        Args:
            config: the settings.
            data_dir: a path, or ":memory:".
            environment: event loop, clocks, randomness, threads and log.
            flush: when appends are synced.
            handles: how many files and connections may be open.
            filesystem: where `data_dir` is; by default memory or the operating system's files.
            files_are_private: whether nothing else can remove files of this `filesystem`.
            brokers: the number of brokers, whose ids begin with that of the settings.

        Raises:
            StorageError, OSError: the directory cannot be used.
            ConfigError: the settings cannot be used.
        """
        # What needs no disk; each part needs only parts above it.
        self.config, self.environment, self.handles = config, environment, handles
        self.log = environment.loggers.named(BROKER_SERVER)
        self.loop = environment.loop
        self.slices = Slices(environment)
        self.members: list[Member] = []
        self._works = False
        first = config.get_int("node.id")
        self.node_ids = range(first, first + brokers)
        # The disk, and who is notified when it fails.
        place = data_place(data_dir, filesystem, files_are_private=files_are_private)
        self.failures = Failures(environment, place.path)
        self.disk = self.slices if place.in_memory else environment.workers(*_DISK)
        self.changes = TopicChanges(environment, self.disk)
        self.flusher = Flusher(environment, flush, self.failures.storage_failed)
        self.data = place.open(environment, handles, first, durable=flush.commit)
        node_id = str(first)
        config.record({"log.dirs": data_dir, "node.id": node_id, "broker.id": node_id})
        if brokers > 1:
            config.add_brokers(self.node_ids)
        try:
            self._make_parts(place, durable=flush.commit)
        except BaseException:
            self.data.close()
            raise

    def _make_parts(self, place: DataPlace, *, durable: bool) -> None:
        """Make the parts that need the data directory; each needs only parts above it."""
        config, environment, disk = self.config, self.environment, self.disk
        self._begin_write_ahead()
        # The topics and settings, and the logs.
        lock = environment.new_lock()
        self.settings = SettingsFile(place.filesystem, place.path, lock, durable=durable)
        self.topics: Topics[Topic] = Topics()
        self.logs = open_logs(self.data, self.topics, environment, disk, durable=durable)
        self.leadership = self._make_leadership()
        placing = Placing() if self.leadership is None else self.leadership
        self.controller = Controller(
            config, environment, self.settings, self.logs, self.changes, placing
        )
        self.controller.take(self.data)
        if self.leadership is not None:
            self.leadership.begin(self.topics)
        # What follows from the settings.
        self.credentials, self.acls = Credentials(), AclStore()
        self.tokens = DelegationTokens(config.get_text("delegation.token.secret.key"))
        self.security_log = SecurityLog(
            self.data.security_log, environment, disk, self.flusher.mode
        )
        self._load_security()
        self.features = Features(self.settings, config)
        self.quotas, self.telemetry = ClientQuotas(self.settings, config), Telemetry(config)
        self.access = None
        self.checks: list[Remake] = []
        if config.get_text(AUTHORIZER_CLASS):
            # Imported only by brokers that have one.
            from coterie.server.authorization.making import make_access

            self.access, self.checks = make_access(
                config, self.acls, self.security_log, environment
            )
        elif len(self.acls):
            reason = f"set {AUTHORIZER_CLASS} to let them count"
            self.log.warning("access rules have no effect", rules=len(self.acls), reason=reason)
        # The topic of the group coordinators, whose partitions they load later.
        topic = topic_at_start(self.controller, config)
        self.offsets_topic = OffsetsTopic(self.controller, topic, self.failures, self.members)
        partitions = len(self.offsets_topic.partitions)
        self.journal = Journal(self.controller, config, environment, partitions)
        # What works in the background, and what is notified of changes of the parts above.
        self.maintenance = Maintenance(self, self.data, watches_directory=not place.is_private)
        self.deletions = TopicDeletions(
            self.controller,
            self.offsets_topic,
            self.flusher,
            self.maintenance,
            self.members,
            self.leadership,
        )
        if self.leadership is not None:
            self.leadership.when_claimed.append(self.deletions.ownership_changed)
        self.failures.when_directory_lost.append(self._directory_lost)

    def _load_security(self) -> None:
        """Read all credentials, rules and tokens [security/log-damage]."""
        self.security_log.add_store(self.credentials)
        self.security_log.add_store(self.acls)
        self.security_log.add_store(self.tokens)
        self.security_log.load(self.data.read_security_log())

    def _begin_write_ahead(self) -> None:
        """Let the flusher sync many logs as one, and report what the last stop has left."""
        self.flusher.write_ahead = self.data.write_ahead
        self.flusher.write_ahead_failed = self._write_ahead_failed
        files, entries, skipped = self.data.replayed
        if files:
            self.log.info("write-ahead log replayed", files=files, appends=entries, skipped=skipped)

    def _make_leadership(self) -> "Leadership | None":
        if len(self.node_ids) == 1:
            return None
        # Imported here, because most processes have one broker.
        from coterie.server.cluster.leadership import Leadership

        nodes = [Node(each, {}, self.config.get_text("broker.rack")) for each in self.node_ids]
        image = ClusterImage(self.data.cluster_id, nodes)
        return Leadership(image, self.config, self.environment, self.settings, self.members)

    def topic_deletion(self, topic: Topic, done: Callable[[], None]) -> Change[None]:
        """See `TopicDeletions`."""
        return self.deletions.deletion(topic, done)

    def begin_work(self) -> None:
        """Begin the background work on the logs, if it has not begun."""
        if not self._works:
            self._works = True
            self.maintenance.start()

    # --- the end ----------------------------------------------------------------------------------

    async def drain(self, leaving: Sequence[Member]) -> None:
        """Wait until what some brokers have received is handled and durable.

        If they are the last ones, nothing is left to do afterwards. The work of other brokers is
        not waited for: it may never end.
        """
        self.flusher.begin()
        works: list[Work] = [each.turns for each in leaving]
        if len(leaving) == len(self.members):
            works += self.flusher, self.disk, self.changes, self.slices, self.security_log
        elif self.flusher.commit:
            works.append(self._written())
        if not await self.wait_for(lambda: all(each.idle for each in works), DRAIN_TIMEOUT_S):
            self.log.error("stopping before the disk has confirmed all writes")

    def _written(self) -> "_Written":
        """Return the appends that are not durable now."""
        written = _Written()
        for topic in self.topics.all():
            for partition in topic.partitions:
                log = partition.opened_log
                if log is not None and not log.failed and log.synced_offset < log.log_end_offset:
                    written.left += 1
                    self.flusher.appended(log, written.synced)
        return written

    async def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until a condition holds; return whether it does."""
        deadline_s = self.environment.monotonic_s() + timeout_s
        while not condition():
            if self.environment.monotonic_s() >= deadline_s:
                return False
            await self.environment.sleep(_DRAIN_POLL_S)
        return True

    async def finish_changes(self) -> None:
        """Wait for a moment until no change of topics is half done, before brokers are abandoned.

        Facts of the journal that wait for its topic can be written then.
        """
        await self.wait_for(lambda: self.changes.idle, _CHANGES_TIMEOUT_S)

    def close(self) -> None:
        """Close the directory after the last broker has stopped in order."""
        self._end_work()
        try:
            self.data.close(self.disk.run_all)
        except (StorageError, OSError) as error:
            self.log.error("data directory not closed cleanly", error=str(error))  # noqa: TRY400

    def abandon(self) -> None:
        """End as if the process was killed, after the last broker was abandoned."""
        self._end_work()
        self.data.abandon()

    def _end_work(self) -> None:
        self.flusher.stop()
        self.disk.stop()
        self.logs.opener.end()
        self.environment.stop()

    # --- failures ---------------------------------------------------------------------------------

    def _write_ahead_failed(self, error: Exception) -> None:
        """Log that logs are synced one by one, for some time or until the next start."""
        write_ahead = self.data.write_ahead
        is_stopped = write_ahead is not None and write_ahead.stopped
        self.log.error(
            "write-ahead log not used",
            cause=describe_error(error),
            remedy=remedy_for(error),
            until="the next start" if is_stopped else f"{RESUME_AFTER_S:.0f} s from now",
        )

    def _directory_lost(self, error: OSError) -> None:
        self.flusher.fail(error)
        for topic in self.topics.all():
            for partition in topic.partitions:
                partition.fail(error)
