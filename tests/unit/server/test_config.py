"""Settings: where they come from, which are refused and why, and what depends on them."""

from collections import Counter
from sys import float_info

import pytest

from coterie.server.config.broker_keys import BROKER
from coterie.server.config.config import Config
from coterie.server.config.described import broker_settings
from coterie.server.config.effects import refuse_without_effect, without_effect
from coterie.server.config.kafka_keys import find_key, kafka_keys, reasons, removed_keys
from coterie.server.config.keys import ConfigKey, ConfigSource, ConfigType, InvalidValue, as_text
from coterie.server.config.sources import ConfigError
from coterie.server.config.tables import rows
from coterie.server.config.topic_config import TopicConfig
from coterie.server.config.topic_keys import TOPIC
from coterie.server.logs.log_configs import log_config

DELAY = "group.initial.rebalance.delay.ms"


class TestSources:
    """[settings/sources] [settings/precedence]"""

    def test_option_beats_environment_beats_file_beats_default(self) -> None:
        variable = "COTERIE_GROUP_INITIAL_REBALANCE_DELAY_MS"
        properties = f"# a comment\n{DELAY} = 1\nnum.partitions: 7\n"
        everything = Config.load([f"{DELAY}=3"], {variable: "2"}, properties)
        assert everything.get_int(DELAY) == 3
        assert everything.get_int("num.partitions") == 7
        assert Config.load([], {variable: "2"}, properties).get_int(DELAY) == 2
        assert Config.load([], {"PATH": "/bin"}, properties).get_int(DELAY) == 1
        assert Config.load().get_int(DELAY) == 3000

    def test_the_last_of_equal_options_counts(self) -> None:
        assert Config.load([f"{DELAY}=1", f"{DELAY}=2"]).get_int(DELAY) == 2

    def test_the_last_of_equal_lines_counts(self) -> None:
        assert Config.load([], {}, f"{DELAY}=1\n{DELAY}=2\n").get_int(DELAY) == 2

    def test_the_origin_of_a_setting_is_known(self) -> None:
        config = Config.load([f"{DELAY}=3"], {}, "\nnum.io.threads=9", "x.properties")
        origins = {name: config.given(name) for name in (DELAY, "num.io.threads", "listeners")}
        assert [given and given.origin for given in origins.values()] == [
            f"--config {DELAY}=3",
            "x.properties, line 2",
            None,
        ]

    def test_altered_values_of_the_broker_beat_those_of_the_cluster(self) -> None:
        config = Config.load(["message.max.bytes=77"])
        name = "message.max.bytes"
        config.alter({name: "99"}, {name: "88"})
        assert config.sources(name) == [
            ("99", ConfigSource.DYNAMIC_BROKER),
            ("88", ConfigSource.DYNAMIC_DEFAULT_BROKER),
            ("77", ConfigSource.STATIC_BROKER),
            ("1048588", ConfigSource.DEFAULT),
        ]
        assert config.get_int(name) == 99
        config.alter({}, {name: "88"})
        assert config.get_int(name) == 88
        config.alter({}, {})
        assert config.get_int(name) == 77

    def test_variables_of_commands_and_tests_are_not_settings(self) -> None:
        Config.load([], {"COTERIE_ADVERTISE": "h:1", "COTERIE_TEST_BOOTSTRAP": "h:1"})

    def test_variables_may_name_any_setting_of_kafka(self) -> None:
        environment = {"COTERIE_NUM_IO_THREADS": "4", "COTERIE_MAX_CONNECTIONS_PER_IP": "6"}
        config = Config.load([], environment)
        assert config.text("num.io.threads") == "4"
        assert config.get_int("max.connections.per.ip") == 6


