"""The configuration of the broker: the value of each setting and the places that give it one.

What was given at the start is static. Clients alter settings on top of it, for this broker or for
the whole cluster [settings/precedence]. Settings with an effect are parsed once, so that reading
one is a look-up.

Several brokers of one process have settings of their own over those that they share.
"""

from collections.abc import Callable, Iterable, Mapping

from coterie.coordinator.groups.config import (
    ConsumerSettingsTable,
    GroupConfig,
    S,
    SettingsTable,
    ShareSettingsTable,
    StreamsSettingsTable,
)
from coterie.coordinator.share_state.config import ShareStateConfig
from coterie.coordinator.transactions.config import TransactionConfig
from coterie.server.config.address_limits import address_limits
from coterie.server.config.broker_keys import BROKER, PER_IP_OVERRIDES
from coterie.server.config.consumer_groups import (
    check_consumer_groups,
    consumer_group_config,
    consumer_settings,
)
from coterie.server.config.kafka_keys import find_key
from coterie.server.config.keys import (
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    ConfigKey,
    ConfigSource,
    InvalidValue,
    Value,
)
from coterie.server.config.share_groups import (
    check_share_groups,
    share_group_config,
    share_settings,
)
from coterie.server.config.share_leaders import leader_settings
from coterie.server.config.sources import ConfigError, Given, read_settings
from coterie.server.config.streams_groups import (
    check_streams_groups,
    streams_group_config,
    streams_settings,
)

DEFAULT_NODE_ID = "1"
# A setting that a cluster with eligible leader replicas always has for all brokers.
MIN_INSYNC_REPLICAS = "min.insync.replicas"


