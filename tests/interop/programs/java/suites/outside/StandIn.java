package outside;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import kafka.cluster.Partition;
import kafka.log.LogManager;
import kafka.network.SocketServer;
import kafka.raft.KafkaRaftManager;
import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaApis;
import kafka.server.KafkaConfig;
import kafka.server.ReplicaManager;
import kafka.server.SharedServer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TopicListing;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.image.loader.MetadataLoader;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.storage.internals.log.LogCleaner;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.mockito.Mockito;
import org.mockito.invocation.InvocationOnMock;
import scala.Option;

/**
 * What Kafka's tests take for a broker of their own process: it answers from outside what an
 * administrator can ask, and refuses what only the objects inside a broker know.
 */
public final class StandIn {
    private final OutsideBrokers brokers;
    private final int id;
    private final KafkaConfig config;
    private final KRaftMetadataCache cache;

    private StandIn(OutsideBrokers brokers, int id, KafkaConfig config) {
        this.brokers = brokers;
        this.id = id;
        this.config = config;
        this.cache = Mockito.mock(KRaftMetadataCache.class, this::fromCache);
    }

    public static BrokerServer of(OutsideBrokers brokers, int id, KafkaConfig config) {
        StandIn self = new StandIn(brokers, id, config);
        return Mockito.mock(
            BrokerServer.class, Mockito.withSettings().stubOnly().defaultAnswer(self::fromBroker));
    }

    public static KafkaConfig config(OutsideBrokers brokers, int id) {
        Properties properties = new Properties();
        properties.putAll(brokers.settings);
        properties.put("node.id", Integer.toString(id));
        properties.put("process.roles", "broker");
        properties.put("controller.quorum.bootstrap.servers", "127.0.0.1:1");
        properties.put("controller.listener.names", "CONTROLLER");
        properties.remove("advertised.listeners");
        properties.remove("authorizer.class.name");
        properties.put("listeners", "EXTERNAL://" + brokers.bootstrap(id));
        properties.put("inter.broker.listener.name", "EXTERNAL");
        properties.put(
            "listener.security.protocol.map", "EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT");
        return KafkaConfig.fromProps(properties);
    }

    private Object fromBroker(InvocationOnMock call) throws Exception {
        switch (call.getMethod().getName()) {
            case "config": return config;
            case "boundPort": return port(call);
            case "metadataCache": return cache;
            case "startup": brokers.start(id); return null;
            case "shutdown": brokers.stop(id); return null;
            case "awaitShutdown": return null;
            case "isShutdown": return !brokers.isRunning(id);
            case "brokerState":
                return brokers.isRunning(id) ? BrokerState.RUNNING : BrokerState.NOT_RUNNING;
            case "clusterId": return ask(admin -> admin.describeCluster().clusterId().get());
            case "authorizerPlugin": return authorizer(brokers);
            case "sharedServer": return sharedServer();
            case "socketServer": return socketServer();
            case "dataPlaneRequestProcessor": return requests();
            case "groupCoordinator": return groupCoordinator();
            case "replicaManager": return holder(ReplicaManager.class);
            case "logManager": return holder(LogManager.class);
            case "toString": return "broker " + id + " at " + brokers.bootstrap(id);
            case "hashCode": return System.identityHashCode(call.getMock());
            case "equals": return call.getMock() == call.getArgument(0);
            default: throw inside(call);
        }
    }

    private Object fromCache(InvocationOnMock call) throws Exception {
        switch (call.getMethod().getName()) {
            case "contains":
                Object wanted = call.getArgument(0);
                if (wanted instanceof TopicPartition) {
                    TopicPartition one = (TopicPartition) wanted;
                    return partitions(one.topic()).map(all -> one.partition() < all.size())
                        .orElse(false);
                }
                return partitions((String) wanted).isPresent();
            case "numPartitions":
                return partitions(call.getArgument(0)).map(List::size);
            case "getLeaderAndIsr":
                int index = call.getArgument(1);
                return partitions(call.getArgument(0))
                    .filter(all -> index < all.size())
                    .map(all -> all.get(index))
                    .map(one -> new LeaderAndIsr(
                        one.leader() == null ? LeaderAndIsr.NO_LEADER : one.leader().id(),
                        0,
                        one.isr().stream().map(Node::id).collect(Collectors.toList()),
                        LeaderRecoveryState.RECOVERED,
                        0));
            case "getAllTopics": return ids().keySet();
            case "topicNamesToIds": return ids();
            case "topicIdsToNames":
                Map<Object, Object> turned = new HashMap<>();
                ids().forEach((name, uuid) -> turned.put(uuid, name));
                return turned;
            case "getTopicId":
                Object found = ids().get(call.<String>getArgument(0));
                return found == null ? org.apache.kafka.common.Uuid.ZERO_UUID : found;
            case "getAliveBrokerNodes":
                return brokers.ids().stream().filter(brokers::isRunning)
                    .map(one -> new Node(
                        one, "localhost", brokers.port(one, call.<ListenerName>getArgument(0).value())))
                    .collect(Collectors.toList());
            case "hasAliveBroker": return brokers.isRunning(call.getArgument(0));
            case "config": case "topicConfig": return topicConfig(call.getArgument(0));
            case "toString": return "metadata of " + brokers.bootstrap(id);
            default: throw inside(call);
        }
    }