class TestRefused:
    @pytest.mark.parametrize(
        ("option", "parts"),
        [
            ("group.initial.rebalance.delay=5", ["is not a setting", f"Did you mean {DELAY}"]),
            ("num.io.thread=5", ["of any Kafka up to 4.3", "Did you mean num.io.threads"]),
            ("zookeeper.conect=h:1", ["Did you mean zookeeper.connect"]),
            (f"{DELAY}=-5", ["Value must be at least 0", "a whole number from 0"]),
            (f"{DELAY}=soon", ["Not a number of type INT"]),
            (f"{DELAY}=2147483648", ["Not a number of type INT"]),
            (f"{DELAY}=1_0", ["Not a number of type INT"]),
            ("auto.create.topics.enable=yes", ["true or false"]),
            ("log.cleanup.policy=keep", ["String must be one of: compact, delete"]),
            ("log.cleanup.policy=compact,,delete", ["values must not be empty"]),
            ("num.partitions=10001", ["Value must be no more than 10000", "from 1 to 10000"]),
            ("log.cleaner.min.cleanable.ratio=2", ["Invalid value 2.0", "no more than 1"]),
            ("log.cleaner.dedupe.buffer.size=1048576", ["Value must be at least 1048577"]),
            ("log.cleaner.io.max.bytes.per.second=nan", ["Not a number of type DOUBLE"]),
            ("log.cleaner.io.max.bytes.per.second=inf", ["Not a number of type DOUBLE"]),
            ("log.cleaner.backoff.ms=-1", ["Value must be at least 0"]),
            ("offsets.topic.segment.bytes=1048575", ["Value must be at least 1048576"]),
            ("num.io.threads=0", ["Value must be at least 1"]),
            ("num.io.threads=many", ["Not a number of type INT"]),
            ("compression.gzip.level=0", ["between 1 and 9 or equal to -1", "from 1 to 9, or -1"]),
            ("listener.name.external.ssl.keystore.locaton=x", ["Did you mean"]),
            ("listener.name.external.max.connections=x", ["Not a number of type INT"]),
            ("node.id=-1", ["Value must be at least 0"]),
            ("nonsense", ["expected NAME=VALUE"]),
        ],
    )
    def test_option_is_refused_with_the_reason(self, option: str, parts: list[str]) -> None:
        with pytest.raises(ConfigError) as caught:
            Config.load([option])
        text = str(caught.value)
        assert text.startswith(f"--config {option}: ")
        for part in parts:
            assert part in text

    def test_error_names_the_variable(self) -> None:
        with pytest.raises(ConfigError, match="environment variable COTERIE_GROUP_MAX_SIZE: "):
            Config.load([], {"COTERIE_GROUP_MAX_SIZE": "0"})
        with pytest.raises(ConfigError, match=r"COTERIE_GRUOP_MAX_SIZE: gruop\.max\.size is not"):
            Config.load([], {"COTERIE_GRUOP_MAX_SIZE": "5"})

    def test_error_names_file_and_line(self) -> None:
        with pytest.raises(ConfigError, match=r"server\.properties, line 3: Invalid value x for"):
            Config.load([], {}, "\n# x\nbroker.id=x\n", "server.properties")
        with pytest.raises(ConfigError, match=r"server\.properties: line 2: .u needs four"):
            Config.load([], {}, "a=b\nc=\\u12\n", "server.properties")

    def test_empty_range_of_session_timeouts_is_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"is above group\.max\.session\.timeout\.ms=10"):
            Config.load(["group.max.session.timeout.ms=10"])


