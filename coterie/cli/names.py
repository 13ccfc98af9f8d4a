"""Options that name groups and topics, and their completion from the broker.

A shell waits for this at every press of a key, so an unreachable or slow broker means no
suggestions, soon and without a word.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from coterie.client.cluster import Cluster
from coterie.client.errors import ClientError

F = TypeVar("F", bound=Callable[..., Any])

# A broker near by answers in a few milliseconds; behind a tunnel in a hundred. Longer is not worth
# waiting for.
COMPLETION_TIMEOUT_S = 0.4


def complete_groups(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Ids of groups that begin with what is typed, with their states."""

    def groups(cluster: Cluster) -> Iterable[tuple[str, str]]:
        from coterie.client.groups import list_groups

        return [(group.group_id, group.state) for group in list_groups(cluster)]

    return _suggest(context, parameter, incomplete, groups)


def complete_topics(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of topics that begin with what is typed; internal ones only when asked for by their
    underscore.
    """

    def topics(cluster: Cluster) -> Iterable[tuple[str, str]]:
        from coterie.client.topics import describe_topics

        return [
            (topic.name, f"{len(topic.partitions)} partitions")
            for topic in describe_topics(cluster)
            if not topic.internal or incomplete.startswith("_")
        ]

    return _suggest(context, parameter, incomplete, topics)


def _suggest(
    context: click.Context,
    parameter: click.Parameter,
    incomplete: str,
    names_of: Callable[[Cluster], Iterable[tuple[str, str]]],
) -> list[CompletionItem]:
    from coterie.cli.broker import cluster_of

    given = context.params.get(parameter.name or "") or ()
    taken = set(given) if isinstance(given, tuple) else {given}
    try:
        with cluster_of(context, COMPLETION_TIMEOUT_S) as cluster:
            return [
                CompletionItem(name, help=about)
                for name, about in names_of(cluster)
                if name.startswith(incomplete) and name not in taken
            ]
    except (ClientError, click.ClickException):
        return []


group_option = click.option(
    "--group",
    "group_id",
    required=True,
    metavar="GROUP",
    shell_complete=complete_groups,
    help="The group.",
)


def topic_option(*, required: bool, about: str) -> Callable[[F], F]:
    """The repeatable --topic TOPIC[:0,1], as the argument `scopes`."""
    return click.option(
        "--topic",
        "scopes",
        multiple=True,
        required=required,
        metavar="TOPIC[:0,1]",
        shell_complete=complete_topics,
        help=about,
    )
