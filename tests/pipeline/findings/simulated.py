"""Groups whose stories are known: what their members do, and the rows that a log has of it.

A group is simulated as its log would show it: logged generations, commits by minute, log ends. The
histories and the lag are worked out by the pipeline itself.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

from coterie.assignors.model import MemberSubscription, TopicPartition
from coterie.assignors.sticky import assign_sticky
from coterie.pipeline.tables import TABLES
from coterie.pipeline.timeline.columns import rebalance_columns, session_columns
from coterie.pipeline.timeline.from_log import log_history
from coterie.pipeline.timeline.model import (
    Generation,
    GroupHistory,
    RecordedMember,
)
from coterie.pipeline.transforms.commit_runs import MINUTES
from coterie.pipeline.transforms.lag import lag_1m

# 2025-10-09 09:00:00 UTC.
START_S = 1_760_000_400
MINUTE_S = 60
_US = 1_000_000
Row = dict[str, Any]


class Process(NamedTuple):
    """A consumer process: its client id, host and instance id."""

    client: str
    host: str
    instance: str | None = None

    @property
    def identity(self) -> str:
        """The identity that findings name."""
        return self.instance or f"{self.client} at {self.host}"


class SimulatedGroup:
    """A group, its members over time, and what they commit.

    Attributes:
        group_id: its name.
        chance: the randomness of its story.
        partitions: the number of partitions of its only topic, which is named like the group.
        end_s: how long it is recorded, in seconds.
        here: its members, by member id.
    """

    def __init__(self, group_id: str, chance: Random, *, partitions: int, end_s: float) -> None:
        self.group_id = group_id
        self.chance = chance
        self.partitions = partitions
        self.end_s = end_s
        self.here: dict[str, Process] = {}
        self.produced_until_s = end_s
        self.assign: Callable[[list[str]], dict[str, list[int]]] = self._sticky
        self._owned: dict[str, list[int]] = {}
        self._rate = chance.uniform(2, 40)
        self._logged: list[Generation] = []
        self._stuck: list[tuple[float, float, str | None]] = []
        self._rewinds: dict[tuple[int, int], int] = {}
        self._foreign: list[tuple[float, int]] = []
        self._ids = 0

    def change(
        self, at_s: float, *, join: Iterable[Process] = (), leave: Iterable[str] = ()
    ) -> list[str]:
        """Let members join and leave; the rebalance ends within seconds.

        Returns:
            The member ids of those that joined.
        """
        for member_id in leave:
            del self.here[member_id]
        joined = []
        for process in join:
            self._ids += 1
            member_id = f"{process.client}-{self._ids:08x}"
            self.here[member_id] = process
            joined.append(member_id)
        number = self._logged[-1].generation + 1 if self._logged else 1
        at_ms = round((START_S + at_s + self.chance.uniform(0.1, 2.5)) * 1000)
        assigned = self._owned = self.assign(sorted(self.here))
        members = tuple(
            RecordedMember(
                member_id,
                process.instance,
                process.client,
                f"/{process.host}",
                (self.group_id,),
                (),
                tuple(TopicPartition(self.group_id, each) for each in assigned[member_id]),
                None,
                45_000,
                300_000,
            )
            for member_id, process in sorted(self.here.items())
        )
        self._logged.append(Generation(number, at_ms, "consumer", "range", None, members))
        return joined

    def hang(self, from_s: float, to_s: float, client: str | None = None) -> None:
        """Let members, or those of one client, make no progress for some time."""
        self._stuck.append((from_s, to_s, client))

    def rewind(self, at_s: float, partition: int, messages: int) -> None:
        """Let a commit go back."""
        self._rewinds[int(at_s // MINUTE_S), partition] = messages

    def commit_foreign(self, at_s: float, partition: int) -> None:
        """Let a process that is no member commit a partition."""
        self._foreign.append((at_s, partition))

    def history(self) -> GroupHistory:
        """Return the history that the pipeline works out."""
        return log_history(self.group_id, self._logged)

    def generations(self) -> list[Row]:
        """Return rows of `group_generations`."""
        return [
            {
                "group_id": self.group_id,
                "generation": each.generation,
                "protocol": each.protocol,
                "state": "Stable" if each.members else "Empty",
                "record_ts": each.completed_ms * 1000,
                "members": [
                    {
                        "member_id": member.member_id,
                        "topics": list(member.topics or ()),
                        "assigned": [
                            {"topic": topic, "partition": number}
                            for topic, number in member.assigned
                        ],
                    }
                    for member in each.members
                ],
            }
            for each in self._logged
        ]

    def minutes(self) -> list[Row]:
        """Return the commits as rows of `MINUTES`."""
        found: dict[tuple[int, int], Row] = {}
        for owned in self.history().ownership:
            begin = owned.from_ms / 1000 - START_S
            end = self.end_s if owned.to_ms is None else owned.to_ms / 1000 - START_S
            client = owned.member_key.rsplit("-", 1)[0]
            for minute in range(int(begin // MINUTE_S), int(end // MINUTE_S) + 1):
                first = max(begin + 0.5, minute * MINUTE_S)
                last = min(end - 0.5, minute * MINUTE_S + 59.5)
                if last - first < 2 or self._hangs(first, last, client):
                    continue
                self._add(
                    found, minute, owned.partition, first, last, round((last - first) / 5) + 1
                )
        for at_s, partition in self._foreign:
            self._add(found, int(at_s // MINUTE_S), partition, at_s, at_s + 20, 4)
        committed: dict[int, int] = {}
        rows = [found[key] for key in sorted(found)]
        for row in rows:
            partition = row["partition"]
            back = self._rewinds.get(
                (row["window_start_ts"] // _US // MINUTE_S - _MINUTE, partition)
            )
            row["advance"] = max(0, row["last_offset"] - committed.get(partition, 0))
            committed[partition] = row["last_offset"]
            if back:
                row |= {"rewinds": 1, "rewound_by": back, "rewound_offset": 7}
        return rows

    def log_ends(self) -> list[Row]:
        """Return the ends of the topic's partitions, every minute."""
        return [
            {
                "topic": self.group_id,
                "partition": partition,
                "at_ts": (START_S + second) * _US,
                "log_end_offset": self._produced(second),
            }
            for second in range(30, int(self.end_s), MINUTE_S)
            for partition in range(self.partitions)
        ]

    def _sticky(self, members: list[str]) -> dict[str, list[int]]:
        owned = {
            name: tuple(TopicPartition(self.group_id, each) for each in self._owned.get(name, ()))
            for name in members
        }
        given = assign_sticky(
            {self.group_id: self.partitions},
            [MemberSubscription(name, (self.group_id,), owned[name], 0) for name in members],
        )
        return {name: [each.partition for each in given[name]] for name in members}

    def _hangs(self, first_s: float, last_s: float, client: str) -> bool:
        return any(
            begin <= last_s and first_s < end and who in (None, client)
            for begin, end, who in self._stuck
        )

    def _produced(self, at_s: float) -> int:
        return 1_000 + round(self._rate * min(max(at_s, 0), self.produced_until_s))

    def _add(
        self,
        found: dict[tuple[int, int], Row],
        minute: int,
        partition: int,
        first_s: float,
        last_s: float,
        commits: int,
    ) -> None:
        first, last = (round((START_S + each) * _US) for each in (first_s, last_s))
        row = found.setdefault(
            (minute, partition),
            {
                "group_id": self.group_id,
                "topic": self.group_id,
                "partition": partition,
                "window_start_ts": (_MINUTE + minute) * MINUTE_S * _US,
                "commits": 0,
                "rewinds": 0,
                "first_ts": first,
                "last_ts": last,
                "overlaps": False,
            },
        )
        row["commits"] += commits
        row["first_ts"], row["last_ts"] = min(row["first_ts"], first), max(row["last_ts"], last)
        row["last_offset"] = self._produced(last_s)


