"""librdkafka's mock cluster of one broker, in a process of its own.

confluent-kafka contains librdkafka. It is called through ctypes rather than through the Python
client, because only the C interface can set the mock coordinator's initial rebalance delay to 0, as
all brokers here have it. With the default of 3 s every new group would wait, and the comparison
would be unfair. The client object is idle; the mock cluster runs in its thread.

`python -m benchmarks.mock_cluster` prints "host:port" when it is ready, and runs until SIGTERM.
"""

from __future__ import annotations

import ctypes
import signal
import sys
from pathlib import Path

import confluent_kafka

_PRODUCER = 0
_ERROR_SIZE = 512


def _library() -> ctypes.CDLL:
    """Load the librdkafka of the installed confluent-kafka wheel."""
    package = Path(confluent_kafka.__file__).parent
    for directory in (package.parent / "confluent_kafka.libs", package / ".dylibs"):
        for path in sorted(directory.glob("librdkafka*")):
            return ctypes.CDLL(str(path))
    raise FileNotFoundError("the installed confluent-kafka does not contain librdkafka")


def start() -> str:
    """Start the cluster and return its address, "host:port"."""
    library = _library()
    pointer, string = ctypes.c_void_p, ctypes.c_char_p
    signatures: dict[str, tuple[object, list[object]]] = {
        "rd_kafka_conf_new": (pointer, []),
        "rd_kafka_conf_set": (ctypes.c_int, [pointer, string, string, string, ctypes.c_size_t]),
        "rd_kafka_new": (pointer, [ctypes.c_int, pointer, string, ctypes.c_size_t]),
        "rd_kafka_handle_mock_cluster": (pointer, [pointer]),
        "rd_kafka_mock_cluster_bootstraps": (string, [pointer]),
        "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, [pointer, ctypes.c_int32]),
    }
    for name, (returned, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = returned, arguments
    error = ctypes.create_string_buffer(_ERROR_SIZE)
    configuration = library.rd_kafka_conf_new()
    for key, value in ((b"test.mock.num.brokers", b"1"), (b"log_level", b"0")):
        if library.rd_kafka_conf_set(configuration, key, value, error, _ERROR_SIZE) != 0:
            raise RuntimeError(error.value.decode())
    client = library.rd_kafka_new(_PRODUCER, configuration, error, _ERROR_SIZE)
    if not client:
        raise RuntimeError(error.value.decode())
    cluster = library.rd_kafka_handle_mock_cluster(client)
    library.rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, 0)
    bootstraps: bytes = library.rd_kafka_mock_cluster_bootstraps(cluster)
    return bootstraps.decode()


if __name__ == "__main__":
    # The default handler ends the process at once; the library's threads need no shutdown.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.stdout.write(start() + "\n")
    sys.stdout.flush()
    signal.pause()
