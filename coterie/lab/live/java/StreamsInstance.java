import java.io.File;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;

/**
 * An instance of Kafka Streams that reads topics, for `coterie lab live`.
 *
 * Usage: StreamsInstance LINES NAME TOPIC,TOPIC... BOOTSTRAP GROUP STATE_DIRECTORY COMMIT_MS
 *
 * Each topic is a subtopology of its own, without state. A partition belongs to the instance from the
 * init of the processor of its task until its close. SIGTERM closes the instance.
 */
public final class StreamsInstance {
    private static final Duration CLOSE_LIMIT = Duration.ofSeconds(30);

    private static final TreeSet<String> owned = new TreeSet<>();
    private static Lines lines;

    public static void main(String[] arguments) throws Exception {
        lines = new Lines(arguments[0], arguments[1]);
        lines.write("ready", "");
        Topology topology = new Topology();
        for (String topic : arguments[2].split(",")) {
            topology.addSource("source of " + topic, new ByteArrayDeserializer(), new ByteArrayDeserializer(), topic);
            topology.addProcessor("reader of " + topic, () -> new Reader(topic), "source of " + topic);
        }
        Properties properties = new Properties();
        properties.putAll(Map.of(
            StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[3],
            StreamsConfig.APPLICATION_ID_CONFIG, arguments[4],
            StreamsConfig.CLIENT_ID_CONFIG, arguments[1],
            StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams",
            StreamsConfig.STATE_DIR_CONFIG, new File(arguments[5]).getPath(),
            StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, arguments[6]
        ));
        KafkaStreams streams = new KafkaStreams(topology, properties);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(CLOSE_LIMIT);
            lines.write("ending", "");
        }));
        streams.start();
    }

    private static synchronized void change(String partition, boolean isMine) {
        if (isMine ? owned.add(partition) : owned.remove(partition)) {
            lines.taken(owned);
        }
    }

    /** The only step of a task. */
    private static final class Reader implements Processor<byte[], byte[], Void, Void> {
        private final String topic;
        private ProcessorContext<Void, Void> context;
        private String partition;

        Reader(String topic) {
            this.topic = topic;
        }

        @Override
        public void init(ProcessorContext<Void, Void> context) {
            this.context = context;
            partition = Lines.partition(topic, context.taskId().partition());
            change(partition, true);
        }

        @Override
        public void process(Record<byte[], byte[]> record) {
            context.recordMetadata().ifPresent(
                each -> lines.delivered(topic, each.partition(), each.offset())
            );
        }

        @Override
        public void close() {
            change(partition, false);
        }
    }
}
