"""What a seed stands for: sizes, timeouts and the rate of every fault, from calm to stormy.

The rates are drawn per run and not fixed, so that some runs have no failing appends at all and get
far, and others have little else (swarm testing). Virtual minutes are short, so timeouts are too:
sessions of seconds, retention of seconds in some runs.
"""

from random import Random
from typing import NamedTuple

from coterie.coordinator.config import GroupConfig

DAYS_7_MS = 7 * 24 * 3_600_000


class Profile(NamedTuple):
    """The settings of one run.

    Attributes:
        seed: of everything.
        duration_ms: virtual time with faults, before the quiet end.
        groups, partitions: how many; of `__consumer_offsets` for the latter.
        consumers: clients that want to be members.
        static: share of them with an instance id.
        session_ms, rebalance_ms: smallest and largest a client asks for.
        append_ms: smallest and largest time until an append is acknowledged or fails.
        append_failure: share of acknowledgements that are failures instead.
        answer_loss: share of answers that are lost together with their connection.
        impatience: share of requests repeated on a new connection before their answer.
        crash, leave, laze, resubscribe: what a member does instead of its next heartbeat.
        restart_ms, move_ms: mean time between restarts, and between moves of a partition; 0: never.
        rogue_ms, admin_ms, commit_ms: mean time between what rogues, admins and simple committers
            do; 0: there is none.
    """

    seed: int
    duration_ms: int
    groups: int
    partitions: int
    consumers: int
    static: float
    session_ms: tuple[int, int]
    rebalance_ms: tuple[int, int]
    append_ms: tuple[int, int]
    append_failure: float
    answer_loss: float
    impatience: float
    crash: float
    leave: float
    laze: float
    resubscribe: float
    restart_ms: int
    move_ms: int
    rogue_ms: int
    admin_ms: int
    commit_ms: int
    initial_delay_ms: int
    max_size: int
    retention_ms: int
    sweep_ms: int

    def config(self) -> GroupConfig:
        """The coordinator's settings."""
        return GroupConfig(
            group_min_session_timeout_ms=500,
            group_initial_rebalance_delay_ms=self.initial_delay_ms,
            group_max_size=self.max_size,
            offset_metadata_max_size=16,
            offsets_retention_ms=self.retention_ms,
            offsets_retention_check_interval_ms=self.sweep_ms,
            offsets_topic_num_partitions=self.partitions,
        )


def profile_of(seed: int, duration_ms: int = 120_000) -> Profile:
    """The profile of a seed."""
    rng = Random(f"profile {seed}")
    long_rebalances = rng.random() < 0.08
    return Profile(
        seed=seed,
        duration_ms=duration_ms * 8 if long_rebalances else duration_ms,
        groups=rng.choice((1, 2, 3, 5)),
        partitions=rng.choice((1, 2, 4)),
        consumers=rng.choice((3, 5, 8, 12)),
        static=rng.choice((0.0, 0.4, 0.4, 0.9)),
        session_ms=rng.choice(((1_000, 4_000), (3_000, 8_000), (6_000, 20_000))),
        # The fixed five minutes of a new member end first only in a rebalance longer than that.
        rebalance_ms=(400_000, 500_000)
        if long_rebalances
        else rng.choice(((500, 3_000), (2_000, 8_000), (5_000, 15_000))),
        append_ms=rng.choice(((0, 0), (0, 0), (1, 20), (0, 300), (0, 4_000))),
        append_failure=rng.choice((0.0, 0.0, 0.02, 0.15)),
        answer_loss=rng.choice((0.0, 0.01, 0.05)),
        impatience=rng.choice((0.0, 0.03, 0.15)),
        crash=rng.choice((0.0, 0.01, 0.05)),
        leave=rng.choice((0.0, 0.02, 0.05)),
        laze=rng.choice((0.0, 0.01, 0.05)),
        resubscribe=rng.choice((0.0, 0.02, 0.05)),
        restart_ms=rng.choice((0, 0, 20_000, 60_000)),
        move_ms=rng.choice((0, 0, 15_000, 60_000)),
        rogue_ms=rng.choice((0, 200, 1_500)),
        admin_ms=rng.choice((0, 700, 4_000)),
        commit_ms=rng.choice((0, 400, 2_500)),
        initial_delay_ms=rng.choice((0, 0, 50, 1_000, 3_000)),
        max_size=rng.choice((2_147_483_647,) * 3 + (2, 4)),
        retention_ms=rng.choice((DAYS_7_MS, DAYS_7_MS, 15_000)),
        sweep_ms=rng.choice((600_000, 5_000)),
    )