_MINUTE = START_S // MINUTE_S


def tables_of(groups: Iterable[SimulatedGroup]) -> dict[str, pa.Table]:
    """Return the tables that the rules read."""
    groups = list(groups)
    rows: dict[str, list[Row]] = {name: [] for name in ("rebalances", "ownership", "sessions")}
    for group in groups:
        history = group.history()
        rows["rebalances"] += [_in_us(rebalance_columns(each)) for each in history.rebalances]
        rows["sessions"] += [_in_us(session_columns(each)) for each in history.sessions]
        rows["ownership"] += [
            _in_us(each._asdict() | {"from_ts": each.from_ms, "to_ts": each.to_ms})
            for each in history.ownership
        ]
    minutes = _table([row for group in groups for row in group.minutes()], MINUTES)
    ends = _table([row for group in groups for row in group.log_ends()], TABLES["log_ends"].schema)
    generations = [row for group in groups for row in group.generations()]
    return {
        "rebalances": _table(rows["rebalances"], TABLES["rebalances"].schema),
        "ownership": _table(rows["ownership"], TABLES["ownership"].schema),
        "member_sessions": _table(rows["sessions"], TABLES["member_sessions"].schema),
        "group_generations": _table(generations, TABLES["group_generations"].schema),
        "minutes": minutes,
        "lag_1m": lag_1m(minutes, ends),
        "epoch_bumps": _table([], TABLES["epoch_bumps"].schema),
        "epoch_handovers": _table([], TABLES["epoch_handovers"].schema),
        "share_partitions": _table([], TABLES["share_partitions"].schema),
        "poison_records": _table([], TABLES["poison_records"].schema),
        "expired_locks": _table([], TABLES["share_deliveries"].schema),
    }


def _table(rows: list[Row], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(rows, schema)


def _in_us(row: Row) -> Row:
    return {
        name: value * 1000 if name.endswith("_ts") and value is not None else value
        for name, value in row.items()
    }
