"""The error that ends a command, and the errors that several commands share."""

from collections.abc import Collection, Iterable

import click

from coterie.cli.output import printable
from coterie.client.group_description import SHARE_GROUP, STREAMS_GROUP, GroupDescription
from coterie.client.names import counted

# The number of members that an error names; a group may have thousands.
_NAMED_MEMBERS = 5


# The exit code of a command that Ctrl-C has ended: 128 and the number of SIGINT.
INTERRUPTED = 130


class CommandFailed(click.ClickException):
    """A command failed: exit code 1, with cause and remedy on standard error."""

    def __init__(self, cause: str, remedy: str = "") -> None:
        super().__init__(f"{cause}\n{remedy}" if remedy else cause)


def no_such_groups(group_ids: Iterable[str]) -> CommandFailed:
    """Return the error for groups that do not exist."""
    return CommandFailed(
        _do_not_exist("Group", group_ids), "`coterie groups list` lists the existing groups."
    )


def no_such_topics(names: Iterable[str]) -> CommandFailed:
    """Return the error for topics that do not exist."""
    return CommandFailed(
        _do_not_exist("Topic", names), "`coterie topics list` lists the existing topics."
    )


def live_members_text(group: GroupDescription) -> str:
    """Return how many members a group has, and the id, client and host of the first ones."""
    named = [
        printable(
            f"{member.member_id} (client {member.client_id} at {member.host}"
            f"{', which has left and keeps its place' if member.has_left else ''})"
        )
        for member in group.members[:_NAMED_MEMBERS]
    ]
    more = len(group.members) - len(named)
    count = counted(len(group.members), "live member")
    return f"{count}: {', '.join(named)}" + (f" and {more} more" if more else "")


def require_owners(groups: Iterable[GroupDescription], besides: Collection[str] = ()) -> None:
    """Refuse groups whose members do not own partitions.

    Several members of a share group may read the same partition, and those of a streams group own
    tasks.

    Args:
        groups: the groups.
        besides: types that the command is about nevertheless.

    Raises:
        CommandFailed: one of the groups is a share group or a streams group.
    """
    for group in groups:
        if group.type in {SHARE_GROUP, STREAMS_GROUP}.difference(besides):
            raise CommandFailed(
                f"Group '{printable(group.group_id)}' is a {group.type} group.",
                "This command is about groups whose members own partitions;"
                f" `coterie groups describe` shows {group.type} groups, too.",
            )


def _do_not_exist(kind: str, names: Iterable[str]) -> str:
    quoted = [f"'{printable(name)}'" for name in names]
    if len(quoted) == 1:
        return f"{kind} {quoted[0]} does not exist."
    return f"{kind}s {', '.join(quoted)} do not exist."
