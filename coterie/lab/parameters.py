"""The figures of the model, and how text on the command line changes them."""

from typing import Any, NamedTuple

from coterie.lab.errors import WrongInput, closest


class Parameters(NamedTuple):
    """The figures of the model. Times are in milliseconds.

    Attributes:
        latency_ms, latency_p99_ms: one way between two endpoints, log-normal.
        append_ms: until an append to the group's log is durable.
        poll_gap_ms: how long the application takes for the records of a poll, on average.
        callback_ms, callback_partition_ms: a rebalance callback: fixed, and for each partition.
        rate, catch_up: records a second in a partition; how much faster a late reader reads.
        commit_ms: between two commits; 0 for the default of the machine.
        commits_on_close: 1 for consumers that commit when they stop, as with auto-commit; else 0.
        heartbeat_ms, session_ms, rebalance_ms: of group members; 0 for the preset's.
        initial_delay_ms: `group.initial.rebalance.delay.ms`; -1 for the preset's.
        beat_phase: how heartbeats lie to each other: `kept` (each member has its own phase: an old
            group), `restarted` (together since the last rebalance: a young one) or `drifting`
            (together, and up to beat_drift_ms later with each beat).
        beat_drift_ms: see beat_phase.
        metadata_age_ms: `metadata.max.age.ms`, after which a client learns of new partitions.
        data_brokers, failover_ms: the brokers that share the partitions; until the partitions of
            a dead one have another leader.
        assign_ms: what a leader needs to compute an assignment.
        start_ms: until a started process sends its first request.
        connect_delay_ms: `scheduled.rebalance.max.delay.ms`.
        zk_servers, zk_lag_ms, zk_operation_us: the ensemble: its size, the most that a follower
            lags, and what one operation takes.
        zk_session_ms, zk_backoff_ms, zk_retries: of the old consumer.
        rocketmq_brokers, rocketmq_interval_ms: brokers; the period of a client's rebalance.
        invisible_ms: how long a popped message stays invisible.
        notices_lost: the share of RocketMQ's notices that do not arrive.
        draft: the month of server-2015: before 22 September, its heartbeats announced a rebalance
            by ILLEGAL_GENERATION.
        strategy: that of the members of server-2015, whose broker has `range` and `roundrobin`.
    """

    latency_ms: float = 0.4
    latency_p99_ms: float = 3.0
    append_ms: float = 2.0
    poll_gap_ms: float = 100.0
    callback_ms: float = 5.0
    callback_partition_ms: float = 1.0
    rate: int = 10
    catch_up: int = 10
    commit_ms: int = 0
    commits_on_close: int = 1
    heartbeat_ms: int = 0
    session_ms: int = 0
    rebalance_ms: int = 0
    initial_delay_ms: int = -1
    beat_phase: str = "kept"
    beat_drift_ms: float = 100.0
    metadata_age_ms: int = 300_000
    data_brokers: int = 3
    failover_ms: int = 9_000
    assign_ms: float = 5.0
    start_ms: float = 200.0
    connect_delay_ms: int = 300_000
    zk_servers: int = 3
    zk_lag_ms: float = 50.0
    zk_operation_us: int = 40
    zk_session_ms: int = 6_000
    zk_backoff_ms: int = 2_000
    zk_retries: int = 4
    rocketmq_brokers: int = 1
    rocketmq_interval_ms: int = 20_000
    invisible_ms: int = 60_000
    notices_lost: float = 0.0
    strategy: str = "range"
    draft: str = "2015-10"


BEAT_PHASES = ("kept", "restarted", "drifting")
STRATEGIES = ("range", "roundrobin", "sticky")
OLDER_DRAFT = "2015-08"
_CHOICES = {
    "beat_phase": BEAT_PHASES,
    "draft": (OLDER_DRAFT, "2015-10"),
    "strategy": STRATEGIES,
}
# Below these a run would divide by nothing or not end.
_LEAST = {
    "rate": 1,
    "catch_up": 2,
    "latency_ms": 0.001,
    "latency_p99_ms": 0.001,
    "data_brokers": 1,
    "zk_servers": 1,
    "rocketmq_brokers": 1,
    "rocketmq_interval_ms": 100,
    "initial_delay_ms": -1,
    "zk_session_ms": 100,
    "invisible_ms": 100,
}


def with_settings(parameters: Parameters, settings: dict[str, Any]) -> Parameters:
    """Return parameters with some changed.

    Raises:
        WrongInput: a name or a value is wrong.
    """
    changed: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in Parameters._fields:
            raise WrongInput(
                f"There is no setting '{name}'{closest(name, Parameters._fields)}."
                f" Settings: {', '.join(Parameters._fields)}."
            )
        changed[name] = _value(name, value)
    made = parameters._replace(**changed)
    if made.latency_p99_ms < made.latency_ms:
        raise WrongInput("latency_p99_ms must not be below latency_ms.")
    return made


def _value(name: str, value: Any) -> Any:
    kind = type(Parameters._field_defaults[name])
    if kind is str:
        allowed = _CHOICES[name]
        if value not in allowed:
            raise WrongInput(f"'{value}' is no {name}: choose one of {', '.join(allowed)}.")
        return value
    try:
        number = kind(value)
    except (TypeError, ValueError):
        raise WrongInput(f"{name} must be a number, not '{value}'.") from None
    least = _LEAST.get(name, 0)
    if not least <= number < 1e9:
        raise WrongInput(f"{name} must be at least {least} and below 1e9, not {value}.")
    return number
