"""Settings of single groups at the broker under check: changed, waited for, and removed again.

Kafka answers when its controller has a change; the brokers learn of it later.
"""

import asyncio

from coterie.conformance.over_tcp.connection import RefusedError
from coterie.conformance.over_tcp.secured import Administrator
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
)
from coterie.protocol.messages.incremental_alter_configs import (
    DELETE,
    SET,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponse,
)

_GROUP_RESOURCE = 32
_POLL_S = 0.02
# How long a broker may take to show a change: a cold one on a busy machine takes seconds.
_LIMIT_S = 15.0


class GroupSettings:
    """The settings of groups that were changed."""

    def __init__(self, administrator: Administrator) -> None:
        """Have changed nothing yet."""
        self._administrator = administrator
        # The groups with settings of their own, and the names of these.
        self._changed: set[tuple[str, str]] = set()

    async def change(self, group_id: str, name: str, value: str) -> None:
        """Change a setting of one group, and wait until the broker shows it.

        Raises:
            RefusedError: the broker does not have the setting, or not this value.
        """
        self._changed.add((group_id, name))
        await self._alter(group_id, name, value)
        for _ in range(int(_LIMIT_S / _POLL_S)):
            if await self._is_shown(group_id, name, value):
                return
            await asyncio.sleep(_POLL_S)

    async def reset(self) -> list[str]:
        """Remove the settings that were changed; return those that are left."""
        for group_id, name in sorted(self._changed):
            await self._alter(group_id, name, None)
        return []

    async def _alter(self, group_id: str, name: str, value: str | None) -> None:
        operation = DELETE if value is None else SET
        config = IncrementalAlterConfigsRequestConfig(
            name=name, config_operation=operation, value=value
        )
        resource = IncrementalAlterConfigsRequestResource(
            resource_type=_GROUP_RESOURCE, resource_name=group_id, configs=[config]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        answer = await self._administrator.call(request, IncrementalAlterConfigsResponse)
        error = ErrorCode(answer.responses[0].error_code)
        if error is not ErrorCode.NONE:
            raise RefusedError(f"the broker refuses {name}={value} for a group: {error.name}")

    async def _is_shown(self, group_id: str, name: str, value: str) -> bool:
        """Return whether the broker shows a setting, or shows none at all."""
        resource = DescribeConfigsRequestResource(
            resource_type=_GROUP_RESOURCE, resource_name=group_id, configuration_keys=[name]
        )
        request = DescribeConfigsRequest(resources=[resource])
        try:
            answer = await self._administrator.call(request, DescribeConfigsResponse)
        except RefusedError:
            return True
        (result,) = answer.results
        return bool(result.error_code) or [each.value for each in result.configs] == [value]
