"""Short notations for members and assignments in tables."""

from coterie.assignors.model import Assignment, MemberSubscription, TopicPartition


def partitions(text: str) -> tuple[TopicPartition, ...]:
    """Parse partitions such as `a-0 a-1`."""
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
    """Return an assignment as a table, with the partitions of each member in order."""
    return {
        member_id: " ".join(str(partition) for partition in sorted(given))
        for member_id, given in assignment.items()
    }
