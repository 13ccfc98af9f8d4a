package outside;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import kafka.cluster.Partition;
import kafka.log.LogManager;
import kafka.network.SocketServer;
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
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.image.loader.MetadataLoader;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.server.authorizer.Authorizer;
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
    private final OutsideBroker broker;
    private final KafkaConfig config;
    private final KRaftMetadataCache cache;

    private StandIn(OutsideBroker broker, KafkaConfig config) {
        this.broker = broker;
        this.config = config;
        this.cache = Mockito.mock(KRaftMetadataCache.class, this::fromCache);
    }

    public static BrokerServer of(OutsideBroker broker, KafkaConfig config) {
        StandIn self = new StandIn(broker, config);
        return Mockito.mock(
            BrokerServer.class, Mockito.withSettings().stubOnly().defaultAnswer(self::fromBroker));
    }

    public static KafkaConfig config(OutsideBroker broker) {
        Properties properties = new Properties();
        properties.putAll(broker.settings);
        properties.put("process.roles", "broker");
        properties.put("controller.quorum.bootstrap.servers", "127.0.0.1:1");
        properties.put("controller.listener.names", "CONTROLLER");
        properties.remove("advertised.listeners");
        properties.remove("authorizer.class.name");
        properties.put("listeners", "EXTERNAL://" + broker.bootstrap());
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
            case "startup": broker.start(); return null;
            case "shutdown": broker.stop(); return null;
            case "awaitShutdown": return null;
            case "isShutdown": return !broker.isRunning();
            case "brokerState":
                return broker.isRunning() ? BrokerState.RUNNING : BrokerState.NOT_RUNNING;
            case "clusterId": return ask(admin -> admin.describeCluster().clusterId().get());
            case "authorizerPlugin": return authorizer(broker);
            case "sharedServer": return sharedServer();
            case "socketServer": return socketServer();
            case "dataPlaneRequestProcessor": return requests();
            case "groupCoordinator": return groupCoordinator();
            case "replicaManager": return holder(ReplicaManager.class);
            case "logManager": return holder(LogManager.class);
            case "toString": return "broker " + broker.id + " at " + broker.bootstrap();
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
                    .map(all -> new LeaderAndIsr(
                        broker.id, 0, List.of(broker.id), LeaderRecoveryState.RECOVERED, 0));
            case "getAllTopics": return ids().keySet();
            case "topicNamesToIds": return ids();
            case "topicIdsToNames":
                Map<Object, Object> turned = new HashMap<>();
                ids().forEach((name, id) -> turned.put(id, name));
                return turned;
            case "getTopicId":
                Object id = ids().get(call.<String>getArgument(0));
                return id == null ? org.apache.kafka.common.Uuid.ZERO_UUID : id;
            case "hasAliveBroker": return call.<Integer>getArgument(0) == broker.id;
            case "config": case "topicConfig": return topicConfig(call.getArgument(0));
            case "toString": return "metadata of " + broker.bootstrap();
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
        try (Admin admin = Admin.create(broker.administrator())) {
            return question.of(admin);
        }
    }

    private int port(InvocationOnMock call) {
        boolean own = broker.ownPort != 0 && call.getArgument(0).toString().contains("BROKER");
        return own ? broker.ownPort : broker.port;
    }

    /** Return the authorizer of a broker, as its own process would have it. */
    static Option<Plugin<Authorizer>> authorizer(OutsideBroker broker) {
        return broker.settings.containsKey("authorizer.class.name")
            ? Option.apply(Plugin.wrapInstance(new OutsideAuthorizer(broker), null, "authorizer"))
            : Option.empty();
    }

    /** Return what stands in for the controller: it has only the authorizer. */
    public static ControllerServer controller(OutsideBroker broker) {
        return Mockito.mock(ControllerServer.class, Mockito.withSettings().stubOnly().defaultAnswer(
            call -> {
                if (call.getMethod().getName().equals("authorizerPlugin")) {
                    return authorizer(broker);
                }
                throw inside(call);
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
                case "localLog": case "getLog": case "onlinePartition": break;
                default: throw inside(call);
            }
            TopicPartition one = call.getArgument(0);
            if (!partitions(one.topic()).filter(all -> one.partition() < all.size()).isPresent()) {
                return Option.empty();
            }
            return Option.apply(asked.equals("onlinePartition") ? partition(one) : log(one));
        }));
    }

    private Partition partition(TopicPartition one) {
        return Mockito.mock(Partition.class, Mockito.withSettings().stubOnly().defaultAnswer(
            call -> {
                switch (call.getMethod().getName()) {
                    case "leaderLogIfLocal": return Option.apply(log(one));
                    case "isLeader": return true;
                    default: throw inside(call);
                }
            }));
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
                if (call.getMethod().getName().equals("metadataCache")) {
                    return cache;
                }
                throw inside(call);
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
