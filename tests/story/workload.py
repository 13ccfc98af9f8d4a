"""Runs the groups of the story, a few at a time, each in a thread of its own."""

import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.live.conftest import create_topic
from tests.live.deadlines import eventually
from tests.live.groups import GroupView, produce_rows, producing
from tests.live.members import Members, summaries
from tests.story.record import KILLED, LEFT, Record, Session
from tests.story.scenario import Scenario, Step

ROWS = 60
PER_SECOND = 12.0
LIMIT_S = 90.0


class Workload:
    """A run of the story against one broker.

    Attributes:
        record: the independent log.
    """

    def __init__(self, bootstrap: str, session_ms: int, suffix: str = "") -> None:
        """Prepare a run.

        Args:
            bootstrap: the broker.
            session_ms: the session timeout of the members.
            suffix: ends the names of groups and topics, for a broker that has been used before.
        """
        self.bootstrap = bootstrap
        self.session_ms = session_ms
        self.suffix = suffix
        self.record = Record()
        self.members = Members(bootstrap)
        self._live: dict[str, dict[str, Session]] = {}

    def run(self, scenarios: Sequence[Scenario], at_once: int = 4) -> None:
        """Run all groups to the end of their steps. The members that are left stay alive."""
        with ThreadPoolExecutor(at_once) as pool:
            for done in [pool.submit(self._group, scenario) for scenario in scenarios]:
                done.result()
        self.record.remember_commits()

    def carry_on(self, scenario: Scenario) -> None:
        """Run more steps of a group that has run before."""
        self._steps(scenario, self._live[scenario.group])

    def close(self) -> None:
        """End all members."""
        self.members.close()

    def name(self, scenario: Scenario) -> str:
        """Return the id of a group."""
        return scenario.group + self.suffix

    def topics(self, scenario: Scenario) -> list[str]:
        """Return the names of its topics."""
        return [f"{self.name(scenario)}-{number}" for number in range(scenario.topics)]

    def _group(self, scenario: Scenario) -> None:
        topics = self.topics(scenario)
        for topic in topics:
            create_topic(self.bootstrap, topic, scenario.partitions)
            produce_rows(self.bootstrap, topic, scenario.partitions, ROWS)
        live = self._live.setdefault(scenario.group, {})
        # A member that reads nothing commits nothing, and commits show that it was alive.
        with producing(self.bootstrap, topics[0], scenario.partitions, PER_SECOND):
            self._steps(scenario, live)

    def _steps(self, scenario: Scenario, live: dict[str, Session]) -> None:
        topics = self.topics(scenario)
        subscribed = topics[:1]
        for step in scenario.steps:
            if step.kind == "start":
                live[step.client] = self._start(scenario, step, topics[0])
            elif step.kind in (LEFT, KILLED):
                live.pop(step.client).finish(step.kind)
            elif step.kind == "pause":
                self._pause(scenario, live, step.client)
            elif step.kind == "subscribe":
                subscribed = topics
                live[step.client].member.subscribe(topics)
            else:
                self._settle(scenario, live, subscribed)

    def _start(self, scenario: Scenario, step: Step, topic: str) -> Session:
        group = self.name(scenario)
        member = self.members.start(
            step.library,
            group=group,
            topic=topic,
            client_id=step.client,
            instance=step.instance,
            assignor=scenario.assignor,
            group_protocol=scenario.protocol,
            session_timeout_ms=self.session_ms,
        )
        session = Session(group, step.client, step.library, step.instance, member)
        self.record.sessions.append(session)
        return session

    def _pause(self, scenario: Scenario, live: dict[str, Session], client: str) -> None:
        """Stop a member until the others own everything, and let it continue."""
        session = live[client]
        session.paused = True
        session.member.process.send_signal(signal.SIGSTOP)
        others = {name: each for name, each in live.items() if name != client}
        self._settle(scenario, others, self.topics(scenario)[:1])
        before = len(session.callbacks())
        session.member.process.send_signal(signal.SIGCONT)
        eventually(
            lambda: len(session.member_ids()) > 1 and len(session.callbacks()) > before,
            f"{session} joins again", LIMIT_S,
        )  # fmt: skip

    def _settle(self, scenario: Scenario, live: dict[str, Session], topics: list[str]) -> None:
        wanted = {(topic, n) for topic in topics for n in range(scenario.partitions)}
        members = [session.member for session in live.values()]

        def is_settled() -> bool:
            owned = [each.partitions for each in members]
            generations = {each.generation for each in members}
            return not members or (
                set().union(*owned) == wanted
                and sum(map(len, owned)) == len(wanted)
                and len(generations) == 1
            )

        eventually(
            is_settled, f"{self.name(scenario)} is settled", LIMIT_S, lambda: summaries(members)
        )
        # The sessions of killed members have to expire. A consumer group is at rest when the broker
        # has learnt, from the next heartbeats, that its members have taken over what they own.
        if not members or scenario.protocol == "consumer":
            state = "STABLE" if members else "EMPTY"
            view = GroupView(self.bootstrap, self.name(scenario))
            eventually(lambda: view.state() == state, f"{self.name(scenario)} is {state}", LIMIT_S)
