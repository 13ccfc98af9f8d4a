"""Settings: their sources, what is refused and how that is told, and what depends on them."""

from sys import float_info

import pytest

from coterie.server.config.broker_keys import BROKER
from coterie.server.config.config import Config, ConfigError, TopicConfig
from coterie.server.config.keys import ConfigSource, ConfigType
from coterie.server.config.topic_keys import TOPIC

DELAY = "group.initial.rebalance.delay.ms"


class TestSources:
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

    def test_where_a_value_comes_from(self) -> None:
        config = Config.load([f"{DELAY}=3"])
        assert config.sources(DELAY) == [
            ("3", ConfigSource.STATIC_BROKER),
            ("3000", ConfigSource.DEFAULT),
        ]
        config.alter({"message.max.bytes": "99"})
        assert config.sources("message.max.bytes")[0] == ("99", ConfigSource.DYNAMIC_BROKER)
        assert config.get_int("message.max.bytes") == 99
        config.alter({})
        assert config.get_int("message.max.bytes") == 1_048_588

    def test_variables_of_commands_and_tests_are_not_settings(self) -> None:
        Config.load([], {"COTERIE_ADVERTISE": "h:1", "COTERIE_TEST_BOOTSTRAP": "h:1"})


class TestRefused:
    @pytest.mark.parametrize(
        ("option", "parts"),
        [
            ("group.initial.rebalance.delay=5", ["not a setting", f"Did you mean {DELAY}"]),
            (f"{DELAY}=-5", ["Value must be at least 0", "a number from 0"]),
            (f"{DELAY}=soon", ["Not a number of type INT"]),
            (f"{DELAY}=2147483648", ["Not a number of type INT"]),
            ("auto.create.topics.enable=yes", ["true or false"]),
            ("log.cleanup.policy=keep", ["String must be one of: compact, delete"]),
            ("default.replication.factor=3", ["Value must be no more than 1", "from 1 to 1"]),
            ("log.cleaner.min.cleanable.ratio=2", ["Value must be no more than 1"]),
            ("log.cleaner.dedupe.buffer.size=1048576", ["Value must be at least 1048577"]),
            ("log.cleaner.io.max.bytes.per.second=nan", ["Not a number of type DOUBLE"]),
            ("log.cleaner.io.max.bytes.per.second=inf", ["Not a number of type DOUBLE"]),
            ("log.cleaner.backoff.ms=-1", ["Value must be at least 0"]),
            ("offsets.topic.segment.bytes=1048575", ["Value must be at least 1048576"]),
            ("log.dirs=/data", ["use --data-dir"]),
            ("zookeeper.connect=h:1", ["not a setting that this broker honours"]),
            ("nonsense", ["expected NAME=VALUE"]),
        ],
    )
    def test_an_option(self, option: str, parts: list[str]) -> None:
        with pytest.raises(ConfigError) as caught:
            Config.load([option])
        text = str(caught.value)
        assert text.startswith(f"--config {option}: ")
        for part in parts:
            assert part in text

    def test_a_variable_is_named(self) -> None:
        with pytest.raises(ConfigError, match="environment variable COTERIE_GROUP_MAX_SIZE: "):
            Config.load([], {"COTERIE_GROUP_MAX_SIZE": "0"})
        with pytest.raises(ConfigError, match=r"COTERIE_GRUOP_MAX_SIZE: gruop\.max\.size is not"):
            Config.load([], {"COTERIE_GRUOP_MAX_SIZE": "5"})

    def test_file_and_line_are_named(self) -> None:
        with pytest.raises(ConfigError, match=r"server\.properties, line 3: broker\.id is not"):
            Config.load([], {}, "\n# x\nbroker.id=1\n", "server.properties")

    def test_a_session_range_that_is_empty(self) -> None:
        with pytest.raises(ConfigError, match=r"is above group\.max\.session\.timeout\.ms=10"):
            Config.load(["group.max.session.timeout.ms=10"])


class TestTables:
    def test_every_default_is_allowed(self) -> None:
        for key in (*BROKER.values(), *TOPIC.values()):
            if key.default is not None:
                key.parse(key.default)

    def test_everything_is_documented_and_says_what_is_allowed(self) -> None:
        for key in (*BROKER.values(), *TOPIC.values()):
            assert key.documentation.endswith("."), key.name
            assert key.allowed, key.name

    def test_topics_inherit_from_settings_that_exist_and_have_the_same_default(self) -> None:
        config = Config()
        for key in TOPIC.values():
            for name, _ in key.synonyms:
                assert name in BROKER
            assert config.topic_default(key) == key.default, key.name

    def test_the_topic_settings_are_those_of_kafka(self) -> None:
        assert len(TOPIC) == 33

    def test_numbers_have_a_lower_bound(self) -> None:
        for key in (*BROKER.values(), *TOPIC.values()):
            if key.type not in (ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.LIST):
                assert key.minimum is not None, key.name


class TestWhatFollows:
    def test_the_coordinator_is_told(self) -> None:
        config = Config.load([f"{DELAY}=5", "offsets.retention.minutes=2", "group.max.size=9"])
        told = config.group_config()
        assert told.group_initial_rebalance_delay_ms == 5
        assert told.offsets_retention_ms == 120_000
        assert told.group_max_size == 9

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

    def test_upkeep_has_kafkas_defaults_but_for_the_memory_of_the_map(self) -> None:
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
        told = BROKER["log.cleaner.dedupe.buffer.size"].documentation
        assert "128 MiB" in told

    def test_what_compaction_and_retention_read_of_a_topic(self) -> None:
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
