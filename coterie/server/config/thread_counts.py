"""Numbers of threads: Kafka changes none to more than double, or to less than half, at a time.

The numbers have no effect here. The answers are Kafka's [settings/thread-counts].
"""

from collections.abc import Mapping

from coterie.server.config.config import Config
from coterie.server.config.keys import InvalidValue

_POOLS = (
    "num.io.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
    "num.network.threads",
    "remote.log.reader.threads",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
)
_CLEANER = "log.cleaner.threads"


def check_thread_counts(config: Config, values: Mapping[str, str], *, of_cluster: bool) -> None:
    """Check the numbers of threads that would be effective after a change.

    Args:
        config: the settings of the broker now.
        values: what would be altered of this broker, or of the cluster.
        of_cluster: whether it is of the cluster.

    Raises:
        InvalidValue: one would change by too much.
    """
    for name in (*_POOLS, _CLEANER):
        now = config.text(name)
        if of_cluster:
            then = config.text(name, cluster=values)
        else:
            then = config.text(name, values)
        assert now is not None, "numbers of threads have defaults"
        assert then is not None, "numbers of threads have defaults"
        if then != now:
            _check(name, int(now), int(then))


def _check(name: str, now: int, then: int) -> None:
    """Compare two numbers of threads, as Java divides them."""
    is_of_cleaner = name == _CLEANER
    if is_of_cleaner and then < 1:
        # Only the number of the cleaner has this check, with a text of its own.
        raise _invalid("Log cleaner threads should be at least 1")
    if then > now * 2:
        raise _invalid(
            f"Log cleaner threads cannot be increased to more than double the current value {now}"
            if is_of_cleaner
            else f"Dynamic thread count update validation failed for {name}={then}, value should"
            f" not be greater than double the current value {now}"
        )
    if then < now // 2:
        raise _invalid(
            f"Log cleaner threads cannot be reduced to less than half the current value {now}"
            if is_of_cleaner
            else f"Dynamic thread count update validation failed for {name}={then}, value should"
            f" be at least half the current value {now}"
        )


def _invalid(reason: str) -> InvalidValue:
    """Return the exception with Kafka's text, in which one exception is the value of another."""
    return InvalidValue(
        f"Invalid value org.apache.kafka.common.config.ConfigException: {reason}"
        " for configuration Invalid dynamic configuration"
    )
