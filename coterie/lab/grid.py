"""The plan of a sweep from the words of a command line."""

from coterie.lab.errors import WrongInput
from coterie.lab.machines import MACHINES
from coterie.lab.scenario import load_scenario, scenario_names
from coterie.lab.sweep import MAX_RUNS, Plan


def plan_of(
    scenarios: tuple[str, ...],
    machines: tuple[str, ...],
    members: str | None,
    seeds: str,
    pairs: tuple[str, ...],
) -> Plan:
    """Return a plan; nothing chosen means everything.

    Raises:
        WrongInput: a word is wrong.
    """
    for name in scenarios:
        if name.endswith(".toml"):
            raise WrongInput("A sweep runs built-in scenarios only; `lab run` takes files.")
        load_scenario(name)
    settings: dict[str, tuple[str, ...]] = {}
    for pair in pairs:
        name, equals, values = pair.partition("=")
        if not equals or not values:
            raise WrongInput(f"--set takes KEY=VALUE,..., not '{pair}'.")
        settings[name] = tuple(values.split(","))
    return Plan(
        tuple(dict.fromkeys(scenarios)) or tuple(scenario_names()),
        tuple(dict.fromkeys(machines)) or tuple(MACHINES),
        _numbers("--members", members) if members is not None else (),
        _numbers("--seeds", seeds),
        tuple(sorted(settings.items())),
    )


def _numbers(option: str, text: str) -> tuple[int, ...]:
    """Return the numbers of "1,5,20" or "0..19"."""
    try:
        first, dots, last = text.partition("..")
        if not dots:
            return tuple(sorted({int(word) for word in text.split(",")}))
        numbers = range(int(first), int(last) + 1)
    except ValueError:
        raise WrongInput(f"{option} takes numbers like 1,5,20 or 0..19, not '{text}'.") from None
    if not 0 < len(numbers) <= MAX_RUNS:
        raise WrongInput(f"{option} {text} has no number, or too many.")
    return tuple(numbers)
