"""`given GROUP STATE CLIENT...`: clients that have brought a group into a state before the story
begins.

    given orders Stable c1 c2 session=10s
    ----
    orders Stable generation=1 leader=c1-1 members=[c1-1, c2-1]

It is short for the requests that lead there, sent like any others: each client joins (with version
9), the initial delay passes, everybody syncs. `c1/i1` is a static member. The first client leads;
the k-th is assigned `sales-k`, counted from 0. STATE is Stable; CompletingRebalance, where nobody
has synced; PreparingRebalance, where the leader has rejoined and the others have not; or Empty,
where everybody has left again. `generation=N` lets everybody rejoin until that generation. The
virtual clock stands at the end of the initial delay: 3 s for one client, for several 6 s or the
rebalance timeout if that is shorter, since an arrival buys one more slice.
"""

from typing import Protocol

from coterie.conformance.core_broker import Seen
from coterie.conformance.transcript import TranscriptError
from coterie.conformance.words import Words, duration_ms, listed
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.join_group import JoinGroupResponse
from coterie.protocol.messages.sync_group import SyncGroupResponse

_STATES = ("Stable", "CompletingRebalance", "PreparingRebalance", "Empty")
_INITIAL_DELAY_MS = 3_000


class Driver(Protocol):
    """What carries out a command line."""

    def execute(self, text: str, *, parks: bool = False) -> list[Seen]:
        """What follows from one command; `parks` if no answer is to be waited for."""

    def let_pass(self, duration_ms: int, answers: int) -> list[Seen]:
        """What happens in a time, after which so many answers are due."""


class _Cast:
    """The clients of one `given`, as they come to know their group."""

    def __init__(self, driver: Driver, group: str, clients: list[str], words: Words) -> None:
        self.driver = driver
        self.group = group
        self.instances = {name.partition("/")[0]: name.partition("/")[2] for name in clients}
        self.common = " ".join(
            f"{name}={words.named.pop(name)}"
            for name in ("session", "rebalance", "type", "protocols")
            if name in words.named
        )
        self.type = next((w[5:] for w in self.common.split() if w.startswith("type=")), "consumer")
        self.members: dict[str, str] = {}
        self.joined: dict[str, JoinGroupResponse] = {}
        self.other: list[Seen] = []

    def say(self, text: str, *, parks: bool = False) -> list[Seen]:
        """Carry out a line."""
        return self.note(self.driver.execute(text, parks=parks))

    def note(self, seen: list[Seen]) -> list[Seen]:
        """Remember the joins answered; answers to clients outside of the cast will be shown."""
        for each in seen:
            if isinstance(each.message, JoinGroupResponse) and each.client in self.instances:
                self.joined[each.client] = each.message
            elif each.client and each.client not in self.instances:
                self.other.append(each)
        return seen

    def join(self, client: str, *, parks: bool = True) -> None:
        """Ask to join, with a member id as soon as there is one."""
        instance = self.instances[client]
        said = f"group={self.group} {f'instance={instance} ' if instance else ''}{self.common}"
        member = self.members.get(client)
        if member is None and not instance:
            self.say(f'{client}> JoinGroup v9 member="" {said}')
            answer = self.joined.pop(client)
            if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                raise TranscriptError(f"{client} is refused: {answer}")
            member = self.members[client] = answer.member_id
        self.say(f'{client}> JoinGroup v9 member="{member or ""}" {said}', parks=parks)

    def sync(self) -> None:
        """Everybody syncs, the leader last, with an assignment for all."""
        some = next(iter(self.joined.values()))
        generation, protocol = some.generation_id, some.protocol_name
        for client, answer in self.joined.items():
            self.members[client] = answer.member_id
        leader = next(c for c, a in self.joined.items() if a.member_id == a.leader)
        given = ", ".join(f"{self.members[c]}: sales-{k}" for k, c in enumerate(self.instances))
        for client in [*(c for c in self.instances if c != leader), leader]:
            instance = self.instances[client]
            said = f"group={self.group} generation={generation} type={self.type}"
            said += f" protocol={protocol} member={self.members[client]}"
            said += f" instance={instance}" if instance else ""
            said += f" assignment={{{given}}}" if client == leader else ""
            last = self.say(f"{client}> SyncGroup v5 {said}", parks=client != leader)
        if not any(isinstance(each.message, SyncGroupResponse) for each in last):
            raise TranscriptError(f"{self.group} did not become Stable")


def given(driver: Driver, words: Words) -> list[Seen]:
    """Bring a group into a state; one line says what came of it."""
    group, state, *clients = words.bare
    if state not in _STATES or not clients:
        raise TranscriptError(f"given GROUP STATE CLIENT..., STATE one of {', '.join(_STATES)}")
    wanted = int(words.take("generation", "1"))
    rebalance_ms = duration_ms(words.named.get("rebalance", "60s"))
    cast = _Cast(driver, group, clients, words)
    for client in cast.instances:
        cast.join(client)
    cast.note(driver.let_pass(_initial_wait_ms(len(clients), rebalance_ms), len(clients)))
    if len(cast.joined) != len(clients):
        raise TranscriptError(f"only {listed(list(cast.joined))} of {group} were answered")
    for _ in range(wanted - 1):
        cast.sync()
        cast.joined.clear()
        for client in cast.instances:
            cast.join(client, parks=client != list(cast.instances)[-1])
    some = next(iter(cast.joined.values()))
    if state != "CompletingRebalance":
        cast.sync()
    if state == "PreparingRebalance":
        cast.join(next(c for c, a in cast.joined.items() if a.member_id == a.leader))
    if state == "Empty":
        gone = listed(list(cast.members.values()))
        cast.say(f"{next(iter(cast.instances))}> LeaveGroup v5 group={group} members={gone}")
        return [*cast.other, Seen([f"{group} Empty"])]
    # Names, not ids: a driver for a broker shows members by their names in the transcript.
    members = [_name(driver, cast.joined[client].member_id) for client in cast.instances]
    line = f"{group} {state} generation={some.generation_id} leader={_name(driver, some.leader)}"
    return [*cast.other, Seen([f"{line} members={listed(members)}"])]


def _initial_wait_ms(clients: int, rebalance_ms: int) -> int:
    if clients == 1:
        return _INITIAL_DELAY_MS
    return min(2 * _INITIAL_DELAY_MS, max(rebalance_ms, _INITIAL_DELAY_MS))


def _name(driver: Driver, member_id: str) -> str:
    names = getattr(driver, "names", None)
    return member_id if names is None else str(names.member_text(member_id))
