"""IncrementalAlterConfigs and AlterConfigs of topics: what a running Kafka 4.3.1 answered."""

from typing import Any

import pytest

from coterie.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestConfig,
    AlterConfigsRequestResource,
)
from coterie.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestResource,
)
from tests.unit.server.config_requests import (
    APPEND,
    BROKER,
    DELETE,
    SET,
    SUBTRACT,
    TOPIC,
    Outcome,
    change,
    client_with_topic,
    describe,
    value_of,
)
from tests.unit.server.manual import Client, open_log

UNKNOWN_NOPE = "Unknown topic config name: nope"


@pytest.fixture
def client() -> Client:
    return client_with_topic()


class TestIncrementalAlter:
    @pytest.mark.parametrize(
        ("name", "steps"),
        [
            (
                "cleanup.policy",
                [
                    (APPEND, "compact", "delete,compact"),
                    (APPEND, "compact", "delete,compact"),
                    (SUBTRACT, "delete", "compact"),
                    (SUBTRACT, "compact", ""),
                    (SET, "compact", "compact"),
                    (APPEND, "delete", "compact,delete"),
                    # Elements differ in their blanks until the list is shown.
                    (APPEND, " compact , delete ", "compact,delete"),
                    (SUBTRACT, "compact", "delete,compact"),
                    (SUBTRACT, " delete", "delete,compact"),
                    (SUBTRACT, "delete", "compact,delete"),
                    (SUBTRACT, "delete", "compact,delete"),
                    (SET, "compact, delete", "compact,delete"),
                    (SET, "compact,compact", "compact"),
                    (SET, "", ""),
                    (APPEND, "", ""),
                ],
            ),
            (
                "follower.replication.throttled.replicas",
                [
                    (APPEND, "0:1", "0:1"),
                    (APPEND, "0:2,0:1", "0:1,0:2"),
                    (SUBTRACT, "0:1", "0:2"),
                    (SET, "*", "*"),
                    (SET, "0:1, 1:1", "0:1,1:1"),
                ],
            ),
            (
                "retention.ms",
                [(SET, " 5 ", "5"), (SET, "+10", "10"), (SET, "-1", "-1"), (SET, "007", "7")],
            ),
            (
                "min.cleanable.dirty.ratio",
                [(SET, ".25", "0.25"), (SET, "1", "1.0"), (SET, "0.0001", "1.0E-4")],
            ),
            ("preallocate", [(SET, "TRUE", "true"), (SET, " false ", "false")]),
            ("retention.bytes", [(SET, "-5", "-5")]),
            ("compression.gzip.level", [(SET, "5", "5"), (SET, "-1", "-1")]),
        ],
    )
    def test_values_of_a_topic(
        self, client: Client, name: str, steps: list[tuple[int, str, str]]
    ) -> None:
        inherited = value_of(client, name)
        for operation, value, shown in steps:
            assert change(client, TOPIC, "t", (name, operation, value)) == (0, None)
            assert value_of(client, name) == (shown, 1, [(name, shown, 1), *inherited[2]])
        assert change(client, TOPIC, "t", (name, DELETE, "ignored")) == (0, None)
        assert value_of(client, name) == inherited

    def test_a_list_begins_with_the_default_not_with_what_is_inherited(
        self, client: Client
    ) -> None:
        change(client, BROKER, "", ("log.cleanup.policy", SET, "compact"))
        change(client, TOPIC, "t", ("cleanup.policy", APPEND, "compact"))
        assert value_of(client, "cleanup.policy")[0] == "delete,compact"
        change(client, BROKER, "1", ("log.cleanup.policy", APPEND, "delete"))
        assert value_of(client, "log.cleanup.policy", BROKER, "1")[0] == "delete"

    def test_validate_only_changes_nothing(self, client: Client) -> None:
        assert change(client, TOPIC, "t", ("retention.ms", SET, "5"), only=True) == (0, None)
        assert value_of(client, "retention.ms")[1] == 5
        assert change(client, TOPIC, "t", ("retention.ms", SET, "x"), only=True)[0] == 40
        assert change(client, BROKER, "1", ("log.roll.ms", SET, "5"), only=True) == (0, None)
        assert value_of(client, "log.roll.ms", BROKER, "1") == (None, 5, [])

    def test_changes_apply_to_open_logs(self, client: Client) -> None:
        log = open_log(client.broker, "t")
        change(client, TOPIC, "t", ("segment.bytes", SET, "1048576"))
        assert log.config.segment_bytes == 1_048_576
        change(client, TOPIC, "t", ("internal.segment.bytes", SET, "500"))
        assert log.config.segment_bytes == 500

    def test_small_segments(self, client: Client) -> None:
        """The setting is shown where it is set. [settings/small-segments]"""
        name = "internal.segment.bytes"
        before = describe(client, TOPIC, "t").configs
        assert name not in {each.name for each in before}
        assert describe(client, TOPIC, "t", name).configs == []
        assert change(client, TOPIC, "t", (name, SET, " +0500")) == (0, None)
        assert value_of(client, name) == ("500", 1, [(name, "500", 1)])
        assert len(describe(client, TOPIC, "t").configs) == len(before) + 1
        refused = change(client, TOPIC, "t", (name, SET, "x"))
        assert refused == (
            40,
            f"Invalid value x for configuration {name}: Not a number of type INT",
        )
        assert change(client, TOPIC, "t", (name, DELETE, None)) == (0, None)
        assert describe(client, TOPIC, "t", name).configs == []

    @pytest.mark.parametrize(
        ("name", "changes", "outcome"),
        [
            (
                "t",
                [("retention.ms", SET, "abc")],
                (
                    40,
                    "Invalid value abc for configuration retention.ms: Not a number of type LONG",
                ),
            ),
            (
                "t",
                [("retention.ms", SET, "-5")],
                (40, "Invalid value -5 for configuration retention.ms: Value must be at least -1"),
            ),
            (
                "t",
                [("retention.ms", SET, "")],
                (40, "Invalid value  for configuration retention.ms: Not a number of type LONG"),
            ),
            (
                "t",
                [("min.cleanable.dirty.ratio", SET, "2")],
                (
                    40,
                    (
                        "Invalid value 2.0 for configuration min.cleanable.dirty.ratio:"
                        " Value must be no more than 1"
                    ),
                ),
            ),
            (
                "t",
                [("compression.gzip.level", SET, "0")],
                (
                    40,
                    (
                        "Invalid value 0 for configuration compression.gzip.level:"
                        " Value must be between 1 and 9 or equal to -1"
                    ),
                ),
            ),
            (
                "t",
                [("remote.storage.enable", SET, "true")],
                (
                    40,
                    (
                        "Tiered Storage functionality is disabled in the broker."
                        " Topic cannot be configured with remote log storage."
                    ),
                ),
            ),
            (
                "t",
                [("leader.replication.throttled.replicas", SET, "0:1,x")],
                (
                    40,
                    (
                        "Invalid value [0:1, x] for configuration"
                        " leader.replication.throttled.replicas:"
                        " leader.replication.throttled.replicas must be the literal '*'"
                        " or a list of replicas in the following format:"
                        " [partitionId]:[brokerId],[partitionId]:[brokerId],..."
                    ),
                ),
            ),
            (
                "t",
                [("min.compaction.lag.ms", SET, "100"), ("max.compaction.lag.ms", SET, "50")],
                (
                    40,
                    (
                        "conflict topic config setting min.compaction.lag.ms (100)"
                        " > max.compaction.lag.ms (50)"
                    ),
                ),
            ),
            (
                "t",
                [("cleanup.policy", SET, "compact,,delete")],
                (40, "Configuration 'cleanup.policy' values must not be empty."),
            ),
            (
                "t",
                [("retention.ms", SET, None)],
                (42, "Null value not supported for : retention.ms"),
            ),
            (
                "t",
                [("cleanup.policy", APPEND, None)],
                (42, "Null value not supported for : cleanup.policy"),
            ),
            ("t", [("nope", SET, "5")], (40, "Unknown topic config name: nope")),
            ("t", [("retention.ms", SET, "6"), ("nope", SET, "5")], (40, UNKNOWN_NOPE)),
            (
                "t",
                [("nope", APPEND, "5")],
                (40, "Can't APPEND to key nope because its type is not LIST."),
            ),
            ("t", [("nope", DELETE, None)], (0, None)),
            ("t", [("retention.ms", 7, "5")], (-1, None)),
            (
                "t",
                [("retention.ms", APPEND, "5")],
                (40, "Can't APPEND to key retention.ms because its type is not LIST."),
            ),
            (
                "t",
                [("retention.ms", SUBTRACT, "5")],
                (40, "Can't SUBTRACT to key retention.ms because its type is not LIST."),
            ),
            (
                "t",
                [("cleanup.policy", SET, "foo")],
                (
                    40,
                    (
                        "Invalid value foo for configuration cleanup.policy:"
                        " String must be one of: compact, delete"
                    ),
                ),
            ),
            (
                "t",
                [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
                (42, "Error due to duplicate config keys"),
            ),
            ("nope", [("retention.ms", SET, "1")], (3, "The topic 'nope' does not exist.")),
            ("", [("retention.ms", SET, "1")], (42, "Default topic resources are not allowed.")),
            (
                "a b",
                [("retention.ms", SET, "1")],
                (
                    17,
                    (
                        "Topic name is invalid: 'a b' contains one or more characters other than"
                        " ASCII alphanumerics, '.', '_' and '-'"
                    ),
                ),
            ),
        ],
    )
    def test_topics_refused(
        self, client: Client, name: str, changes: list[Any], outcome: Outcome
    ) -> None:
        before = value_of(client, "retention.ms")
        assert change(client, TOPIC, name, *changes) == outcome
        assert value_of(client, "retention.ms") == before

    def test_unknown_types_of_resources(self, client: Client) -> None:
        setting = ("consumer.session.timeout.ms", SET, "50000")
        assert change(client, 99, "g", setting) == (42, "Unknown resource type 99")

    def test_a_resource_named_twice(self, client: Client) -> None:
        resource = IncrementalAlterConfigsRequestResource(
            resource_type=TOPIC, resource_name="t", configs=[]
        )
        request = IncrementalAlterConfigsRequest(
            resources=[resource, resource], validate_only=False
        )
        answers = client.call(request, 0).responses
        assert [(each.error_code, each.error_message) for each in answers] == [
            (42, "Each resource must appear at most once.")
        ] * 2


class TestAlter:
    def alter(
        self, client: Client, name: str, *configs: tuple[str, str | None], kind: int = TOPIC
    ) -> Outcome:
        resource = AlterConfigsRequestResource(
            resource_type=kind,
            resource_name=name,
            configs=[AlterConfigsRequestConfig(name=key, value=value) for key, value in configs],
        )
        request = AlterConfigsRequest(resources=[resource], validate_only=False)
        (answer,) = client.call(request, 2).responses
        return answer.error_code, answer.error_message

    def test_it_replaces_all_settings(self, client: Client) -> None:
        def overrides() -> dict[str, str]:
            return client.broker.topics.by_name["t"].config.overrides

        both = (("retention.ms", "5"), ("segment.bytes", "2000000"))
        assert self.alter(client, "t", *both) == (0, None)
        assert self.alter(client, "t", ("segment.bytes", "3000000")) == (0, None)
        assert overrides() == {"segment.bytes": "3000000"}
        assert self.alter(client, "t") == (0, None)
        assert overrides() == {}

    def test_it_replaces_what_was_altered_of_one_layer(self, client: Client) -> None:
        kept = ("min.insync.replicas", "1")
        assert self.alter(client, "", ("log.retention.ms", "7"), kept, kind=BROKER) == (0, None)
        without = self.alter(client, "", ("log.retention.ms", "8"), kind=BROKER)
        assert without == (40, f"Cluster-level {kept[0]} cannot be removed while ELR is enabled.")
        assert self.alter(client, "1", ("log.retention.ms", "5"), kind=BROKER) == (0, None)
        assert self.alter(client, "1", ("log.retention.bytes", "6"), kind=BROKER) == (0, None)
        assert value_of(client, "log.retention.ms", BROKER, "1")[:2] == ("7", 3)
        assert value_of(client, "log.retention.bytes", BROKER, "1")[:2] == ("6", 2)

    def test_refused(self, client: Client) -> None:
        null = self.alter(client, "t", ("retention.ms", None))
        assert null == (42, "Null value not supported for : retention.ms")
        assert self.alter(client, "t", ("foo", "1")) == (40, "Unknown topic config name: foo")
        twice = self.alter(client, "t", ("retention.ms", "1"), ("retention.ms", "2"))
        assert twice == (42, "Error due to duplicate config keys")
        assert self.alter(client, "nope", ("retention.ms", "1"))[0] == 3
        fixed = self.alter(client, "1", ("num.partitions", "5"), kind=BROKER)
        assert fixed == (42, "Cannot update these configs dynamically: [num.partitions]")
