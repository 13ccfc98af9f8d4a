"""Runs checks side by side: they mostly wait, so hundreds take as long as the longest.

Invariant: everything that a run creates on the broker begins with its prefix, and is removed at
the end, also if the run is interrupted.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from coterie.conformance.checks.check import Check
from coterie.conformance.checks.cleanup import remove_everything
from coterie.conformance.checks.group_settings import DELAY
from coterie.conformance.checks.preconditions import reason_to_skip, uses_groups
from coterie.conformance.checks.stopped import BrokerStoppedError, Stop, stop_of
from coterie.conformance.comparison import Deviation
from coterie.conformance.over_tcp.connection import RefusedError
from coterie.conformance.over_tcp.diagnosis import stopped
from coterie.conformance.over_tcp.driver import Said, TcpDriver, topics_in
from coterie.conformance.over_tcp.target import Target, TopicSpec
from coterie.conformance.releases import Release
from coterie.conformance.results import Result, Status, reason_of
from coterie.conformance.transcript import ResponseError, parse
from coterie.conversation.learnt_names import LearntNames
from coterie.conversation.syntax import TranscriptError
from coterie.protocol.errors import MalformedFrame

# Checks at once. Each has a few connections and uses almost no processor time.
PARALLEL = 120
PREFIX = "coterie-check-"
# A check that takes so much longer than its waits hangs.
_GRACE_S = 60.0
_SHARED_PARTITIONS = 4
_CHANGES_TOPICS = ("create-topic ", "grow-topic ", "delete-topic ")
# A broker, or this process, may be too busy for a check that waits: it then runs again, with fewer
# beside it.
REPEATS = 2
_REPEATED_AT_ONCE = 16
# If more deviate, the broker is wrong, not busy.
_MOST_REPEATED = 32
_BAD = (Status.DEVIATES, Status.FAILS)
# Malformed frames may end a broker: they come last, one at a time, so that the frame is known.
_APART = "frames"
# Shows whether a broker has an initial delay, and the check that says so.
_FIRST_JOIN = parse(
    """\
# The first member of a group waits.

c1> JoinGroup v9 member=""
----
c1< JoinGroup v9 error=MEMBER_ID_REQUIRED member=c1-1

