"""Who leads what in a cluster whose brokers are in one process, and what follows from a change.

An event (a broker goes or comes, a partition moves) makes the next image. Then, in this order:
the new epochs and replicas are stored, brokers give up what they lead no longer, partitions begin
their epochs, the new leaders take over, and clients are shown the image. All of this happens in one
turn of the event loop, so no request sees half of it.

Invariants: a partition has one leader or none, and its leader epoch only grows, also over restarts.
The epoch in the image is the epoch that batches get. Brokers act by the present image; with
`propagation_ms` clients are shown it later, and never after a newer one.
"""

from collections.abc import Callable, Iterable, Sequence

from coterie.address import Address
from coterie.protocol.topic_names import OFFSETS_TOPIC, SHARE_GROUPS_TOPIC, TRANSACTIONS_TOPIC
from coterie.server.cluster.elections import FIRST_EPOCH, new_placement
from coterie.server.cluster.image import ClusterImage, CoordinatorType, Placement
from coterie.server.cluster.ownership import ownership
from coterie.server.cluster.replica_placer import place_replicas
from coterie.server.config.config import MIN_INSYNC_REPLICAS, Config
from coterie.server.config.keys import ConfigSource
from coterie.server.config.topic_keys import TOPIC
from coterie.server.coordinators.runtime import CoordinatorRuntime
from coterie.server.environment import Environment
from coterie.server.loggers import CONTROLLER
from coterie.server.logs.partition import Partition, Topic
from coterie.server.member import Member
from coterie.server.metadata.placing import DEFAULT_FACTOR, Placing, Replicas
from coterie.server.metadata.settings_file import Alterations, SettingsFile, StoredPlacement
from coterie.server.metadata.stored_settings import StoredTopic
from coterie.server.metadata.topic import TopicMetadata
from coterie.server.metadata.topic_rules import (
    OWN_TOPICS,
    check_factor,
    check_replicas,
    check_some_live,
)
from coterie.server.metadata.topics import Topics
from coterie.storage.errors import describe_error, remedy_for

# The replicas of the topics that brokers write themselves, in a cluster that has so many brokers.
_OWN_FACTOR = 3
_MIN_ISR_SETTING = {
    TRANSACTIONS_TOPIC: "transaction.state.log.min.isr",
    SHARE_GROUPS_TOPIC: "share.coordinator.state.topic.min.isr",
}
_FACTOR_SETTING = {
    OFFSETS_TOPIC: "offsets.topic.replication.factor",
    TRANSACTIONS_TOPIC: "transaction.state.log.replication.factor",
    SHARE_GROUPS_TOPIC: "share.coordinator.state.topic.replication.factor",
}


