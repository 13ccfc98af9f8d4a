"""Checks, the scenarios that decide them, and what is known of the client.

A scenario is a coroutine that gets a `Run`: it starts the program, waits for what the client does,
changes what the broker answers, and gives a verdict for each of its checks.
"""

from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from typing import Any, NamedTuple

from coterie.assignors.model import TopicPartition
from coterie.client_check.membership import CLASSIC

# A story; its argument is the `Run`.
Play = Callable[[Any], Awaitable[None]]


class Check(NamedTuple):
    """One behaviour of a client.

    Attributes:
        name: stable, with its area before the slash.
        sentence: what a client does that follows the rule.
        source: where the rule comes from.
        needs: what the program or its command must have; see `Profile.lacks`.
    """

    name: str
    sentence: str
    source: str
    needs: tuple[str, ...] = ()


class Judgement(StrEnum):
    """What came of a check of a client.

    The words differ from those of `coterie check`, because they mean something else: there a
    response deviates, or none comes.
    """

    PASS = "pass"  # noqa: S105 - no password
    """The client does as the rule says."""
    DIFFERS = "differs"
    """It does something else than Kafka's own consumer, but breaks no rule of the protocol."""
    BREAKS = "breaks"
    """It breaks a rule."""
    SKIPPED = "skipped"
    """It could not be checked; the reason says why."""
    ERROR = "error"
    """The check itself has failed, which says nothing of the client."""


# The statuses with which `coterie check-client` ends with an exit code other than 0.
FAILING = (Judgement.BREAKS,)


class Verdict(NamedTuple):
    """What a scenario found out about one check."""

    status: Judgement
    reason: str = ""


class Scenario(NamedTuple):
    """A story in which some checks are decided.

    Attributes:
        name: for people who follow the progress.
        checks: the checks that it decides.
        play: the story.
        values: what to substitute in the command instead of the usual.
        is_long: whether it takes part with --thorough only.
        protocols: the protocols of groups for which it is played.
        is_secured: whether it is about logins and rights.
    """

    name: str
    checks: tuple[Check, ...]
    play: Play
    values: dict[str, str]
    is_long: bool
    protocols: tuple[str, ...]
    is_secured: bool = False


SCENARIOS: list[Scenario] = []


def partitions_text(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions for a verdict, in order."""
    return ", ".join(map(str, sorted(partitions))) or "nothing"


def scenario(
    *checks: Check,
    title: str | None = None,
    is_long: bool = False,
    is_secured: bool = False,
    protocols: tuple[str, ...] = (CLASSIC,),
    **values: str,
) -> Callable[[Play], Play]:
    """Register a coroutine as the scenario of some checks.

    Args:
        checks: the checks that it decides.
        title: what happens; by default the first line of the coroutine's docstring.
        is_long: whether it takes part with --thorough only.
        is_secured: whether it is about logins and rights, for --security only.
        protocols: the protocols of groups for which it is played.
        values: what to substitute in the command, such as assignor="roundrobin".
    """

    def register(play: Play) -> Play:
        name = (title or play.__doc__ or "").partition("\n")[0].rstrip(".")
        SCENARIOS.append(Scenario(name, checks, play, values, is_long, protocols, is_secured))
        return play

    return register


class NotReached(Exception):  # noqa: N818 - the end of a scenario, not an error of ours
    """The client did not get to the point that a scenario begins with.

    Attributes:
        status: what that means for the checks that are not decided yet.
    """

    def __init__(self, reason: str, status: Judgement = Judgement.BREAKS) -> None:
        super().__init__(reason)
        self.status = status


class Profile:
    """What the first run has shown of the client.

    Attributes:
        software: name and version of the library, if the client states them.
        places: the names in braces in the command.
        prints: whether it prints what it reads, as the contract says.
        commits: whether it commits offsets by itself.
        ends: whether it ends in order on SIGTERM.
        versions: the newest version of each API that it used, by Kafka's name.
        protocols: the assignors that it offers, in its order.
        session_timeout_ms: of its JoinGroup; 0 in the consumer protocol, where the broker sets it.
        rebalance_timeout_ms: of its request to join.
        heartbeat_interval_s: the longest time between two heartbeats; None if it sent none.
    """

    def __init__(self, places: set[str]) -> None:
        """Begin without knowledge."""
        self.software = ""
        self.places = places
        self.prints = False
        self.commits = False
        self.ends = False
        self.versions: dict[str, int] = {}
        self.protocols: tuple[str, ...] = ()
        self.session_timeout_ms = 0
        self.rebalance_timeout_ms = 0
        self.heartbeat_interval_s: float | None = None

    def lacks(self, need: str) -> str:
        """Return why a need is not met; "" if it is.

        Args:
            need: "prints", "commits", "ends", the name of a place in the command, or
                "assignor:NAME" for an assignor that the client offers or can be made to offer.
        """
        kind, _, name = need.partition(":")
        if kind == "assignor":
            if "assignor" in self.places or name in self.protocols:
                return ""
            return (
                f"the client does not offer the assignor {name}; with {{assignor}} in the command"
                " it can be made to"
            )
        if kind == "version":
            api, _, least = name.partition(">=")
            used = self.versions.get(api, -1)
            if used >= int(least):
                return ""
            how = "does not send it" if used < 0 else f"uses v{used}"
            return f"needs {api} v{least} or newer, the client {how}"
        if kind in self.places or bool(getattr(self, kind, False)):
            return ""
        return _LACKS.get(kind, f"the command has no {{{kind}}}")

    def as_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {
            "software": self.software,
            "prints": self.prints,
            "commits": self.commits,
            "ends_on_sigterm": self.ends,
            "versions": dict(sorted(self.versions.items())),
            "assignors": list(self.protocols),
            "session_timeout_ms": self.session_timeout_ms,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "heartbeat_interval_s": self.heartbeat_interval_s,
        }


_LACKS = {
    "prints": "the program does not print what it reads as `topic partition offset value`",
    "commits": "the client does not commit offsets by itself",
    "ends": "the program does not end in order on SIGTERM",
}
