"""A cluster as Kafka's own admin client tells it, in the Java that Spark runs on.

The jars that Spark's Kafka connector needs have that client in them, and it takes the connector's
settings, TLS and SASL included: so whatever the connector can read can be asked for its id, its
partitions and where they begin and end, and our own client has no part in it.

Invariants: what is not there is left out of an answer; every other error is a ClientError in the
words of Kafka's client.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from py4j.java_gateway import JavaObject, JVMView
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from coterie.client.cluster import TopicPartition
from coterie.client.errors import ClientError
from coterie.pipeline.doctor import CONNECTOR_JAR, connector_coordinates

# What the connector consists of, by a class of each: its own jar brings none of the others, and
# `spark.jars` takes what it is given.
JAR_CLASSES = {
    CONNECTOR_JAR: "org.apache.spark.sql.kafka010.KafkaSourceProvider",
    "spark-token-provider-kafka-0-10": "org.apache.spark.kafka010.KafkaTokenUtil",
    "kafka-clients": "org.apache.kafka.clients.admin.AdminClient",
    "commons-pool2": "org.apache.commons.pool2.impl.GenericKeyedObjectPool",
}

EARLIEST, LATEST = "earliest", "latest"
READ_COMMITTED, READ_UNCOMMITTED = "READ_COMMITTED", "READ_UNCOMMITTED"

# Kafka's own minute is long for somebody who mistyped an address.
_DEFAULTS = {"request.timeout.ms": "15000", "default.api.timeout.ms": "30000"}
_CLOSE_S = 5
# Answers that mean: there is no such thing, or not for us.
_ABSENT = frozenset(
    ("InvalidTopicException", "TopicAuthorizationException", "UnknownTopicOrPartitionException")
)


def require_connector(spark: SparkSession) -> JVMView:
    """Spark's Java, with the connector on its class path.

    Raises:
        ClientError: jars are missing; the text names them and the setting that brings them.
    """
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        raise ClientError(
            "Spark's Kafka connector is asked through the Java of the session, and a session of"
            " Spark Connect has none.",
            "Give a --master.",
        )
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    lacking = [jar for jar, name in JAR_CLASSES.items() if not _has_class(loader, name)]
    if lacking:
        wanted = connector_coordinates(spark.version)
        raise ClientError(
            f"Spark {spark.version} has no Kafka connector here: of its jars"
            f" {', '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} missing.",
            f"--conf spark.jars.packages={wanted} fetches them from Maven Central;"
            f" --conf spark.jars={','.join(f'{jar}.jar' for jar in JAR_CLASSES)} takes files, whose"
            f" versions {wanted} names.",
        )
    return jvm


def _has_class(loader: JavaObject, name: str) -> bool:
    try:
        loader.loadClass(name)
    except Py4JJavaError:
        return False
    return True


def read_settings(jvm: JVMView, path: str) -> dict[str, str]:
    """Settings in a file as Kafka's own tools take it (--command-config), by Java's rules.

    Args:
        jvm: whose.
        path: of the file.

    Raises:
        ClientError: it can't be read.
    """
    properties = jvm.java.util.Properties()
    with _told(f"The settings in {path}"):
        stream = jvm.java.io.FileInputStream(path)
        try:
            properties.load(stream)
        finally:
            stream.close()
    return {name: properties.getProperty(name) for name in properties.stringPropertyNames()}


class KafkaAdmin:
    """Kafka's admin client, connected to one cluster; use it in `with`."""

    def __init__(self, jvm: JVMView, address: str, settings: Mapping[str, str]) -> None:
        """Connect.

        Args:
            jvm: of `require_connector`.
            address: HOST:PORT, or several with commas.
            settings: of Kafka's clients: security.protocol and so on.

        Raises:
            ClientError: the settings are none, or the address.
        """
        self._jvm = jvm
        self._address = address
        self._java = jvm.org.apache.kafka.clients.admin
        properties = jvm.java.util.Properties()
        for name, value in (_DEFAULTS | dict(settings) | {"bootstrap.servers": address}).items():
            properties.setProperty(name, value)
        with _told(f"Kafka's client for {address}"):
            self._admin = self._java.AdminClient.create(properties)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._admin.close(self._jvm.java.time.Duration.ofSeconds(_CLOSE_S))

    def cluster_id(self) -> str | None:
        """What the cluster goes by; very old ones have none.

        Raises:
            ClientError: nobody answers, or not to us.
        """
        with self._asked():
            found: str | None = self._admin.describeCluster().clusterId().get()
        return found

    def partitions(self, topics: Iterable[str], *, only_led: bool = False) -> dict[str, list[int]]:
        """The partitions of topics; topics that are not there are left out.

        Args:
            topics: by name.
            only_led: leave out partitions without a leader, who would be waited for.

        Raises:
            ClientError: nobody answers.
        """
        names = self._jvm.java.util.ArrayList()
        for topic in topics:
            names.add(topic)
        found = {}
        with self._asked():
            futures = self._admin.describeTopics(names).topicNameValues()
        for topic, future in futures.items():
            with self._asked(), _absent_is_none():
                parts = future.get().partitions()
                some = [each for each in parts if not only_led or _has_leader(each)]
                found[topic] = sorted(each.partition() for each in some)
        return found

    def offsets(
        self, partitions: Iterable[TopicPartition], which: str, isolation: str = READ_UNCOMMITTED
    ) -> dict[TopicPartition, int]:
        """Where partitions begin or end; those that are not there are left out.

        Args:
            partitions: topic and number.
            which: EARLIEST or LATEST.
            isolation: READ_COMMITTED ends where the oldest open transaction begins.

        Raises:
            ClientError: nobody answers.
        """
        wanted = self._jvm.java.util.HashMap()
        new_key = self._jvm.org.apache.kafka.common.TopicPartition
        keys = {each: new_key(*each) for each in partitions}
        spec = getattr(self._java.OffsetSpec, which)()
        for key in keys.values():
            wanted.put(key, spec)
        level = getattr(self._jvm.org.apache.kafka.common.IsolationLevel, isolation)
        found = {}
        with self._asked():
            answer = self._admin.listOffsets(wanted, self._java.ListOffsetsOptions(level))
        for each, key in keys.items():
            with self._asked(), _absent_is_none():
                found[each] = int(answer.partitionResult(key).get().offset())
        return found

    def _asked(self) -> "Any":
        return _told(f"The cluster at {self._address}")


