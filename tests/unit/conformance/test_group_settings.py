"""A check goes on when the broker shows the setting of a group that it has changed."""

from typing import Any

import pytest

from coterie.address import Address
from coterie.client.security import PLAINTEXT
from coterie.conformance.over_tcp.connection import RefusedError
from coterie.conformance.over_tcp.group_settings import GroupSettings
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.describe_configs import (
    DescribeConfigsResponse,
    DescribeConfigsResponseConfig,
    DescribeConfigsResponseResult,
)
from coterie.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseResource,
)

pytestmark = pytest.mark.asyncio
NAME = "share.auto.offset.reset"


class SlowBroker:
    """A broker that shows the values of a list, one at each request, and the error of the last."""

    address = Address("127.0.0.1", 9092)
    security = PLAINTEXT

    def __init__(self, *shown: str | ErrorCode) -> None:
        self.shown = list(shown)

    async def call(self, request: Any, response: Any, highest: int = 32767) -> Any:
        assert request.resources[0].resource_name == "crew"
        if response is IncrementalAlterConfigsResponse:
            altered = IncrementalAlterConfigsResponseResource(
                error_code=0, error_message=None, resource_type=32, resource_name="crew"
            )
            return IncrementalAlterConfigsResponse(responses=[altered])
        value = self.shown.pop(0)
        if value is ErrorCode.UNSUPPORTED_VERSION:
            raise RefusedError("the broker does not serve DescribeConfigs")
        configs = [] if isinstance(value, ErrorCode) else [value]
        result = DescribeConfigsResponseResult(
            error_code=value if isinstance(value, ErrorCode) else ErrorCode.NONE,
            error_message=None,
            resource_type=32,
            resource_name="crew",
            configs=[
                DescribeConfigsResponseConfig(
                    name=NAME, value=each, read_only=False, is_sensitive=False
                )
                for each in configs
            ],
        )
        return DescribeConfigsResponse(results=[result])


@pytest.mark.parametrize(
    "shown",
    [
        ("earliest",),
        ("latest", "latest", "earliest"),
        ("latest", ErrorCode.INVALID_REQUEST),
        (ErrorCode.UNSUPPORTED_VERSION,),
    ],
)
async def test_a_change_is_waited_for_as_long_as_the_broker_shows_another_value(
    shown: tuple[str | ErrorCode, ...],
) -> None:
    broker = SlowBroker(*shown)
    await GroupSettings(broker).change("crew", NAME, "earliest")
    assert not broker.shown
