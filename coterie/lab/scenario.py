"""Scenarios: TOML files with a story, sizes, a script, and what it is expected to show.

title = "Three and one"
story = "..."
members = 2
partitions = 6
form_s = 60                      # the group forms and settles first
claims = [10, 15]                # the numbers of the claims that it shows
expect = ["unowned: cooperative < 0.5 * eager-3", "moves: static = 0"]

[set]                            # settings of the model
poll_gap_ms = 100

[[script]]                       # times from the end of forming on; up to jitter_s (3) later
at_s = 0
do = "join"

A recorded history is `forming` and `[[recorded]]` in place of the steps; see `recorded_script`.
"""

import json
import re
import tomllib
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from coterie.lab.errors import WrongInput, closest
from coterie.lab.parameters import Parameters, with_settings
from coterie.lab.recorded_script import recorded_lines, recording_of
from coterie.lab.script import Recording, check_steps

MAX_MEMBERS = 3_000
MAX_PARTITIONS = 20_000
_KEYS = {
    "title": str, "story": str, "members": int, "partitions": int, "topics": int, "form_s": int,
    "tail_s": int, "claims": list, "expect": list, "set": dict, "script": list, "machines": list,
    "picture": str, "forming": list, "recorded": list,
}  # fmt: skip
_EXPECTATION = re.compile(
    r"^(?P<metric>\w+): (?P<left>[\w.-]+) (?P<relation><=|>=|<|>|=) "
    r"(?:(?:(?P<factor>[\d.]+) \* )?(?P<right>[a-z][\w.-]*)|(?P<number>[\d.]+))$"
)


class Expectation(NamedTuple):
    """An inequality between the medians of a metric.

    Attributes:
        text: as it is in the file.
        metric, left, relation: what is compared.
        right, factor: another machine, times a factor; or
        number: a number, if `right` is "".
    """

    text: str
    metric: str
    left: str
    relation: str
    right: str
    factor: float
    number: float

    def holds(self, left: float, right: float) -> bool:
        """Return whether the inequality holds for two medians."""
        limit = right * self.factor if self.right else self.number
        return {
            "<": left < limit,
            ">": left > limit,
            "<=": left <= limit,
            ">=": left >= limit,
            "=": left == limit,
        }[self.relation]


class Scenario(NamedTuple):
    """A scenario.

    Attributes:
        name: of its file.
        title, story, picture: what it is about, and what to look for.
        members, partitions, topics: its sizes.
        form_s: how long the group forms and settles.
        tail_s: how long a run goes on after the last event at most.
        machines: those that it is about; empty for all.
        script: its steps.
        settings: settings of the model.
        expect: what it is expected to show.
        claims: the numbers of the claims that it shows.
        recording: a recorded script in place of the steps.
    """

    name: str
    title: str
    story: str
    picture: str
    members: int
    partitions: int
    topics: int
    form_s: int
    tail_s: int
    machines: tuple[str, ...]
    script: list[dict[str, Any]]
    settings: dict[str, Any]
    expect: tuple[Expectation, ...]
    claims: tuple[int, ...]
    recording: Recording | None = None

    @property
    def size(self) -> int:
        """The number of members, or that to which a script scales a group of none."""
        scales = (step.get("to", 0) for step in self.script if step.get("do") == "scale")
        return self.members or max(scales, default=0)

    def resized(self, members: int | None, partitions: int | None) -> "Scenario":
        """Return the scenario with other sizes.

        Raises:
            WrongInput: a size is impossible.
        """
        made = self
        if members is not None and self.members:
            made = made._replace(members=members)
        elif members is not None:
            made = made._replace(script=_with_targets(self.script, "scale", lambda _: members))
        if partitions is not None:
            growth = partitions / self.partitions
            script = _with_targets(made.script, "topic_grows", lambda to: int(to * growth))
            made = made._replace(partitions=partitions, script=script)
        check_sizes(made)
        return made


def _with_targets(
    script: list[dict[str, Any]], do: str, target: Callable[[int], int]
) -> list[dict[str, Any]]:
    """Return a script with other targets of the steps of a name."""
    return [
        {**step, "to": target(step["to"])} if step["do"] == do and "to" in step else step
        for step in script
    ]


def scenario_names() -> list[str]:
    """Return the names of the built-in scenarios."""
    folder = files("coterie.lab") / "scenarios"
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    )


