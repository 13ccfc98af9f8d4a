"""What handlers see of the broker, and what the brokers of one process share of it.

These are base classes and no protocols: compiled code finds the attributes of a class that it knows
without a lookup.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from coterie.coordinator.groups.service import GroupCoordinator
    from coterie.security.acl_store import AclStore
    from coterie.security.credentials import Credentials
    from coterie.security.delegation_tokens import DelegationTokens
    from coterie.server.authorization.access import Access
    from coterie.server.cluster.image import ClusterImage
    from coterie.server.cluster.leadership import Leadership
    from coterie.server.config.config import Config
    from coterie.server.controller import Controller
    from coterie.server.environment import Environment
    from coterie.server.failures import Failures
    from coterie.server.features import Features
    from coterie.server.groups.internal_topics import InternalTopics
    from coterie.server.groups.journal import Journal
    from coterie.server.groups.offsets_topic import OffsetsTopic
    from coterie.server.groups.runtime import GroupRuntime
    from coterie.server.logging import Logger
    from coterie.server.logs.fetch_sessions import FetchSessionCache
    from coterie.server.logs.flusher import Flusher
    from coterie.server.logs.logs import Logs
    from coterie.server.logs.partition import Topic
    from coterie.server.metadata.settings_file import SettingsFile
    from coterie.server.metadata.topic_changes import Change, TopicChanges
    from coterie.server.metadata.topics import Topics
    from coterie.server.quotas.client_quotas import ClientQuotas
    from coterie.server.releases import Release
    from coterie.server.security.security_log import SecurityLog
    from coterie.server.share.leader import ShareLeader
    from coterie.server.share_state.persister import Persister
    from coterie.server.share_state.runtime import ShareStateRuntime
    from coterie.server.slices import Slices
    from coterie.server.telemetry import Telemetry
    from coterie.server.tls.certificates import ListenerCertificates
    from coterie.server.transactions.markers import MarkerWriter
    from coterie.server.transactions.runtime import TransactionRuntime
    from coterie.server.transactions.use import TransactionUses


class SharedServices:
    """The parts that the brokers of one process share.

    Attributes:
        environment: where clocks, ids and threads come from.
        failures: what failed for good.
        config, log, loop: the settings, the log and the event loop.
        topics: the metadata of all topics.
        logs: the logs. A broker has those that it leads.
        controller: creates, extends and deletes topics, and changes settings.
        settings: the stored settings.
        changes: makes changes of topics and settings.
        offsets_topic: the topic of the group coordinators.
        journal: where what happens to groups is kept.
        flusher: syncs logs.
        features: the features of the cluster and their levels.
        quotas: the quotas of users, client ids and addresses.
        slices: does work that takes long, in slices.
        telemetry: counts the metrics that clients push.
        acls: the rules of the authorizer.
        access: the authorizer; None without one.
        security_log: what outlives a restart of credentials, rules and tokens.
        credentials: the SCRAM credentials of users.
        tokens: the delegation tokens.
        leadership: decides which broker leads what; None if there is one broker.
    """

    environment: "Environment"
    config: "Config"
    failures: "Failures"
    log: "Logger"
    loop: "AbstractEventLoop"
    topics: "Topics[Topic]"
    logs: "Logs"
    controller: "Controller"
    settings: "SettingsFile"
    changes: "TopicChanges"
    offsets_topic: "OffsetsTopic"
    journal: "Journal"
    flusher: "Flusher"
    features: "Features"
    quotas: "ClientQuotas"
    slices: "Slices"
    telemetry: "Telemetry"
    acls: "AclStore"
    access: "Access | None"
    security_log: "SecurityLog"
    credentials: "Credentials"
    tokens: "DelegationTokens"
    leadership: "Leadership | None"

    @abstractmethod
    def topic_deletion(self, topic: "Topic", done: Callable[[], None]) -> "Change[None]":
        """Delete a topic with its records and with all committed offsets for it.

        `done` is called when no crash can bring any of it back; perhaps at once.
        """


class Services(SharedServices):
    """The parts of a broker that handlers use.

    Attributes: those of `SharedServices`, and these.
        groups, coordinator: the runtime of the group coordinator, and the coordinator.
        internal_topics: creates the internal topics of streams groups.
        markers: appends the markers that end transactions.
        transactions: verifies and adds partitions of transactions.
        transaction_runtime: the runtime of the transaction coordinator, which does that.
        share_state: the runtime of the share coordinator.
        persister: asks the share coordinators of all brokers.
        share: the share sessions, and the share partitions of the partitions that it leads.
        release: the release of Kafka that the broker pretends to be; None to be itself.
        node_id: the id of this broker.
        image: the cluster as clients see it.
        fetch_sessions: the fetch sessions of all clients.
        tls_listeners: the listeners with TLS, whose files can be read again.
    """

    groups: "GroupRuntime"
    coordinator: "GroupCoordinator"
    internal_topics: "InternalTopics"
    markers: "MarkerWriter"
    transactions: "TransactionUses"
    transaction_runtime: "TransactionRuntime"
    share_state: "ShareStateRuntime"
    persister: "Persister"
    share: "ShareLeader"
    release: "Release | None"
    node_id: int
    image: "ClusterImage"
    fetch_sessions: "FetchSessionCache"
    tls_listeners: "list[ListenerCertificates]"

    @abstractmethod
    def most_fetched_bytes(self) -> int:
        """Return how many bytes the response to a Fetch may have now.

        This is fetch.max.bytes, or less while clients leave much unread [connections/input-limits].
        """
