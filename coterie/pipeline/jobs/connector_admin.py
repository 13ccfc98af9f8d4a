"""Kafka's own admin client, called in the Java on which Spark runs.

The jars of Spark's Kafka connector contain this client, and it takes the connector's settings, TLS
and SASL included. So it can reach every cluster that the connector can read, and is used for the
cluster's id, its partitions and their first and last offsets.

Invariants: what does not exist is left out of a result. Every other error is a ClientError with the
message of Kafka's client.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Self

from py4j.java_gateway import JavaObject, JVMView
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from coterie.client.cluster import TopicPartition
from coterie.client.errors import ClientError
from coterie.pipeline.doctor import CONNECTOR_JAR, connector_coordinates

# The jars of the connector, with a class of each. The connector's own jar contains none of the
# others, and `spark.jars` adds only the files that it names.
JAR_CLASSES = {
    CONNECTOR_JAR: "org.apache.spark.sql.kafka010.KafkaSourceProvider",
    "spark-token-provider-kafka-0-10": "org.apache.spark.kafka010.KafkaTokenUtil",
    "kafka-clients": "org.apache.kafka.clients.admin.AdminClient",
    "commons-pool2": "org.apache.commons.pool2.impl.GenericKeyedObjectPool",
}

EARLIEST, LATEST = "earliest", "latest"
READ_COMMITTED, READ_UNCOMMITTED = "READ_COMMITTED", "READ_UNCOMMITTED"

# Kafka's default of a minute is long for a user who mistyped an address.
_DEFAULTS = {"request.timeout.ms": "15000", "default.api.timeout.ms": "30000"}
_CLOSE_S = 5
# Errors that mean that a topic does not exist, or that the user may not know of it.
_ABSENT = frozenset(
    ("InvalidTopicException", "TopicAuthorizationException", "UnknownTopicOrPartitionException")
)


def require_connector(spark: SparkSession) -> JVMView:
    """Return Spark's Java after checking that the connector is on its class path.

    Raises:
        ClientError: jars are missing; the text names them and the setting that adds them.
    """
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        raise ClientError(
            "Spark's Kafka connector needs the Java of the session, and a session of Spark Connect"
            " has none.",
            "Give a --master.",
        )
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    missing = [jar for jar, name in JAR_CLASSES.items() if not _has_class(loader, name)]
    if missing:
        coordinates = connector_coordinates(spark.version)
        raise ClientError(
            f"Spark {spark.version} has no complete Kafka connector. Missing jars:"
            f" {', '.join(missing)}.",
            f"--conf spark.jars.packages={coordinates} downloads them from Maven Central."
            f" --conf spark.jars={','.join(f'{jar}.jar' for jar in JAR_CLASSES)} takes files;"
            f" {coordinates} names their versions.",
        )
    return jvm


def _has_class(loader: JavaObject, name: str) -> bool:
    try:
        loader.loadClass(name)
    except Py4JJavaError:
        return False
    return True


def read_settings(jvm: JVMView, path: str) -> dict[str, str]:
    """Read settings from a file of Java properties, as Kafka's tools do for --command-config.

    Args:
        jvm: of `require_connector`.
        path: the file.

    Raises:
        ClientError: the file cannot be read.
    """
    properties = jvm.java.util.Properties()
    with _java_errors(f"The settings in {path}"):
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
            settings: settings of Kafka's clients, such as security.protocol.

        Raises:
            ClientError: the settings or the address are invalid.
        """
        self._jvm = jvm
        self._address = address
        self._java = jvm.org.apache.kafka.clients.admin
        properties = jvm.java.util.Properties()
        for name, value in (_DEFAULTS | dict(settings) | {"bootstrap.servers": address}).items():
            properties.setProperty(name, value)
        with _java_errors(f"Kafka's client for {address}"):
            self._admin = self._java.AdminClient.create(properties)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close(self._jvm.java.time.Duration.ofSeconds(_CLOSE_S))

    def cluster_id(self) -> str | None:
        """Return the cluster's id; None for very old clusters.

        Raises:
            ClientError: no broker answers, or the user is refused.
        """
        with self._errors():
            found: str | None = self._admin.describeCluster().clusterId().get()
        return found

    def partitions(self, topics: Iterable[str], *, only_led: bool = False) -> dict[str, list[int]]:
        """Return the partitions of topics; topics that do not exist are left out.

        Args:
            topics: the names.
            only_led: leave out partitions without a leader, because requests would wait for one.

        Raises:
            ClientError: no broker answers.
        """
        names = self._jvm.java.util.ArrayList()
        for topic in topics:
            names.add(topic)
        found = {}
        with self._errors():
            futures = self._admin.describeTopics(names).topicNameValues()
        for topic, future in futures.items():
            with self._errors(), _skip_absent():
                parts = future.get().partitions()
                some = [each for each in parts if not only_led or _has_leader(each)]
                found[topic] = sorted(each.partition() for each in some)
        return found

    def offsets(
        self,
        partitions: Iterable[TopicPartition],
        which: str | int,
        isolation: str = READ_UNCOMMITTED,
    ) -> dict[TopicPartition, int]:
        """Return offsets of partitions; partitions that do not exist are left out.

        Args:
            partitions: topic and number.
            which: EARLIEST, LATEST, or a time in epoch milliseconds for the first record that is
                not older; -1 if there is none.
            isolation: with READ_COMMITTED a log ends where the oldest open transaction begins.

        Raises:
            ClientError: no broker answers.
        """
        specs = self._jvm.java.util.HashMap()
        new_key = self._jvm.org.apache.kafka.common.TopicPartition
        keys = {each: new_key(*each) for each in partitions}
        specs_of = self._java.OffsetSpec
        spec = (
            getattr(specs_of, which)() if isinstance(which, str) else specs_of.forTimestamp(which)
        )
        for key in keys.values():
            specs.put(key, spec)
        level = getattr(self._jvm.org.apache.kafka.common.IsolationLevel, isolation)
        found = {}
        with self._errors():
            listed = self._admin.listOffsets(specs, self._java.ListOffsetsOptions(level))
        for each, key in keys.items():
            with self._errors(), _skip_absent():
                found[each] = int(listed.partitionResult(key).get().offset())
        return found

    def _errors(self) -> AbstractContextManager[None]:
        return _java_errors(f"The cluster at {self._address}")


