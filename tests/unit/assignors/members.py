"""Short ways to write members and assignments in tables."""

from coterie.assignors import Assignment, MemberSubscription, TopicPartition


def partitions(text: str) -> tuple[TopicPartition, ...]:
    """`a-0 a-1` as partitions."""
    pairs = (each.rsplit("-", 1) for each in text.split())
    return tuple(TopicPartition(topic, int(number)) for topic, number in pairs)


def member(
    member_id: str,
    topics: str,
    owned: str = "",
    *,
    generation: int | None = None,
    instance: str | None = None,
) -> MemberSubscription:
    return MemberSubscription(
        member_id, tuple(topics.split()), partitions(owned), generation, instance
    )


def table(assignment: Assignment) -> dict[str, str]:
    """An assignment as it is written in a table, each member's partitions in order."""
    return {
        member_id: " ".join(str(partition) for partition in sorted(given))
        for member_id, given in assignment.items()
    }
