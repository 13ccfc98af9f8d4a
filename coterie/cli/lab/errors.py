"""The errors of the lab as the errors of a command."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from coterie.cli.errors import CommandFailed
from coterie.lab.errors import WrongInput
from coterie.lab.kernel import Violation
from coterie.processes import ProcessFailed


@contextmanager
def lab_errors() -> Iterator[None]:
    """Turn wrong input, failed programs and broken invariants into the end of the command."""
    try:
        yield
    except (WrongInput, ProcessFailed) as error:
        raise CommandFailed(str(error)) from None
    except Violation as error:
        raise CommandFailed(
            f"A run has broken the invariant {error}.",
            "This is an error of the lab: please report it.",
        ) from None


def settings_of(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Return the settings of `--set KEY=VALUE`.

    Raises:
        WrongInput: one has no value.
    """
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise WrongInput(f"--set takes KEY=VALUE, not '{pair}'.")
        settings[name] = value
    return settings


def need_pyarrow() -> None:
    """End the command if the library for Parquet is missing."""
    if find_spec("pyarrow") is None:
        raise CommandFailed(
            "Sweeps are stored as Parquet, for which pyarrow is missing.",
            "pip install 'coterie[pipeline]' installs it; `coterie lab run` does without.",
        )