class TestKnownNames:
    """[settings/known-names] [settings/no-effect]"""

    @pytest.mark.parametrize(
        "name",
        [
            "num.network.threads",
            "transaction.state.log.min.isr",
            "share.coordinator.threads",
            "log.flush.interval.ms",
            "zookeeper.connect",
            "inter.broker.protocol.version",
            "log.message.format.version",
            "host.name",
            "replica.lag.max.messages",
            "leader.replication.throttled.rate",
        ],
    )
    def test_settings_of_any_kafka_are_accepted(self, name: str) -> None:
        config = Config.load([f"{name}=100"])
        assert config.text(name) == "100"
        assert without_effect(config)[0].split()[0] == name

    @pytest.mark.parametrize(
        "name",
        [
            "listener.name.external.ssl.engine.factory.class",
            "listener.name.external.max.connections.per.ip",
            "listener.name.external.scram-sha-256.sasl.login.class",
            "config.providers.file.class",
            "rsm.config.bucket",
            "metrics.jmx.include",
            "super.users",
            "cruise.control.metrics.topic",
            "confluent.license",
        ],
    )
    def test_names_of_listeners_and_plugins_are_accepted(self, name: str) -> None:
        value = "1" if "max.connections" in name else "x"
        assert without_effect(Config.load([f"{name}={value}"])) == [name]

    @pytest.mark.parametrize(
        "name",
        [
            "ssl.keystore.location",
            "sasl.oauthbearer.expected.issuer",
            "oauthbearer.sasl.oauthbearer.expected.issuer",
        ],
    )
    def test_a_listener_has_settings_of_its_own(self, name: str) -> None:
        """[security/prefixed-settings]"""
        config = Config.load([f"listener.name.external.{name}=x"])
        assert without_effect(config) == []

    def test_a_file_may_have_any_name(self) -> None:
        """Files of Kafka may hold settings of plugins and of other programs."""
        config = Config.load([], {}, "foo.bar=x\nnum.io.thread=5\n", "server.properties")
        assert without_effect(config) == [
            "foo.bar (unknown)",
            "num.io.thread (unknown; did you mean num.io.threads or num.network.threads?)",
        ]
        (setting,) = broker_settings(config, ["foo.bar"])
        assert (setting.value, setting.source, setting.type) == (
            None,
            ConfigSource.STATIC_BROKER,
            0,
        )
        with pytest.raises(ConfigError, match=r"--strict: 2 settings have no effect"):
            refuse_without_effect(config)

    def test_a_file_may_have_all_names_of_kafka(self) -> None:
        """Scenario 103: every name, with Kafka's default or an empty text."""
        lines = [f"{key.name}={key.default or ''}" for key in kafka_keys().values() if key.default]
        config = Config.load([], {}, "\n".join(lines), "server.properties")
        TopicConfig(config, {})
        assert len(lines) > 250
        assert all(config.text(each.partition("=")[0]) is not None for each in lines)

    def test_tables_are_read_only_when_they_are_needed(self) -> None:
        """The start of a broker must not pay for names that it does not meet."""
        kafka_keys.cache_clear()
        config = Config.load([f"{DELAY}=3", "log.dirs=/x"])
        TopicConfig(config, {"retention.ms": "5"})
        assert kafka_keys.cache_info().currsize == 0

    def test_defaults_do_not_count_as_without_effect(self) -> None:
        assert without_effect(Config.load([f"{DELAY}=3", "node.id=2", "log.dirs=/x"])) == []
        refuse_without_effect(Config.load([f"{DELAY}=3"]))

    def test_what_has_no_effect_is_named_with_its_remedy(self) -> None:
        properties = "zookeeper.connect=h:1\nport=9\nlog.flush.interval.ms=5\nnum.io.threads=8\n"
        config = Config.load([], {}, properties, "server.properties")
        assert without_effect(config) == [
            "log.flush.interval.ms (use --flush interval:MS)",
            "num.io.threads",
            "port (removed in Kafka 3.0, use listeners)",
            "zookeeper.connect (removed in Kafka 4.0)",
        ]
        with pytest.raises(ConfigError, match=r"--strict: 4 settings have no effect.*line 1\)"):
            refuse_without_effect(config)
        with pytest.raises(ConfigError, match=r"1 setting has .*: num\.io\.threads \(--config"):
            refuse_without_effect(Config.load(["num.io.threads=8"]))


class TestIds:
    """[settings/sources]"""

    @pytest.mark.parametrize(
        ("properties", "node_id"),
        [
            ("", 1),
            ("node.id=3", 3),
            ("broker.id=0", 0),
            ("broker.id=-1", 1),
            ("broker.id=-1\nnode.id=4", 4),
            ("broker.id=5\nnode.id=5", 5),
        ],
    )
    def test_broker_id_is_an_older_name_of_node_id(self, properties: str, node_id: int) -> None:
        assert Config.load([], {}, properties).get_int("node.id") == node_id

    @pytest.mark.parametrize("properties", ["broker.id=5\nnode.id=6", "broker.id=-2"])
    def test_contradictions_are_refused(self, properties: str) -> None:
        with pytest.raises(ConfigError, match=r"line 1: broker\.id"):
            Config.load([], {}, properties)


