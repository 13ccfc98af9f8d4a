"""The options that name a control port, requests to it, and the completion of what it knows.

The options are accepted before and after the name of a command; the later one counts.
"""

import json
import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import click
from click.shell_completion import CompletionItem

from coterie.cli import options
from coterie.cli.broker import store, timeout_of, timeout_option
from coterie.cli.errors import CommandFailed
from coterie.cli.values import NATURAL
from coterie.client.control_port import ControlPort, ControlUnreachable
from coterie.client.names import printable

F = TypeVar("F", bound=Callable[..., Any])

URL_VARIABLE = "COTERIE_CONTROL_URL"
TOKEN_VARIABLE = "COTERIE_CONTROL_TOKEN"  # noqa: S105 - the name of a variable
FILE_VARIABLE = "COTERIE_CONTROL_FILE"

_URL_KEY = "coterie.control_url"
_TOKEN_KEY = "coterie.control_token"  # noqa: S105 - the name of a value
_FILE_KEY = "coterie.control_file"

_START = "Start brokers with `coterie serve --brokers 3 --control PORT --control-file FILE`"
_STATUS = "`coterie cluster status` shows the brokers, and what they lead and coordinate."
_TOKEN = (
    "Give the token that `coterie serve` has printed, with --control-token or"
    f" {TOKEN_VARIABLE}, or name its file with --control-file."
)


def port_options(function: F) -> F:
    """Add the options of requests to a control port to a command or group."""
    return location_options(timeout_option(function))


def location_options(function: F) -> F:
    """Add the options that name a control port to a command; `control_port` reads them."""
    file = click.option(
        "--control-file",
        metavar="FILE",
        expose_value=False,
        callback=store(_FILE_KEY),
        help="File that `coterie serve --control-file` has written, with URL and token."
        f"  [env: {FILE_VARIABLE}]",
    )
    url = click.option(
        "--control-url",
        metavar="URL",
        expose_value=False,
        callback=store(_URL_KEY),
        help=f"Control port of the brokers, such as http://127.0.0.1:8081.  [env: {URL_VARIABLE}]",
    )
    token = click.option(
        "--control-token",
        metavar="TOKEN",
        expose_value=False,
        callback=store(_TOKEN_KEY),
        help=f"Token of the control port.  [env: {TOKEN_VARIABLE}]",
    )
    return file(url(token(function)))


def control_port(context: click.Context, timeout_s: float | None = None) -> ControlPort | None:
    """Return the control port that options or environment name; None if they name none.

    Args:
        context: the context of the command.
        timeout_s: overrides --timeout.

    Raises:
        click.UsageError: the file cannot be read, there is no token, or the URL is wrong.
    """
    path = context.meta.get(_FILE_KEY)
    url = context.meta.get(_URL_KEY) or (None if path else os.environ.get(URL_VARIABLE))
    token = context.meta.get(_TOKEN_KEY) or os.environ.get(TOKEN_VARIABLE)
    path = path or (None if url else os.environ.get(FILE_VARIABLE))
    if path:
        announced = _announced(path)
        url, token = url or announced.url, context.meta.get(_TOKEN_KEY) or announced.token
    if not url:
        return None
    if not token:
        raise click.UsageError(f"The control port wants a token. {_TOKEN}")
    try:
        return ControlPort.of(url, token, timeout_s or timeout_of(context))
    except ValueError as error:
        raise click.UsageError(f"Control port: {error}.") from None


class _Announced(NamedTuple):
    """What a control file says."""

    url: str
    token: str


