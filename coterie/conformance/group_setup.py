"""`given GROUP STATE CLIENT...` brings a group into a state before the story begins.

    given orders Stable c1 c2 session=10s
    ----
    orders Stable generation=1 leader=c1-1 members=[c1-1, c2-1]

The command is short for requests that a transcript could spell out: every client joins (with
version 9), the initial delay passes, every member syncs. `c1/i1` is a static member. The first
client leads; the k-th is assigned `sales-k`, counted from 0. STATE is one of

    Stable                every member has synced
    CompletingRebalance   no member has synced
    PreparingRebalance    the leader has rejoined, the others have not
    Empty                 every member has left again

`generation=N` lets all members rejoin until that generation. Virtual time moves to the end of the
initial delay: 3 s with one client; with several, 6 s or the rebalance timeout if that is shorter,
because a second member extends the delay.
"""

from collections.abc import Generator
from typing import NamedTuple, TypeVar

from coterie.conformance.core_broker import Output
from coterie.conformance.transcript import ResponseError
from coterie.conversation.names import Names
from coterie.conversation.syntax import Arguments, TranscriptError, format_list, parse_duration_ms
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.join_group import JoinGroupResponse
from coterie.protocol.messages.sync_group import SyncGroupResponse

_STATES = ("Stable", "CompletingRebalance", "PreparingRebalance", "Empty")
_INITIAL_DELAY_MS = 3_000


class SetupStep(NamedTuple):
    """What a driver does next: carry out a command, or let time pass until responses have come.

    Attributes:
        command: the command line; empty for a wait.
        delayed: do not wait for the response.
        duration_ms, responses: of a wait, how long it lasts and how many responses end it.
    """

    command: str = ""
    delayed: bool = False
    duration_ms: int = 0
    responses: int = 0


R = TypeVar("R")
Steps = Generator[SetupStep, list[Output], R]
"""The steps of a setup; the driver sends back the output of each."""


class _GroupSetup:
    """The clients of one `given` command and what they have learnt of their group."""

    def __init__(self, names: Names, group: str, clients: list[str], arguments: Arguments) -> None:
        self.names = names
        self.group = group
        self.instances = {name.partition("/")[0]: name.partition("/")[2] for name in clients}
        # The same in every JoinGroup.
        self.common = " ".join(
            f"{name}={arguments.named.pop(name)}"
            for name in ("session", "rebalance", "type", "protocols")
            if name in arguments.named
        )
        self.type = next((w[5:] for w in self.common.split() if w.startswith("type=")), "consumer")
        # The names of their member ids: requests are text, in which an id may have no place.
        self.members: dict[str, str] = {}
        self.joined: dict[str, JoinGroupResponse] = {}
        # Responses to clients that are not part of this setup; the transcript shows them.
        self.other: list[Output] = []

    def execute(self, text: str, *, delayed: bool = False) -> Steps[list[Output]]:
        """Carry out a command line and note its responses."""
        return self.note((yield SetupStep(text, delayed)))

    def note(self, outputs: list[Output]) -> list[Output]:
        """Keep JoinGroup responses, and the responses to other clients."""
        for output in outputs:
            if isinstance(output.message, JoinGroupResponse) and output.client in self.instances:
                self.joined[output.client] = output.message
            elif output.client and output.client not in self.instances:
                self.other.append(output)
        return outputs

    def join(self, client: str, *, delayed: bool = True) -> Steps[None]:
        """Send a JoinGroup; a new dynamic member gets its member id first."""
        instance = self.instances[client]
        fields = f"group={self.group} {f'instance={instance} ' if instance else ''}{self.common}"
        member = self.members.get(client)
        if member is None and not instance:
            yield from self.execute(f'{client}> JoinGroup v9 member="" {fields}')
            response = self.joined.pop(client, None)
            if response is None:
                raise ResponseError(f"{client} gets no answer to its first JoinGroup")
            if response.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                raise ResponseError(f"{client} cannot join: {response}")
            member = self.members[client] = self.names.member_text(response.member_id)
        yield from self.execute(
            f'{client}> JoinGroup v9 member="{member or ""}" {fields}', delayed=delayed
        )

    @property
    def leader(self) -> str:
        """The client that leads the generation."""
        for client, response in self.joined.items():
            if response.member_id == response.leader:
                return client
        raise ResponseError(f"no member of {self.group} leads it: {list(self.joined.values())}")

    def sync(self) -> Steps[None]:
        """Send a SyncGroup for every member, the leader's last with everyone's assignment."""
        some = next(iter(self.joined.values()))
        generation, protocol = some.generation_id, some.protocol_name
        for client, response in self.joined.items():
            self.members[client] = self.names.member_text(response.member_id)
        leader = self.leader
        assignment = ", ".join(
            f"{self.members[c]}: sales-{k}" for k, c in enumerate(self.instances)
        )
        for client in [*(c for c in self.instances if c != leader), leader]:
            instance = self.instances[client]
            fields = f"group={self.group} generation={generation} type={self.type}"
            fields += f" protocol={protocol} member={self.members[client]}"
            fields += f" instance={instance}" if instance else ""
            fields += f" assignment={{{assignment}}}" if client == leader else ""
            text = f"{client}> SyncGroup v5 {fields}"
            last = yield from self.execute(text, delayed=client != leader)
        if not any(isinstance(each.message, SyncGroupResponse) for each in last):
            raise ResponseError(f"{self.group} did not become Stable")