    private Properties topicConfig(Object of) throws Exception {
        ConfigResource resource = of instanceof ConfigResource
            ? (ConfigResource) of : new ConfigResource(ConfigResource.Type.TOPIC, (String) of);
        Properties found = new Properties();
        ask(admin -> admin.describeConfigs(Set.of(resource)).all().get()).get(resource).entries()
            .stream().filter(entry -> !entry.isDefault())
            .forEach(entry -> found.put(entry.name(), entry.value()));
        return found;
    }

    private Map<String, Object> ids() throws Exception {
        Map<String, Object> found = new HashMap<>();
        ListTopicsOptions all = new ListTopicsOptions().listInternal(true);
        for (TopicListing each : ask(admin -> admin.listTopics(all).listings().get())) {
            found.put(each.name(), each.topicId());
        }
        return found;
    }

    private Optional<List<TopicPartitionInfo>> partitions(String topic) throws Exception {
        try {
            Map<String, TopicDescription> found =
                ask(admin -> admin.describeTopics(List.of(topic)).allTopicNames().get());
            return Optional.of(new ArrayList<>(found.get(topic).partitions()));
        } catch (ExecutionException error) {
            if (error.getCause() instanceof UnknownTopicOrPartitionException) {
                return Optional.empty();
            }
            throw error;
        }
    }

    interface Question<T> {
        T of(Admin admin) throws Exception;
    }

    private <T> T ask(Question<T> question) throws Exception {
        try (Admin admin = Admin.create(brokers.administrator())) {
            return question.of(admin);
        }
    }

    private int port(InvocationOnMock call) {
        return brokers.port(id, call.<ListenerName>getArgument(0).value());
    }

    /** Return the authorizer of a broker, as its own process would have it. */
    static Option<Plugin<Authorizer>> authorizer(OutsideBrokers brokers) {
        return brokers.settings.containsKey("authorizer.class.name")
            ? Option.apply(Plugin.wrapInstance(new OutsideAuthorizer(brokers), null, "authorizer"))
            : Option.empty();
    }

    /** Return what stands in for the controller: it has the authorizer and the ids of topics. */
    public static ControllerServer controller(OutsideBrokers brokers) {
        StandIn first = new StandIn(brokers, brokers.firstId, null);
        Controller topics = Mockito.mock(
            Controller.class, Mockito.withSettings().stubOnly().defaultAnswer(call -> {
                if (call.getMethod().getName().equals("findAllTopicIds")) {
                    return CompletableFuture.completedFuture(first.ids());
                }
                throw inside(call);
            }));
        return Mockito.mock(ControllerServer.class, Mockito.withSettings().stubOnly().defaultAnswer(
            call -> {
                switch (call.getMethod().getName()) {
                    case "authorizerPlugin": return authorizer(brokers);
                    case "controller": return topics;
                    // Its log ends at 0, so every broker has read it.
                    case "raftManager":
                        return Mockito.mock(KafkaRaftManager.class, Mockito.RETURNS_DEEP_STUBS);
                    default: throw inside(call);
                }
            }));
    }

    private SocketServer socketServer() {
        return Mockito.mock(SocketServer.class, Mockito.withSettings().stubOnly().defaultAnswer(
            call -> {
                if (call.getMethod().getName().equals("boundPort")) {
                    return port(call);
                }
                throw inside(call);
            }));
    }

    /** Stand in for what holds partitions or logs. */
    private <T> T holder(Class<T> type) {
        return Mockito.mock(type, Mockito.withSettings().stubOnly().defaultAnswer(call -> {
            String asked = call.getMethod().getName();
            switch (asked) {
                case "getLog$default$2": return false;
                case "cleaner": return cleaner();
                case "localLog": case "getLog": break;
                case "onlinePartition":
                    if (!brokers.isRunning(id)) {
                        return Option.empty();
                    }
                    break;
                default: throw inside(call);
            }
            TopicPartition one = call.getArgument(0);
            if (!partitions(one.topic()).filter(all -> one.partition() < all.size()).isPresent()) {
                return Option.empty();
            }
            return Option.apply(asked.equals("onlinePartition") ? partition(one) : log(one));
        }));
    }