def storm_of(seed: int, duration_ms: int = 30_000) -> Profile:
    """A profile with every fault at once, for few things at a time: what a bug needs to show
    itself comes together soon. One of five kinds, by the seed: everything; a slow and failing log
    under static members that restart; partitions that move all the time; members that never settle;
    static members that are away when a join phase ends.
    """
    rng = Random(f"storm {seed}")
    everything = profile_of(seed, duration_ms)._replace(
        duration_ms=duration_ms,
        groups=rng.choice((2, 3)),
        partitions=rng.choice((1, 2)),
        consumers=rng.choice((4, 7)),
        static=rng.choice((0.3, 0.8)),
        session_ms=(800, 2_500),
        rebalance_ms=rng.choice(((500, 2_000), (2_000, 5_000))),
        append_ms=rng.choice(((0, 0), (0, 100), (0, 1_000))),
        append_failure=rng.choice((0.05, 0.2)),
        answer_loss=0.02,
        impatience=rng.choice((0.03, 0.15)),
        crash=rng.choice((0.02, 0.08)),
        leave=0.02,
        laze=rng.choice((0.02, 0.06)),
        resubscribe=rng.choice((0.0, 0.04)),
        restart_ms=rng.choice((0, 6_000)),
        move_ms=rng.choice((0, 15_000)),
        rogue_ms=rng.choice((80, 400, 3_000)),
        admin_ms=rng.choice((300, 1_000)),
        commit_ms=rng.choice((200, 1_000)),
        initial_delay_ms=rng.choice((0, 50, 500, 1_200)),
        max_size=rng.choice((2_147_483_647, 2_147_483_647, 2)),
        retention_ms=rng.choice((DAYS_7_MS, 5_000)),
        sweep_ms=rng.choice((600_000, 2_000)),
    )
    return _of_kind(seed % 5, everything, rng)


def _of_kind(kind: int, everything: Profile, rng: Random) -> Profile:
    """What makes a storm one of its five kinds."""
    if kind == 1:
        return everything._replace(
            consumers=5,
            groups=1,
            static=0.8,
            append_ms=(0, 1_500),
            append_failure=0.35,
            impatience=0.3,
            crash=0.05,
            leave=0.0,
            rogue_ms=rng.choice((0, 2_000)),
            admin_ms=1_000,
            restart_ms=0,
            move_ms=0,
            initial_delay_ms=rng.choice((0, 500)),
            max_size=2_147_483_647,
        )
    if kind == 2:
        return everything._replace(
            restart_ms=4_000, move_ms=1_500, rogue_ms=200, append_failure=0.0
        )
    if kind == 3:
        return everything._replace(
            static=0.2,
            append_ms=(0, 200),
            resubscribe=0.15,
            impatience=0.3,
            answer_loss=0.1,
            crash=0.08,
            laze=0.1,
            rogue_ms=80,
            restart_ms=0,
            move_ms=0,
            rebalance_ms=(1_500, 4_000),
        )
    if kind == 4:
        return everything._replace(
            groups=1,
            static=0.8,
            session_ms=(3_000, 6_000),
            rebalance_ms=(500, 1_500),
            append_ms=(0, 20),
            crash=0.08,
            leave=0.0,
            laze=0.04,
            rogue_ms=3_000,
            restart_ms=4_000,
            move_ms=0,
        )
    return everything
