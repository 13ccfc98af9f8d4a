"""Options of commands that belong together and reach the command as one value."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def gather(
    function: F, name: str, values: Any, options: Sequence[Callable[[Any], Callable[..., Any]]]
) -> F:
    """Add options to a command.

    Args:
        function: the function of the command.
        name: the argument with which it gets the options.
        values: the named tuple of their values; its fields are the names of the options' arguments.
        options: as click declares them, in their order in the help.
    """

    def command(*args: Any, **given: Any) -> Any:
        gathered = values(**{field: given.pop(field) for field in values._fields})
        return function(*args, **{name: gathered}, **given)

    command.__doc__ = function.__doc__
    # Options that were added to the function are added to the command.
    vars(command).update(vars(function))
    added: Any = command
    for option in reversed(options):
        added = option(added)
    return added  # type: ignore[no-any-return]