c1> JoinGroup v9 member=c1-1
tick 500ms
----
c1  (delayed)
""",
    Path("first join"),
)
_SHOWS_THE_DELAY = "initial_delay/no_response_before_the_delay_ends"


class CheckOutcome(NamedTuple):
    """What one check found.

    Attributes:
        check: the check.
        status: pass; deviates if a response is not as expected; fails if the broker closed the
            connection or did not answer; skipped if the check does not apply; error if the check
            itself has failed.
        reason: one sentence; empty for a pass.
        deviations: the responses that are not as expected.
        conversation: what was sent and received up to there.
        seconds: how long it took.
    """

    check: Check
    status: Status
    reason: str = ""
    deviations: Sequence[Deviation] = ()
    conversation: Sequence[Said] = ()
    seconds: float = 0.0

    @property
    def result(self) -> Result:
        """The outcome as programs get it."""
        lines = tuple(said.text for said in self.conversation)
        check = self.check
        return Result(
            check.name, self.status, check.sentence, check.source, self.reason, lines, self.seconds
        )


class Options(NamedTuple):
    """How to run.

    Attributes:
        release: whose behaviour is expected.
        thorough: whether checks with long waits run too.
        parallel: how many checks run at once.
        prefix: begins every name on the broker.
        repeats: how often a check that waits and deviates is repeated.
        run_id: follows the prefix; by default a random one.
    """

    release: Release
    thorough: bool = False
    parallel: int = PARALLEL
    prefix: str = PREFIX
    repeats: int = REPEATS
    run_id: str = ""


class Run:
    """One run of checks against a broker.

    Attributes:
        prefix: of every name that this run creates, with an id of its own.
        leftovers: what could not be removed at the end.
        stop: how the broker stopped listening; None if it did not.
    """

    def __init__(self, target: Target, options: Options) -> None:
        """Prepare a run."""
        self.target = target
        self.options = options
        self.prefix = f"{options.prefix}{options.run_id or secrets.token_hex(4)}-"
        self.leftovers: list[str] = []
        self.stop: Stop | None = None
        self._begun: list[tuple[Check, TcpDriver]] = []
        # The names of each check.
        self._names: list[LearntNames] = []
        self._shared_ids: dict[str, bytes] = {}
        # Why no topics can be created, and why groups cannot be used; empty if they can.
        self._no_topics = ""
        self._no_groups = ""
        # Whether the broker has no initial delay and does not say so.
        self._lacks_delay = False

    async def all(self, checks: Iterable[Check], done: Callable[[CheckOutcome], None]) -> None:
        """Run checks and report each result as it comes, until the broker stops listening."""
        checks = tuple(checks)
        reported: dict[str, Status] = {}

        def report(outcome: CheckOutcome) -> None:
            reported[outcome.check.name] = outcome.status
            done(outcome)

        try:
            await self._run(checks, report)
        except* BrokerStoppedError as errors:
            carried_out = sum(each is not Status.SKIPPED for each in reported.values())
            self.stop = stop_of(str(errors.exceptions[0]), self._begun, carried_out)
            begun = {check.name for check, _ in self._begun}
            for check in checks:
                if check.name not in reported:
                    reason = self.stop.reason(was_begun=check.name in begun)
                    report(CheckOutcome(check, Status.SKIPPED, reason))
        finally:
            if self.stop is None:
                self.leftovers = await remove_everything(self.target, self.prefix, self._names)
            else:
                self.leftovers = [f"{self.prefix}*: the broker stopped {self.stop.what}"]

    async def _run(self, checks: Sequence[Check], done: Callable[[CheckOutcome], None]) -> None:
        ready, skipped = self.plan(checks)
        await self._prepare(ready)
        if any(map(uses_groups, ready)) and await self._has_no_delay():
            ready, skipped = self.plan(checks)
        for outcome in skipped:
            done(outcome)
        # The longest first: the others run beside them.
        ready.sort(key=lambda check: -check.waits_ms)
        doubtful: list[CheckOutcome] = []

        def first(outcome: CheckOutcome) -> None:
            is_doubtful = outcome.status in _BAD and _is_timed(outcome.check)
            (doubtful.append if is_doubtful else done)(outcome)

        apart = [each for each in ready if each.area == _APART and not each.waits_ms]
        together = [each for each in ready if each not in apart]
        await self._side_by_side(together, self.options.parallel, first)
        await self._side_by_side(apart, 1, first)
        for outcome in await self._repeat(doubtful):
            done(outcome)

    async def _side_by_side(
        self, checks: Sequence[Check], parallel: int, done: Callable[[CheckOutcome], None]
    ) -> None:
        gate = asyncio.Semaphore(parallel)

        async def run(check: Check) -> None:
            async with gate:
                outcome = await self.one(check)
                if _is_silent(outcome) and (
                    what := await stopped(self.target.address, self.target.security.context)
                ):
                    raise BrokerStoppedError(what)
                done(outcome)

        async with asyncio.TaskGroup() as group:
            for check in checks:
                group.create_task(run(check))

    async def _repeat(self, doubtful: list[CheckOutcome]) -> list[CheckOutcome]:
        """Run checks again whose time may have been disturbed, and return their outcomes.

        A check that passes then says so, because a broker may also be wrong now and then.
        """
        final: list[CheckOutcome] = []
        if len(doubtful) > _MOST_REPEATED:
            return doubtful
        for _ in range(self.options.repeats):
            before = {each.check.name: each.reason for each in doubtful}
            again, doubtful = [each.check for each in doubtful], []
            outcomes: list[CheckOutcome] = []
            await self._side_by_side(again, _REPEATED_AT_ONCE, outcomes.append)
            for outcome in outcomes:
                if outcome.status in _BAD:
                    doubtful.append(outcome)
                else:
                    reason = f"passed when repeated; before: {before[outcome.check.name]}"
                    final.append(outcome._replace(reason=outcome.reason or reason))
        return [*final, *doubtful]

    def plan(self, checks: Iterable[Check]) -> tuple[list[Check], list[CheckOutcome]]:
        """Return the checks that would run, and the others with the reason."""
        ready, skipped = [], []
        for check in checks:
            reason = reason_to_skip(
                check, self.target, self.options.release, thorough=self.options.thorough
            )
            if self._lacks_delay and check.name == _SHOWS_THE_DELAY:
                reason = ""
            elif self._lacks_delay and DELAY in reason:
                reason = f"{reason}: see {_SHOWS_THE_DELAY}"
            if reason:
                skipped.append(CheckOutcome(check, Status.SKIPPED, reason))
            else:
                ready.append(check)
        return ready, skipped

    async def _has_no_delay(self) -> bool:
        """Find out whether a first JoinGroup is answered at once although a delay is expected.

        Then one check says so, and the checks that rely on the delay are left out.
        """
        if self.target.settings.get(DELAY) == "0" or self._no_groups:
            return False
        driver = TcpDriver(self.target, self._new_names(self.prefix))
        try:
            await driver.run(_FIRST_JOIN)
        except (TranscriptError, OSError, TimeoutError):
            return False
        finally:
            driver.close()
        if not any(" generation=1 " in said.text for said in driver.conversation):
            return False
        self._lacks_delay = True
        self.target.settings[DELAY] = "0"
        return True

    def _new_names(self, shared: str | None) -> LearntNames:
        """Return names that no other check of this run has."""
        names = LearntNames(f"{self.prefix}{len(self._names)}-", shared, self.target.coordinates)
        self._names.append(names)
        return names

    async def _prepare(self, checks: Sequence[Check]) -> None:
        """Create the topics that transcripts of groups share, and wait for the coordinator."""
        self._no_groups = await self.target.wait_for_coordinator(f"{self.prefix}probe")
        topics = {
            topic
            for check in checks
            if not _has_own_topics(check)
            for request in check.requests
            for topic in topics_in(request)
        }
        specs = [TopicSpec(f"{self.prefix}{name}", _SHARED_PARTITIONS) for name in sorted(topics)]
        try:
            ids = await self.target.create_topics(specs) if specs else {}
        except RefusedError as refusal:
            self._no_topics = str(refusal)
            return
        self._shared_ids = {name.removeprefix(self.prefix): each for name, each in ids.items()}

    async def one(self, check: Check) -> CheckOutcome:
        """Run one check, under names of its own."""
        reason = self._refusal(check)
        if reason:
            return CheckOutcome(check, Status.SKIPPED, reason)
        shared = None if _has_own_topics(check) else self.prefix
        names = self._new_names(shared)
        if shared is not None:
            names.topic_ids.update(self._shared_ids)
        driver = TcpDriver(self.target, names)
        self._begun.append((check, driver))
        began_s = time.monotonic()
        try:
            await self._create_topics(check, names)
            await driver.users.create(check.users)
            async with asyncio.timeout(check.waits_ms / 1000 + _GRACE_S):
                found = await driver.run(check.transcript)
        except RefusedError as refusal:
            return CheckOutcome(check, Status.SKIPPED, str(refusal))
        except TimeoutError:
            return _failure(check, driver, "the broker does not answer", began_s)
        except (ResponseError, MalformedFrame, OSError) as error:
            return _failure(check, driver, str(error) or type(error).__name__, began_s)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other checks go on
            return _failure(check, driver, reason_of(error), began_s, Status.ERROR)
        finally:
            driver.close()
        return _result(check, driver, found, time.monotonic() - began_s)

    def _refusal(self, check: Check) -> str:
        if self._no_topics and (check.topics or any(topics_in(each) for each in check.requests)):
            return self._no_topics
        if self._no_groups and check.transcript.path.suffix == ".txt":
            return f"the broker refuses to coordinate groups: {self._no_groups}"
        return ""

    async def _create_topics(self, check: Check, names: LearntNames) -> None:
        specs = [each._replace(name=names.own(each.name)) for each in check.topics]
        if specs:
            ids = await self.target.create_topics(specs)
            names.topic_ids.update({each.name: ids[names.own(each.name)] for each in check.topics})


def _has_own_topics(check: Check) -> bool:
    """Return whether a check needs topics of its own, because it creates or deletes one."""
    return any(
        command.text.startswith(_CHANGES_TOPICS)
        for block in check.transcript.blocks
        for command in block.commands
    )


def _is_silent(outcome: CheckOutcome) -> bool:
    """Return whether the broker has closed a connection, or something got no answer."""
    return outcome.status is Status.FAILS or any(
        said.text.endswith("< closed") for said in outcome.conversation
    )


def _is_timed(check: Check) -> bool:
    """Return whether a check depends on how fast broker and client are."""
    return any(
        command.text.startswith(("tick ", "given "))
        for block in check.transcript.blocks
        for command in block.commands
    )


def _failure(
    check: Check, driver: TcpDriver, reason: str, began_s: float, status: Status = Status.FAILS
) -> CheckOutcome:
    seconds = time.monotonic() - began_s
    return CheckOutcome(check, status, reason, (), driver.conversation, seconds)


def _result(
    check: Check, driver: TcpDriver, found: Sequence[Deviation], seconds: float
) -> CheckOutcome:
    if not found:
        return CheckOutcome(check, Status.PASS, "", (), driver.conversation, seconds)
    status, reason = Status.DEVIATES, _reason(found[0])
    if any(each.expected and not each.received for each in found):
        status, reason = Status.FAILS, "the broker did not answer"
    if any(_is_closed(each.received) and not _is_closed(each.expected) for each in found):
        status, reason = Status.FAILS, "the broker closed the connection"
    if "ours" in check.transcript.needs:
        status = Status.SKIPPED
        reason = "Kafka leaves this open, and this broker decides otherwise than Coterie"
    return CheckOutcome(check, status, reason, found, driver.conversation, seconds)


def _is_closed(lines: Sequence[str]) -> bool:
    return bool(lines) and lines[0].endswith("< closed")


def _reason(deviation: Deviation) -> str:
    first = deviation.fields[0]
    more = len(deviation.fields) - 1
    text = f"{first.path}: expected {first.expected}, received {first.received}"
    return f"{text}, and {more} more" if more else text
