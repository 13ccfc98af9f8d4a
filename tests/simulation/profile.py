"""The settings of a run, drawn from its seed: sizes, timeouts and the rate of every fault.

Rates differ from run to run (swarm testing): some runs have no failing append and get far, others
have little else. A run lasts virtual minutes, so its timeouts are short as well: sessions of
seconds, and in some runs retention of seconds.
"""

from random import Random
from typing import NamedTuple

from coterie.coordinator.groups.config import GroupConfig

DAYS_7_MS = 7 * 24 * 3_600_000


class Profile(NamedTuple):
    """The settings of one run.

    Attributes:
        seed: determines everything else.
        duration_ms: virtual time with faults, before the final phase without.
        groups: number of groups.
        partitions: number of partitions of `__consumer_offsets`.
        consumers: number of clients that are members.
        static: share of them with an instance id.
        session_ms, rebalance_ms: smallest and largest timeout of a client.
        append_ms: smallest and largest time until an append is acknowledged or fails.
        append_failure: share of appends that fail.
        response_loss: share of responses that are lost together with their connection.
        early_retry: share of requests that are repeated on a new connection before their response.
        crash, leave, pause, resubscribe: probability that a member crashes, leaves, is too late, or
            changes its topics instead of sending its next heartbeat.
        restart_ms, move_ms: mean time between restarts of the server, and between moves of a
            partition; 0 for never.
        rogue_ms, admin_ms, commit_ms: mean time between requests of the rogue client, of the
            administrator and of the client that only commits; 0 if there is none.
        initial_delay_ms, max_size, retention_ms, sweep_ms: settings of the coordinator.
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
    response_loss: float
    early_retry: float
    crash: float
    leave: float
    pause: float
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
        """Return the settings of the coordinator."""
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
    """Return the ordinary profile of a seed."""
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
        # A rebalance timeout must be longer than five minutes for the time limit of a new member to
        # end first [joining/new-member-timeout].
        rebalance_ms=(400_000, 500_000)
        if long_rebalances
        else rng.choice(((500, 3_000), (2_000, 8_000), (5_000, 15_000))),
        append_ms=rng.choice(((0, 0), (0, 0), (1, 20), (0, 300), (0, 4_000))),
        append_failure=rng.choice((0.0, 0.0, 0.02, 0.15)),
        response_loss=rng.choice((0.0, 0.01, 0.05)),
        early_retry=rng.choice((0.0, 0.03, 0.15)),
        crash=rng.choice((0.0, 0.01, 0.05)),
        leave=rng.choice((0.0, 0.02, 0.05)),
        pause=rng.choice((0.0, 0.01, 0.05)),
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
    """Return a profile with many faults at once in few groups, so that bugs show soon.

    The seed decides between five kinds: all faults; a slow and failing log with static members that
    restart; partitions that move all the time; members that never settle; static members that are
    absent when a join phase ends.
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
        response_loss=0.02,
        early_retry=rng.choice((0.03, 0.15)),
        crash=rng.choice((0.02, 0.08)),
        leave=0.02,
        pause=rng.choice((0.02, 0.06)),
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
    """Return the storm changed into one of the five kinds."""
    if kind == 1:
        return everything._replace(
            consumers=5,
            groups=1,
            static=0.8,
            append_ms=(0, 1_500),
            append_failure=0.35,
            early_retry=0.3,
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
            early_retry=0.3,
            response_loss=0.1,
            crash=0.08,
            pause=0.1,
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
            pause=0.04,
            rogue_ms=3_000,
            restart_ms=4_000,
            move_ms=0,
        )
    return everything