def set_up_group(names: Names, arguments: Arguments) -> Steps[list[Output]]:
    """Bring a group into a state; return one line that describes it.

    Args:
        names: the names of the transcript.
        arguments: of the command.
    """
    group, state, *clients = arguments.positional
    if state not in _STATES or not clients:
        raise TranscriptError(f"given GROUP STATE CLIENT..., STATE one of {', '.join(_STATES)}")
    generations = int(arguments.take("generation", "1"))
    rebalance_ms = parse_duration_ms(arguments.named.get("rebalance", "60s"))
    setup = _GroupSetup(names, group, clients, arguments)
    for client in setup.instances:
        yield from setup.join(client)
    delay_ms = _initial_delay_ms(len(clients), rebalance_ms)
    # Without an initial delay the first member has its response already.
    missing = len(clients) - len(setup.joined)
    setup.note((yield SetupStep(duration_ms=delay_ms, responses=missing)))
    if len(setup.joined) != len(clients):
        raise ResponseError(f"only {format_list(list(setup.joined))} have joined {group}")
    for _ in range(generations - 1):
        yield from setup.sync()
        setup.joined.clear()
        for client in setup.instances:
            yield from setup.join(client, delayed=client != list(setup.instances)[-1])
    some = next(iter(setup.joined.values()))
    if state != "CompletingRebalance":
        yield from setup.sync()
    if state == "PreparingRebalance":
        yield from setup.join(setup.leader)
    if state == "Empty":
        left = format_list(list(setup.members.values()))
        client = next(iter(setup.instances))
        yield from setup.execute(f"{client}> LeaveGroup v5 group={group} members={left}")
        return [*setup.other, Output([f"{group} Empty"])]
    # A driver for a broker shows a member by its name in the transcript, not by its real id.
    member_text = names.member_text
    members = [member_text(setup.joined[client].member_id) for client in setup.instances]
    line = f"{group} {state} generation={some.generation_id} leader={member_text(some.leader)}"
    return [*setup.other, Output([f"{line} members={format_list(members)}"])]


def _initial_delay_ms(clients: int, rebalance_ms: int) -> int:
    """Return how long the initial delay is with so many clients."""
    if clients == 1:
        return _INITIAL_DELAY_MS
    return min(2 * _INITIAL_DELAY_MS, max(rebalance_ms, _INITIAL_DELAY_MS))
