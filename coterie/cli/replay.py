"""`coterie replay`: send the requests of a recording again, and compare the answers."""

import sys
from typing import TYPE_CHECKING

import click

from coterie.address import Address
from coterie.cli.broker import command_config, security_of_command
from coterie.cli.errors import CommandFailed
from coterie.cli.options import json_option
from coterie.cli.output import note, print_json, printable
from coterie.cli.values import COUNT, FACTOR

if TYPE_CHECKING:
    from coterie.recording.conversation import Conversation
    from coterie.recording.files import Recording
    from coterie.recording.replay import ReplayOutcome
    from coterie.recording.selection import Selection
    from coterie.recording.to_transcript import Written


@click.command("replay")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--config",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Setting of the fresh broker, over those of the recording; repeatable.",
)
@click.option(
    "--from",
    "from_text",
    metavar="TIME",
    help="Show the recording from this time on, such as 1m30s.",
)
@click.option("--to", "to_text", metavar="TIME", help="Show it up to this time.")
@click.option(
    "--connection",
    "connections",
    multiple=True,
    type=COUNT,
    metavar="NUMBER",
    help="Show the requests of this connection only; repeatable.",
)
@click.option(
    "--group",
    "groups",
    multiple=True,
    metavar="GROUP",
    help="Show the requests about this group only; repeatable.",
)
@click.option("--differences", is_flag=True, help="Show only what was answered otherwise.")
@click.option(
    "--against",
    metavar="HOST:PORT",
    help="Send the requests to this broker instead of a fresh one, in real time.",
)
@click.option(
    "--create-topics",
    is_flag=True,
    help="With --against, first create the topics that the recorded broker had before.",
)
@click.option(
    "--speed",
    type=FACTOR,
    default=1.0,
    show_default=True,
    metavar="FACTOR",
    help="With --against, how many times faster than the recording.",
)
@click.option(
    "--to-transcript",
    "transcript",
    type=click.Path(dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Write the requests about groups as a transcript instead of replaying them; - prints it.",
)
@command_config
@json_option
def command(
    *,
    file: str,
    settings: tuple[str, ...],
    from_text: str | None,
    to_text: str | None,
    connections: tuple[int, ...],
    groups: tuple[str, ...],
    differences: bool,
    against: str | None,
    create_topics: bool,
    speed: float,
    transcript: str | None,
    as_json: bool,
) -> None:
    """Send the requests of a recording to a fresh broker, and compare the answers.

    FILE is of `coterie serve --record` or `coterie proxy`. The broker is in memory and in virtual
    time, so an hour takes moments. Ids that a broker makes up, such as member ids, are paired where
    they appear first. The exit code is 1 if an answer differs.
    """
    from coterie.recording.conversation import conversation_of
    from coterie.recording.own_broker import replay_to_own
    from coterie.recording.replay import result_of
    from coterie.recording.report import as_json as as_objects
    from coterie.recording.report import conversation_lines, names_of, summary
    from coterie.recording.selection import Selection, began
    from coterie.recording.to_transcript import CannotWrite, to_transcript
    from coterie.server.config.sources import ConfigError

    selection = Selection(
        _milliseconds("--from", from_text),
        _milliseconds("--to", to_text),
        frozenset(connections) or None,
        frozenset(groups) or None,
    )
    recording = _read(file)
    conversation = conversation_of(recording.entries)
    _check_selection(selection, conversation)
    if transcript is not None:
        stretch = selection.of(conversation)
        try:
            written = to_transcript(recording.header, conversation, stretch, _pairs(settings))
        except CannotWrite as error:
            raise CommandFailed(f"{error}.", "Choose another --from, --to or --group.") from error
        _write(written, transcript)
        return
    if against is None:
        try:
            outcomes = replay_to_own(recording, conversation, _pairs(settings))
        except ConfigError as error:
            raise click.UsageError(str(error)) from error
    else:
        outcomes = _replay_against(recording, conversation, against, speed, create_topics)
    selected = {each.number for each in selection.of(conversation)}
    outcomes = [each for each in outcomes if each.exchange.number in selected]
    shown = [each for each in outcomes if each.differs or not differences]
    began_ms, names = began(conversation), names_of(conversation.exchanges)
    if as_json:
        print_json(as_objects(shown, began_ms, names, names_of(conversation.exchanges)))
    else:
        for line in conversation_lines(shown, began_ms, names):
            click.echo(line)
        click.echo(summary(result_of(outcomes), against or "a fresh broker"))
    sys.exit(1 if any(each.differs for each in outcomes) else 0)


def _check_selection(selection: "Selection", conversation: "Conversation") -> None:
    """Check that a recording has the groups and connections that are to be shown."""
    from coterie.near_names import did_you_mean

    groups = {group for each in conversation.exchanges for group in each.groups}
    connections = {each.connection for each in conversation.exchanges}
    for name in sorted((selection.groups or frozenset()) - groups):
        raise CommandFailed(
            f"No request of the recording is about group '{printable(name)}'"
            f"{printable(did_you_mean(name, groups, 'groups'))}."
        )
    for number in sorted((selection.connections or frozenset()) - connections):
        known = f"from {min(connections)} to {max(connections)}" if connections else "none"
        raise CommandFailed(f"The recording has no requests of connection {number}, only {known}.")


def _read(path: str) -> "Recording":
    """Read a recording; say what is missing of it."""
    from coterie.recording.files import read
    from coterie.recording.format import NotARecording

    try:
        recording = read(path)
    except (NotARecording, OSError) as error:
        raise CommandFailed(f"{error}.") from error
    for remark in recording.remarks:
        note(f"{path}: {remark}.")
    return recording


def _replay_against(
    recording: "Recording",
    conversation: "Conversation",
    against: str,
    speed: float,
    creates_topics: bool,  # noqa: FBT001 - named by its caller
) -> "list[ReplayOutcome]":
    from coterie.client.errors import ClientError
    from coterie.recording.other_broker import replay_against

    try:
        address = Address.parse(against)
    except ValueError as error:
        raise click.UsageError(f"Invalid value for --against: {error}.") from error
    try:
        return replay_against(
            recording,
            conversation,
            address,
            speed=speed,
            creates_topics=creates_topics,
            security=security_of_command(click.get_current_context()),
        )
    except ClientError as error:
        raise CommandFailed(error.cause) from error
    except OSError as error:
        raise CommandFailed(f"No broker reached at {address}: {error}.") from error


def _write(written: "Written", path: str) -> None:
    """Write a transcript, and say what it has."""
    try:
        with click.open_file(path, "w", encoding="utf-8") as file:
            file.write(written.text)
    except OSError as error:
        raise CommandFailed(f"--to-transcript {path}: {error.strerror}.") from error
    for reason, count in written.left_out.items():
        note(f"Left out {count}: {reason}.")
    note(
        f"{written.requests} requests written; the core answers {written.differing} of them"
        " otherwise than the recorded broker."
    )


def _milliseconds(option: str, text: str | None) -> int | None:
    from coterie.conversation.syntax import TranscriptError, parse_duration_ms

    try:
        return None if text is None else parse_duration_ms(text)
    except TranscriptError as error:
        raise click.UsageError(f"Invalid value for {option}: {error}.") from error


def _pairs(settings: tuple[str, ...]) -> dict[str, str]:
    pairs = [setting.partition("=") for setting in settings]
    for name, equals, _ in pairs:
        if not equals:
            raise click.UsageError(f"Invalid value for --config: {name!r} is not NAME=VALUE.")
    return {name: value for name, _, value in pairs}
