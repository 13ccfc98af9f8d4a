"""Tables of routes: stages of a session, and tables that are laid over others."""

from typing import Any

import pytest

from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.messages.api_versions import ApiVersionsRequest
from coterie.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.protocol.messages.list_groups import ListGroupsRequest
from coterie.protocol.messages.metadata import MetadataRequest
from coterie.server.network.route import Handler
from coterie.server.network.routes import Overlay, Routes
from tests.unit.server.manual import Client, logged, make_broker

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
VERSIONS = ApiVersionsRequest(client_software_name="a", client_software_version="1")
# What a client may ask for before it has logged in, as far as there are logins.
STAGE = {api: SERVED_VERSIONS[api] for api in (ApiKey.API_VERSIONS, ApiKey.HEARTBEAT)}


def test_table_of_a_stage_closes_a_connection_that_asks_for_more() -> None:
    broker = make_broker()
    broker.use_routes(Routes(STAGE))
    client = Client(broker)
    assert client.call(VERSIONS, 3).error_code == 0
    client.send(MetadataRequest(topics=[]), 9)
    assert client.transport.closed
    assert client.answers() == []
    (line,) = logged(broker, "connection closed")
    assert "Metadata is not served on this connection" in line["reason"]


def test_next_request_of_a_read_has_the_table_that_a_handler_has_chosen() -> None:
    broker = make_broker()
    ready, stage = broker.routes, Routes(STAGE)

    def log_in(_handle: Handler) -> Handler:
        def handle(_broker: Any, request: HeartbeatRequest, connection: Any) -> HeartbeatResponse:
            connection.routes = ready if request.generation_id else stage
            return HeartbeatResponse(error_code=ErrorCode.NONE)

        return handle

    broker.use_routes(Overlay(stage, {ApiKey.HEARTBEAT: log_in}))
    client = Client(broker)
    client.connection.data_received(
        client.frame(VERSIONS, 3)
        + client.frame(HEARTBEAT, 4)
        + client.frame(ListGroupsRequest(), 4)
    )
    assert [answer.error_code for _, answer in client.answers()] == [0, 0, 0]
    # Others are not logged in by that.
    other = Client(broker)
    other.send(ListGroupsRequest(), 4)
    assert other.transport.closed


def test_overlay_replaces_the_handlers_of_its_apis_and_no_others() -> None:
    broker = make_broker()
    client = Client(broker)
    before = client.call(HEARTBEAT, 4)
    client.call(VERSIONS, 3)
    calls: list[int] = []

    def fail_every_second(handle: Handler) -> Handler:
        def faulty(services: Any, request: Any, connection: Any) -> Any:
            calls.append(connection.version)
            if len(calls) % 2:
                return HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)
            return handle(services, request, connection)

        return faulty

    below = broker.routes
    overlay = Overlay(below, {ApiKey.HEARTBEAT: fail_every_second})
    broker.use_routes(overlay)
    for each in (client, Client(broker)):
        assert each.call(HEARTBEAT, 4).error_code == ErrorCode.NOT_COORDINATOR
        assert each.call(HEARTBEAT, 3).error_code == before.error_code
    assert calls == [4, 3, 4, 3]
    client.call(VERSIONS, 3)
    key = ApiKey.API_VERSIONS << 16 | 3
    assert overlay[key] is below[key]
    broker.use_routes(below)
    assert client.call(HEARTBEAT, 4).error_code == before.error_code
    assert len(calls) == 4


def test_overlays_are_laid_over_each_other() -> None:
    broker = make_broker()
    order: list[str] = []

    def noting(name: str) -> Any:
        def wrap(handle: Handler) -> Handler:
            def noted(services: Any, request: Any, connection: Any) -> Any:
                order.append(name)
                return handle(services, request, connection)

            return noted

        return wrap

    lower = Overlay(broker.routes, {ApiKey.HEARTBEAT: noting("lower")})
    broker.use_routes(Overlay(lower, {ApiKey.HEARTBEAT: noting("upper")}))
    Client(broker).call(HEARTBEAT, 4)
    assert order == ["upper", "lower"]


def test_unknown_versions_of_api_versions_are_not_kept() -> None:
    overlay = Overlay(Routes(), {})
    for version in (99, 100):
        assert overlay.load(ApiKey.API_VERSIONS << 16 | version).version == 0
    assert not overlay
    with pytest.raises(MalformedFrame, match="version 99 is not served"):
        overlay.load(ApiKey.HEARTBEAT << 16 | 99)
