"""Steps of a scenario as events in time.

The events are drawn from the seed alone and never from a machine. Runs of different machines with
one seed are therefore pairs, and are compared as such.
"""

import hashlib
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

from coterie.lab.errors import WrongInput, closest
from coterie.lab.kernel import SECOND

MAX_EVENTS = 20_000


class Event(NamedTuple):
    """Something that happens to a pod or to the servers.

    Attributes:
        at_us: the time, counted from the end of the group's forming.
        do: start, stop, kill, pause, cut, slow_poll, poison, kill_leader, coordinator_moves,
            server_slow, follower_lags, notices_lost, topic_grows or broker_dies.
        pod: the pod; "" for an event of the servers.
        amount: a duration in microseconds, a factor, a share or a number.
        keep: whether a started pod keeps the ids of its name.
    """

    at_us: int
    do: str
    pod: str
    amount: float = 0
    keep: bool = True


class Recording(NamedTuple):
    """A script that was recorded.

    Attributes:
        forming: the starts of the members that are there at the beginning.
        events: what happened afterwards, counted from the end of the forming.
    """

    forming: tuple[Event, ...]
    events: tuple[Event, ...]


class _Builder:
    """Expands steps; notes which pods the script has started and not stopped."""

    def __init__(self, random: Random, members: int, partitions: int) -> None:
        self.random = random
        self.partitions = partitions
        self.events: list[Event] = []
        self.alive = [pod_name(number) for number in range(members)]
        self.next_number = members

    def add(self, at_s: float, do: str, pod: str, amount: float = 0, *, keep: bool = True) -> None:
        """Add an event."""
        if len(self.events) >= MAX_EVENTS:
            raise WrongInput(f"the script has more than {MAX_EVENTS:,} events: make it shorter.")
        self.events.append(Event(int(at_s * SECOND), do, pod, amount, keep))

    def new_pod(self) -> str:
        """Return the name of a pod that was never used."""
        name = pod_name(self.next_number)
        self.next_number += 1
        self.alive.append(name)
        return name

    def choose(self, step: dict[str, Any]) -> str:
        """Return the pod that a step names, or any that runs."""
        if "pod" in step:
            return pod_name(int(step["pod"]))
        if not self.alive:
            raise WrongInput(f"step '{step['do']}' has no pod left to choose.")
        return self.random.choice(self.alive)


def pod_name(number: int) -> str:
    """Return the name of a pod; names sort in the order of their numbers."""
    return f"pod-{number:04d}"


def _join(build: _Builder, at_s: float, step: dict[str, Any]) -> None:
    for index in range(step.get("count", 1)):
        build.add(at_s + index * step.get("every_s", 0), "start", build.new_pod())


def _leave(build: _Builder, at_s: float, step: dict[str, Any]) -> None:
    for index in range(step.get("count", 1)):
        pod = build.choose(step)
        build.alive.remove(pod)
        build.add(at_s + index * step.get("every_s", 0), "stop", pod)


def _crash(build: _Builder, at_s: float, step: dict[str, Any]) -> None:
    pod = build.choose(step)
    build.alive.remove(pod)
    build.add(at_s, "kill", pod)


def _restart(build: _Builder, at_s: float, step: dict[str, Any]) -> None:
    pod = build.choose(step)
    build.add(at_s, "kill" if step.get("crash") else "stop", pod)
    _come_back(build, at_s + step["down_s"], pod, step)


def _come_back(build: _Builder, at_s: float, pod: str, step: dict[str, Any]) -> None:
    """Start a pod again, or another one in its place if it does not keep its ids."""
    keep = step.get("keep_ids", True)
    if not keep:
        build.alive.remove(pod)
        pod = build.new_pod()
    build.add(at_s, "start", pod, keep=keep)


def _rolling(build: _Builder, at_s: float, step: dict[str, Any]) -> None:
    surge = int(step.get("max_surge", 0))
    if surge:
        _surge(build, at_s, step, surge)
        return
    for index, pod in enumerate(list(build.alive)):
        begin_s = at_s + index * step["every_s"]
        build.add(begin_s, "stop", pod)
        _come_back(build, begin_s + step["down_s"], pod, step)