class Leadership(Placing):
    """The leaders of all partitions.

    Attributes:
        image: the present image.
        propagation_ms: after which time clients are shown a new image.
        when_claimed: called after partitions of coordinators were taken over.
    """

    def __init__(
        self,
        image: ClusterImage,
        config: Config,
        environment: Environment,
        settings: SettingsFile,
        members: Sequence[Member],
    ) -> None:
        """Place nothing yet.

        Args:
            image: the cluster without topics.
            config: the settings of the brokers.
            environment: its loop, its log and its chance are used.
            settings: where replicas and epochs are stored.
            members: the brokers that run; the list changes.
        """
        self.image = image
        self.propagation_ms = 0
        self.when_claimed: list[Callable[[], None]] = []
        self._config = config
        self._loop = environment.loop
        self._log = environment.loggers.named(CONTROLLER)
        self._random_below = environment.random_below
        self._settings = settings
        self._members = members
        self._topics: Topics[Topic] = Topics()
        # The epochs of deleted topics of coordinators, which begin above them when they are created
        # anew: a coordinator loads a partition in a newer epoch only.
        self._last_epochs: dict[str, int] = {}

    def member(self, node_id: int | None) -> Member | None:
        """Return a broker that runs; None if it does not."""
        return next((each for each in self._members if each.node_id == node_id), None)

    def leader(self, topic: str, index: int) -> Member | None:
        """Return the broker that leads a partition and runs; None if there is none."""
        where = self.image.placed(topic, index)
        return None if where is None else self.member(where.leader_id)

    def is_led(self, topic: str) -> bool:
        """Return whether each partition of a topic has a leader that runs."""
        placed = self.image.placements.get(topic, ())
        return all(self.member(each.leader_id) is not None for each in placed)

    def coordinator(self, kind: CoordinatorType, key: str) -> Member | None:
        """Return the broker that coordinates a group or transactional id and runs, or None."""
        return self.member(self.image.coordinator(kind, key))

    # --- topics -----------------------------------------------------------------------------------

    def begin(self, topics: Topics[Topic]) -> None:
        """Place the topics that exist at the start, each partition in a new epoch.

        A topic of a directory that had one broker is placed as a new one. Brokers that are no
        longer in the cluster are left out.

        Raises:
            OSError: the placements cannot be stored.
        """
        self._topics = topics
        alterations = Alterations()
        for topic in topics.all():
            stored = self._settings.stored.topics.get(topic.topic_id, StoredTopic(topic.name, {}))
            known = [
                [node_id for node_id in replicas if node_id in self.image.nodes]
                for replicas in stored.replicas[: topic.partition_count]
            ]
            missing = topic.partition_count - len(known)
            factor = min(self._default_factor(topic.name), len(self.image.nodes))
            known += self._place(missing, factor)
            fresh = self._place(len(known), factor)
            topic.replicas = [replicas or new for replicas, new in zip(known, fresh, strict=True)]
            epochs = [each.closed_epoch + 1 for each in topic.partitions]
            alterations.placements[topic] = StoredPlacement(topic.replicas, epochs)
            self._add(topic, epochs)
        if alterations:
            self._settings.alter(alterations)

    def new_replicas(self, topic: str, partitions: int, wanted: Replicas) -> list[list[int]]:
        """Place new partitions as Kafka does; see the base class."""
        if not isinstance(wanted, int):
            for index, broker_ids in enumerate(wanted):
                check_replicas(broker_ids, self.image.nodes)
                check_some_live(index, broker_ids, self.image.live_ids)
            return [list(each) for each in wanted]
        factor = self._default_factor(topic) if wanted == DEFAULT_FACTOR else wanted
        check_factor(factor, self.image.nodes)
        return self._place(partitions, factor)

    def _place(self, partitions: int, factor: int) -> list[list[int]]:
        live = self.image.live_ids
        fenced = [each for each in self.image.nodes if each not in live]
        if not live:
            live, fenced = fenced, []
        return place_replicas(live, fenced, partitions, factor, self._random_below)

    def _default_factor(self, topic: str) -> int:
        if topic not in OWN_TOPICS:
            return int(self._config.text("default.replication.factor") or 1)
        setting = _FACTOR_SETTING.get(topic, _FACTOR_SETTING[OFFSETS_TOPIC])
        factor = int(self._given(setting) or _OWN_FACTOR)
        return min(factor, len(self.image.nodes))

    def overrides(self, topic: str) -> dict[str, str]:
        """See the base class. Coordinators survive a death in a cluster of two, too."""
        setting = _MIN_ISR_SETTING.get(topic)
        if setting is None or self._given(setting):
            return {}
        least = int(self._config.text(setting) or 1)
        return {MIN_INSYNC_REPLICAS: str(max(1, min(least, len(self.image.nodes) - 1)))}

    def _given(self, setting: str) -> str | None:
        """Return the value of a setting if the start was given one."""
        given = [source for _, source in self._config.sources(setting)]
        return self._config.text(setting) if ConfigSource.STATIC_BROKER in given else None

    def added(self, topic: TopicMetadata) -> None:
        """Let brokers lead the new partitions of a topic; see the base class."""
        known = len(self.image.placements.get(topic.name, ()))
        if topic.replicas:
            first = self._last_epochs.get(topic.name, FIRST_EPOCH - 1) + 1
            self._add(topic, [first] * (len(topic.replicas) - known))
            self._claim()

    def _add(self, topic: TopicMetadata, epochs: Sequence[int]) -> None:
        """Add the newest partitions of a topic to the image, in their epochs."""
        placed = list(self.image.placements.get(topic.name, ()))
        live = self.image.live_ids
        for replicas, epoch in zip(topic.replicas[len(placed) :], epochs, strict=True):
            placed.append(new_placement(replicas, live, epoch))
        self._begin_epochs(topic.name, placed)
        self._replace(self.image.with_placements({**self.image.placements, topic.name: placed}))
        self._hold_or_release(topic.name)

    def configured(self, topic: TopicMetadata) -> None:
        """Hold or release the high watermarks of a topic whose settings are others now."""
        self._hold_or_release(topic.name)

    def removed(self, topic: TopicMetadata) -> None:
        """Forget the partitions of a deleted topic."""
        placed = self.image.placements.get(topic.name)
        if placed is None:
            return
        if topic.name in _FACTOR_SETTING:
            self._last_epochs[topic.name] = max(each.leader_epoch for each in placed)
        left = {name: each for name, each in self.image.placements.items() if name != topic.name}
        self._replace(self.image.with_placements(left))

    # --- changes ----------------------------------------------------------------------------------

    def advertise(self, node_id: int, listener: str, address: Address) -> None:
        """Let the clients of a listener find a broker at an address."""
        self._replace(self.image.advertising(node_id, listener, address))

    def change(self, after: ClusterImage) -> None:
        """Let the next image count: leaders give up and take over, and clients are shown it."""
        before = self.image
        changed = [
            name
            for name, placed in after.placements.items()
            if placed != before.placements.get(name)
        ]
        self._store(before, after, changed)
        self.image = after
        for member in list(self._members):
            for topic, runtime in _runtimes(member):
                owned = ownership(after, member.node_id, topic, runtime.owned())
                for index in owned.gives:
                    runtime.unload_partition(index)
        for name in changed:
            self._begin_epochs(name, after.placements[name])
            self._hold_or_release(name)
        self._claim()
        self._replace(after)
        moved = sum(_leaders_moved(before, after, name) for name in changed)
        if moved:
            self._log.info("leaders moved", partitions=moved)
        for name in changed:
            self._end_fetches(name, before.placements.get(name, ()), after.placements[name])
        self._forget_shares(before, after, changed)

    def _claim(self) -> None:
        """Let brokers take over the partitions of coordinators that they lead now."""
        has_claimed = False
        for member in list(self._members):
            for created in (member.transaction_runtime, member.share_state):
                state = self._topics.by_name.get(created.topic_name)
                if state is not None and not created.exists:
                    created.take_over(state.partitions)
                    created.schedule_load()
            for topic, runtime in _runtimes(member):
                claims = ownership(self.image, member.node_id, topic, runtime.owned()).claims
                for claim in claims:
                    runtime.load_partition(claim.partition, claim.epoch)
                    has_claimed = True
        if has_claimed:
            for call in self.when_claimed:
                call()

    def _replace(self, image: ClusterImage) -> None:
        """Show clients an image, now or later."""
        self.image = image
        if self.propagation_ms:
            self._loop.call_later(self.propagation_ms / 1000, self._show, image)
        else:
            self._show(image)

    def _show(self, image: ClusterImage) -> None:
        for member in self._members:
            if member.image.version < image.version:
                member.image = image

    def _partitions(self, name: str) -> Iterable[Partition]:
        topic = self._topics.find(name)
        return () if topic is None else topic.partitions

    def _hold_or_release(self, name: str) -> None:
        """Hold the high watermarks of partitions with too few replicas in sync, and no others."""
        for partition in self._partitions(name):
            was_held = partition.held_end is not None
            if self._lacks_replicas(partition):
                partition.hold()
            elif was_held:
                partition.release()
            if was_held != (partition.held_end is not None):
                self._hold_coordinators(partition)

    def _lacks_replicas(self, partition: Partition) -> bool:
        """Return whether fewer are in sync than min.insync.replicas, and than there are."""
        topic = partition.topic
        where = self.image.placed(topic.name, partition.index)
        least = topic.config.overrides.get(MIN_INSYNC_REPLICAS)
        if least is None:
            least = self._config.topic_default(TOPIC[MIN_INSYNC_REPLICAS])
        if where is None or least is None:
            return False
        return len(where.isr) < min(int(least), len(where.replicas))

    def _hold_coordinators(self, partition: Partition) -> None:
        """Let the coordinator whose log is held or released wait or go on."""
        for member in list(self._members):
            for topic, runtime in _runtimes(member):
                if topic == partition.topic.name:
                    change = runtime.release if partition.held_end is None else runtime.hold
                    change(partition.index)

    def _begin_epochs(self, name: str, placed: Sequence[Placement]) -> None:
        for partition, where in zip(self._partitions(name), placed, strict=False):
            if where.leader_epoch > partition.leader_epoch:
                partition.lead(where.leader_epoch)

    def _end_fetches(
        self, name: str, before: Sequence[Placement], after: Sequence[Placement]
    ) -> None:
        """Answer the fetches that wait for partitions whose leader has changed."""
        for partition, old, new in zip(self._partitions(name), before, after, strict=False):
            if old.leader_id != new.leader_id:
                for watcher in list(partition.watchers):
                    watcher.finish()

    def _forget_shares(
        self, before: ClusterImage, after: ClusterImage, changed: Iterable[str]
    ) -> None:
        """Let former leaders forget what share groups read of partitions."""
        lost: dict[int, set[Partition]] = {}
        for name in changed:
            leaders = zip(before.placements.get(name, ()), after.placements[name], strict=False)
            for partition, (old, new) in zip(self._partitions(name), leaders, strict=False):
                if old.leader_id != new.leader_id:
                    lost.setdefault(old.leader_id, set()).add(partition)
        for member in list(self._members):
            member.share.give_up(lost.get(member.node_id, ()))

    def _store(self, before: ClusterImage, after: ClusterImage, changed: Iterable[str]) -> None:
        """Store what must survive a restart. A failure is logged: it concerns later starts only."""
        alterations = Alterations()
        for name in changed:
            topic = self._topics.find(name)
            placed, known = after.placements[name], before.placements.get(name, ())
            stored = _stored(placed)
            if topic is not None and stored != _stored(known):
                topic.replicas = [list(each) for each in stored.replicas]
                alterations.placements[topic] = stored
        if not alterations:
            return
        try:
            self._settings.alter(alterations)
        except OSError as error:
            self._log.error(
                "placements not stored", error=describe_error(error), remedy=remedy_for(error)
            )


def _leaders_moved(before: ClusterImage, after: ClusterImage, topic: str) -> int:
    """Return how many partitions of a topic have another leader."""
    known = before.placements.get(topic, ())
    pairs = zip(known, after.placements[topic], strict=False)
    return sum(old.leader_id != new.leader_id for old, new in pairs)


def _stored(placed: Sequence[Placement]) -> StoredPlacement:
    return StoredPlacement(
        [each.replicas for each in placed], [each.leader_epoch for each in placed]
    )


def _runtimes(member: Member) -> tuple[tuple[str, CoordinatorRuntime], ...]:
    return (
        (OFFSETS_TOPIC, member.groups),
        (TRANSACTIONS_TOPIC, member.transaction_runtime),
        (SHARE_GROUPS_TOPIC, member.share_state),
    )
