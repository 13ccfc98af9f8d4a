"""The connection ends instead of an answer, in each phase."""

from coterie.client_check.checks.joining import remove_ghost
from coterie.client_check.conversation import ClientExchange
from coterie.client_check.membership import BOTH, CONSUMER
from coterie.client_check.model import Check, Judgement, scenario
from coterie.client_check.run import Run
from coterie.testing.actions import CloseBefore

_LIMIT_S = 40.0
_SOURCE = "[connections/disconnect]"


def _check(api: str) -> Check:
    return Check(
        f"disconnects/{api}",
        f"When the connection ends instead of an answer to {api} the client connects and asks"
        " again.",
        _SOURCE,
    )


async def _close_once(run: Run, *apis: str) -> None:
    """Close the connection at the first request of each API, and wait for the next one.

    A program that ends with an error then differs: Kafka's own client tries again.
    """
    rules = {api: run.rule(CloseBefore(), api) for api in apis}
    await run.start()
    for api, rule in rules.items():
        closed = await run.hit(rule, f"sent {api}")
        await _again(run, api, closed, Judgement.DIFFERS)


async def _again(
    run: Run, api: str, closed: ClientExchange, status: Judgement = Judgement.BREAKS
) -> None:
    def answered() -> bool:
        later = run.talk.of(api, after=closed.place)
        return any(each.response is not None for each in later)

    await run.reached(answered, f"sent {api} again", _LIMIT_S, status)
    run.passes(f"disconnects/{api}")


@scenario(_check("ApiVersions"), protocols=BOTH)
async def versions(run: Run) -> None:
    """The connection ends at the first ApiVersions."""
    rule = run.rule(CloseBefore(), "ApiVersions")
    await run.start()
    await run.hit(rule, "sent ApiVersions")
    await run.stable_or_differs()
    # A client may take the broker for one that is older than ApiVersions.
    run.passes(run.name)


@scenario(_check("Metadata"), _check("FindCoordinator"), protocols=BOTH)
async def lookups(run: Run) -> None:
    """The connection ends at the first Metadata and at the first FindCoordinator."""
    await _close_once(run, "Metadata", "FindCoordinator")
    await run.stable()


@scenario(_check("JoinGroup"), _check("SyncGroup"))
async def joining(run: Run) -> None:
    """The connection ends at the first JoinGroup and at the first SyncGroup."""
    rules = {api: run.rule(CloseBefore(), api) for api in ("JoinGroup", "SyncGroup")}
    await run.start()
    for api, rule in rules.items():
        closed = await run.hit(rule, f"sent {api}", Judgement.BREAKS)
        old_id = closed.request.member_id
        if old_id:
            again = await run.reached(
                lambda: run.talk.first("JoinGroup", "SyncGroup", after=closed.place),  # noqa: B023
                "joined again",
                _LIMIT_S,
            )
            if again.request.member_id != old_id:
                await remove_ghost(run, old_id, closed.place)
    await run.stable()
    for api in rules:
        run.passes(f"disconnects/{api}")


@scenario(_check("OffsetFetch"), _check("ListOffsets"), protocols=BOTH)
async def positions(run: Run) -> None:
    """The connection ends at the first OffsetFetch and at the first ListOffsets."""
    rules = {api: run.rule(CloseBefore(), api) for api in ("OffsetFetch", "ListOffsets")}
    await run.start()
    for api, rule in rules.items():
        closed = await run.hit(rule, f"sent {api}")
        old_id = run.identity()[1]
        await run.until(lambda: run.talk.of(api, after=closed.place) or _joins(run, closed))  # noqa: B023
        if _joins(run, closed):
            await remove_ghost(run, old_id, closed.place)
        await _again(run, api, closed)
    await run.stable()


def _joins(run: Run, closed: ClientExchange) -> list[ClientExchange]:
    return run.joins(closed.place)


_KEEPS_MEMBERSHIP = Check(
    "disconnects/keeps-membership",
    "A lost connection to the coordinator does not make the client join as a new member.",
    _SOURCE + "; [joining/new-member]",
)


@scenario(
    _check("ConsumerGroupHeartbeat"),
    _KEEPS_MEMBERSHIP,
    title="The connection ends at a heartbeat.",
    protocols=(CONSUMER,),
)
@scenario(_check("Heartbeat"), _KEEPS_MEMBERSHIP)
async def heartbeat(run: Run) -> None:
    """The connection ends at a heartbeat."""
    await run.begin()
    _, member_id = run.identity()
    rule = run.rule(CloseBefore(), run.heartbeat)
    closed = await run.hit(rule, "sent a heartbeat")
    await run.until(lambda: run.heartbeats(closed.place) or _joins(run, closed), _LIMIT_S)
    if _joins(run, closed):
        await remove_ghost(run, member_id, closed.place)
    await _again(run, run.heartbeat, closed)
    ids = {each.request.member_id for each in _joins(run, closed)}
    name = "disconnects/keeps-membership"
    run.check(name, ids <= {member_id}, f"it joins as {sorted(ids)}", Judgement.DIFFERS)


@scenario(
    _check("Fetch"),
    Check(
        "disconnects/reads-on",
        "After a lost connection to the leader the client reads on where it was.",
        _SOURCE,
    ),
    protocols=BOTH,
)
async def fetch(run: Run) -> None:
    """The connection ends at a Fetch."""
    await run.begin()
    end = await run.read_more()
    closed = await run.hit(run.rule(CloseBefore(), "Fetch"), "sent a Fetch")
    await _again(run, "Fetch", closed)
    await run.read_more()
    again = run.read_again(end, closed.place)
    run.check("disconnects/reads-on", not again, "it reads records again", Judgement.DIFFERS)


@scenario(
    Check(
        "disconnects/OffsetCommit",
        "When the connection ends instead of an answer to OffsetCommit the client commits again.",
        _SOURCE,
        ("commits",),
    ),
    protocols=BOTH,
)
async def commit(run: Run) -> None:
    """The connection ends at a commit."""
    rule = run.rule(CloseBefore(), "OffsetCommit")
    await run.begin()
    await run.read_more()
    closed = await run.reached(
        lambda: next(iter(rule.hits), None), "committed", _LIMIT_S, Judgement.SKIPPED
    )
    old_id = closed.request.member_id
    await run.until(
        lambda: run.talk.of("OffsetCommit", after=closed.place) or _joins(run, closed), _LIMIT_S
    )
    if _joins(run, closed):
        await remove_ghost(run, old_id, closed.place)
        await run.read_more()
    await _again(run, "OffsetCommit", closed)
