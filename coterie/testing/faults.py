"""Faults: what goes wrong, and for which requests, as data.

A fault is an action (`actions.py`), laid over some requests by `Views.fault`:

    with kafka.fault(AnswerError("NOT_COORDINATOR"), api="Heartbeat", client_id="a") as fault:
        ...
        fault.must_have_hit()

Which requests a fault meets is decided in the order in which they arrive, and chance comes from a
seed, so the same requests meet the same faults.
"""

import random
from collections.abc import Callable
from typing import NamedTuple, Self

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.resources import groups_of
from coterie.server.services import Services
from coterie.testing.actions import APIS, Action, DiskAction, SlowDisk, check_action
from coterie.testing.bounds import check
from coterie.testing.errors import FaultNotHit, WrongUse, failed
from coterie.testing.request_subjects import topics_of
from coterie.testing.requests import Request, api_named


class Scope(NamedTuple):
    """The requests that a fault concerns; None for all.

    Attributes:
        api: the API.
        version: the version of the request.
        client_id: of the request.
        group: the group id in the request.
        topic: a topic that the request names.
        connection_id: the number of the connection; each broker counts its own.
        node_id: the broker.
    """

    api: ApiKey | None = None
    version: int | None = None
    client_id: str | None = None
    group: str | None = None
    topic: str | None = None
    connection_id: int | None = None
    node_id: int | None = None

    def __str__(self) -> str:
        """Describe the requests: Heartbeat of client 'one' for group 'billing'."""
        parts = (
            ("in version {}", self.version),
            ("of client '{}'", self.client_id),
            ("for group '{}'", self.group),
            ("about topic '{}'", self.topic),
            ("on connection {}", self.connection_id),
            ("at broker {}", self.node_id),
        )
        name = "request" if self.api is None else self.api.kafka_name
        return " ".join([name, *(text.format(value) for text, value in parts if value is not None)])

    def covers(self, api: ApiKey, request: Request, broker: Services) -> bool:
        """Return whether a request is in scope."""
        return (
            self.api in (None, api)
            and self.version in (None, request.version)
            and self.client_id in (None, request.client_id)
            and self.connection_id in (None, request.connection_id)
            and self.node_id in (None, request.node_id)
            and (self.group is None or self.group in groups_of(request.message))
            and (self.topic is None or self.topic in topics_of(request.message, broker))
        )


class Fault:
    """A fault that is installed; a context manager that removes it at its end.

    Attributes:
        action, scope: what goes wrong, and where.
        hits: how many requests have met it; with an action of the disk, how many of its operations.
        until_ms: its last moment by the broker's clock; None without a time limit.
        number: how many faults were installed, with this one.
        received: how many requests were received before it was installed.
        ended: how many were received before it was removed; None until then.
        explain: returns why it was not met so many times; set by its broker.
        when_removed: called after it was removed; set by its broker.
    """

    def __init__(
        self,
        action: Action,
        scope: Scope,
        *,
        skip: int = 0,
        times: int | None = None,
        for_seconds: float | None = None,
        probability: float = 1.0,
        seed: int = 0,
    ) -> None:
        """Declare a fault; see `Views.fault`.

        Raises:
            WrongUse: a value makes no sense.
        """
        check_action(action)
        if isinstance(action, DiskAction) and scope._replace(topic=None) != Scope():
            name = type(action).__name__
            raise WrongUse(f"{name} is about files, not requests: only `topic` narrows it down")
        if isinstance(action, SlowDisk) and scope.topic is not None:
            raise WrongUse("one sync is for several topics: SlowDisk is slow for all of them")
        apis = APIS.get(type(action))
        if apis is not None and scope.api is not None and scope.api not in apis:
            known = ", ".join(sorted(each.kafka_name for each in apis))
            raise WrongUse(
                f"{type(action).__name__} is about {known}, not about {scope.api.kafka_name}"
            )
        check(version=scope.version, connection_id=scope.connection_id, node_id=scope.node_id)
        check(for_seconds=for_seconds, probability=probability, seed=seed, skip=skip, times=times)
        self.action = action
        self.scope = scope
        self.hits = 0
        self.number = 0
        self.received = 0
        self.ended: int | None = None
        self.explain: Callable[[int | None], str] = lambda _: f"the fault was not met: {self}"
        self.when_removed: Callable[[], None] = lambda: None
        self._received: Callable[[], int] = lambda: 0
        self.until_ms: int | None = None
        self._apis = apis
        self._for_seconds = for_seconds
        self._skip = skip
        self._times = times
        self._probability = probability
        self._random = random.Random(seed)  # noqa: S311 - repeatable chance, no secrets
        self._is_removed = False

    def __repr__(self) -> str:
        return f"Fault({self.action!r}, {self.scope!r}, hits={self.hits})"

    def __str__(self) -> str:
        hits = f"{self.hits} hit{'s' * (self.hits != 1)}"
        if isinstance(self.action, DiskAction):
            about = "the disk" if self.scope.topic is None else f"topic '{self.scope.topic}'"
        else:
            about = str(self.scope)
        return f"{self.action!r} for {about}, {hits}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Let requests be handled as usual from now on."""
        if not self._is_removed:
            self.ended = self._received()
            self._is_removed = True
            self.when_removed()

    @property
    def is_removed(self) -> bool:
        """Whether it meets no request any more."""
        return self._is_removed

    def must_have_hit(self, times: int | None = None) -> None:
        """Check that requests have met it; with `times`, just so many.

        Raises:
            FaultNotHit: they have not.
            WrongUse: `times` is no such number.
        """
        check(times=times)
        if self.hits == 0 or times not in (None, self.hits):
            raise failed(FaultNotHit(self.explain(times)))

    @property
    def why_passed(self) -> str:
        """Why requests in its scope may not have met it."""
        if self._skip:
            return f": skip lets {self._skip} more pass"
        if self._probability < 1:
            return f": the probability is {self._probability:g}"
        return ": a fault that was installed before met them"

    def begin(self, now_ms: int, number: int, received: Callable[[], int]) -> None:
        """Begin to meet requests.

        Args:
            now_ms: when its time limit starts, if it has one.
            number: its number.
            received: returns how many requests were received so far.
        """
        self.number = number
        self._received = received
        self.received = received()
        if self._for_seconds is not None:
            self.until_ms = now_ms + int(self._for_seconds * 1000)

    def is_over(self, now_ms: int) -> bool:
        """Return whether nothing can meet it any more."""
        return (
            self._is_removed
            or (self.until_ms is not None and now_ms >= self.until_ms)
            or (self._times is not None and self.hits >= self._times)
        )

    def covers(self, api: ApiKey, request: Request, broker: Services) -> bool:
        """Return whether the action and the scope concern a request."""
        return (self._apis is None or api in self._apis) and self.scope.covers(api, request, broker)

    def is_met(self, now_ms: int) -> bool:
        """Decide whether what it covers meets it, and count that."""
        if self.is_over(now_ms):
            return False
        if self._skip:
            self._skip -= 1
            return False
        if self._probability < 1 and self._random.random() >= self._probability:
            return False
        self.hits += 1
        return True


def scope_of(
    api: str | None,
    version: int | None,
    client_id: str | None,
    group: str | None,
    topic: str | None,
    connection_id: int | None,
    node_id: int | None,
) -> Scope:
    """Return a scope from what a test wrote.

    Raises:
        WrongUse: there is no such API.
    """
    named = None if api is None else api_named(api)
    return Scope(named, version, client_id, group, topic, connection_id, node_id)