class TestTables:
    def test_every_default_is_allowed(self) -> None:
        for key in (*BROKER.values(), *TOPIC.values(), *kafka_keys().values()):
            if key.default is not None:
                assert key.shown(key.default) == (None if key.is_sensitive else key.default)

    def test_everything_is_documented_and_says_what_is_allowed(self) -> None:
        for key in (*BROKER.values(), *TOPIC.values(), *kafka_keys().values()):
            assert key.documentation.endswith("."), key.name
            assert key.allowed, key.name

    def test_settings_with_an_effect_have_kafkas_types_and_defaults(self) -> None:
        """The exceptions are those of [settings/differences]."""
        ours = {name for name in BROKER if name.startswith("journal.")}
        ours |= {"event.loop.warning.ms", "telemetry.announce.enable"}
        assert BROKER.keys() - kafka_keys().keys() == ours
        different = {
            (name, field)
            for name in BROKER.keys() - ours
            for field in ("type", "default", "choices", "update", "is_listed")
            if getattr(BROKER[name], field) != getattr(kafka_keys()[name], field)
        }
        assert different == {
            ("listeners", "update"),
            ("listener.security.protocol.map", "update"),
            ("log.cleaner.dedupe.buffer.size", "default"),
            ("log.dir", "default"),
            ("max.connections", "default"),
            ("max.connections.per.ip", "default"),
        }

    def test_ranges_are_kafkas_or_narrower(self) -> None:
        for name in BROKER.keys() & kafka_keys().keys():
            ours, kafka = BROKER[name], kafka_keys()[name]
            assert kafka.minimum is None or (ours.minimum or 0) >= kafka.minimum, name
            assert kafka.maximum is None or (ours.maximum or 0) <= kafka.maximum, name

    def test_topics_inherit_from_settings_that_exist_and_have_the_same_default(self) -> None:
        config = Config()
        for key in TOPIC.values():
            for name, _ in key.synonyms:
                assert find_key(name) is not None, name
            assert config.topic_default(key) == key.default, key.name

    def test_the_settings_are_those_of_kafka(self) -> None:
        assert sum(key.is_listed for key in TOPIC.values()) == 33
        assert sum(key.is_listed for key in kafka_keys().values()) == 340
        assert not kafka_keys().keys() & removed_keys().keys()
        assert all(
            removed.successor in kafka_keys()
            for removed in removed_keys().values()
            if removed.successor
        )

    @pytest.mark.parametrize("kind", ["broker", "removed", "topic", "group"])
    def test_a_table_names_each_setting_once(self, kind: str) -> None:
        names = Counter(columns[0] for columns in rows(f"{kind}_settings.tsv"))
        assert [name for name, count in names.items() if count > 1] == []

    def test_every_setting_has_an_effect_or_a_reason_why_not(self) -> None:
        """[settings/no-effect]"""
        others = [key for name, key in kafka_keys().items() if name not in BROKER]
        assert len(others) > 180
        for key in others:
            assert key.documentation.startswith("Accepted without an effect on this broker: ")
        for name in reasons():
            named = [each for each in others if each.name.startswith(name.removesuffix("*"))]
            assert len(named) > 1 if name.endswith("*") else [each.name for each in named]

    def test_numbers_with_an_effect_have_a_lower_bound(self) -> None:
        """broker.id only repeats node.id; any negative size or time is no limit, as in Kafka."""
        unbounded = {"broker.id", "log.retention.bytes", "log.retention.ms", "retention.bytes"}
        unbounded.add("internal.segment.bytes")
        texts = {ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.LIST, ConfigType.PASSWORD}
        texts.add(ConfigType.CLASS)
        for key in (*BROKER.values(), *TOPIC.values()):
            if key.type not in texts:
                assert (key.minimum is None) == (key.name in unbounded), key.name


class TestValues:
    """[settings/values] [settings/described-values]"""

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (True, "true"),
            (7, "7"),
            ((), ""),
            (("a", "b"), "a,b"),
            (0.5, "0.5"),
            (0.0, "0.0"),
            (1000.0, "1000.0"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (12_345_678.5, "1.23456785E7"),
            (-1e10, "-1.0E10"),
            (0.001, "0.001"),
            (0.00099, "9.9E-4"),
            (1e-300, "1.0E-300"),
            (float_info.max, "1.7976931348623157E308"),
        ],
    )
    def test_a_value_is_written_as_java_writes_it(self, value: object, text: str) -> None:
        assert as_text(value) == text  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("name", "text", "shown"),
        [
            ("auto.create.topics.enable", " TRUE ", "true"),
            ("num.io.threads", "+9 ", "9"),
            ("log.cleaner.min.cleanable.ratio", ".5", "0.5"),
            ("log.cleanup.policy", "compact , delete,compact", "compact,delete"),
            ("log.cleanup.policy", " ", ""),
            ("compression.gzip.level", "-1", "-1"),
            ("ssl.keystore.password", "secret", None),
            ("broker.rack", " r1 ", "r1"),
        ],
    )
    def test_text_is_shown_in_its_normal_form(
        self, name: str, text: str, shown: str | None
    ) -> None:
        key = find_key(name)
        assert key is not None
        assert key.shown(text) == shown

    @pytest.mark.parametrize(
        ("kind", "text"),
        [
            (ConfigType.SHORT, "32768"),
            (ConfigType.INT, "-2147483649"),
            (ConfigType.LONG, "9223372036854775808"),
            (ConfigType.LONG, "1.5"),
            (ConfigType.LONG, "0x10"),
            (ConfigType.LONG, ""),
            (ConfigType.DOUBLE, "1_0.5"),
            (ConfigType.DOUBLE, "half"),
        ],
    )
    def test_what_is_not_a_number_of_its_type_is_refused(self, kind: ConfigType, text: str) -> None:
        key = ConfigKey("a", kind, None, "")
        expected = f"Invalid value {text} for configuration a: Not a number of type {kind.name}"
        with pytest.raises(InvalidValue) as caught:
            key.parse(text)
        assert str(caught.value) == expected


