"""Where the client starts to read: committed offsets, offsets that do not exist, truncated logs."""

from coterie.assignors.model import TopicPartition
from coterie.client_check.membership import BOTH
from coterie.client_check.model import Check, Judgement, scenario
from coterie.client_check.run import RECORDS, TOPIC, Run
from coterie.client_check.script import SetFields
from coterie.protocol.errors import ErrorCode
from coterie.testing.actions import AnswerError

_COMMITTED = 3
_BEYOND = 1_000
_NEW_EPOCH = 7
_TRUNCATED_AT = 2
_LIMIT_S = 20.0


@scenario(
    Check(
        "positions/starts-at-committed",
        "The client starts at the committed offset.",
        "[offsets/fetch]",
    ),
    Check(
        "reading/from-committed",
        "The first record that the program reads is the one at the committed offset.",
        "[offsets/fetch]",
        ("prints",),
    ),
    protocols=BOTH,
)
async def committed(run: Run) -> None:
    """The group has committed offset 3 of every partition."""
    await run.member("before").commit(dict.fromkeys(run.partitions(), _COMMITTED))
    await run.begin()
    await run.reached(
        lambda: len(run.first_positions()) == len(run.partitions()), "fetched every partition"
    )
    firsts = run.first_positions()
    run.check(
        "positions/starts-at-committed",
        set(firsts.values()) == {_COMMITTED},
        f"committed is {_COMMITTED}, it starts at {sorted(firsts.values())}",
    )
    await run.until(lambda: len({each.partition for each in run.records()}) == len(firsts))
    read: dict[int, int] = {}
    for each in run.records():
        read.setdefault(each.partition, each.offset)
    run.check(
        "reading/from-committed",
        set(read.values()) == {_COMMITTED} and len(read) == len(firsts),
        f"committed is {_COMMITTED}, it reads first {sorted(read.values())}",
    )


@scenario(
    Check(
        "positions/resets-out-of-range",
        "After OFFSET_OUT_OF_RANGE (1) the client looks an offset up and reads there.",
        "auto.offset.reset of Kafka's consumer; [data-plane/fetch-offset]",
    ),
    protocols=BOTH,
)
async def out_of_range(run: Run) -> None:
    """The committed offset of a partition lies beyond its end."""
    partition = TopicPartition(TOPIC, 0)
    await run.member("before").commit({partition: _BEYOND})
    await run.begin()

    def is_back() -> bool:
        return any(
            0 <= run.positions(each).get(partition, -1) <= RECORDS for each in run.talk.of("Fetch")
        )

    await run.reached(is_back, f"fetched {partition} at an offset that exists", _LIMIT_S)
    asked = run.talk.first("ListOffsets")
    run.check(run.name, asked, "it goes on without ListOffsets", Judgement.DIFFERS)


@scenario(
    Check(
        "positions/checks-new-epoch",
        "When a partition has a new leader epoch the client asks where the epoch it read ends.",
        "KIP-320; [data-plane/epoch-end-offset]",
        ("version:Fetch>=9",),
    ),
    Check(
        "positions/detects-truncation",
        "The client does not go on behind the end of a log that was truncated.",
        "KIP-320; [data-plane/epoch-after-cut]",
        ("version:Fetch>=9",),
    ),
    protocols=BOTH,
)
async def truncated(run: Run) -> None:
    """A new leader has a shorter log than the client has read."""
    any_epoch = {"topics.partitions.current_leader_epoch": -1}
    run.rule(
        SetFields(
            {
                "topics.partitions.leader_epoch": 0,
                "topics.partitions.end_offset": _TRUNCATED_AT,
                "topics.partitions.error_code": 0,
            },
            any_epoch,
        ),
        "OffsetForLeaderEpoch",
        times=None,
    )
    await run.begin()
    end = await run.read_more()
    epochs = {
        each.current_leader_epoch
        for fetch in run.talk.of("Fetch")
        for topic in fetch.request.topics
        for each in topic.partitions
    }
    if max(epochs) < 0:
        for check in run.scenario.checks:
            run.skip(check.name, "the client does not keep leader epochs: its Fetch has none")
        return
    run.rule(SetFields({"topics.partitions.leader_epoch": _NEW_EPOCH}), "Metadata", times=None)
    run.rule(AnswerError(ErrorCode.FENCED_LEADER_EPOCH), "Fetch")
    run.rule(SetFields({}, any_epoch), "Fetch", times=None)
    run.rule(SetFields({}, any_epoch), "ListOffsets", times=None)
    begin = run.talk.now
    run.say(f"the leader epoch is {_NEW_EPOCH}, and epoch 0 ends at offset {_TRUNCATED_AT}")
    asked = await run.until(lambda: run.talk.first("OffsetForLeaderEpoch", after=begin), _LIMIT_S)
    run.check(
        "positions/checks-new-epoch",
        asked,
        "it goes on without OffsetForLeaderEpoch",
        Judgement.DIFFERS,
    )
    name = "positions/detects-truncation"
    if asked is None:
        run.skip(name, "the client does not ask, so it cannot know")
        return
    back = await run.until(lambda: run.read_again(end, asked.answered_place), _LIMIT_S)
    ended = run.program.exit_code is not None
    run.check(name, back or ended, f"it goes on at offset {end}", Judgement.DIFFERS)