def load_scenario(name: str) -> Scenario:
    """Return a built-in scenario, or the one in a file if the name ends with `.toml`.

    Raises:
        WrongInput: there is none, or it is wrong.
    """
    if name.endswith(".toml"):
        try:
            text = Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise WrongInput(f"The scenario {name} can't be read: {error}.") from None
        return parse_scenario(Path(name).stem, text)
    known = scenario_names()
    if name not in known:
        raise WrongInput(
            f"There is no scenario '{name}'{closest(name, known)}. Scenarios: {', '.join(known)};"
            " or a file that ends with .toml."
        )
    entry = files("coterie.lab") / "scenarios" / f"{name}.toml"
    return parse_scenario(name, entry.read_text(encoding="utf-8"))


def parse_scenario(name: str, text: str) -> Scenario:
    """Return the scenario in a text.

    Raises:
        WrongInput: it is wrong; the message names the scenario and the place.
    """
    try:
        table = tomllib.loads(text)
        _check_keys(table)
        scenario = Scenario(
            name=name,
            title=table["title"],
            story=" ".join(table.get("story", "").split()),
            picture=" ".join(table.get("picture", "").split()),
            members=table["members"],
            partitions=table["partitions"],
            topics=table.get("topics", 1),
            form_s=table.get("form_s", 60),
            tail_s=table.get("tail_s", 400),
            machines=tuple(table.get("machines", ())),
            script=table["script"],
            settings=table.get("set", {}),
            expect=tuple(map(_expectation, table.get("expect", ()))),
            claims=tuple(table.get("claims", ())),
            recording=_recording(table),
        )
        check_sizes(scenario)
        check_steps(scenario.script)
        with_settings(Parameters(), scenario.settings)
    except (tomllib.TOMLDecodeError, WrongInput) as error:
        raise WrongInput(f"Scenario {name}: {error}") from None
    return scenario


def _recording(table: dict[str, Any]) -> Recording | None:
    if "recorded" not in table:
        return None
    if table["script"]:
        raise WrongInput("'recorded' takes the place of the steps: leave 'script' empty.")
    return recording_of(table.get("forming", []), table["recorded"])


def scenario_text(scenario: Scenario) -> str:
    """Return a scenario with a recorded script as the text of a file that has the same script."""
    assert scenario.recording is not None, "only recorded scripts are written"
    forming, events = recorded_lines(scenario.recording)
    lines = [
        f"title = {_toml_text(scenario.title)}",
        f"story = {_toml_text(scenario.story)}",
        *(
            f"{name} = {getattr(scenario, name)}"
            for name in ("members", "partitions", "topics", "form_s", "tail_s")
        ),
        "script = []",
        forming,
        "",
        "[set]",
        *(f"{name} = {json.dumps(value)}" for name, value in scenario.settings.items()),
        *events,
    ]
    return "\n".join(lines) + "\n"


def _toml_text(text: str) -> str:
    """Return a text as a string of TOML, whose escapes are those of JSON but for surrogates."""
    seen = "".join(each if each.isprintable() else "?" for each in text)
    return json.dumps(seen, ensure_ascii=False)


def _check_keys(table: dict[str, Any]) -> None:
    for key, value in table.items():
        kind = _KEYS.get(key)
        if kind is None:
            raise WrongInput(f"unknown key '{key}'{closest(key, _KEYS)}.")
        if not isinstance(value, kind) or isinstance(value, bool):
            raise WrongInput(f"'{key}' must be of type {kind.__name__}.")
    for key in ("title", "members", "partitions", "script"):
        if key not in table:
            raise WrongInput(f"the key '{key}' is missing.")


def check_sizes(scenario: Scenario) -> None:
    """Check the sizes of a scenario.

    Raises:
        WrongInput: a size is impossible.
    """
    for what, value, limit in (
        ("members", scenario.members, MAX_MEMBERS),
        ("members", scenario.size, MAX_MEMBERS),
        ("partitions", scenario.partitions, MAX_PARTITIONS),
    ):
        least = 0 if what == "members" else 1
        if not least <= value <= limit:
            raise WrongInput(f"{what} must be between {least} and {limit:,}, not {value}.")
    if not 1 <= scenario.topics <= scenario.partitions:
        raise WrongInput("topics must be between 1 and the number of partitions.")
    for what, seconds in (("form_s", scenario.form_s), ("tail_s", scenario.tail_s)):
        if not 1 <= seconds <= 3_600:
            raise WrongInput(f"{what} must be between 1 and 3,600, not {seconds}.")


def _expectation(text: Any) -> Expectation:
    found = _EXPECTATION.match(str(text))
    if found is None:
        raise WrongInput(
            f"the expectation '{text}' is not of the form 'METRIC: MACHINE < FACTOR * MACHINE'."
        )
    return Expectation(
        str(text),
        found["metric"],
        found["left"],
        found["relation"],
        found["right"] or "",
        float(found["factor"] or 1),
        float(found["number"] or 0),
    )
