"""Every number that the command line takes has bounds, and one out of them is a usage error."""

from collections.abc import Iterator
from typing import Any

import click
import pytest
from click.testing import CliRunner

from coterie.cli.main import main
from coterie.cli.values import short_duration_ms
from coterie.conversation.syntax import TranscriptError, parse_duration_ms
from coterie.server.logs.flusher import parse_flush_mode

KINDS = (click.types.IntParamType, click.types.FloatParamType)


def numbers(
    command: click.Command = main, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Parameter]]:
    """Yield every option and argument that is a number, with the path of its command."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from numbers(found, (*path, name))
        return
    for each in command.params:
        if isinstance(each.type, KINDS):
            yield path, each


CASES = list(numbers())


@pytest.mark.parametrize(
    ("path", "parameter"), CASES, ids=[f"{'-'.join(path)}-{each.name}" for path, each in CASES]
)
def test_number_out_of_its_bounds_is_a_usage_error(
    path: tuple[str, ...], parameter: click.Parameter
) -> None:
    kind: Any = parameter.type
    has_range = isinstance(parameter.type, click.IntRange | click.FloatRange)
    assert has_range, "give it a type of cli/values.py"
    assert kind.min is not None
    assert kind.max is not None
    wrong = ["1" * 30, "-" + "1" * 30] + (
        ["nan"] if isinstance(parameter.type, click.FloatRange) else []
    )
    for number in wrong:
        with pytest.raises(click.BadParameter, match=r"is not (a whole number|in the range)"):
            kind.convert(number, parameter, click.Context(main))


def test_error_says_the_range() -> None:
    result = CliRunner().invoke(main, ["topics", "create", "t", "--partitions", "1" * 12])
    assert result.exit_code == 2
    assert "'111111111111' is not a whole number from 1 to 2147483647." in result.output


@pytest.mark.parametrize("number", ["0", "86400001", "9" * 5000])
def test_interval_of_syncs_has_bounds(number: str) -> None:
    with pytest.raises(ValueError, match=r"MS from 1 to 86,400,000") as caught:
        parse_flush_mode(f"interval:{number}")
    assert len(str(caught.value)) < 200


def test_durations_have_bounds() -> None:
    assert short_duration_ms("999999999d") == 86_399_999_913_600_000
    assert short_duration_ms("9" * 5000 + "d") is None
    with pytest.raises(TranscriptError, match="is not a duration"):
        parse_duration_ms("9" * 5000 + "s")
