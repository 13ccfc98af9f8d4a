package outside;

import java.util.Map;
import java.util.TreeMap;
import kafka.server.BrokerServer;
import org.apache.kafka.common.test.KafkaClusterTestKit;
import org.apache.kafka.common.test.MockFaultHandler;
import org.apache.kafka.common.test.TestKitNodes;
import org.mockito.Mockito;

/** The cluster of a test of Kafka Streams: brokers in a process of their own. */
public final class OutsideTestKit {
    private OutsideTestKit() { }

    /** Return what stands in for a cluster with nodes and settings; it is not started yet. */
    public static KafkaClusterTestKit of(TestKitNodes nodes, Map<String, Object> settings) {
        Map<String, String> texts = new TreeMap<>();
        settings.forEach((name, value) -> texts.put(name, value.toString()));
        int first = nodes.brokerNodes().firstKey();
        nodes.brokerNodes().get(first).propertyOverrides().forEach(texts::putIfAbsent);
        OutsideBrokers brokers = new OutsideBrokers(first, nodes.brokerNodes().size(), texts);
        Map<Integer, BrokerServer> standIns = new TreeMap<>();
        for (int id : brokers.ids()) {
            standIns.put(id, StandIn.of(brokers, id, StandIn.config(brokers, id)));
        }
        MockFaultHandler faults = new MockFaultHandler("none");
        return Mockito.mock(KafkaClusterTestKit.class, Mockito.withSettings().stubOnly().defaultAnswer(
            call -> {
                switch (call.getMethod().getName()) {
                    case "startup": brokers.start(); return null;
                    case "close": brokers.stop(); return null;
                    // It has no controllers to format, and listens as soon as it has started.
                    case "format": case "waitForReadyBrokers": return null;
                    case "bootstrapServers": return brokers.bootstrap();
                    case "brokers": return standIns;
                    case "nonFatalFaultHandler": return faults;
                    default: throw StandIn.inside(call);
                }
            }));
    }
}
