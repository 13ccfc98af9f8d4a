"""Runs the scenarios: first the one that shows what the client is, then the others together.

A stage makes brokers and programs: with sockets and processes, or in virtual time in tests.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from coterie.client_check.broker import ScriptedBroker
from coterie.client_check.lines import conversation_lines
from coterie.client_check.membership import CLASSIC, CONSUMER
from coterie.client_check.model import Check, Judgement, NotReached, Profile, Scenario
from coterie.client_check.program import CommandNotUsable, Program
from coterie.client_check.run import (
    CLIENT_ID,
    GROUP,
    OTHER_TOPIC,
    PARTITIONS,
    RECORDS,
    TOPIC,
    Run,
)
from coterie.conformance.results import Result, reason_of

_OTHER_PARTITIONS = 2
# A scenario that has not ended by then never does.
_SCENARIO_LIMIT_S = 240.0
# A client that does not begin to read, although nothing is in its way, is started up to two times
# more, so that the scenario can be played.
_TRIES = 3

STARTS = Check(
    "reading/starts-each-time",
    "In each of the runs the client begins to read, if nothing is in its way.",
    "[joining/join-completion]",
)

Report = Callable[[Scenario, list[Result]], None]


def played(scenarios: Iterable[Scenario], protocol: str, *, secured: bool) -> list[Scenario]:
    """Return the scenarios of a protocol of groups, in order; some only if the client logs in."""
    return [
        each
        for each in scenarios
        if protocol in each.protocols and (secured or not each.is_secured)
    ]


class Stage(Protocol):
    """Where scenarios are played."""

    async def open_broker(self) -> ScriptedBroker:
        """Return a broker that listens."""

    async def close_broker(self, broker: ScriptedBroker) -> None:
        """Stop a broker and its listeners."""

    def make_program(self) -> Program:
        """Return the program, which is not started yet."""


class Suite:
    """The scenarios of one command.

    Attributes:
        profile: what is known of the client.
        results: the results so far, by the names of checks.
    """

    def __init__(
        self,
        stage: Stage,
        scenarios: Sequence[Scenario],
        places: set[str],
        *,
        protocol: str = CLASSIC,
        security: Mapping[str, str] | None = None,
        parallel: int,
        report: Report,
        wanted: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Prepare the scenarios.

        Args:
            stage: makes brokers and programs.
            scenarios: all of them; the first one of a protocol shows what the client is.
            places: the names in braces in the command.
            protocol: the protocol of groups that the client shall speak.
            security: what is substituted for the login of the client; None for no login.
            parallel: how many run at once.
            report: is called with the results of each scenario.
            wanted: whether a check, by its name, takes part.
        """
        self.profile = Profile(places)
        self.results: dict[str, Result] = {}
        self._stage = stage
        self._protocol = protocol
        self._security = security
        secured = security is not None
        self._first, *self._others = played(scenarios, protocol, secured=secured)
        self._slots = asyncio.Semaphore(parallel)
        self._report = report
        self._wanted = wanted
        self._runs = 0
        self._failed_starts = 0

    async def run(self) -> list[Result]:
        """Play all scenarios; return the results in the order of the checks.

        Raises:
            CommandNotUsable: the command cannot be started, or never connects.
        """
        await self._play(self._first)
        async with asyncio.TaskGroup() as tasks:
            for each in self._others:
                if any(self._wanted(check.name) for check in each.checks):
                    tasks.create_task(self._in_turn(each))
        if self._wanted(STARTS.name):
            self._judge_starts()
        return [
            self.results[check.name]
            for each in (self._first, *self._others)
            for check in each.checks
            if check.name in self.results
        ] + [self.results[name] for name in (STARTS.name,) if name in self.results]

    def _judge_starts(self) -> None:
        count, runs = self._failed_starts, self._runs
        result = Result(STARTS.name, Judgement.PASS, STARTS.sentence, STARTS.source)
        if count:
            reason = f"in {count} of {runs} runs it did not begin to read within 30 s"
            result = result._replace(status=Judgement.BREAKS, reason=reason)
        self.results[STARTS.name] = result

    async def _in_turn(self, scenario: Scenario) -> None:
        async with self._slots:
            await self._play(scenario)

    async def _play(self, scenario: Scenario) -> None:
        lacking = {each.name: self._lacking(each.needs) for each in scenario.checks}
        if scenario is not self._first and all(lacking.values()):
            self._conclude(scenario, None, lacking, 0.0)
            return
        stuck = 0
        for _ in range(_TRIES):
            began_s = time.monotonic()
            run = await self._run_of(scenario)
            self._runs += 1
            if not run.has_not_started and not run.is_stuck:
                self._failed_starts += stuck
                break
            # Silence that comes each time is what the client does in this scenario.
            if run.has_not_started:
                self._failed_starts += 1
            else:
                stuck += 1
        if scenario is self._first:
            self._must_have_connected(run)
            self._must_speak(run)
        self._conclude(scenario, run, lacking, time.monotonic() - began_s)

    async def _run_of(self, scenario: Scenario) -> Run:
        broker = await self._stage.open_broker()
        values = self._values(scenario)
        run = Run(scenario, broker, self._stage.make_program, self.profile, values)
        try:
            await self._played(run)
        finally:
            await run.program.kill()
            await self._stage.close_broker(broker)
        return run

    def _lacking(self, needs: Sequence[str]) -> str:
        return next((text for need in needs if (text := self.profile.lacks(need))), "")

    def _values(self, scenario: Scenario) -> Mapping[str, str]:
        return {
            "topic": TOPIC,
            "group": GROUP,
            "client_id": CLIENT_ID,
            "instance_id": "",
            "regex": "",
            "assignor": "range",
            "protocol": self._protocol,
            **(self._security or {}),
            **scenario.values,
        }

    async def _played(self, run: Run) -> None:
        broker = run.broker
        run.values["bootstrap"] = str(broker.addresses[1])
        await broker.create_topic(TOPIC, PARTITIONS)
        await broker.create_topic(OTHER_TOPIC, _OTHER_PARTITIONS)
        for topic, count in ((TOPIC, PARTITIONS), (OTHER_TOPIC, _OTHER_PARTITIONS)):
            for partition in range(count):
                values = [f"{partition}-{number}" for number in range(RECORDS)]
                await broker.produce(topic, partition, values)
        try:
            async with asyncio.timeout(_SCENARIO_LIMIT_S):
                await run.scenario.play(run)
        except NotReached as early:
            run.is_stuck = run.is_silent
            status, reason = early.status, str(early)
            if run.scenario.values and run.program.exit_code and not run.joins():
                # The program does not know what the scenario has put into its command.
                status = Judgement.SKIPPED
                errors = run.program.last_errors()
                said = f": {errors[-1]}" if errors else ""
                code = run.program.exit_code
                reason = f"with {_given(run.scenario)} the program ended with {code}{said}"
            for each in run.scenario.checks:
                run.verdict(each.name, status, reason)
        except TimeoutError:
            for each in run.scenario.checks:
                text = f"not finished within {_SCENARIO_LIMIT_S:g} s"
                run.verdict(each.name, Judgement.BREAKS, text)
        except CommandNotUsable:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the other checks go on
            for each in run.scenario.checks:
                run.verdict(each.name, Judgement.ERROR, reason_of(error))

    def _must_have_connected(self, run: Run) -> None:
        """Check that the program has talked to the broker at all.

        Raises:
            CommandNotUsable: it has not; the text says what happened instead.
        """
        if run.talk.exchanges:
            return
        bootstrap = run.values["bootstrap"]
        errors = "".join(f"\n  {line}" for line in run.program.last_errors())
        said = f" It wrote:{errors}" if errors else ""
        if run.talk.of_kind("connected"):
            text = f"the program connected to {bootstrap} but sent no request of Kafka's protocol"
        elif run.program.exit_code is not None:
            text = (
                f"the program ended with {run.program.exit_code} before it connected to {bootstrap}"
            )
        else:
            text = f"the program runs, but never connected to {bootstrap}"
        raise CommandNotUsable(f"{text}.{said}")

    def _must_speak(self, run: Run) -> None:
        """Check that the program joins with the protocol that was asked for.

        Raises:
            CommandNotUsable: it joins with the other one.
        """
        other = {CLASSIC: "ConsumerGroupHeartbeat", CONSUMER: "JoinGroup"}[self._protocol]
        if run.joins() or not run.talk.of(other):
            return
        raise CommandNotUsable(
            f"the program joins with {other}: it does not speak the protocol '{self._protocol}'."
            " {protocol} in the command is replaced by it, for group.protocol of the client"
        )

    def _conclude(
        self, scenario: Scenario, run: Run | None, lacking: Mapping[str, str], seconds: float
    ) -> None:
        lines: tuple[str, ...] | None = None
        found: list[Result] = []
        for check in scenario.checks:
            if not self._wanted(check.name):
                continue
            verdict = None if run is None else run.verdicts.get(check.name)
            reason = self._lacking(check.needs) if run is not None else lacking[check.name]
            if verdict is not None and verdict.status is Judgement.ERROR:
                status, reason = verdict
            elif run is not None and run.has_not_started and scenario is not self._first:
                status = Judgement.SKIPPED
                reason = f"the client did not begin to read, see {STARTS.name}"
            elif verdict is None or (reason and verdict.status is not Judgement.PASS):
                status = Judgement.SKIPPED
                reason = reason or "the scenario ended before this was seen"
            else:
                status, reason = verdict
            shown: tuple[str, ...] = ()
            if run is not None and status is not Judgement.PASS and run.verdicts.get(check.name):
                if lines is None:
                    lines = tuple(conversation_lines(run.talk, run.broker.topic_names))
                shown = lines
            found.append(
                Result(check.name, status, check.sentence, check.source, reason, shown, seconds)
            )
        self.results |= {each.name: each for each in found}
        self._report(scenario, found)


def _given(scenario: Scenario) -> str:
    return " and ".join(f"{{{name}}} = {value}" for name, value in scenario.values.items())
