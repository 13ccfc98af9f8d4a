"""Settings of each of several brokers, and those that all of them share.

Rules: [cluster/settings-of-a-broker].
"""

from typing import Any

from coterie.protocol.errors import ErrorCode
from coterie.storage.memory_filesystem import MemoryFileSystem
from tests.unit.server.cluster import ManualCluster
from tests.unit.server.config_requests import BROKER, DELETE, SET, change, describe
from tests.unit.server.manual import Client, make_broker

LIMIT, THREADS = "max.connections", "num.io.threads"
# What the values of a setting come from: one broker, all brokers, the start, the default.
OWN, ALL, STATIC, DEFAULT = 2, 3, 4, 5


class PatientClient(Client):
    """A client whose requests may take some turns of the loop: there are topics to configure."""

    def call(self, request: Any, version: int) -> Any:
        self.send(request, version)
        for _ in range(100):
            self.loop.advance(1)
            if answers := self.answers():
                return answers[0][1]
        raise AssertionError(f"not answered: {request}")


def client_of(cluster: ManualCluster, node_id: int) -> Client:
    return PatientClient(cluster.cluster.brokers[node_id])


def values(client: Client, node_id: int | str, *names: str) -> list[Any]:
    return [each.value for each in describe(client, BROKER, str(node_id), *names).configs]


def source(client: Client, node_id: int, name: str) -> tuple[str, int]:
    (config,) = describe(client, BROKER, str(node_id), name).configs
    return config.value, config.config_source


def test_each_broker_describes_itself() -> None:
    cluster = ManualCluster()
    for node_id in (1, 2, 3):
        client = client_of(cluster, node_id)
        names = "broker.id", "node.id", "log.dirs"
        assert values(client, node_id, *names) == [str(node_id), ":memory:", str(node_id)]
        result = describe(client, BROKER, str(node_id % 3 + 1))
        assert result.error_code == ErrorCode.INVALID_REQUEST
        assert result.error_message == (
            f"Unexpected broker id, expected {node_id} or empty string, but received"
            f" {node_id % 3 + 1}"
        )


def test_settings_of_one_broker_are_kept_apart_from_those_of_all() -> None:
    cluster = ManualCluster()
    one, two, three = (client_of(cluster, node_id) for node_id in (1, 2, 3))
    assert change(two, BROKER, "2", (LIMIT, SET, "20")) == (0, None)
    assert change(one, BROKER, "1", (LIMIT, SET, "10")) == (0, None)
    assert change(three, BROKER, "", (LIMIT, SET, "30"), (THREADS, SET, "9")) == (0, None)
    assert source(one, 1, LIMIT) == ("10", OWN)
    assert source(two, 2, LIMIT) == ("20", OWN)
    assert source(three, 3, LIMIT) == ("30", ALL)
    for client in (one, two, three):
        assert values(client, "", LIMIT) == ["30"]
    # They count.
    limits = [each.config.get_int(LIMIT) for each in cluster.cluster.brokers.values()]
    assert limits == [10, 20, 30]
    assert cluster.cluster.shared.config.get_int(LIMIT) == 30
    assert change(two, BROKER, "2", (LIMIT, DELETE, None)) == (0, None)
    assert [
        source(each, node_id, LIMIT)[0] for node_id, each in enumerate((one, two, three), 1)
    ] == [
        "10",
        "30",
        "30",
    ]
    assert change(one, BROKER, "2", (LIMIT, SET, "1")) == (
        ErrorCode.INVALID_REQUEST,
        "Unexpected broker id, expected 1, but received 2",
    )
    # Of the settings of one listener only a few can be set for all brokers.
    limit, key = (f"listener.name.plaintext.{each}" for each in (LIMIT, "ssl.keystore.location"))
    assert change(one, BROKER, "", (limit, SET, "40")) == (0, None)
    assert [source(each, number, limit) for number, each in enumerate((one, two, three), 1)] == [
        ("40", ALL)
    ] * 3
    assert change(one, BROKER, "", (key, SET, "k")) == (
        ErrorCode.INVALID_REQUEST,
        (
            "Cannot update these configs at default cluster level, broker id must be specified:"
            f" [{key}]"
        ),
    )


def test_settings_of_one_broker_outlive_its_end_and_that_of_the_cluster() -> None:
    filesystem = MemoryFileSystem()
    cluster = ManualCluster(filesystem=filesystem)
    assert change(client_of(cluster, 1), BROKER, "1", (LIMIT, SET, "10")) == (0, None)
    assert change(client_of(cluster, 2), BROKER, "2", (LIMIT, SET, "20")) == (0, None)
    cluster.cluster.kill(2)
    cluster.loop.turn()
    cluster.complete(cluster.cluster.start_broker(2))
    assert source(client_of(cluster, 2), 2, LIMIT) == ("20", OWN)
    cluster.complete(cluster.cluster.stop())
    # A single broker is the first one.
    single = PatientClient(make_broker(filesystem=filesystem))
    assert source(single, 1, LIMIT) == ("10", OWN)
    assert change(single, BROKER, "1", (LIMIT, SET, "11")) == (0, None)
    single.broker.shared.close()
    cluster = ManualCluster(filesystem=filesystem)
    found = [source(client_of(cluster, node_id), node_id, LIMIT) for node_id in (1, 2, 3)]
    assert [value for value, _ in found][:2] == ["11", "20"]
    assert [where for _, where in found] == [OWN, OWN, DEFAULT]
