"""Options and arguments that several commands share, and the completion of their values.

A shell waits for the completion after every press of the Tab key. If the broker does not answer
within a short time there are simply no suggestions; no error is printed.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from coterie.client.cluster import Cluster
from coterie.client.errors import ClientError
from coterie.client.names import counted

F = TypeVar("F", bound=Callable[..., Any])

# A broker on the same network answers within milliseconds, one behind a tunnel within a hundred. A
# shell should not block for much longer than that.
COMPLETION_TIMEOUT_S = 0.4


def json_option(function: F) -> F:
    """Add --json to a command, as the argument `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(
        function
    )


def html_option(function: F) -> F:
    """Add --html to a command that writes a page, as the argument `path`."""
    return click.option(
        "--html",
        "path",
        required=True,
        metavar="FILE",
        type=click.Path(dir_okay=False),
        help="File to write; an existing file is replaced.",
    )(function)


def complete_groups(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the group ids that begin with the typed text, with the states of the groups."""

    def groups(cluster: Cluster) -> Iterable[tuple[str, str]]:
        from coterie.client.groups import list_groups

        return [(group.group_id, group.state) for group in list_groups(cluster)]

    return suggest(context, parameter, incomplete, groups)


def complete_topics(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the topic names that begin with the typed text.

    Internal topics are only suggested if the text begins with an underscore.
    """

    def topics(cluster: Cluster) -> Iterable[tuple[str, str]]:
        from coterie.client.topics import describe_topics

        return [
            (topic.name, counted(len(topic.partitions), "partition"))
            for topic in describe_topics(cluster)
            if not topic.internal or incomplete.startswith("_")
        ]

    return suggest(context, parameter, incomplete, topics)


def suggest(
    context: click.Context,
    parameter: click.Parameter,
    incomplete: str,
    names_of: Callable[[Cluster], Iterable[tuple[str, str]]],
) -> list[CompletionItem]:
    """Return the matching names that are not on the command line yet; none without a broker."""
    from coterie.cli.broker import cluster_of

    given = context.params.get(parameter.name or "") or ()
    used = set(given) if isinstance(given, tuple) else {given}
    try:
        with cluster_of(context, COMPLETION_TIMEOUT_S) as cluster:
            return [
                CompletionItem(name, help=description)
                for name, description in names_of(cluster)
                if name.startswith(incomplete) and name not in used
            ]
    except (ClientError, click.ClickException):
        return []


group_option = click.option(
    "--group",
    "group_id",
    required=True,
    metavar="GROUP",
    shell_complete=complete_groups,
    help="Consumer group.",
)


def topic_option(*, required: bool, description: str) -> Callable[[F], F]:
    """Return the option --topic TOPIC[:0,1], which can be repeated, as the argument `scopes`."""
    return click.option(
        "--topic",
        "scopes",
        multiple=True,
        required=required,
        metavar="TOPIC[:0,1]",
        shell_complete=complete_topics,
        help=description,
    )
