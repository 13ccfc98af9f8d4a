"""Every request is answered at most once, in time, and not before what it did is durable (I7, I12).

A JoinGroup and a SyncGroup may wait for an event of their group, as long as the largest rebalance
timeout and the initial delay; everything else only for the log. A retry of the same member takes
the place of the request that waits: that one is orphaned, and stays without an answer.
"""

from typing import Any

from coterie.protocol.errors import ErrorCode
from tests.simulation.call import Call
from tests.simulation.checks import oracle
from tests.simulation.checks.violation import Violation, require
from tests.simulation.log import PartitionLog

# What shows no durable state and never waits: neither does Kafka's (spec sections 6 and 11).
_NEVER_HELD = ("Heartbeat", "ListGroups")


class Ledger:
    """The requests that wait."""

    def __init__(self, logs: list[PartitionLog], longest_append_ms: int, delay_ms: int) -> None:
        self.logs = logs
        self.longest_append_ms = longest_append_ms
        self.delay_ms = delay_ms
        self.longest_rebalance_ms = 0
        self.open: dict[int, Call] = {}
        # Answers to requests that a failed append took with it, by what their clients are told.
        self.excused: dict[int, set[ErrorCode]] = {}

    def sent(self, call: Call, partitions: list[int]) -> None:
        """A request is about to be carried out."""
        self.open[call.number] = call
        call.behind = [
            (partition, self.logs[partition].pending[-1].number)
            for partition in partitions
            if self.logs[partition].pending
        ]

    def lost(self, numbers: set[int], told: ErrorCode) -> None:
        """The log lost batches: whoever waits for one is told so."""
        for call in self.open.values():
            if any(number in numbers for _, number in call.batches + call.behind):
                self.excused.setdefault(call.number, set()).add(told)

    def orphaned(self, call: Call) -> None:
        """A retry took this request's place."""
        call.orphaned = True
        del self.open[call.number]

    def answered(self, call: Call, message: Any) -> None:
        """An answer leaves the coordinator."""
        require(not call.answered, "I7", f"answered twice: {call}")
        require(not call.orphaned, "I7", f"answered although its retry took its place: {call}")
        require(call.number in self.open, "I7", f"answered, but nobody asks any more: {call}")
        call.answered = True
        del self.open[call.number]
        self._durable(call, message)
        self._as_told(call, message)

    def _durable(self, call: Call, message: Any) -> None:
        """What an answer says, and for other than parked requests also what they may have read, is
        durable.
        """
        waits_for: list[tuple[int, int]] = []
        if not call.parked:
            if call.api not in _NEVER_HELD and not call.early:
                waits_for = call.batches + call.behind
        elif message.error_code == ErrorCode.NONE and (
            call.api == "SyncGroup"
            or ("replaces" in call.notes and message.generation_id == call.notes["replaces"])
        ):
            # The record of a group that a JoinGroup made may still be on its way when the first
            # generation of the group begins (spec S6); that of an assignment may not.
            waits_for = call.batches
        for partition, number in waits_for:
            if self.logs[partition].is_pending(number):
                raise Violation("I12", f"{message!r} leaves before batch {number}: {call}")

    def _as_told(self, call: Call, message: Any) -> None:
        expected = call.expected
        told = self.excused.pop(call.number, None)
        if call.api == "OffsetFetch":
            self._fetched(call, message, told)
        if expected is None or expected == oracle.PARKS:
            return
        found = oracle.seen(call, message)
        if told is not None:
            self._as_excused(call, found, told)
            return
        if found != expected:
            raise Violation("tables", f"{expected!r} expected, not {found!r}: {call}")

    def _fetched(self, call: Call, message: Any, told: set[ErrorCode] | None) -> None:
        """Whoever reads offsets is told to look for another coordinator, whatever the log said."""
        codes = oracle.fetch_codes(message)
        retry = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
        if told is not None:
            retry += (ErrorCode.UNKNOWN_SERVER_ERROR,)
        for code in codes:
            require(code == ErrorCode.NONE or code in retry, "tables", f"{code} for {call}")

    def _as_excused(self, call: Call, found: Any, told: set[ErrorCode]) -> None:
        """A failed append took the answer with it: it carries the translated error, and no success
        where records of this request are lost.
        """
        expected = call.expected
        parts = type(found) is list and type(expected) is list and len(found) == len(expected)
        for code, wanted in zip(found, expected, strict=True) if parts else [(found, expected)]:
            if code != wanted and code not in told:
                raise Violation("tables", f"{told!r} or {wanted!r}, not {code!r}: {call}")
        if call.batches and not parts:
            require(found != ErrorCode.NONE, "I12", f"{call} succeeds, its records are lost")

    def check(self, now_ms: int, waiting: set[int]) -> None:
        """Nobody waits too long; everybody who waits is known to the coordinator.

        Args:
            now_ms: the time.
            waiting: reply addresses the coordinator holds, parked or held.
        """
        for call in self.open.values():
            allowed_ms = self.longest_append_ms + 1
            if call.parked:
                allowed_ms += self.longest_rebalance_ms
                allowed_ms += self.delay_ms if call.api == "JoinGroup" else 0
            if now_ms > call.sent_ms + allowed_ms:
                raise Violation("I7", f"no answer after {now_ms - call.sent_ms} ms: {call}")
        if waiting != self.open.keys():
            lost = [self.open[number] for number in sorted(self.open.keys() - waiting)]
            extra = sorted(waiting - self.open.keys())
            raise Violation("I7", f"forgotten requests {lost}, answered but waiting {extra}")
