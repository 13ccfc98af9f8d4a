"""Sentences that several commands refuse with: what is the matter, by name, and what to do."""

from collections.abc import Iterable

from coterie.cli.broker import CommandFailed
from coterie.cli.output import printable
from coterie.client.described import GroupDescription

# Members named in an error; a group may have thousands.
_NAMED_MEMBERS = 5


def live_members(group: GroupDescription) -> str:
    """The members that keep a group from being empty, by id, client and host."""
    named = [
        printable(f"{member.member_id} (client {member.client_id} at {member.host})")
        for member in group.members[:_NAMED_MEMBERS]
    ]
    more = len(group.members) - len(named)
    count = "1 live member" if len(group.members) == 1 else f"{len(group.members)} live members"
    return f"{count}: {', '.join(named)}" + (f" and {more} more" if more else "")


def no_such_groups(group_ids: Iterable[str]) -> CommandFailed:
    """Groups that are not there."""
    return CommandFailed(
        _absent("Group", group_ids), "`coterie groups list` shows those that do exist."
    )


def no_such_topics(names: Iterable[str]) -> CommandFailed:
    """Topics that are not there."""
    return CommandFailed(
        _absent("Topic", names), "`coterie topics list` shows those that do exist."
    )


def _absent(kind: str, names: Iterable[str]) -> str:
    quoted = [f"'{printable(name)}'" for name in names]
    if len(quoted) == 1:
        return f"{kind} {quoted[0]} does not exist."
    return f"{kind}s {', '.join(quoted)} do not exist."
