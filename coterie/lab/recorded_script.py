"""A recorded script as part of a scenario's file, so that it can be kept, changed and run again.

forming = [0, 1, 2]              # the pods that are there at the beginning

[[recorded]]                     # times from the end of forming on
at_s = 12.5
do = "stop"                      # start, stop or kill
pod = 1
"""

import json
from typing import Any

from coterie.lab.errors import WrongInput
from coterie.lab.kernel import SECOND
from coterie.lab.script import MAX_EVENTS, Event, Recording, pod_name

# The first members start within five seconds, as those of other scenarios do.
FORMING_US = 5 * SECOND
_DO = ("start", "stop", "kill")
_MOST_PODS = 10_000


def recording_of(forming: list[Any], recorded: list[Any]) -> Recording:
    """Return the script in a scenario's file.

    Raises:
        WrongInput: it is wrong.
    """
    if len(recorded) > MAX_EVENTS:
        raise WrongInput(f"the recorded script has more than {MAX_EVENTS:,} events: shorten it.")
    return Recording(forming_of(map(_pod, forming), len(forming)), tuple(map(_event, recorded)))


def forming_of(pods: Any, count: int) -> tuple[Event, ...]:
    """Return the starts of the pods that are there at the beginning.

    Args:
        pods: their names.
        count: how many they are.
    """
    spread_us = FORMING_US // max(1, count)
    return tuple(Event(number * spread_us, "start", pod) for number, pod in enumerate(pods))


def recorded_lines(recording: Recording) -> tuple[str, list[str]]:
    """Return a script as text: the line of the forming, and the lines of the events."""
    forming = ", ".join(str(_number(each.pod)) for each in recording.forming)
    lines = []
    for each in recording.events:
        lines += [
            "",
            "[[recorded]]",
            f"at_s = {each.at_us / SECOND}",
            f"do = {json.dumps(each.do)}",
            f"pod = {_number(each.pod)}",
        ]
    return f"forming = [{forming}]", lines


def _event(table: Any) -> Event:
    if not isinstance(table, dict) or table.keys() != {"at_s", "do", "pod"}:
        raise WrongInput("a recorded event has the keys at_s, do and pod.")
    at_s, do = table["at_s"], table["do"]
    if do not in _DO:
        raise WrongInput(f"a recorded event has do = '{do}': it is one of {', '.join(_DO)}.")
    if isinstance(at_s, bool) or not isinstance(at_s, int | float) or not 0 <= at_s < 1e7:
        raise WrongInput("at_s of a recorded event must be a number from 0 on.")
    return Event(round(at_s * SECOND), do, _pod(table["pod"]))


def _pod(number: Any) -> str:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < _MOST_PODS:
        raise WrongInput(f"a pod is a number from 0 to {_MOST_PODS - 1:,}.")
    return pod_name(number)


def _number(pod: str) -> int:
    return int(pod.rpartition("-")[2])
