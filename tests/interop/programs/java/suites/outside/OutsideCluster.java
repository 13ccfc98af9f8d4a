package outside;

import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.fault.FaultHandlerException;
import org.opentest4j.TestAbortedException;

/** The cluster of a test with @ClusterTest: brokers in a process of their own. */
public final class OutsideCluster implements ClusterInstance {
    /** The features whose levels a test may choose. */
    private static final Set<Feature> GIVEN = Set.of(
        Feature.TRANSACTION_VERSION, Feature.GROUP_VERSION, Feature.STREAMS_VERSION, Feature.SHARE_VERSION);

    private final ClusterConfig config;
    private final OutsideBrokers brokers;
    private final Map<Integer, KafkaBroker> standIns = new TreeMap<>();
    private boolean started;
    private boolean stopped;

    public OutsideCluster(ClusterConfig config) {
        SecurityProtocol protocol = config.brokerSecurityProtocol();
        if (protocol != SecurityProtocol.PLAINTEXT && protocol != SecurityProtocol.SASL_PLAINTEXT) {
            throw new TestAbortedException("needs " + protocol);
        }
        this.config = config;
        Map<String, String> settings = new HashMap<>(config.serverProperties());
        settings.putAll(config.perServerOverrideProperties().getOrDefault(0, Map.of()));
        if (settings.containsKey("group.consumer.migration.policy")) {
            // These tests expect that a heartbeat comes within the interval since the last
            // assignment. The default, a second, is too short on a loaded machine.
            settings.putIfAbsent("group.consumer.assignment.interval.ms", "15000");
        }
        if (settings.containsKey("group.share.heartbeat.interval.ms")
                || settings.containsKey("group.share.persister.class.name")) {
            // So do the tests of heartbeats of share groups: a topic is created within it. Later
            // Kafka, too, begins two epochs for a new topic.
            settings.putIfAbsent("group.share.assignment.interval.ms", "4000");
        }
        this.brokers = new OutsideBrokers(0, config.numBrokers(), settings);
        if (protocol == SecurityProtocol.SASL_PLAINTEXT) {
            brokers.secure();
        }
        config.features().forEach((feature, level) -> {
            if (GIVEN.contains(feature)) {
                brokers.features.put(feature.featureName(), level);
            }
        });
    }

    @Override
    public void start() {
        brokers.start();
        started = true;
    }

    @Override
    public void stop() {
        brokers.stop();
        stopped = true;
    }

    @Override
    public boolean started() {
        return started;
    }

    @Override
    public boolean stopped() {
        return stopped;
    }

    @Override
    public void startBroker(int id) {
        brokers.start(id);
    }

    @Override
    public void shutdownBroker(int id) {
        if (brokers.count == 1) {
            brokers.stop();
        } else {
            brokers.stopAlone(id);
        }
    }

    @Override
    public void waitForReadyBrokers() {
        // It listens as soon as start() returns.
    }

    @Override
    public Type type() {
        return Type.KRAFT;
    }

    @Override
    public ClusterConfig config() {
        return config;
    }

    @Override
    public Map<Integer, KafkaBroker> brokers() {
        if (standIns.isEmpty()) {
            for (int id : brokers.ids()) {
                standIns.put(id, StandIn.of(brokers, id, StandIn.config(brokers, id)));
            }
        }
        return standIns;
    }

    @Override
    public Map<Integer, ControllerServer> controllers() {
        return Map.of(brokers.firstId, StandIn.controller(brokers));
    }

    @Override
    public Set<Integer> controllerIds() {
        return Set.of(brokers.firstId);
    }

    @Override
    public ListenerName clientListener() {
        return new ListenerName("EXTERNAL");
    }

    @Override
    public ListenerName controllerListenerName() {
        return new ListenerName("CONTROLLER");
    }

    @Override
    public String bootstrapServers() {
        return brokers.bootstrap();
    }

    @Override
    public String bootstrapControllers() {
        throw new UnsupportedOperationException("the test looks inside the broker: controllers");
    }

    @Override
    public List<Integer> brokerBoundPorts() {
        return brokers.ids().stream().map(brokers::port).collect(Collectors.toList());
    }

    @Override
    public String clusterId() {
        try (Admin admin = admin()) {
            return admin.describeCluster().clusterId().get();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public Set<GroupProtocol> supportedGroupProtocols() {
        return Set.of(GroupProtocol.values());
    }

    @Override
    public Optional<FaultHandlerException> firstFatalException() {
        return Optional.empty();
    }

    @Override
    public Optional<FaultHandlerException> firstNonFatalException() {
        return Optional.empty();
    }

    @Override
    public void createTopic(
            String topic, int partitions, short replicas, Map<String, String> settings)
            throws InterruptedException {
        try (Admin admin = admin()) {
            NewTopic wanted = new NewTopic(topic, partitions, replicas).configs(settings);
            admin.createTopics(Set.of(wanted)).all().get();
        } catch (ExecutionException error) {
            // Kafka's own class does not look at the result, so a topic may exist.
            if (!(error.getCause() instanceof TopicExistsException)) {
                throw new IllegalStateException(error.getCause());
            }
        }
        waitTopicCreation(topic, partitions);
    }

    @Override
    public void waitTopicDeletion(String topic) throws InterruptedException {
        waitUntil(() -> !brokers().get(brokers.firstId).metadataCache().contains(topic));
    }

    @Override
    public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
        waitUntil(() -> brokers().get(brokers.firstId).metadataCache().numPartitions(topic)
            .equals(Optional.of(partitions)));
    }

    @Override
    public void waitAcls(AclBindingFilter filter, Collection<AccessControlEntry> entries) {
        // A rule counts from the answer on.
    }

    @Override
    public void ensureConsistentMetadata() {
        // All brokers have the same.
    }

    private static void waitUntil(java.util.function.BooleanSupplier done)
            throws InterruptedException {
        long end = System.nanoTime() + 60_000_000_000L;
        while (!done.getAsBoolean()) {
            if (System.nanoTime() > end) {
                throw new IllegalStateException("not within 60 seconds");
            }
            Thread.sleep(50);
        }
    }
}
