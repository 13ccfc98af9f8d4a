"""Joins of the consumer protocol: a lost answer, refusals, a broker without the protocol."""

from coterie.client_check.checks.joining import refuses_for_good
from coterie.client_check.membership import CONSUMER
from coterie.client_check.model import Check, Judgement, scenario
from coterie.client_check.run import Run
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.testing.actions import CloseAfter

_WATCHED_S = 5.0
_NOT_ANNOUNCED = (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE)


@scenario(
    Check(
        "joining/keeps-id-after-lost-answer",
        "When the answer to its first heartbeat is lost the client joins again with its id.",
        "KIP-1082; [consumer-groups/member-epochs]",
    ),
    protocols=(CONSUMER,),
)
async def lost_join(run: Run) -> None:
    """The answer to the first heartbeat is lost."""
    rule = run.rule(CloseAfter(), run.heartbeat)
    await run.start()
    lost = await run.hit(rule, "joined the group", Judgement.BREAKS)
    again = await run.joined(lost.place)
    old_id, used = lost.request.member_id, again.request.member_id
    if used != old_id:
        await run.broker.expel(run.group, old_id)
    run.check(
        run.name,
        used == old_id,
        f"it joins as '{used}', so {old_id} stays in the group for a session",
        Judgement.DIFFERS,
    )
    await run.stable()


@scenario(
    Check(
        "joining/without-the-protocol",
        "A client sends no ConsumerGroupHeartbeat to a broker that does not announce it.",
        "KIP-35, KIP-848; [consumer-groups/switched-off]",
    ),
    protocols=(CONSUMER,),
)
async def not_announced(run: Run) -> None:
    """The broker does not know the consumer protocol."""
    run.broker.announced = {
        api: versions for api, versions in SERVED_VERSIONS.items() if api not in _NOT_ANNOUNCED
    }
    await run.start()
    await run.until(lambda: run.talk.exchanges)
    await run.sleep(_WATCHED_S)
    sent = [each.text for each in run.talk.of_kind("malformed") if "announced" in each.text]
    run.check(run.name, not sent, f"it {sent[0] if sent else ''}")


refuses_for_good(
    "The broker does not serve the consumer protocol.",
    Check(
        "joining/accepts-switched-off",
        "After UNSUPPORTED_VERSION (35) the client stops, or tries again slowly.",
        "KIP-848; [consumer-groups/switched-off]",
    ),
    ErrorCode.UNSUPPORTED_VERSION,
    (CONSUMER,),
)
refuses_for_good(
    "The broker does not have the assignor.",
    Check(
        "joining/accepts-unsupported-assignor",
        "After UNSUPPORTED_ASSIGNOR (112) the client stops, or tries again slowly.",
        "KIP-848; [consumer-groups/order-of-checks]",
    ),
    ErrorCode.UNSUPPORTED_ASSIGNOR,
    (CONSUMER,),
)
refuses_for_good(
    "The broker finds the heartbeat invalid.",
    Check(
        "joining/accepts-invalid-request",
        "After INVALID_REQUEST (42) the client stops, or tries again slowly.",
        "KIP-848; [consumer-groups/order-of-checks]",
    ),
    ErrorCode.INVALID_REQUEST,
    (CONSUMER,),
)
