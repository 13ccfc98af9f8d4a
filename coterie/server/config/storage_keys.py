"""The broker's settings with an effect on stored batches and segments; see `broker_keys.py`."""

from coterie.server.config.keys import ConfigKey, ConfigType, UpdateMode

_LEVEL = "Level of this codec, if batches are stored in it because of compression.type."
_CLUSTER_WIDE = UpdateMode.CLUSTER_WIDE

STORAGE_KEYS = (
    ConfigKey(
        "compression.gzip.level",
        ConfigType.INT,
        "-1",
        _LEVEL,
        1,
        9,
        or_minus_one=True,
        update=_CLUSTER_WIDE,
    ),
    ConfigKey("compression.lz4.level", ConfigType.INT, "9", _LEVEL, 1, 17, update=_CLUSTER_WIDE),
    ConfigKey(
        "compression.zstd.level", ConfigType.INT, "3", _LEVEL, -131072, 22, update=_CLUSTER_WIDE
    ),
    ConfigKey(
        "log.index.size.max.bytes",
        ConfigType.INT,
        "10485760",
        "Size of an index at which a new segment begins.",
        4,
        update=_CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.roll.jitter.ms",
        ConfigType.LONG,
        None,
        "How much earlier than log.roll.ms a new segment may begin; each partition has a share of"
        " it of its own, so that not all begin one at once.",
        0,
        update=_CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.roll.jitter.hours",
        ConfigType.INT,
        "0",
        "log.roll.jitter.ms in hours, used if that is not set.",
        0,
    ),
)
