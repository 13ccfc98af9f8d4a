"""Every request gets one response, in time, and not before the records it depends on are durable.

A JoinGroup and a SyncGroup may wait for an event of their group, at most for the largest rebalance
timeout and the initial delay. Any other request waits for the log only. A repeated JoinGroup or
SyncGroup of the same member supersedes the delayed one, which gets no response.
"""

from typing import Any

from coterie.conformance.harness import PartitionLog
from coterie.protocol.errors import ErrorCode
from tests.simulation.call import Call
from tests.simulation.checks import oracle
from tests.simulation.checks.violation import Violation, require
from tests.simulation.log import is_pending

# Their responses show no durable state, so they do not wait for it [coordinator/reads-wait].
_NEVER_WAIT = ("Heartbeat", "ListGroups")


class OpenRequests:
    """The requests without a response.

    Attributes:
        open: by number.
        longest_rebalance_ms: the largest rebalance timeout of a JoinGroup so far.
        excused: by number, the errors that lost batches may have put in place of the expected one.
    """

    def __init__(self, logs: list[PartitionLog], longest_append_ms: int, delay_ms: int) -> None:
        self.logs = logs
        self.longest_append_ms = longest_append_ms
        self.delay_ms = delay_ms
        self.longest_rebalance_ms = 0
        self.open: dict[int, Call] = {}
        self.excused: dict[int, set[ErrorCode]] = {}

    def sent(self, call: Call, partitions: list[int]) -> None:
        """Note a request that is about to be passed to the coordinator."""
        self.open[call.number] = call
        call.behind = [
            (partition, self.logs[partition].pending[-1].number)
            for partition in partitions
            if self.logs[partition].pending
        ]

    def lost(self, numbers: set[int], error: ErrorCode) -> None:
        """Note lost batches: requests that wait for one of them may get this error."""
        for call in self.open.values():
            if any(number in numbers for _, number in call.batches + call.behind):
                self.excused.setdefault(call.number, set()).add(error)

    def superseded(self, call: Call) -> None:
        """Note that a repeated request took the place of this one."""
        call.superseded = True
        del self.open[call.number]

    def answered(self, call: Call, message: Any) -> None:
        """Check a response that leaves the coordinator."""
        require(not call.answered, "one-response", f"a second response: {call}")
        require(not call.superseded, "one-response", f"a response although superseded: {call}")
        require(call.number in self.open, "one-response", f"a response to a lost request: {call}")
        call.answered = True
        del self.open[call.number]
        self._check_durable(call, message)
        self._check_error(call, message)

    def _check_durable(self, call: Call, message: Any) -> None:
        """Check that the records of the request are durable, and those before it if it reads."""
        waits_for: list[tuple[int, int]] = []
        if not call.delayed:
            if call.api not in _NEVER_WAIT and not call.early:
                waits_for = call.batches + call.behind
        elif message.error_code == ErrorCode.NONE and (
            call.api == "SyncGroup"
            or ("replaces" in call.notes and message.generation_id == call.notes["replaces"])
        ):
            # When the first generation of a group begins, the record of the created group may still
            # be pending [joining/unknown-group]; that of an assignment may not.
            waits_for = call.batches
        for partition, number in waits_for:
            if is_pending(self.logs[partition], number):
                raise Violation(
                    "[coordinator/durable-responses]",
                    f"{message!r} leaves before batch {number}: {call}",
                )

    def _check_error(self, call: Call, message: Any) -> None:
        expected = call.expected
        excused = self.excused.pop(call.number, None)
        if call.api == "OffsetFetch":
            self._check_fetch(call, message, excused)
        if expected is None or expected == oracle.DELAYED:
            return
        actual = oracle.codes_of(call, message)
        if excused is not None:
            self._check_excused(call, actual, excused)
            return
        if actual != expected:
            raise Violation("error-codes", f"{expected!r} expected, not {actual!r}: {call}")

    def _check_fetch(self, call: Call, message: Any, excused: set[ErrorCode] | None) -> None:
        """Check that a fetch fails only with errors after which clients look for a coordinator."""
        allowed = [
            ErrorCode.NONE,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.NOT_COORDINATOR,
        ]
        if excused is not None:
            allowed.append(ErrorCode.UNKNOWN_SERVER_ERROR)
        for code in oracle.fetch_codes(message):
            require(code in allowed, "error-codes", f"{code} for {call}")

    def _check_excused(self, call: Call, actual: Any, excused: set[ErrorCode]) -> None:
        """Check that a lost batch leads to the translated error, and lost records to no success."""
        expected = call.expected
        in_parts = type(actual) is list and type(expected) is list and len(actual) == len(expected)
        pairs = zip(actual, expected, strict=True) if in_parts else [(actual, expected)]
        for code, expected_code in pairs:
            if code != expected_code and code not in excused:
                raise Violation(
                    "error-codes",
                    f"{excused!r} or {expected_code!r} expected, not {code!r}: {call}",
                )
        if call.batches and not in_parts:
            require(
                actual != ErrorCode.NONE,
                "[coordinator/durable-responses]",
                f"{call} succeeds although its records are lost",
            )

    def check(self, now_ms: int, waiting: set[int]) -> None:
        """Check that no request waits too long and that the coordinator has each open request.

        Args:
            now_ms: the time.
            waiting: the reply addresses that the coordinator holds.
        """
        for call in self.open.values():
            allowed_ms = self.longest_append_ms + 1
            if call.delayed:
                allowed_ms += self.longest_rebalance_ms
                allowed_ms += self.delay_ms if call.api == "JoinGroup" else 0
            if now_ms > call.sent_ms + allowed_ms:
                raise Violation(
                    "one-response", f"no response after {now_ms - call.sent_ms} ms: {call}"
                )
        if waiting != self.open.keys():
            forgotten = [self.open[number] for number in sorted(self.open.keys() - waiting)]
            extra = sorted(waiting - self.open.keys())
            raise Violation(
                "one-response", f"forgotten requests {forgotten}, kept after a response {extra}"
            )