def _has_leader(partition: JavaObject) -> bool:
    leader = partition.leader()
    return leader is not None and not leader.isEmpty()


@contextmanager
def _absent_is_none() -> Iterator[None]:
    """End the block where the answer is that there is no such thing."""
    try:
        yield
    except Py4JJavaError as error:
        if _names(error)[-1] not in _ABSENT:
            raise


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Around calls of Java: its exceptions in words.

    Raises:
        ClientError: there was one.
    """
    try:
        yield
    except Py4JJavaError as error:
        raise ClientError(f"{what}: {_words(error)}.", _REMEDY) from error
    except PySparkException as error:
        # Spark's Python has classes of its own for some of Java's.
        raise ClientError(f"{what}: {str(error).splitlines()[0].rstrip('.')}.", _REMEDY) from error


_REMEDY = (
    "Look whether a broker listens there, and as whom: --connector-option and --connector-config"
    " give security.protocol and the rest."
)


def _causes(error: Py4JJavaError) -> list[JavaObject]:
    """The exception and what it was caused by, outermost first."""
    found = [error.java_exception]
    while (cause := found[-1].getCause()) is not None:
        found.append(cause)
    return found


def _names(error: Py4JJavaError) -> list[str]:
    return [each.getClass().getSimpleName() for each in _causes(error)]


def _words(error: Py4JJavaError) -> str:
    """The innermost exception that says something."""
    for each in reversed(_causes(error)):
        told = each.getMessage()
        if told:
            return f"{each.getClass().getSimpleName()}: {told.strip().rstrip('.')}"
    return _names(error)[-1]
