"""The options of the format `coterie_log`.

path                 a data directory, or the directory of one partition
view                 commits (default), raw, groups, consumer_epochs, share_states, journal,
                     batches, markers, quarantine
columns              the columns of the view to return, such as group_id,topic,partition. Spark
                     does not pass the columns of a query to a Python source, and handing a column
                     to Spark costs more than decoding it
topic                default __consumer_offsets; coterie.journal for the view journal,
                     __share_group_state for share_states
crc                  check checksums; default true
quarantine           skip (default): damage appears only in the view quarantine; fail: damage is
                     an error that names file and position
logPartitions        the log partitions to read, such as 0,3
group                a group: partitions that cannot contain it are not read. Other groups of its
                     partition are returned too, so filter by group_id as well
partitionCount       the number of partitions of the topic, for the option group, if the files do
                     not show it
splitBytes           log in one task; default: by size and cores, from 16 to 96 MiB
maxBytesPerTrigger   log in one micro-batch; default 64 MiB
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from coterie.pipeline.schemas import VIEWS
from coterie.protocol.topic_names import JOURNAL_TOPIC, OFFSETS_TOPIC, SHARE_GROUPS_TOPIC

# Smaller splits lose much time to the fixed cost of a task [pipeline/engines].
MIN_SPLIT_BYTES = 16 << 20
MAX_SPLIT_BYTES = 96 << 20
# Enough for 250,000 commits a second at the fixed cost of a micro-batch [pipeline/engines].
DEFAULT_TRIGGER_BYTES = 64 << 20
# More than one split per core, so that cores finish together although splits differ.
_SPLITS_PER_CORE = 2

_NAMES = frozenset(
    (
        "path", "view", "columns", "topic", "crc", "quarantine", "group", "logpartitions",
        "partitioncount", "splitbytes", "maxbytespertrigger",
    )
)  # fmt: skip
# The topics of views that are not of the group log.
TOPIC_OF = {"journal": JOURNAL_TOPIC, "share_states": SHARE_GROUPS_TOPIC}
_FLAGS = {"true": True, "false": False}


class BadOption(ValueError):  # noqa: N818 - says what is bad
    """An option that is unknown, missing, or has an invalid value."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The options of one `load()`, with their defaults."""

    path: str
    view: str = "commits"
    columns: tuple[str, ...] | None = None
    topic: str = OFFSETS_TOPIC
    crc: bool = True
    fail_on_damage: bool = False
    log_partitions: frozenset[int] | None = None
    group: str | None = None
    partition_count: int | None = None
    split_bytes: int | None = None
    trigger_bytes: int = DEFAULT_TRIGGER_BYTES

    @property
    def schema(self) -> pa.Schema:
        """The columns of the view that are returned."""
        schema = VIEWS[self.view]
        if self.columns is None:
            return schema
        return pa.schema([schema.field(name) for name in self.columns])

    def split_target(self, total_bytes: int) -> int:
        """Return how much of `total_bytes` of log one task should read."""
        if self.split_bytes is not None:
            return self.split_bytes
        # The planner runs beside the driver, so these are the driver's cores. On a cluster that
        # number means little, but there the log is long enough for the upper limit.
        share = total_bytes // ((os.cpu_count() or 1) * _SPLITS_PER_CORE)
        return min(max(share, MIN_SPLIT_BYTES), MAX_SPLIT_BYTES)


def parse_options(given: Mapping[str, str]) -> LogOptions:
    """Check the options that Spark passes: names in any case, values as text.

    Raises:
        BadOption: the message names the option and its valid values.
    """
    options = {name.lower(): value for name, value in given.items()}
    unknown = sorted(set(options) - _NAMES)
    if unknown:
        raise BadOption(
            f"unknown option {', '.join(unknown)}; the options are {', '.join(sorted(_NAMES))}"
        )
    if not options.get("path"):
        raise BadOption('the path of a data directory is missing: .load("/path/to/data")')
    view = options.get("view", "commits")
    if view not in VIEWS:
        raise BadOption(f"unknown view {view!r}; the views are {', '.join(VIEWS)}")
    damage = options.get("quarantine", "skip")
    if damage not in ("skip", "fail"):
        raise BadOption(f"quarantine must be skip or fail, not {damage!r}")
    return LogOptions(
        path=options["path"],
        view=view,
        columns=_columns(options, view),
        topic=options.get("topic", TOPIC_OF.get(view, OFFSETS_TOPIC)),
        crc=_flag(options, "crc", default=True),
        fail_on_damage=damage == "fail",
        log_partitions=_numbers(options, "logpartitions"),
        group=options.get("group"),
        partition_count=_number(options, "partitioncount"),
        split_bytes=_number(options, "splitbytes"),
        trigger_bytes=_number(options, "maxbytespertrigger") or DEFAULT_TRIGGER_BYTES,
    )


def _flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name)
    if text is None:
        return default
    if text.lower() not in _FLAGS:
        raise BadOption(f"{name} must be true or false, not {text!r}")
    return _FLAGS[text.lower()]


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise BadOption(f"{name} must be a number above 0, not {text!r}")
    return int(text)


def _columns(options: Mapping[str, str], view: str) -> tuple[str, ...] | None:
    text = options.get("columns")
    if text is None:
        return None
    names = tuple(part.strip() for part in text.split(","))
    if not set(names) <= set(VIEWS[view].names) or len(set(names)) < len(names):
        raise BadOption(
            f"columns must be some of {', '.join(VIEWS[view].names)}, each once, not {text!r}"
        )
    return names


def _numbers(options: Mapping[str, str], name: str) -> frozenset[int] | None:
    text = options.get(name)
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise BadOption(f"{name} must be one or more numbers, such as 0,3, not {text!r}")
    return frozenset(map(int, parts))
