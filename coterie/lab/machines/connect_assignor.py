"""The leader of Connect's workers: who runs which connectors and tasks (KIP-415).

`assign_eager` deals everything anew in each generation. `IncrementalAssignor` changes as little as
it can: it revokes what is too much on a worker, and waits with the work of a lost worker until its
delay has passed, because the worker may come back. It remembers its own last assignment, so a new
leader knows less than the one before.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

CONNECTOR = -1
# A connector with CONNECTOR, or one of its tasks.
Unit = tuple[str, int]

# The time between revoking rounds grows by this factor, from a millisecond on.
_BACKOFF_FACTOR = 40


class Round(NamedTuple):
    """What a round of the leader comes to.

    Attributes:
        assigned, revoked: by worker, what it is to start and to stop.
        delay_ms: when all workers are to rejoin; 0 for not at all.
    """

    assigned: dict[str, list[Unit]]
    revoked: dict[str, list[Unit]]
    delay_ms: int


def assign_eager(units: Iterable[Unit], workers: Iterable[str]) -> dict[str, list[Unit]]:
    """Deal connectors and then tasks in a circle over the sorted workers."""
    ordered = sorted(workers)
    assigned: dict[str, list[Unit]] = {worker: [] for worker in ordered}
    for index, unit in enumerate(_connectors(units) + _tasks(units)):
        assigned[ordered[index % len(ordered)]].append(unit)
    return assigned


class IncrementalAssignor:
    """The state of a leader between rounds.

    Attributes:
        max_delay_ms: `scheduled.rebalance.max.delay.ms`.
        backs_off: whether revoking rounds in a row are delayed (3.4 on, KAFKA-12495); before, a
            flag forbade the second one.
        delay_ms: the delay of the last round.
    """

    def __init__(self, max_delay_ms: int, *, backs_off: bool = True) -> None:
        self.max_delay_ms = max_delay_ms
        self.backs_off = backs_off
        self.delay_ms = 0
        self._scheduled_ms = 0
        self._previous: set[Unit] = set()
        self._previous_generation = -1
        self._previous_workers: set[str] = set()
        self._previous_revocation: set[Unit] = set()
        self._candidates: list[str] = []
        self._revoked_in_previous = False
        self._successive = 0
        self._may_revoke = True

    def assign(
        self,
        configured: Iterable[Unit],
        running: Mapping[str, Sequence[Unit]],
        generation: int,
        completed_generation: int,
        now_ms: int,
    ) -> Round:
        """Compute a round.

        Args:
            configured: all connectors and tasks.
            running: what each worker reports to run.
            generation: the generation of the round.
            completed_generation: the last one that the leader completed as a member.
            now_ms: the time.
        """
        if self._previous_generation != completed_generation:
            self._previous = set()
        configured = set(configured)
        active = {unit for units in running.values() for unit in units}
        if self._previous_revocation & active:
            # The last revocation has not taken effect.
            self._previous = set(active)
        self._previous_revocation = set()

        deleted = self._previous - configured
        lost = self._previous - active - deleted
        created = configured - self._previous - active
        unwanted = deleted | _duplicated(running)
        revoked = {
            worker: [unit for unit in units if unit in unwanted]
            for worker, units in sorted(running.items())
        }
        following = {
            worker: [unit for unit in units if unit not in unwanted]
            for worker, units in sorted(running.items())
        }
        due = self._lost_that_is_due(lost, following, now_ms)
        for worker, units in self._balancing_revocations(configured, following, now_ms).items():
            revoked[worker] += units
            following[worker] = [unit for unit in following[worker] if unit not in units]
        assign_to_least_loaded(following, created | due)

        self._previous = {unit for units in following.values() for unit in units} | lost
        self._previous_revocation = {unit for units in revoked.values() for unit in units}
        self._previous -= self._previous_revocation - lost
        self._previous_generation = generation
        self._previous_workers = set(running)
        return Round(
            {
                worker: [unit for unit in units if unit not in running[worker]]
                for worker, units in following.items()
            },
            revoked,
            self.delay_ms,
        )

    # -- lost work ---------------------------------------------------------------------------------

    def _lost_that_is_due(
        self, lost: set[Unit], following: dict[str, list[Unit]], now_ms: int
    ) -> set[Unit]:
        """Return the lost work to assign as if it were new; delay the rest."""
        if not lost and not self._revoked_in_previous:
            self._reset_delay()
            return set()
        if self._scheduled_ms <= 0 and self._previous_workers <= following.keys():
            # No worker has left: some did not receive their last assignment.
            return lost
        if not self.max_delay_ms:
            return lost
        if 0 < self._scheduled_ms <= now_ms:
            candidates = [worker for worker in self._candidates if worker in following]
            for units in (_connectors(lost), _tasks(lost)):
                for index, unit in enumerate(units if candidates else ()):
                    following[candidates[index % len(candidates)]].append(unit)
            self._reset_delay()
            self._revoked_in_previous = False
            return set() if candidates else lost
        self._candidates += [
            worker
            for worker, units in following.items()
            if not units and worker not in self._candidates
        ]
        if now_ms < self._scheduled_ms:
            self.delay_ms = min(self._scheduled_ms - now_ms, self.max_delay_ms)
        else:
            self.delay_ms = self.max_delay_ms
        self._scheduled_ms = now_ms + self.delay_ms
        return set()

    def _reset_delay(self) -> None:
        self._candidates = []
        self._scheduled_ms = 0
        self.delay_ms = 0

    # -- balance -----------------------------------------------------------------------------------

    def _balancing_revocations(
        self, configured: set[Unit], following: dict[str, list[Unit]], now_ms: int
    ) -> dict[str, list[Unit]]:
        """Return what workers with too much have to give up in this round."""
        if not self.backs_off:
            return self._revocations_of_2_3(configured, following)
        if self.delay_ms:
            self._revoked_in_previous = False
            return {}
        revocations = overload(configured, following)
        if not revocations:
            if self._revoked_in_previous:
                self._successive = 0
                self._revoked_in_previous = False
            return {}
        if not self._revoked_in_previous:
            self._revoked_in_previous = True
            return revocations
        self._successive += 1
        self.delay_ms = min(_BACKOFF_FACTOR**self._successive, self.max_delay_ms)
        if not self.delay_ms:
            return revocations
        self._scheduled_ms = now_ms + self.delay_ms
        return {}

    def _revocations_of_2_3(
        self, configured: set[Unit], following: dict[str, list[Unit]]
    ) -> dict[str, list[Unit]]:
        """Never revoke in two rounds in a row."""
        self._may_revoke = self._may_revoke and not self.delay_ms
        if not self._may_revoke:
            self._may_revoke = not self.delay_ms
            return {}
        revocations = overload(configured, following)
        self._may_revoke = not revocations
        return revocations


def overload(
    configured: Iterable[Unit], following: Mapping[str, Sequence[Unit]]
) -> dict[str, list[Unit]]:
    """Return what each worker has beyond its share, connectors and tasks apart."""
    found: dict[str, list[Unit]] = {}
    if not any(following.values()):
        return found
    for kind in (_connectors, _tasks):
        least, extra = divmod(len(kind(configured)), len(following))
        loads = {worker: kind(units, in_order=False) for worker, units in following.items()}
        sizes = [len(units) for units in loads.values()]
        balanced = sizes.count(least) + sizes.count(least + 1) == len(sizes)
        if balanced and sizes.count(least + 1) == extra:
            continue
        for worker, units in loads.items():
            if len(units) <= least:
                continue
            most = least
            if extra:
                extra -= 1
                most += 1
            if len(units) > most:
                found.setdefault(worker, []).extend(units[: len(units) - most])
    return found


def assign_to_least_loaded(following: dict[str, list[Unit]], units: Iterable[Unit]) -> None:
    """Add units to workers: level by level, connectors first, then tasks."""
    for kind in (_connectors, _tasks):
        new = kind(units)
        loads = {worker: len(kind(given)) for worker, given in following.items()}
        order = sorted(loads, key=lambda worker: (loads[worker], worker))
        while new:
            lowest = loads[order[0]]
            higher = (index for index, worker in enumerate(order) if loads[worker] > lowest)
            for worker in order[: next(higher, len(order))]:
                if not new:
                    break
                following[worker].append(new.pop(0))
                loads[worker] += 1


def _duplicated(running: Mapping[str, Sequence[Unit]]) -> set[Unit]:
    seen: set[Unit] = set()
    twice: set[Unit] = set()
    for units in running.values():
        twice |= seen & set(units)
        seen |= set(units)
    return twice


def _connectors(units: Iterable[Unit], *, in_order: bool = True) -> list[Unit]:
    return _of_kind(units, lambda unit: unit[1] == CONNECTOR, in_order=in_order)


def _tasks(units: Iterable[Unit], *, in_order: bool = True) -> list[Unit]:
    return _of_kind(units, lambda unit: unit[1] != CONNECTOR, in_order=in_order)


def _of_kind(
    units: Iterable[Unit], matches: Callable[[Unit], bool], *, in_order: bool
) -> list[Unit]:
    found = [unit for unit in units if matches(unit)]
    return sorted(found) if in_order else found
