"""The output of the demo: a live view on a terminal, snapshots of it elsewhere."""

import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from demo.group import GroupState, Member

COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red")
STATE_STYLES = {"Stable": "bold green", "Empty": "dim", "-": "dim"}
EVENTS_SHOWN = 11
# The longest name of a member.
NAME_WIDTH = len("kafka-python-2")
REFRESHES_PER_SECOND = 10


@dataclass
class Scene:
    """What the view shows.

    Attributes:
        partitions: the number of partitions.
        began_s: when the demo began, on the monotonic clock.
        title: the current step.
        members: all members so far.
        group: the group as its coordinator reports it.
        ends: the end offset of each partition, as far as the producer knows it.
        events: seconds since the beginning, the name of a member or "", and a text.
    """

    partitions: int
    began_s: float = field(default_factory=time.monotonic)
    title: str = ""
    members: list[Member] = field(default_factory=list)
    group: GroupState = field(default_factory=GroupState)
    ends: dict[int, int] = field(default_factory=dict)
    events: list[tuple[float, str, str]] = field(default_factory=list)

    def log(self, member: str, text: str) -> None:
        """Add an event, of a member or (with "") of no particular one."""
        self.events.append((time.monotonic() - self.began_s, member, text))

    def generation(self) -> int:
        """Return the newest generation that a member has reported."""
        return max((member.generation for member in self.members), default=-1)

    def colour(self, name: str) -> str:
        """Return the colour of a member, which does not change."""
        names = [member.name for member in self.members]
        return COLOURS[names.index(name) % len(COLOURS)] if name in names else "white"


class View:
    """Shows a scene; a context manager."""

    def __init__(self, console: Console, scene: Scene) -> None:
        self._console = console
        self._scene = scene
        self._events_printed = 0
        self._live: Live | None = None
        if console.is_terminal:
            self._live = Live(
                get_renderable=lambda: picture(scene),
                console=console,
                refresh_per_second=REFRESHES_PER_SECOND,
            )

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, traceback)

    def snapshot(self) -> None:
        """Without a terminal, print the scene and the events since the last snapshot."""
        if self._live is not None:
            return
        new = self._scene.events[self._events_printed :]
        self._events_printed += len(new)
        self._console.print()
        self._console.rule(self._scene.title, align="left", characters="-")
        for event in new:
            self._console.print(event_line(self._scene, event))
        self._console.print(heading(self._scene))
        self._console.print(tables(self._scene))


def picture(scene: Scene) -> RenderableType:
    """Return the whole live view, which fits a terminal of 80 by 24 characters."""
    lines = [event_line(scene, event) for event in scene.events[-EVENTS_SHOWN:]]
    lines += [Text("")] * (EVENTS_SHOWN - len(lines))
    return Group(
        Rule(scene.title, align="left"),
        heading(scene),
        Text(""),
        tables(scene),
        Rule("events", align="left"),
        *lines,
    )


def heading(scene: Scene) -> Text:
    """Return one line with state, generation, records and time."""
    state = scene.group.state
    generation = scene.generation()
    read = sum(len(member.read) for member in scene.members)
    text = Text("group ")
    text.append(state, STATE_STYLES.get(state, "bold yellow"))
    text.append(f"   generation {'-' if generation < 0 else generation}")
    text.append(f"   produced {sum(scene.ends.values())}   read {read}")
    text.append(f"   {time.monotonic() - scene.began_s:.0f} s", "dim")
    return text


def tables(scene: Scene) -> RenderableType:
    """Return the table of partitions beside the table of members."""
    side_by_side = Table.grid(padding=(0, 2))
    side_by_side.add_row(partitions_table(scene), members_table(scene))
    return side_by_side


def columns(*headings: tuple[str, int, Literal["left", "right"]]) -> Table:
    """Return a table without lines whose columns have fixed minimum widths."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading_text, width, justify in headings:
        table.add_column(heading_text, min_width=width, justify=justify, no_wrap=True)
    return table


def partitions_table(scene: Scene) -> Table:
    """Return the table of partitions: owner, end of the log, lag of the committed offset."""
    table = columns(
        ("#", 2, "right"), ("owner", NAME_WIDTH, "left"), ("end", 4, "right"), ("lag", 3, "right")
    )
    for partition in range(scene.partitions):
        owner = scene.group.owners.get(partition, "")
        end = scene.ends.get(partition, 0)
        # The end was read before the committed offset, so the lag may seem to be negative.
        lag = max(end - scene.group.committed.get(partition, 0), 0)
        name = Text(owner, scene.colour(owner)) if owner else Text("none", "dim")
        table.add_row(str(partition), name, str(end), str(lag))
    return table


def members_table(scene: Scene) -> Table:
    """Return the table of members: status, assigned partitions, number of records read."""
    table = columns(
        ("member", NAME_WIDTH, "left"),
        ("status", 7, "left"),
        ("owns", len("0 1 2 3 4 5"), "left"),
        ("read", 4, "right"),
    )
    for member in scene.members:
        owners = scene.group.owners
        owned = [partition for partition in sorted(owners) if owners[partition] == member.name]
        table.add_row(
            Text(member.name, scene.colour(member.name)),
            Text(member.status, "" if member.alive else "dim"),
            " ".join(map(str, owned)),
            str(len(member.read)),
        )
    return table


def event_line(scene: Scene, event: tuple[float, str, str]) -> Text:
    """Return the line of an event."""
    at_s, member, text = event
    line = Text(f"{at_s:5.1f} s  ", "dim", no_wrap=True)
    if member:
        line.append(f"{member} ", scene.colour(member))
    line.append(text, "" if member else "bold")
    return line
