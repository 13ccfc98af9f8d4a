"""The check of each API: declared, written by hand, or none because a login is enough."""

from functools import cache

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.resources import resources
from coterie.server.authorization.administration import (
    alter_client_quotas,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    describe_user_scram_credentials,
    elect_leaders,
)
from coterie.server.authorization.configs import alter_configs, describe_configs
from coterie.server.authorization.declared import declared_check
from coterie.server.authorization.fetches import fetch, fetch_message_sets
from coterie.server.authorization.groups import (
    consumer_group_heartbeat,
    describe_by_id,
    describe_groups,
    find_coordinator,
    list_groups,
    sync_group,
)
from coterie.server.authorization.offsets import offset_commit, offset_fetch
from coterie.server.authorization.outcome import Check
from coterie.server.authorization.produce import produce
from coterie.server.authorization.share_groups import (
    alter_share_group_offsets,
    describe_share_group_offsets,
    share_group_heartbeat,
)
from coterie.server.authorization.shares import share_acknowledge, share_fetch
from coterie.server.authorization.streams_groups import (
    streams_group_heartbeat,
)
from coterie.server.authorization.tokens import (
    create_delegation_token,
    describe_delegation_token,
)
from coterie.server.authorization.topics import (
    create_topics,
    delete_topics,
    describe_cluster,
    describe_producers,
    describe_topic_partitions,
    metadata,
    offset_for_leader_epoch,
)
from coterie.server.authorization.transactions import (
    add_partitions_to_txn,
    describe_transactions,
    init_producer_id,
    list_transactions,
    write_txn_markers,
)

# A login is enough for these.
LOGIN_IS_ENOUGH = {
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
}

# What does not fit the declaration, or adds to what follows from it.
_BY_HAND: dict[ApiKey, Check] = {
    ApiKey.ALTER_CLIENT_QUOTAS: alter_client_quotas,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: alter_partition_reassignments,
    ApiKey.ALTER_REPLICA_LOG_DIRS: alter_replica_log_dirs,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: alter_user_scram_credentials,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: describe_user_scram_credentials,
    ApiKey.ELECT_LEADERS: elect_leaders,
    ApiKey.CREATE_DELEGATION_TOKEN: create_delegation_token,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: describe_delegation_token,
    ApiKey.PRODUCE: produce,
    ApiKey.METADATA: metadata,
    ApiKey.OFFSET_COMMIT: offset_commit,
    ApiKey.OFFSET_FETCH: offset_fetch,
    ApiKey.FIND_COORDINATOR: find_coordinator,
    ApiKey.SYNC_GROUP: sync_group,
    ApiKey.DESCRIBE_GROUPS: describe_groups,
    ApiKey.LIST_GROUPS: list_groups,
    ApiKey.CREATE_TOPICS: create_topics,
    ApiKey.DELETE_TOPICS: delete_topics,
    ApiKey.INIT_PRODUCER_ID: init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
    ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions_to_txn,
    ApiKey.WRITE_TXN_MARKERS: write_txn_markers,
    ApiKey.DESCRIBE_CONFIGS: describe_configs,
    ApiKey.ALTER_CONFIGS: alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: alter_configs,
    ApiKey.DESCRIBE_PRODUCERS: describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: describe_transactions,
    ApiKey.LIST_TRANSACTIONS: list_transactions,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: describe_by_id(lambda each: each.serves_consumer_groups),
    ApiKey.SHARE_GROUP_HEARTBEAT: share_group_heartbeat,
    ApiKey.SHARE_GROUP_DESCRIBE: describe_by_id(lambda each: each.serves_share_groups),
    ApiKey.STREAMS_GROUP_HEARTBEAT: streams_group_heartbeat,
    ApiKey.STREAMS_GROUP_DESCRIBE: describe_by_id(lambda each: each.serves_streams_groups),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: alter_share_group_offsets,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: describe_share_group_offsets,
    ApiKey.SHARE_FETCH: share_fetch,
    ApiKey.SHARE_ACKNOWLEDGE: share_acknowledge,
}
# From this version on a Fetch reads batches.
_BATCHES_SINCE = 4


@cache
def check_of(api: ApiKey, version: int) -> Check | None:
    """Return the check of an API in a version; None if a login is enough.

    Raises:
        AssertionError: the API has no declared need, and must not be served.
    """
    if api in LOGIN_IS_ENOUGH:
        return None
    if api is ApiKey.FETCH:
        return fetch if version >= _BATCHES_SINCE else fetch_message_sets
    by_hand = _BY_HAND.get(api)
    if by_hand is not None:
        return by_hand
    assert api in resources(), f"{api.kafka_name} declares no need"
    return declared_check(api, version)
