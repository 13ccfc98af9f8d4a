"""The options of the format `coterie_log`, checked in one place.

path                 a data directory, or one partition's directory in it
view                 commits (default), raw, groups, consumer_epochs, batches, markers,
                     quarantine
columns              of the view, the only ones that are wanted, such as group_id,topic,partition;
                     Spark does not tell a Python source which columns a query uses, and moving a
                     column costs it more than decoding it
topic                default __consumer_offsets
crc                  check checksums; default true
quarantine           skip (default): damage is left to the view `quarantine`; fail: it is an
                     error that names file and position
logPartitions        the only log partitions to read, such as 0,3
group                the only group that matters: partitions that can't hold it are not read;
                     those read have other groups too, so filter on group_id as well
partitionCount       of the topic, for the option group, where it can't be told from the files
splitBytes           log in one task; default: by size and cores, from 16 to 96 MiB
maxBytesPerTrigger   log in one micro-batch; default 64 MiB
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from coterie.pipeline.schemas import VIEWS
from coterie.protocol.topic_names import JOURNAL_TOPIC, OFFSETS_TOPIC

# A Python task costs Spark 30 ms; 4 to 8 MiB of log in one lost 15 to 50 % (pipeline.md section 2).
MIN_SPLIT_BYTES = 16 << 20
MAX_SPLIT_BYTES = 96 << 20
# Enough for 250,000 commits a second at the fixed cost of a micro-batch (pipeline.md section 6).
DEFAULT_TRIGGER_BYTES = 64 << 20
# Splits for each core, so that cores finish together though splits differ.
_SPLITS_PER_CORE = 2

_NAMES = frozenset(
    (
        "path", "view", "columns", "topic", "crc", "quarantine", "group", "logpartitions",
        "partitioncount", "splitbytes", "maxbytespertrigger",
    )
)  # fmt: skip
_FLAGS = {"true": True, "false": False}


class BadOption(ValueError):  # noqa: N818 - says what is bad
    """An option that is unknown, missing, or has a value that it can't have."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The options, with their defaults."""

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
        """The columns of the view that are wanted."""
        schema = VIEWS[self.view]
        if self.columns is None:
            return schema
        return pa.schema([schema.field(name) for name in self.columns])

    def split_target(self, total_bytes: int) -> int:
        """How much log one task shall get of so much."""
        if self.split_bytes is not None:
            return self.split_bytes
        # The planner runs beside the driver. On a cluster its cores say little, but there the log
        # is long enough for the upper limit.
        share = total_bytes // ((os.cpu_count() or 1) * _SPLITS_PER_CORE)
        return min(max(share, MIN_SPLIT_BYTES), MAX_SPLIT_BYTES)


def parse_options(given: Mapping[str, str]) -> LogOptions:
    """The options as Spark hands them over: names in any case, values as text.

    Raises:
        BadOption: see there; the message names the option and what it may be.
    """
    options = {name.lower(): value for name, value in given.items()}
    unknown = sorted(set(options) - _NAMES)
    if unknown:
        raise BadOption(f"no option {', '.join(unknown)}; there are {', '.join(sorted(_NAMES))}")
    if not options.get("path"):
        raise BadOption('the path of a data directory is missing: .load("/path/to/data")')
    view = options.get("view", "commits")
    if view not in VIEWS:
        raise BadOption(f"no view {view!r}; there are {', '.join(VIEWS)}")
    damage = options.get("quarantine", "skip")
    if damage not in ("skip", "fail"):
        raise BadOption(f"quarantine is skip or fail, not {damage!r}")
    return LogOptions(
        path=options["path"],
        view=view,
        columns=_columns(options, view),
        topic=options.get("topic", JOURNAL_TOPIC if view == "journal" else OFFSETS_TOPIC),
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
        raise BadOption(f"{name} is true or false, not {text!r}")
    return _FLAGS[text.lower()]


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise BadOption(f"{name} is a number above 0, not {text!r}")
    return int(text)


def _columns(options: Mapping[str, str], view: str) -> tuple[str, ...] | None:
    text = options.get("columns")
    if text is None:
        return None
    names = tuple(part.strip() for part in text.split(","))
    if not set(names) <= set(VIEWS[view].names) or len(set(names)) < len(names):
        raise BadOption(
            f"columns are some of {', '.join(VIEWS[view].names)}, each once, not {text!r}"
        )
    return names


def _numbers(options: Mapping[str, str], name: str) -> frozenset[int] | None:
    text = options.get(name)
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise BadOption(f"{name} is one or several numbers, such as 0,3, not {text!r}")
    return frozenset(map(int, parts))
