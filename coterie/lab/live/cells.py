"""The scenarios of the live grid: one thing happens to four members with twelve partitions."""

from typing import Any

from coterie.lab.scenario import Scenario, load_scenario

_STEPS: dict[str, tuple[str, dict[str, Any]]] = {
    "one-joins": ("One member joins", {"do": "join"}),
    "one-leaves": ("One member stops in an orderly way", {"do": "leave"}),
    "one-is-killed": ("One member is killed", {"do": "crash"}),
    "one-is-paused": ("One member stands still for 15 s", {"do": "pause", "s": 15}),
}
CELLS = tuple(_STEPS)


def live_scenario(name: str) -> Scenario:
    """Return a scenario of the grid, one of the lab, or that in a file.

    Raises:
        WrongInput: there is none of this name.
    """
    if name not in _STEPS:
        return load_scenario(name)
    title, step = _STEPS[name]
    return load_scenario("three-and-one")._replace(
        name=name,
        title=title,
        story="One thing happens to four members that read twelve partitions.",
        members=4,
        partitions=12,
        form_s=25,
        tail_s=90,
        script=[{"at_s": 0, **step}],
        settings={"rate": 20, "session_ms": 6_000, "heartbeat_ms": 2_000},
        expect=(),
        claims=(),
    )