def _has_leader(partition: JavaObject) -> bool:
    leader = partition.leader()
    return leader is not None and not leader.isEmpty()


@contextmanager
def _skip_absent() -> Iterator[None]:
    """Leave the block, without an error, if what it asks for does not exist."""
    try:
        yield
    except Py4JJavaError as error:
        if _names(error)[-1] not in _ABSENT:
            raise


@contextmanager
def _java_errors(what: str) -> Iterator[None]:
    """Turn Java's exceptions in the block into errors of our own.

    Args:
        what: the subject of the error's message.

    Raises:
        ClientError: there was an exception.
    """
    try:
        yield
    except Py4JJavaError as error:
        raise ClientError(f"{what}: {_words(error)}.", _REMEDY) from error
    except PySparkException as error:
        # PySpark raises classes of its own for some of Java's exceptions.
        raise ClientError(f"{what}: {str(error).splitlines()[0].rstrip('.')}.", _REMEDY) from error


_REMEDY = (
    "Check that a broker listens there, and with which security settings: --connector-option and"
    " --connector-config set security.protocol and the others."
)


def _causes(error: Py4JJavaError) -> list[JavaObject]:
    """Return the exception and its causes, outermost first."""
    found = [error.java_exception]
    while (cause := found[-1].getCause()) is not None:
        found.append(cause)
    return found


def _names(error: Py4JJavaError) -> list[str]:
    return [each.getClass().getSimpleName() for each in _causes(error)]


def _words(error: Py4JJavaError) -> str:
    """Return the message of the innermost exception that has one."""
    for each in reversed(_causes(error)):
        message = each.getMessage()
        if message:
            return f"{each.getClass().getSimpleName()}: {message.strip().rstrip('.')}"
    return _names(error)[-1]
