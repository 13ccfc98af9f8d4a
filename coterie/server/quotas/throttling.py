"""How much clients do, and for how long they must wait [quotas/throttling].

Invariant: a client without a quota is not counted.
"""

import math
from collections.abc import Iterable, Mapping

from coterie.address import peer_address
from coterie.server.config.config import Config
from coterie.server.metadata.stored_settings import QuotaEntity
from coterie.server.quotas.checks import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    USER,
)
from coterie.server.quotas.rates import Rate, TokenBucket, throttle_ms

_USER_PREFIX = "User:"
# How many rates are kept before those of idle clients are forgotten.
_RATES_BEFORE_PRUNING = 1_000


class Limit:
    """The quota that counts for a client, and who shares it.

    Attributes:
        value: the quota.
        shared_by: the user and the client id that are counted together; "" for any.
    """

    __slots__ = ("shared_by", "value")

    def __init__(self, value: float, shared_by: tuple[str, str]) -> None:
        self.value = value
        self.shared_by = shared_by


class Throttling:
    """The rates of all clients and addresses.

    Attributes:
        throttles_requests: whether a quota of users or client ids is set.
        throttles_connections: whether a quota of addresses is set.
    """

    def __init__(self, config: Config) -> None:
        """Begin without quotas."""
        self._windows = config.get_int("quota.window.num")
        self._window_ms = config.get_int("quota.window.size.seconds") * 1000
        self._burst_s = config.get_int("controller.quota.window.num") * config.get_int(
            "controller.quota.window.size.seconds"
        )
        self._limits: dict[str, dict[QuotaEntity, float]] = {}
        self._rates: dict[tuple[str, str, str], Rate] = {}
        self._buckets: dict[tuple[str, str], TokenBucket] = {}
        self.throttles_requests = False
        self.throttles_connections = False

    def take(self, quotas: Iterable[tuple[QuotaEntity, Mapping[str, float]]]) -> None:
        """Use these quotas from now on; what was counted stays."""
        limits: dict[str, dict[QuotaEntity, float]] = {}
        for entity, values in quotas:
            for key, value in values.items():
                limits.setdefault(key, {})[_normal(entity)] = value
        self._limits = limits
        self.throttles_requests = bool(limits.keys() - {CONNECTION_CREATION_RATE})
        self.throttles_connections = CONNECTION_CREATION_RATE in limits

    def limit(self, key: str, principal: str, client_id: str) -> Limit | None:
        """Return the quota that counts for a client; None if it has none [quotas/precedence]."""
        limits = self._limits.get(key)
        if limits is None:
            return None
        user = principal.removeprefix(_USER_PREFIX)
        for user_name in (user, None):
            of_user = (USER, user_name)
            for client_name in (client_id, None):
                value = limits.get(((CLIENT_ID, client_name), of_user))
                if value is not None:
                    return Limit(value, (user, client_id))
            value = limits.get((of_user,))
            if value is not None:
                return Limit(value, (user, ""))
        for client_name in (client_id, None):
            value = limits.get(((CLIENT_ID, client_name),))
            if value is not None:
                return Limit(value, ("", client_id))
        return None

    def record(self, key: str, principal: str, client_id: str, amount: float, now_ms: int) -> int:
        """Count what a client has done; return for how many milliseconds it must wait."""
        limit = self.limit(key, principal, client_id)
        if limit is None:
            return 0
        rate = self._rate((key, *limit.shared_by), now_ms)
        rate.record(amount, now_ms)
        return throttle_ms(rate, limit.value, now_ms)

    def most_bytes(self, key: str, principal: str, client_id: str) -> int | None:
        """Return how many bytes a client may have at once; None if there is no quota."""
        limit = self.limit(key, principal, client_id)
        if limit is None:
            return None
        if math.isnan(limit.value):
            # As in Java, where this is the whole number 0 [quotas/no-number].
            return 0
        return int(limit.value * (self._windows - 1) * self._window_ms / 1000)

    def wait_of_connection_ms(self, address: str, now_ms: int) -> int:
        """Count a new connection; return how long it stays unserved before it is closed.

        0 if it is served.
        """
        limits = self._limits.get(CONNECTION_CREATION_RATE, {})
        limit = limits.get(((IP, address),), limits.get(((IP, None),)))
        if limit is None:
            return 0
        if math.isnan(limit):
            # As in Java, where this is the whole number 0 [quotas/no-number].
            return self._window_ms
        rate = self._rate((CONNECTION_CREATION_RATE, "", address), now_ms)
        rate.record(1, now_ms)
        wait_ms = min(throttle_ms(rate, limit, now_ms), self._window_ms)
        if wait_ms:
            rate.record(-1, now_ms)
        return wait_ms

    def take_tokens(
        self, principal: str, client_id: str, count: int, now_ms: int, *, is_strict: bool
    ) -> tuple[bool, int]:
        """Count changes of topics by a client.

        Args:
            principal, client_id: the client.
            count: partitions that are created or deleted.
            now_ms: the time.
            is_strict: whether changes are refused while the client has a debt.

        Returns:
            Whether the change is allowed, and for how many milliseconds the client must wait.
        """
        limit = self.limit(CONTROLLER_MUTATION_RATE, principal, client_id)
        if limit is None:
            return True, 0
        bucket = self._buckets.get(limit.shared_by)
        if bucket is None:
            if len(self._buckets) >= _RATES_BEFORE_PRUNING:
                self._buckets.clear()
            bucket = self._buckets[limit.shared_by] = TokenBucket(self._burst_s)
        tokens = bucket.refill(limit.value, now_ms)
        if is_strict and tokens < 0:
            return False, _wait_ms(tokens, limit.value)
        bucket.take(count, limit.value, now_ms)
        return True, 0 if is_strict else _wait_ms(bucket.tokens, limit.value)

    def _rate(self, key: tuple[str, str, str], now_ms: int) -> Rate:
        rate = self._rates.get(key)
        if rate is None:
            if len(self._rates) >= _RATES_BEFORE_PRUNING:
                kept = {each: old for each, old in self._rates.items() if not old.is_idle(now_ms)}
                # A flood of client ids is counted anew instead of filling the memory.
                self._rates = kept if len(kept) < _RATES_BEFORE_PRUNING else {}
            rate = self._rates[key] = Rate(self._windows, self._window_ms)
        return rate


def _normal(entity: QuotaEntity) -> QuotaEntity:
    """Return an entity in which an address is written as the address of a connection."""
    ((kind, name), *others) = entity
    if kind != IP or name is None or others:
        return entity
    return ((IP, peer_address(name)),)


def _wait_ms(tokens: float, per_second: float) -> int:
    return math.floor(-tokens / per_second * 1000 + 0.5) if tokens < 0 else 0
