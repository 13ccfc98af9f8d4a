"""Static members of the consumer protocol: they leave for a while, come back, and give way."""

from functools import partial

from coterie.client_check.checks.joining import refused_for_good
from coterie.client_check.checks.static import INSTANCE
from coterie.client_check.membership import CONSUMER
from coterie.client_check.model import Check, Judgement, partitions_text, scenario
from coterie.client_check.run import Run
from coterie.conversation.consumer_protocol_member import STATIC_LEAVE_EPOCH
from coterie.protocol.errors import ErrorCode

_SOURCE = "KIP-848; [consumer-groups/static-members]"


@scenario(
    Check(
        "static/states-instance",
        "The heartbeats with which a static member joins and leaves have its instance id.",
        _SOURCE,
        ("instance_id",),
    ),
    Check(
        "static/leaves-for-a-while",
        "When the program ends a static member sends a heartbeat with epoch -2.",
        "KIP-848; [consumer-groups/leave]",
        ("instance_id", "ends"),
    ),
    Check(
        "static/comes-back",
        "After a restart a static member has its partitions again, and the epoch is the same.",
        _SOURCE,
        ("instance_id", "ends"),
    ),
    instance_id=INSTANCE,
    protocols=(CONSUMER,),
)
async def restarted(run: Run) -> None:
    """A static member ends and is started again."""
    await run.begin()
    await run.read_more()
    epoch, _ = run.identity()
    begin = run.talk.now
    await run.stop()
    left = run.membership.leaves(begin)
    epochs = [each.request.member_epoch for each in left]
    stated = {each.request.instance_id for each in [*run.joins(), *left]}
    run.check("static/states-instance", stated == {INSTANCE}, f"they have {stated}")
    run.check(
        "static/leaves-for-a-while",
        epochs == [STATIC_LEAVE_EPOCH],
        f"it leaves with {epochs}",
        Judgement.BREAKS if epochs else Judgement.DIFFERS,
    )
    begin = run.talk.now
    await run.start_again()
    given = await run.stable(after=begin)
    own, now = run.membership.assigned(given), given.response.member_epoch
    run.check(
        "static/comes-back",
        set(own) == run.partitions() and now == epoch,
        f"it has {partitions_text(own)} at epoch {now}; before, the epoch was {epoch}",
    )


scenario(
    Check(
        "static/accepts-unreleased-instance",
        "After UNRELEASED_INSTANCE_ID (111) a static member stops, or tries again slowly.",
        _SOURCE,
        ("instance_id",),
    ),
    title="Another member has the instance id.",
    protocols=(CONSUMER,),
    instance_id=INSTANCE,
)(partial(refused_for_good, error=ErrorCode.UNRELEASED_INSTANCE_ID))