def _surge(build: _Builder, at_s: float, step: dict[str, Any], surge: int) -> None:
    """Start new pods first, and stop as many old ones when the new ones are ready."""
    if step.get("keep_ids", False):
        raise WrongInput("step 'rolling': pods that keep their ids can't surge.")
    for index, pod in enumerate(list(build.alive)):
        begin_s = at_s + index // surge * step["every_s"]
        build.add(begin_s, "start", build.new_pod(), keep=False)
        build.alive.remove(pod)
        build.add(begin_s + step["down_s"], "stop", pod)


def _scale(build: _Builder, at_s: float, step: dict[str, Any]) -> None:
    count = step["to"] - len(build.alive)
    over_s = step.get("over_s", 0)
    times = sorted(build.random.uniform(0, over_s) for _ in range(abs(count)))
    for after_s in times:
        if count > 0:
            build.add(at_s + after_s, "start", build.new_pod())
        else:
            build.add(at_s + after_s, "stop", build.alive.pop())


def _flap(build: _Builder, at_s: float, step: dict[str, Any]) -> None:
    pod = build.choose(step)
    for index in range(step.get("times", 15)):
        begin_s = at_s + index * step["every_s"]
        build.add(begin_s, "kill", pod)
        build.add(begin_s + step.get("down_s", step["every_s"] / 2), "start", pod)


def _lasting(do: str) -> Callable[[_Builder, float, dict[str, Any]], None]:
    """Return the step that does something to a pod for some seconds."""

    def build_step(build: _Builder, at_s: float, step: dict[str, Any]) -> None:
        build.add(at_s, do, build.choose(step), step["s"] * SECOND)

    return build_step


def _at_servers(
    do: str, key: str = "", times: float = 1
) -> Callable[[_Builder, float, dict[str, Any]], None]:
    """Return the step that does something to the servers, by the value of a key."""

    def build_step(build: _Builder, at_s: float, step: dict[str, Any]) -> None:
        build.add(at_s, do, "", step[key] * times if key else 0)

    return build_step


def _server_slow(build: _Builder, at_s: float, step: dict[str, Any]) -> None:
    build.add(at_s, "server_slow", "", step["factor"])
    build.add(at_s + step["s"], "server_slow", "", 1)


def _topic_grows(build: _Builder, at_s: float, step: dict[str, Any]) -> None:
    if step["to"] <= build.partitions:
        raise WrongInput(
            f"step 'topic_grows' grows to {step['to']}, but there are {build.partitions} partitions"
            " already."
        )
    build.partitions = int(step["to"])
    build.add(at_s, "topic_grows", "", build.partitions)


# What the keys of steps mean, for the documentation and for the error of a wrong key.
KEYS = {
    "at_s": "when, in seconds after the group has formed",
    "do": "the step",
    "jitter_s": "up to so much later, at random; 3 by default",
    "count": "how many members; 1 by default",
    "every_s": "seconds from one to the next",
    "pod": "which pod, counted from 0; any by default",
    "s": "for how many seconds",
    "down_s": "seconds until it is back",
    "keep_ids": "whether a pod keeps its name and its ids; true by default",
    "crash": "whether it is killed and not stopped; false by default",
    "max_surge": "start so many new pods before as many old ones stop; they get new names",
    "to": "the new number: of members, or of partitions",
    "over_s": "spread over so many seconds; 0 by default",
    "times": "how often; 15 by default",
    "factor": "how many times slower",
    "ms": "milliseconds",
    "share": "from 0 to 1",
}


class _Step(NamedTuple):
    """What a step is, how it is expanded, the keys that it needs, and those that it may have."""

    about: str
    expand: Callable[[_Builder, float, dict[str, Any]], None]
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