class Config:
    """The broker's settings.

    Attributes:
        share_leaders: what the leaders of partitions need of the settings of share groups.
    """

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        """Take the defaults, and over them `values`, whose names are known.

        Raises:
            InvalidValue: a value is invalid.
        """
        # Kafka has no default for node.id and refuses to start without it.
        self._static: dict[str, str] = {"node.id": DEFAULT_NODE_ID, **(values or {})}
        self._cluster: dict[str, str] = {}
        self._kept: dict[str, str] = {}
        self._of_cluster: dict[str, str] = {}
        self._altered: dict[str, str] = {}
        self._resources: dict[int, dict[str, dict[str, str]]] = {}
        self._given: dict[str, Given] = {}
        # The settings of each of several brokers, by node id; none for the only one.
        self._brokers: dict[int, Config] = {}
        self._parsed: dict[str, Value | None] = {}
        for name, key in BROKER.items():
            text = self._static.get(name, key.default)
            self._parsed[name] = None if text is None else key.parse(text)
        address_limits(self.get_text(PER_IP_OVERRIDES) or "")
        check_consumer_groups(self)
        check_share_groups(self)
        check_streams_groups(self)
        self._consumer_settings = ConsumerSettingsTable(consumer_settings(self, {}))
        self._share_settings = ShareSettingsTable(share_settings(self, {}))
        self._streams_settings = StreamsSettingsTable(streams_settings(self, {}))
        # Those of share groups for the leaders of partitions.
        self.share_leaders = SettingsTable(leader_settings(self, {}))

    @classmethod
    def load(
        cls,
        options: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
        properties: str | None = None,
        properties_name: str = "properties file",
    ) -> "Config":
        """Merge the places that settings are given in; see `read_settings` for the arguments.

        Raises:
            ConfigError: a name is unknown or a value invalid.
        """
        given = read_settings(options, environment or {}, properties, properties_name)
        try:
            config = cls({name: each.value for name, each in given.items()})
        except InvalidValue as error:
            raise ConfigError(str(error)) from None
        config._given = given
        shortest, longest = "group.min.session.timeout.ms", "group.max.session.timeout.ms"
        if config.get_int(shortest) > config.get_int(longest):
            low, high = config.get_int(shortest), config.get_int(longest)
            raise ConfigError(f"{shortest}={low} is above {longest}={high}")
        return config

    def get_int(self, name: str) -> int:
        """Return the value of a whole number."""
        value = self._parsed[name]
        assert isinstance(value, int), name
        return value

    def get_float(self, name: str) -> float:
        """Return the value of a double."""
        value = self._parsed[name]
        assert isinstance(value, float), name
        return value

    def get_bool(self, name: str) -> bool:
        """Return the value of a switch."""
        value = self._parsed[name]
        assert isinstance(value, bool), name
        return value

    def get_list(self, name: str) -> tuple[str, ...]:
        """Return the elements of a list; none if the list is not set."""
        value = self._parsed[name]
        assert value is None or isinstance(value, tuple), name
        return value or ()

    def get_text(self, name: str) -> str | None:
        """Return a text; None if it is not set."""
        value = self._parsed[name]
        assert value is None or isinstance(value, str), name
        return value

    def given(self, name: str) -> Given | None:
        """Return what the user gave for a setting; None if it was not given."""
        return self._given.get(name)

    def origin(self, name: str) -> str:
        """Return where a setting was given, for errors; its name if it was not given."""
        given = self._given.get(name)
        return name if given is None else given.origin

    @property
    def given_names(self) -> set[str]:
        """The names of the settings that the user gave."""
        return set(self._given)

    def text(
        self,
        name: str,
        altered: Mapping[str, str] | None = None,
        cluster: Mapping[str, str] | None = None,
    ) -> str | None:
        """Return a setting's value as text; None if it has none.

        Args:
            name: of the setting.
            altered: what clients would have altered of this broker, instead of what they have.
            cluster: the same of the cluster.
        """
        given = {ConfigSource.DYNAMIC_BROKER: altered, ConfigSource.DYNAMIC_DEFAULT_BROKER: cluster}
        for values, source in self._layers():
            instead = given.get(source)
            text = (values if instead is None else instead).get(name)
            if text is not None:
                return text
        return _default(name)

    def set_text(self, name: str) -> str | None:
        """Return what the user or clients have set, without a look for a default."""
        for values in (self._altered, self._of_cluster, self._static):
            if name in values:
                return values[name]
        return None

    def sources(self, name: str) -> list[tuple[str, ConfigSource]]:
        """Return every value that the setting is given, the effective one first."""
        found = [(values[name], source) for values, source in self._layers() if name in values]
        default = _default(name)
        if default is not None:
            found.append((default, ConfigSource.DEFAULT))
        return found

    def _layers(self) -> tuple[tuple[dict[str, str], ConfigSource], ...]:
        return (
            (self._altered, ConfigSource.DYNAMIC_BROKER),
            (self._of_cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER),
            (self._static, ConfigSource.STATIC_BROKER),
        )

    @property
    def names(self) -> set[str]:
        """The names of all settings that have been given or altered."""
        return {*self._static, *self._of_cluster, *self._altered}

    @property
    def altered(self) -> dict[str, str]:
        """What clients altered of this broker, of the first one if these are shared; as text."""
        for first in self._brokers.values():
            return first.altered
        return dict(self._altered)

    @property
    def cluster_defaults(self) -> dict[str, str]:
        """What is set for the whole cluster: by clients, or kept for it; as text."""
        return dict(self._of_cluster)

    @property
    def keeps_min_insync_replicas(self) -> bool:
        """Whether the cluster always has a value of it [settings/kept-for-the-cluster]."""
        return bool(self._kept)

    def keep_min_insync_replicas(self, *, kept: bool) -> None:
        """Let the cluster have a value of this setting, or only what clients set."""
        given = self._static.get(MIN_INSYNC_REPLICAS) or _default(MIN_INSYNC_REPLICAS)
        self._kept = {MIN_INSYNC_REPLICAS: given} if kept and given else {}
        self._of_cluster = self._kept | self._cluster
        for each in self._brokers.values():
            each.keep_min_insync_replicas(kept=kept)

    # --- several brokers --------------------------------------------------------------------------

    def add_brokers(self, node_ids: Iterable[int]) -> None:
        """Let several brokers have settings of their own over these, which they share.

        [cluster/settings-of-a-broker]
        """
        for node_id in node_ids:
            ids = {"node.id": str(node_id), "broker.id": str(node_id)}
            own = self._brokers[node_id] = Config({**self._static, **ids})
            own._given = self._given

    def of_broker(self, node_id: int) -> "Config":
        """Return the settings of a broker: these if it is the only one."""
        return self._brokers.get(node_id, self)

    def is_first(self, node_id: int) -> bool:
        """Return whether a broker is the only one, or the first of several."""
        return node_id == next(iter(self._brokers), node_id)

    # --- changes ----------------------------------------------------------------------------------

    def alter(
        self,
        broker: Mapping[str, str],
        cluster: Mapping[str, str],
        others: Mapping[int, Mapping[str, str]] | None = None,
    ) -> None:
        """Replace what clients altered.

        Args:
            broker: settings of this broker, of the first one of several; already checked.
            cluster: settings of all brokers, already checked.
            others: settings of further brokers that changed, by node id; already checked.
        """
        for node_id, each in self._brokers.items():
            own = broker if self.is_first(node_id) else (others or {}).get(node_id)
            each.alter(each.altered if own is None else own, cluster)
        # Parts that brokers share follow what is set for all of them.
        self._alter({} if self._brokers else broker, cluster)

    def _alter(self, broker: Mapping[str, str], cluster: Mapping[str, str]) -> None:
        names = {*self._altered, *self._cluster, *broker, *cluster}
        self._altered, self._cluster = dict(broker), dict(cluster)
        self._of_cluster = self._kept | self._cluster
        self._parse(names)
        self._set_group_settings()

    @property
    def groups(self) -> Mapping[str, Mapping[str, str]]:
        """The settings of groups, by group id."""
        return self.resources(GROUP_RESOURCE)

    @property
    def client_metrics(self) -> Mapping[str, Mapping[str, str]]:
        """The settings of subscriptions of client metrics, by name."""
        return self.resources(CLIENT_METRICS_RESOURCE)

    def resources(self, kind: int) -> Mapping[str, Mapping[str, str]]:
        """Return the settings of the resources of a type that have any, by name."""
        return self._resources.get(kind, {})

    def set_resources(self, kind: int, settings: Mapping[str, Mapping[str, str]]) -> None:
        """Replace the settings of groups or of subscriptions of client metrics.

        Args:
            kind: the type of the resources.
            settings: their settings by name, already checked.
        """
        self._resources[kind] = {name: dict(values) for name, values in settings.items()}
        self._set_group_settings()
        for each in self._brokers.values():
            each.set_resources(kind, settings)

    def record(self, values: Mapping[str, str]) -> None:
        """Record what the start has decided, such as the address that is listened on."""
        self._static.update(values)

    def _parse(self, names: Iterable[str]) -> None:
        for name in names:
            key = BROKER.get(name)
            if key is not None:
                text = self.text(name)
                self._parsed[name] = None if text is None else key.parse(text)

    def topic_default(self, key: ConfigKey) -> str | None:
        """Return the value of a topic's setting that the topic itself does not set."""
        for name, factor in key.synonyms:
            text = self.text(name)
            if text is not None:
                if key.minimum == -1 and int(text) < 0:
                    # Any negative time of the broker is none for its topics, in each unit.
                    return "-1"
                return text if factor == 1 else str(int(text) * factor)
        return key.default

    def group_config(self) -> GroupConfig:
        """Return the settings of the group coordinator."""
        return GroupConfig(
            group_min_session_timeout_ms=self.get_int("group.min.session.timeout.ms"),
            group_max_session_timeout_ms=self.get_int("group.max.session.timeout.ms"),
            group_initial_rebalance_delay_ms=self.get_int("group.initial.rebalance.delay.ms"),
            group_max_size=self.get_int("group.max.size"),
            offset_metadata_max_size=self.get_int("offset.metadata.max.bytes"),
            offsets_retention_ms=self.get_int("offsets.retention.minutes") * 60_000,
            offsets_retention_check_interval_ms=self.get_int("offsets.retention.check.interval.ms"),
            offsets_topic_num_partitions=self.get_int("offsets.topic.num.partitions"),
            consumer=consumer_group_config(self, self._consumer_settings),
            share=share_group_config(self, self._share_settings),
            streams=streams_group_config(self, self._streams_settings),
        )

    def _set_group_settings(self) -> None:
        """Bring the settings of groups up to date."""
        _set_all(self, self._consumer_settings, consumer_settings)
        _set_all(self, self._share_settings, share_settings)
        _set_all(self, self._streams_settings, streams_settings)
        _set_all(self, self.share_leaders, leader_settings)

    def transaction_config(self) -> TransactionConfig:
        """Return the settings of the transaction coordinator."""
        return TransactionConfig(
            max_timeout_ms=self.get_int("transaction.max.timeout.ms"),
            abort_interval_ms=self.get_int(
                "transaction.abort.timed.out.transaction.cleanup.interval.ms"
            ),
            id_expiration_ms=self.get_int("transactional.id.expiration.ms"),
            expiry_interval_ms=self.get_int(
                "transaction.remove.expired.transaction.cleanup.interval.ms"
            ),
            state_partitions=self.get_int("transaction.state.log.num.partitions"),
        )

    def share_state_config(self) -> ShareStateConfig:
        """Return the settings of the share coordinator."""
        return ShareStateConfig(
            state_partitions=self.get_int("share.coordinator.state.topic.num.partitions"),
            updates_per_snapshot=self.get_int(
                "share.coordinator.snapshot.update.records.per.snapshot"
            ),
            cold_interval_ms=self.get_int("share.coordinator.cold.partition.snapshot.interval.ms"),
            prune_interval_ms=self.get_int("share.coordinator.state.topic.prune.interval.ms"),
        )


def _set_all(
    config: Config,
    table: SettingsTable[S],
    settings: Callable[[Config, Mapping[str, str]], S],
) -> None:
    """Bring the settings of groups of one type up to date."""
    table.default = settings(config, {})
    table.own = {group_id: settings(config, values) for group_id, values in config.groups.items()}


def _default(name: str) -> str | None:
    """Return the default of a broker's setting; None if it has none or is unknown."""
    key = find_key(name)
    return None if key is None else key.default
