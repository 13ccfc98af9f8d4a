"""librdkafka's mock cluster of one broker, in a process of its own.

The library that confluent-kafka brings is used through ctypes rather than through its Python
client, because only the C interface can set the mock coordinator's initial rebalance delay (3 s
by default) to 0, which all brokers here have; without it every new group would wait three seconds
and the comparison would be unfair. The client object is idle: the mock cluster runs in its thread.

`python -m benchmarks.mock_cluster` prints "host:port" when it serves, and runs until SIGTERM.
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
    """Load the librdkafka that the installed confluent-kafka wheel uses."""
    package = Path(confluent_kafka.__file__).parent
    for directory in (package.parent / "confluent_kafka.libs", package / ".dylibs"):
        for path in sorted(directory.glob("librdkafka*")):
            return ctypes.CDLL(str(path))
    raise FileNotFoundError("confluent-kafka was installed without a librdkafka of its own")


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
    # The kernel's own handling ends the process: the threads of the library need no farewell.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.stdout.write(start() + "\n")
    sys.stdout.flush()
    signal.pause()
