"""The types of groups that are served. The first is that of groups which a commit creates."""

from coterie.coordinator.groups.classic.group_type import ClassicType
from coterie.coordinator.groups.consumer.group_type import ConsumerType
from coterie.coordinator.groups.group_type import GroupTypes
from coterie.coordinator.groups.share.group_type import ShareType
from coterie.coordinator.groups.streams.group_type import StreamsType

SERVED_TYPES = GroupTypes((ClassicType(), ConsumerType(), ShareType(), StreamsType()))
