"""One group's rows as the rules read them.

The findings of a journal come here too, without pyarrow: its package is imported where rows of
tables are read.
"""

from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.pipeline.findings.changes import (
    MINUTE_MS,
    Bump,
    Changes,
    Event,
    Owned,
    Session,
    bump_of,
    event_of,
    session_of,
)
from coterie.pipeline.timeline.model import SHARE
from coterie.pipeline.timeline.tasks import OWNING_ROLES

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]


class GroupRows(NamedTuple):
    """The rows of one group, as slices of tables.

    Attributes:
        group_id: the group.
        rebalances, ownership, member_sessions, group_generations, lag_1m, epoch_bumps,
            epoch_handovers: rows of these tables.
        share_partitions, poison_records: rows of these tables, of a share group.
        expired_locks: rows of `share_deliveries` whose locks expired.
        minutes: rows of `commit_velocity_1m` with the columns `first_ts`, `last_ts`, `rewound_by`
            and `rewound_offset`.
    """

    group_id: str
    rebalances: "pa.Table"
    ownership: "pa.Table"
    member_sessions: "pa.Table"
    group_generations: "pa.Table"
    minutes: "pa.Table"
    lag_1m: "pa.Table"
    epoch_bumps: "pa.Table"
    epoch_handovers: "pa.Table"
    share_partitions: "pa.Table"
    poison_records: "pa.Table"
    expired_locks: "pa.Table"


class Group(Changes):
    """One group's rows, in order of time and in milliseconds.

    Attributes:
        rows: its rows.
        retention_ms: how long the offsets of a group without members are kept.
    """

    def __init__(self, rows: GroupRows, now_ms: int, retention_ms: int) -> None:
        """Take the rows of a group."""
        super().__init__(rows.group_id, now_ms)
        self.rows = rows
        self.retention_ms = retention_ms

    @cached_property
    def is_share_group(self) -> bool:
        """See `Changes`."""
        types = self.rows.rebalances.column("group_type").unique().to_pylist()
        return bool(self.rows.share_partitions.num_rows) or SHARE in types

    @cached_property
    def events(self) -> list[Event]:
        """Its rebalances."""
        every = map(event_of, rows_of(self.rows.rebalances))
        found = (event for event in every if event is not None)
        return sorted(found, key=lambda event: (event.at_ms, event.to_generation or 0))

    @cached_property
    def sessions(self) -> list[Session]:
        """The sessions of its members."""
        found = map(session_of, rows_of(self.rows.member_sessions))
        return sorted(found, key=lambda session: session.from_ms)

    @cached_property
    def owned(self) -> list[Owned]:
        """The times for which members owned partitions."""
        rows = rows_of(
            self.rows.ownership, ["topic", "partition", "member_key", "from_ts", "to_ts", "role"]
        )
        return [Owned(*list(row.values())[:-1]) for row in rows if row["role"] in OWNING_ROLES]

    @cached_property
    def bumps(self) -> list[Bump]:
        """The rises of its epoch."""
        found = map(bump_of, rows_of(self.rows.epoch_bumps))
        return sorted(found, key=lambda bump: bump.at_ms)

    @cached_property
    def _lags(self) -> tuple[list[int], list[float]]:
        """By minute the mean lag of a partition, as far as it is known."""
        import pyarrow.compute as pc

        lags = self.rows.lag_1m.select(["window_start_ts", "lag"])
        known = lags.filter(pc.is_valid(lags.column("lag")))
        means = known.group_by("window_start_ts").aggregate([("lag", "mean")])
        rows = sorted((row["window_start_ts"], row["lag_mean"]) for row in rows_of(means))
        return [at for at, _ in rows], [lag for _, lag in rows]

    def mean_lag(self, from_ms: int, to_ms: int) -> float:
        """Return the largest mean lag of a partition in a time, 0 if none is known.

        The minute at which the time begins counts, and the one after its end.
        """
        times, lags = self._lags
        first = bisect_right(times, from_ms - MINUTE_MS)
        return max(lags[first : bisect_right(times, to_ms + MINUTE_MS)], default=0.0)


def rows_of(table: "pa.Table", columns: Iterable[str] | None = None) -> list[Row]:
    """Return rows with their times as epoch milliseconds."""
    import pyarrow as pa

    if columns is not None:
        table = table.select(list(columns))
    for number, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            in_ms = table.column(number).cast(pa.timestamp("ms", tz=field.type.tz), safe=False)
            table = table.set_column(number, field.name, in_ms.cast(pa.int64()))
    found: list[Row] = table.to_pylist()
    return found