    /** Stand in for the cleaner, which compacts a partition while the brokers are stopped. */
    private LogCleaner cleaner() {
        return Mockito.mock(LogCleaner.class, Mockito.withSettings().stubOnly().defaultAnswer(
            call -> {
                if (!call.getMethod().getName().equals("awaitCleaned")) {
                    throw inside(call);
                }
                brokers.compact(call.getArgument(0).toString());
                return true;
            }));
    }

    private Partition partition(TopicPartition one) {
        return Mockito.mock(Partition.class, Mockito.withSettings().stubOnly().defaultAnswer(
            call -> {
                switch (call.getMethod().getName()) {
                    case "leaderLogIfLocal":
                        return leads(one) ? Option.apply(log(one)) : Option.empty();
                    case "isLeader": return leads(one);
                    case "leaderReplicaIdOpt": return leader(one);
                    case "getLeaderEpoch": return leaderEpoch(one);
                    default: throw inside(call);
                }
            }));
    }

    private Option<Object> leader(TopicPartition one) throws Exception {
        Node leader = partitions(one.topic()).orElseThrow().get(one.partition()).leader();
        return leader == null ? Option.empty() : Option.apply(leader.id());
    }

    private boolean leads(TopicPartition one) throws Exception {
        return leader(one).contains(id);
    }

    private UnifiedLog log(TopicPartition one) {
        return Mockito.mock(UnifiedLog.class, Mockito.withSettings().stubOnly().defaultAnswer(
            call -> {
                switch (call.getMethod().getName()) {
                    case "logStartOffset": case "localLogStartOffset":
                        return offset(one, OffsetSpec.earliest());
                    case "logEndOffset": case "highWatermark":
                        return offset(one, OffsetSpec.latest());
                    case "producerStateManager": return producers(one);
                    // It comes before the cleaner, and ours cleans the last segment, too.
                    case "roll": return null;
                    default: throw inside(call);
                }
            }));
    }

    private ProducerStateManager producers(TopicPartition one) {
        return Mockito.mock(ProducerStateManager.class, call -> {
            if (!call.getMethod().getName().equals("activeProducers")) {
                throw inside(call);
            }
            Map<Long, ProducerStateEntry> found = new HashMap<>();
            ask(admin -> admin.describeProducers(List.of(one)).partitionResult(one).get())
                .activeProducers().forEach(each -> found.put(
                    each.producerId(),
                    new ProducerStateEntry(
                        each.producerId(),
                        (short) each.producerEpoch(),
                        each.coordinatorEpoch().orElse(-1),
                        each.lastTimestamp(),
                        each.currentTransactionStartOffset())));
            return found;
        });
    }

    private long offset(TopicPartition one, OffsetSpec which) throws Exception {
        return ask(admin ->
            admin.listOffsets(Map.of(one, which)).partitionResult(one).get().offset());
    }

    private int leaderEpoch(TopicPartition one) throws Exception {
        return ask(admin -> admin.listOffsets(Map.of(one, OffsetSpec.latest()))
            .partitionResult(one).get().leaderEpoch().orElseThrow());
    }

    private GroupCoordinator groupCoordinator() {
        return Mockito.mock(GroupCoordinator.class, call -> {
            switch (call.getMethod().getName()) {
                case "groupMetadataTopicConfigs": return new Properties();
                case "partitionFor":
                    int count = config.getInt("offsets.topic.num.partitions");
                    return Utils.abs(call.<Object>getArgument(0).hashCode()) % count;
                default: throw inside(call);
            }
        });
    }

    private KafkaApis requests() {
        return Mockito.mock(KafkaApis.class, Mockito.withSettings().stubOnly().defaultAnswer(
            call -> {
                switch (call.getMethod().getName()) {
                    case "metadataCache": return cache;
                    case "authorizerPlugin": return authorizer(brokers);
                    default: throw inside(call);
                }
            }));
    }

    private static SharedServer sharedServer() {
        MetadataLoader loader = Mockito.mock(MetadataLoader.class, call -> Long.MAX_VALUE);
        return Mockito.mock(SharedServer.class, Mockito.withSettings().stubOnly().defaultAnswer(
            call -> {
                if (call.getMethod().getName().equals("loader")) {
                    return loader;
                }
                throw inside(call);
            }));
    }

    static UnsupportedOperationException inside(InvocationOnMock call) {
        return new UnsupportedOperationException(
            "the test looks inside the broker: " + call.getMethod().getName());
    }
}
