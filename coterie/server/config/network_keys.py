"""The broker's settings for its connections; see `broker_keys.py`."""

from coterie.server.config.keys import ConfigKey, ConfigType, UpdateMode

_I, _L, _S = ConfigType.INT, ConfigType.LONG, ConfigType.STRING
_CLUSTER_WIDE = UpdateMode.CLUSTER_WIDE
PER_IP_OVERRIDES = "max.connections.per.ip.overrides"
CREATION_RATE = "max.connection.creation.rate"
RECEIVE_BUFFER = "socket.receive.buffer.bytes"
SEND_BUFFER = "socket.send.buffer.bytes"
LISTEN_BACKLOG = "socket.listen.backlog.size"
_UNLESS_SET = "Unless it is set, the operating system chooses."

NETWORK_KEYS = (
    ConfigKey(
        "socket.request.max.bytes",
        _I,
        "104857600",
        "The largest request. A larger one is refused from its first four bytes.",
        1024,
    ),
    ConfigKey(
        "max.connections",
        _I,
        "10000",
        "The most open connections. A group of 1,000 members needs a tenth of them;"
        " 10,000 idle ones take about 40 MiB.",
        0,
        update=_CLUSTER_WIDE,
    ),
    ConfigKey(
        "max.connections.per.ip",
        _I,
        "5000",
        "The most connections from one address: half of all, so that one host cannot lock the"
        " others out.",
        0,
        update=_CLUSTER_WIDE,
    ),
    ConfigKey(
        "connections.max.idle.ms", _L, "600000", "Idle connections are closed after this time.", 1
    ),
    ConfigKey(
        PER_IP_OVERRIDES,
        _S,
        "",
        "The most connections from some addresses, such as `10.0.0.1:100,localhost:20`; others have"
        " max.connections.per.ip. Names of hosts are not resolved.",
        update=_CLUSTER_WIDE,
    ),
    ConfigKey(
        CREATION_RATE,
        _I,
        "2147483647",
        "How many connections a second are served; further ones wait for it.",
        0,
        update=_CLUSTER_WIDE,
    ),
    ConfigKey(
        RECEIVE_BUFFER,
        _I,
        "102400",
        f"Size of the receive buffer of each socket; -1 is that of the system. {_UNLESS_SET}",
        -1,
    ),
    ConfigKey(
        SEND_BUFFER,
        _I,
        "102400",
        f"Size of the send buffer of each socket; -1 is that of the system. {_UNLESS_SET}",
        -1,
    ),
    ConfigKey(
        LISTEN_BACKLOG,
        _I,
        "50",
        "How many connections the system keeps until the broker accepts them. Unless it is set,"
        " 4,096, because thousands of clients of a test may connect at once.",
        1,
    ),
    ConfigKey(
        "max.request.partition.size.limit",
        _I,
        "2000",
        "The most partitions in a page of DescribeTopicPartitions.",
        1,
    ),
)