class TestWhatFollows:
    def test_the_coordinator_gets_its_settings(self) -> None:
        config = Config.load([f"{DELAY}=5", "offsets.retention.minutes=2", "group.max.size=9"])
        group_config = config.group_config()
        assert group_config.group_initial_rebalance_delay_ms == 5
        assert group_config.offsets_retention_ms == 120_000
        assert group_config.group_max_size == 9

    def test_a_topic_has_its_own_settings_or_the_brokers(self) -> None:
        config = Config.load(["message.max.bytes=77"])
        assert TopicConfig(config, {}).max_message_bytes == 77
        assert TopicConfig(config, {"max.message.bytes": "5"}).max_message_bytes == 5
        assert TopicConfig(config, {"cleanup.policy": "compact,delete"}).compact
        assert TopicConfig(config, {"message.timestamp.type": "LogAppendTime"}).log_append_time

    def test_hours_count_where_milliseconds_are_not_set(self) -> None:
        retention = TOPIC["retention.ms"]
        assert Config.load(["log.retention.hours=2"]).topic_default(retention) == "7200000"
        assert Config.load(["log.retention.minutes=2"]).topic_default(retention) == "120000"
        config = Config.load(["log.retention.minutes=2", "log.retention.ms=9"])
        assert config.topic_default(retention) == "9"
        for unlimited in ("log.retention.hours=-1", "log.retention.minutes=-1"):
            assert TopicConfig(Config.load([unlimited]), {}).retention_ms == -1
        assert TopicConfig(Config.load(["log.retention.ms=-2"]), {}).retention_ms == -1
        jitter = TOPIC["segment.jitter.ms"]
        assert Config.load(["log.roll.jitter.hours=1"]).topic_default(jitter) == "3600000"

    def test_maintenance_has_kafkas_defaults_but_for_the_memory_of_the_map(self) -> None:
        config = Config()
        kafkas = {
            "log.cleaner.backoff.ms": 15_000,
            "log.retention.check.interval.ms": 300_000,
            "log.initial.task.delay.ms": 30_000,
            "log.flush.offset.checkpoint.interval.ms": 60_000,
        }
        assert {name: config.get_int(name) for name in kafkas} == kafkas
        assert config.get_bool("log.cleaner.enable")
        assert config.get_float("log.cleaner.io.max.bytes.per.second") == float_info.max
        assert config.get_int("log.cleaner.dedupe.buffer.size") == 24 << 20
        assert "128 MiB" in BROKER["log.cleaner.dedupe.buffer.size"].documentation

    def test_each_partition_has_a_jitter_of_its_own(self) -> None:
        """[log/rolling]"""
        topic = TopicConfig(Config(), {"segment.ms": "10000", "segment.jitter.ms": "4000"})
        spans = {
            log_config(topic, f"t-{number}", was_compacted=False, durable=False).segment_ms
            for number in range(20)
        }
        assert len(spans) > 10
        assert all(6000 < span <= 10_000 for span in spans)

    def test_compaction_and_retention_of_a_topic(self) -> None:
        topic = TopicConfig(Config(), {})
        assert (topic.compact, topic.delete) == (False, True)
        assert (topic.retention_ms, topic.retention_bytes) == (604_800_000, -1)
        assert (topic.min_cleanable_ratio, topic.delete_retention_ms) == (0.5, 86_400_000)
        assert (topic.min_compaction_lag_ms, topic.max_compaction_lag_ms) == (0, 2**63 - 1)
        config = Config.load(
            [
                "log.cleanup.policy=compact,delete",
                "log.cleaner.min.cleanable.ratio=0.25",
                "log.cleaner.max.compaction.lag.ms=9",
                "log.retention.minutes=1",
            ]
        )
        topic = TopicConfig(config, {"delete.retention.ms": "5"})
        assert (topic.compact, topic.delete) == (True, True)
        assert (topic.min_cleanable_ratio, topic.max_compaction_lag_ms) == (0.25, 9)
        assert (topic.retention_ms, topic.delete_retention_ms) == (60_000, 5)


@pytest.mark.parametrize(
    "name", ["ssl.key.pasword", "ssl.keystore.password", "listener.name.x.plain.sasl.jaas.confg"]
)
def test_error_does_not_show_a_secret(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Config.load([f"{name}=geheim", "no.such.setting=1"])
    assert "geheim" not in str(refused.value)
