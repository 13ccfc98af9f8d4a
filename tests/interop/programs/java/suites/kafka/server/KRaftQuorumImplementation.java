package kafka.server;

import java.io.File;
import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import kafka.utils.Logging;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.TransactionVersion;
import org.apache.kafka.server.fault.FaultHandler;
import outside.OutsideBrokers;
import outside.Run;
import outside.SecuredListener;
import outside.StandIn;
import scala.Option;

/**
 * In place of Kafka's class of this name: gives the tests in Scala brokers in a process of their
 * own. The controller that they start stays without brokers.
 */
public class KRaftQuorumImplementation implements QuorumImplementation {
    private static final java.util.Set<String> OF_THE_CONTROLLER = java.util.Set.of(
        "listeners", "advertised.listeners", "listener.security.protocol.map", "process.roles",
        "controller.listener.names", "controller.quorum.voters", "inter.broker.listener.name",
        "controller.quorum.bootstrap.servers", "log.dirs", "log.dir", "metadata.log.dir",
        "security.inter.broker.protocol", "node.id", "broker.id");

    private final ControllerServer controllerServer;
    private final FaultHandlerFactory faultHandlerFactory;
    private final File metadataDir;
    private final CompletableFuture<Map<Integer, InetSocketAddress>> voters;
    private final String clusterId;
    private final Logging log;
    private final FaultHandler faultHandler;
    private OutsideBrokers brokers;

    public KRaftQuorumImplementation(
            ControllerServer controllerServer,
            FaultHandlerFactory faultHandlerFactory,
            File metadataDir,
            CompletableFuture<Map<Integer, InetSocketAddress>> voters,
            String clusterId,
            Logging log,
            FaultHandler faultHandler) {
        this.controllerServer = controllerServer;
        this.faultHandlerFactory = faultHandlerFactory;
        this.metadataDir = metadataDir;
        this.voters = voters;
        this.clusterId = clusterId;
        this.log = log;
        this.faultHandler = faultHandler;
    }

    public ControllerServer controllerServer() {
        return controllerServer;
    }

    public FaultHandlerFactory faultHandlerFactory() {
        return faultHandlerFactory;
    }

    public File metadataDir() {
        return metadataDir;
    }

    public CompletableFuture<Map<Integer, InetSocketAddress>> controllerQuorumVotersFuture() {
        return voters;
    }

    public String clusterId() {
        return clusterId;
    }

    public Logging log() {
        return log;
    }

    public FaultHandler faultHandler() {
        return faultHandler;
    }

    @Override
    public KafkaBroker createBroker(
            KafkaConfig config, Time time, boolean startup, Option<String> prefix) {
        Map<String, String> settings = new HashMap<>();
        config.originals().forEach((name, value) -> {
            if (!OF_THE_CONTROLLER.contains(name) && value != null) {
                settings.put(name, SecuredListener.text(value));
            }
        });
        int id = config.brokerId();
        if (brokers == null || !brokers.ids().contains(id)) {
            brokers = new OutsideBrokers(id, Run.BROKERS_OF_TEST.getAndSet(1), settings);
            String feature = TransactionVersion.FEATURE_NAME;
            short level = controllerServer.bootstrapMetadata().featureLevel(feature);
            brokers.features.put(feature, level);
            SecuredListener.translate(
                config.originals(), controllerServer.bootstrapMetadata().records(), brokers);
        }
        if (startup) {
            brokers.start(id);
        }
        return StandIn.of(brokers, id, config);
    }

    @Override
    public void shutdown() {
        controllerServer.shutdown();
        controllerServer.awaitShutdown();
    }
}
