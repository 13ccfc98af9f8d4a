"""A broker of this process as the parts see it that all of them share."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from coterie.server.cluster.image import ClusterImage
    from coterie.server.groups.runtime import GroupRuntime
    from coterie.server.logs.partition import Partition
    from coterie.server.network.turns import Turns
    from coterie.server.share_state.runtime import ShareStateRuntime
    from coterie.server.transactions.markers import MarkerWriter
    from coterie.server.transactions.runtime import TransactionRuntime


class SharePartitions(Protocol):
    """What a broker keeps for share groups that read the partitions it leads."""

    def give_up(self, partitions: "Collection[Partition]") -> None:
        """Forget those of partitions that another broker leads now."""


class Member(Protocol):
    """A broker that runs.

    Attributes:
        node_id: its id.
        image: the cluster as its clients see it.
        groups, transaction_runtime, share_state: the runtimes of its coordinators.
        markers: appends markers to the partitions that it leads.
        turns: the requests that it handles later.
    """

    node_id: int
    image: "ClusterImage"
    groups: "GroupRuntime"
    transaction_runtime: "TransactionRuntime"
    share_state: "ShareStateRuntime"
    markers: "MarkerWriter"
    turns: "Turns"

    @property
    def share(self) -> SharePartitions:
        """The share partitions of the partitions that it leads."""
