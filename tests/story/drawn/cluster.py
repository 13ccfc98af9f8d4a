"""One drawn cluster: its groups, what happens to them in the same minute, and its records."""

import shutil
from pathlib import Path
from random import Random

from coterie.lab.kernel import SECOND, World
from coterie.pipeline.findings.many_groups import TOUCHED_GROUPS
from coterie.storage.partition_directories import METADATA_FILE, metadata_text
from tests.story.drawn.broker import Broker
from tests.story.drawn.causes import (
    CAUSES,
    CONSUMER_CAUSES,
    Cause,
    DrawnGroup,
    Truth,
    deploy,
    downgrade,
    upgrade,
)

# Starting is over by then, so it is not mistaken for what is drawn.
_FIRST_S = 800.0
_MINUTE_S = 60.0
END_S = 2_700.0
# A silence of the broker that is shorter than a session changes nothing.
_OUTAGES_S = (60.0, 200.0)
_SETTLES_S = 120.0
# In the log alone, so many groups with new members show a restart, whatever else happens to them.
_CLEAR_GROUPS = 4


class Cluster:
    """A cluster of a seed.

    Attributes:
        seed: its seed.
        log_only: whether only the group log is kept, as of a real Kafka.
        ledger: the truth.
        story: what was drawn, a line each.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        chance = Random(f"drawn {seed}")
        self.log_only = chance.random() < 0.5
        self.world = World(seed)
        self.broker = Broker(self.world)
        self.groups = [
            DrawnGroup(
                self.broker,
                f"g{number}",
                chance,
                Random(f"libraries {seed} {number}"),
                log_only=self.log_only,
            )
            for number in range(chance.randrange(5, 11))
        ]
        self._consumer_groups = self._with_consumer_groups()
        self.ledger: list[Truth] = []
        self.story: list[str] = []
        self._draw(chance)

    def run(self, directory: Path) -> Path:
        """Run it, and write its records into a data directory.

        Returns:
            The data directory.
        """
        self.world.run_until(round(END_S * SECOND))
        data = directory / "data"
        self.broker.records.write(str(data))
        for name, topic_id in self.broker.topic_ids.items():
            (data / f"{name}-0").mkdir()
            (data / f"{name}-0" / METADATA_FILE).write_text(metadata_text(topic_id))
        if self.log_only:
            shutil.rmtree(data / "coterie.journal-0")
        return data

    def _with_consumer_groups(self) -> list[tuple[DrawnGroup, Cause]]:
        """Return groups that are consumer groups for a time at least, and what happens to them."""
        chance = Random(f"consumer groups {self.seed}")
        groups = []
        for number in range(chance.randrange(1, 4)):
            cause = chance.choice(CONSUMER_CAUSES)
            group = DrawnGroup(
                self.broker,
                f"c{number}",
                chance,
                Random(f"libraries of consumer groups {self.seed} {number}"),
                log_only=self.log_only,
                speaks_consumer=cause is not upgrade,
            )
            self.broker.create_topic(group.settings.group, group.settings.partitions)
            groups.append((group, cause))
        return groups

    def _draw_consumer_groups(self, minute_s: float) -> None:
        chance = Random(f"causes of consumer groups {self.seed}")
        for group, cause in self._consumer_groups:
            at_s = minute_s + chance.uniform(0, _MINUTE_S)
            self._happen(group, cause.__name__, cause(group, at_s), at_s)
            ledger = group.ledger
            if self.log_only:
                # The log of a consumer group has no session timeouts, so an expiry may be a leave.
                ledger = _not_required(ledger, "expired_member")
            self.ledger += ledger

    def _draw(self, chance: Random) -> None:
        minute_s = _FIRST_S + chance.uniform(0, 60)
        kind = chance.choice(("causes", "causes", "causes", "outage", "rollout"))
        rolled: list[DrawnGroup] = []
        deployed = 0
        if kind == "rollout":
            rolled = chance.sample(self.groups, max(4, len(self.groups) // 2))
        for group in self.groups:
            if group in rolled:
                at_s = minute_s + chance.uniform(0, 20)
                self._happen(group, deploy.__name__, deploy(group, at_s), at_s)
                continue
            for _ in range(chance.choice((1, 1, 1, 2))):
                cause = chance.choice(CAUSES)
                at_s = minute_s + chance.uniform(0, _MINUTE_S)
                happened = cause(group, at_s)
                deployed += happened and cause is deploy
                self._happen(group, cause.__name__, happened, at_s)
        deployed += sum(cause in (deploy, upgrade, downgrade) for _, cause in self._consumer_groups)
        if deployed >= TOUCHED_GROUPS:
            # Nobody can tell these deployments from a common one.
            self._tell("rollout", minute_s, minute_s + 300, "deployments by chance", required=False)
        for group in self.groups:
            ledger = _together(group.ledger, log_only=self.log_only)
            if self.log_only and group.settings.partitions < len(group.processes):
                # Members without partitions do not commit, so the log says nothing about them.
                ledger = _not_required(ledger, "expired_member", "max_poll_exceeded")
            self.ledger += ledger
        self._draw_consumer_groups(minute_s)
        if deployed >= TOUCHED_GROUPS:
            self.ledger = _not_required(self.ledger, "static_restart")
        if kind == "outage":
            self._outage(minute_s + chance.uniform(-60, 120), chance.uniform(*_OUTAGES_S))
        elif kind == "rollout":
            # Static members keep their places, and of few groups it may be chance.
            replaced = [each for each in rolled if not each.is_static]
            end_s = minute_s + 300
            self._tell("rollout", minute_s, end_s, "rollout", required=len(replaced) >= 5)
            self.ledger = _not_required(self.ledger, "static_restart")

    def _happen(self, group: DrawnGroup, name: str, happened: bool, at_s: float) -> None:
        if happened:
            settings = group.settings
            protocol = "consumer protocol" if group.speaks_consumer else settings.assignor
            kinds = [protocol, "static" if group.is_static else "dynamic"]
            self.story.append(f"{at_s:7.1f} s  {settings.group} ({', '.join(kinds)}): {name}")

    def _outage(self, at_s: float, length_s: float) -> None:
        end_s = at_s + length_s
        self.world.at(round(at_s * SECOND), self.broker.kill)
        self.world.at(round(end_s * SECOND), self.broker.start)
        # Members keep their ids if their clients do, and then nothing is new after the outage: a
        # journal says that the coordinator loaded its partitions, the log alone says nothing.
        anew = sum(any(one.rejoins_anew for one in each.processes) for each in self.groups)
        clear = not self.log_only or anew >= _CLEAR_GROUPS
        self._tell("broker_restart", at_s, end_s + 90, "killed and restarted", required=clear)
        self.story.append(f"{at_s:7.1f} s  the broker is killed for {length_s:.0f} s")
        # What began in or shortly before the outage may be part of it.
        self.ledger = [
            each._replace(is_required=False)
            if each.rule != "broker_restart" and at_s - _SETTLES_S < each.to_s
            and each.from_s < end_s + _SETTLES_S
            else each
            for each in self.ledger
        ]  # fmt: skip
        # Static members that come back own nothing, so the assignor may swap what they had.
        about, to_s = "static members return", end_s + _SETTLES_S
        self.ledger += [
            Truth("needless_moves", each.settings.group, None, at_s, to_s, False, about)
            for each in self.groups
            if each.is_static
        ]

    def _tell(
        self,
        rule: str,
        from_s: float,
        to_s: float,
        about: str,
        *,
        required: bool,
    ) -> None:
        self.ledger.append(Truth(rule, "", None, from_s, to_s, required, about))


def _together(ledger: list[Truth], *, log_only: bool) -> list[Truth]:
    """Return the truth about a group to which several things happened at once."""
    rules = [each.rule for each in ledger]
    restless = [each for each in ledger if each.rule in ("rebalance_storm", "flapping_member")]
    if len(restless) > 1:
        # None of them may have caused half of the rebalances, so each is flapping or in a storm.
        storm = restless[0]._replace(
            rule="rebalance_storm", subject=None, is_required=False, to_s=1e6
        )
        ledger = [*_as_flapping(ledger), storm]
    if "max_poll_exceeded" not in rules:
        return ledger
    # A member that does not rejoin holds up the group, so there are fewer rebalances, and the log
    # alone does not show what became of the others meanwhile.
    held_up = ("rebalance_storm", "flapping_member") + (("expired_member",) if log_only else ())
    return _not_required(_as_flapping(ledger), *held_up)


def _as_flapping(ledger: list[Truth]) -> list[Truth]:
    """Return the truth, in which a client that comes and goes need not be called a storm."""
    return [
        each._replace(rule="flapping_member")
        if each.rule == "rebalance_storm" and each.subject is not None
        else each
        for each in ledger
    ]


def _not_required(ledger: list[Truth], *rules: str) -> list[Truth]:
    """Return the truth, of which these rules need not be found."""
    return [
        each._replace(is_required=each.is_required and each.rule not in rules) for each in ledger
    ]