STEPS: dict[str, _Step] = {
    "join": _Step("new members start", _join, (), ("count", "every_s")),
    "leave": _Step("members stop in an orderly way", _leave, (), ("count", "every_s", "pod")),
    "crash": _Step("a member is killed", _crash, (), ("pod",)),
    "pause": _Step(
        "a member stands still, as in a long garbage collection",
        _lasting("pause"),
        ("s",),
        ("pod",),
    ),
    "cut": _Step(
        "a member can't reach the servers of the group", _lasting("cut"), ("s",), ("pod",)
    ),
    "slow_poll": _Step(
        "an application needs long for its records", _lasting("slow_poll"), ("s",), ("pod",)
    ),
    "poison": _Step(
        "a record comes that no application can process; where it blocks its partition, until it is"
        " skipped",
        _at_servers("poison", "s", SECOND),
        ("s",),
    ),
    "restart": _Step(
        "a member stops and comes back", _restart, ("down_s",), ("pod", "keep_ids", "crash")
    ),
    "rolling": _Step(
        "every member restarts, one after the other",
        _rolling,
        ("every_s", "down_s"),
        ("keep_ids", "max_surge"),
    ),
    "scale": _Step("members start or stop until there are so many", _scale, ("to",), ("over_s",)),
    "flap": _Step(
        "a member is killed and comes back again and again",
        _flap,
        ("every_s",),
        ("times", "down_s", "pod"),
    ),
    "leader_dies": _Step("the leader of the group is killed", _at_servers("kill_leader")),
    "coordinator_moves": _Step(
        "the coordinator is away, and back with what it has stored",
        _at_servers("coordinator_moves", "down_s", SECOND),
        ("down_s",),
    ),
    "server_slow": _Step("the servers are slower for a while", _server_slow, ("factor", "s")),
    "follower_lags": _Step(
        "followers of ZooKeeper lag", _at_servers("follower_lags", "ms", 1_000), ("ms",)
    ),
    "topic_grows": _Step("the topics get more partitions", _topic_grows, ("to",)),
    "broker_dies": _Step(
        "one of several brokers is away with its partitions",
        _at_servers("broker_dies", "down_s", SECOND),
        ("down_s",),
    ),
    "notices_lost": _Step(
        "RocketMQ's notices of changes get lost", _at_servers("notices_lost", "share"), ("share",)
    ),
}
_EVERY_STEP = ("at_s", "do", "jitter_s")


def keys_of(name: str) -> str:
    """Return the keys of a step as text: first those that it needs."""
    step = STEPS[name]
    needed = ", ".join(("at_s", "do", *step.needs))
    return f"{needed}; optional: {', '.join(('jitter_s', *step.takes))}"


def check_steps(steps: list[dict[str, Any]]) -> None:
    """Check the steps of a scenario.

    Raises:
        WrongInput: a step has a wrong name, a wrong key or a wrong value.
    """
    for number, step in enumerate(steps, 1):
        name = step.get("do")
        known = STEPS.get(str(name))
        if known is None:
            raise WrongInput(
                f"step {number} has do = '{name}'{closest(str(name), STEPS)}."
                f" Steps: {', '.join(STEPS)}."
            )
        allowed = (*_EVERY_STEP, *known.needs, *known.takes)
        for key in step:
            if key not in allowed:
                raise WrongInput(
                    f"step {number} ('{name}') has an unknown key '{key}'{closest(key, allowed)}."
                    f" Its keys: {keys_of(str(name))}."
                )
        for key in ("at_s", *known.needs):
            if key not in step:
                raise WrongInput(
                    f"step {number} ('{name}') needs '{key}', {KEYS[key]}."
                    f" Its keys: {keys_of(str(name))}."
                )
        for key, value in step.items():
            if key == "do" or isinstance(value, bool):
                continue
            if not isinstance(value, int | float) or not 0 <= value < 1e7:
                raise WrongInput(f"step {number} ('{name}'): {key} must be a number from 0 on.")


def events_of(
    steps: list[dict[str, Any]], members: int, partitions: int, random: Random
) -> list[Event]:
    """Expand steps into events, in order of time.

    Args:
        steps: checked steps.
        members, partitions: how many pods run already, and the partitions.
        random: the stream of the script.

    Raises:
        WrongInput: a step names a pod that does not run, or a size that is not larger.
    """
    build = _Builder(random, members, partitions)
    for step in steps:
        jitter_s = random.uniform(0, step.get("jitter_s", 3.0))
        if "pod" in step and pod_name(int(step["pod"])) not in build.alive:
            raise WrongInput(
                f"step '{step['do']}' names pod {step['pod']}, which does not run then:"
                f" there are {len(build.alive)} pods, counted from 0."
            )
        STEPS[step["do"]].expand(build, step["at_s"] + jitter_s, step)
    return sorted(build.events, key=lambda event: event.at_us)


def script_digest(events: list[Event]) -> str:
    """Return the hash of a script, which is the same for every machine."""
    return hashlib.blake2b(repr(events).encode(), digest_size=8).hexdigest()


def starts_at_forming(members: int, random: Random) -> Iterator[Event]:
    """Yield the starts of the first members, within five seconds."""
    for number in range(members):
        yield Event(int(random.uniform(0, 5) * SECOND), "start", pod_name(number))