def _announced(path: str) -> _Announced:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        return _Announced(str(found["control_url"]), str(found["token"]))
    except FileNotFoundError:
        text = f"The control file {path} does not exist: the brokers do not run, or write no file."
        raise click.UsageError(f"{text} {_START}.") from None
    except OSError as error:
        raise click.UsageError(f"The control file {path}: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError):
        text = f"{path} is no control file of `coterie serve`."
        raise click.UsageError(text) from None


def ask(method: str, *path: object, **fields: Any) -> Any:
    """Send a request to the control port of the running command; return its answer.

    Args:
        method: of HTTP.
        path: the parts of the path, not escaped.
        fields: the object of a POST; those that are None are left out.

    Raises:
        CommandFailed: it is refused, or the port cannot be reached.
    """
    port = control_port(click.get_current_context())
    if port is None:
        text = "Name the control port with --control-file FILE, or with --control-url and a token."
        raise click.UsageError(f"{text} {_START}.")
    body = {name: each for name, each in fields.items() if each is not None}
    try:
        answer = port.send(method, _path(path), body if method == "POST" else None)
    except ControlUnreachable as error:
        remedy = error.remedy or f"{_START}, or name another one with --control-url."
        raise CommandFailed(error.cause, remedy) from error
    if answer.is_error:
        raise _refused(port, answer.body)
    return answer.body


def _path(parts: Iterable[object]) -> str:
    return "".join(f"/{quote(str(each), safe='')}" for each in parts)


def _refused(port: ControlPort, error: Any) -> CommandFailed:
    """Return the error of a request that the control port refuses."""
    if not isinstance(error, dict) or "kind" not in error:
        return _no_control_port(port)
    text = printable(str(error.get("error", ""))).rstrip(".")
    match error["kind"]:
        case "Unauthorized":
            return CommandFailed(f"The control port at {port.url} refuses: {text}.", _TOKEN)
        case "NotFound" | "MethodNotAllowed":
            # The ports of metrics and console refuse in the same form.
            if port.send("GET", "/health").is_error:
                return _no_control_port(port)
            cause = f"The control port at {port.url} is that of a single broker."
            return CommandFailed(cause, f"{_START}.")
        case "WrongUse" | "BadRequest":
            return CommandFailed(f"{text[:1].upper()}{text[1:]}.", _STATUS)
    return CommandFailed(f"{text[:1].upper()}{text[1:]}.", str(error.get("remedy", "")))


def _no_control_port(port: ControlPort) -> CommandFailed:
    return CommandFailed(f"What answers at {port.url} is no control port of Coterie.", _START)


# --- completion -----------------------------------------------------------------------------------


def complete_nodes(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the ids of brokers that begin with the typed text, with their states."""
    return _suggest(
        context,
        incomplete,
        lambda state: ((str(each["node_id"]), each["state"]) for each in state["brokers"]),
    )


def complete_led_topics(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the names of topics that begin with the typed text."""

    def names(state: Any) -> Iterable[tuple[str, str]]:
        found = {topic for each in state["brokers"] for topic in each["leads"]}
        return [(each, "") for each in sorted(found | set(state["leaderless"]))]

    return _suggest(context, incomplete, names)


def complete_coordinated(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the groups that begin with the typed text, with their coordinators."""
    return _suggest(
        context,
        incomplete,
        lambda state: sorted(
            (group, f"broker {each['node_id']}")
            for each in state["brokers"]
            for group in each["groups"]
        ),
    )


def _suggest(
    context: click.Context,
    incomplete: str,
    names_of: Callable[[Any], Iterable[tuple[str, str]]],
) -> list[CompletionItem]:
    """Return the matching names; none without an answer within a short time."""
    try:
        port = control_port(context, options.COMPLETION_TIMEOUT_S)
        answer = None if port is None else port.send("GET", "/cluster")
    except (ControlUnreachable, click.ClickException):
        return []
    if answer is None or answer.is_error:
        return []
    return [
        CompletionItem(name, help=text)
        for name, text in names_of(answer.body)
        if name.startswith(incomplete)
    ]


# --- arguments ------------------------------------------------------------------------------------


def node_argument(function: F) -> F:
    """Add the argument NODE, a broker, as `node_id`."""
    return click.argument("node_id", metavar="NODE", type=NATURAL, shell_complete=complete_nodes)(
        function
    )


def partition_arguments(function: F) -> F:
    """Add the arguments TOPIC and PARTITION."""
    topic = click.argument("topic", metavar="TOPIC", shell_complete=complete_led_topics)
    partition = click.argument("partition", metavar="PARTITION", type=NATURAL)
    return topic(partition(function))


def to_option(function: F) -> F:
    """Add the option --to NODE."""
    return click.option(
        "--to",
        required=True,
        metavar="NODE",
        type=NATURAL,
        shell_complete=complete_nodes,
        help="Broker that leads from now on.",
    )(function)


def detect_option(function: F) -> F:
    """Add the option --detect-ms MS."""
    return click.option(
        "--detect-ms",
        metavar="MS",
        type=NATURAL,
        help="Time after which the other brokers learn of it.",
    )(function)
