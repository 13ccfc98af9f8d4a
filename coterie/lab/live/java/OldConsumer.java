import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.KafkaStream;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.message.MessageAndMetadata;
import org.apache.log4j.AppenderSkeleton;
import org.apache.log4j.BasicConfigurator;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;
import org.apache.log4j.spi.LoggingEvent;

/**
 * Real consumers of Kafka 0.8.2, for `coterie lab live`.
 *
 * Usage: OldConsumer LINES NAMES TOPIC,TOPIC... KEY=VALUE...
 *
 * NAMES are members that start at once, separated by commas, or "-". Lines of standard input, "start NAME"
 * and "stop NAME", start and stop others in the same process. SIGTERM stops all of them. KEY=VALUE are
 * settings of the consumer. Each member writes its lines to LINES/NAME.jsonl.
 *
 * The consumer of 0.8.2 has no listener for rebalances. The changes are therefore taken from its log:
 * fetchers are started and stopped by threads whose names contain the id of the consumer.
 */
public final class OldConsumer {
    private static final Pattern ADDED = Pattern.compile("\\[\\[(\\S+?),(\\d+)\\], initOffset ");
    private static final String THREADS = "(?:_watcher_executor|-leader-finder-thread|_close)?$";

    private static String[] topics;
    private static final Properties settings = new Properties();
    private static Pattern id;
    private static String directory;
    private static final Map<String, ConsumerConnector> connectors = new ConcurrentHashMap<>();
    private static final Map<String, Lines> lines = new ConcurrentHashMap<>();
    private static final Map<String, TreeSet<String>> reading = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        directory = arguments[0];
        topics = arguments[2].split(",");
        for (int index = 3; index < arguments.length; index++) {
            String[] setting = arguments[index].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        id = Pattern.compile("^" + Pattern.quote(settings.getProperty("group.id")) + "_(.+?)" + THREADS);
        listen();
        Runtime.getRuntime().addShutdownHook(new Thread(OldConsumer::stopAll));
        for (String name : arguments[1].equals("-") ? new String[0] : arguments[1].split(",")) {
            inThreadOf(name, "", () -> start(name));
        }
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.trim().split(" ");
            if (words[0].equals("start")) {
                inThreadOf(words[1], "", () -> start(words[1]));
            } else if (words[0].equals("stop")) {
                inThreadOf(words[1], "_close", () -> stop(words[1]));
            }
        }
        System.exit(0);
    }

    private static void start(String name) {
        try {
            lines.put(name, new Lines(directory, name));
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
        lines.get(name).write("ready", "");
        Properties own = new Properties();
        own.putAll(settings);
        own.put("consumer.id", name);
        ConsumerConnector connector = Consumer.createJavaConsumerConnector(new ConsumerConfig(own));
        connectors.put(name, connector);
        Map<String, Integer> threads = new HashMap<>();
        for (String topic : topics) {
            threads.put(topic, 1);
        }
        Map<String, List<KafkaStream<byte[], byte[]>>> streams;
        try {
            // The first rebalance happens in this thread.
            streams = connector.createMessageStreams(threads);
        } catch (RuntimeException error) {
            lines.get(name).write("failed", Lines.error(error));
            return;
        }
        for (List<KafkaStream<byte[], byte[]>> each : streams.values()) {
            Thread reader = new Thread(() -> read(name, each.get(0)));
            reader.setDaemon(true);
            reader.start();
        }
    }

    private static void read(String name, KafkaStream<byte[], byte[]> stream) {
        Lines own = lines.get(name);
        for (MessageAndMetadata<byte[], byte[]> record : stream) {
            own.delivered(record.topic(), record.partition(), record.offset());
        }
    }

    private static void stop(String name) {
        ConsumerConnector connector = connectors.remove(name);
        if (connector != null) {
            connector.shutdown();
            change(name, null);
            lines.get(name).write("ending", "");
        }
    }

    private static void stopAll() {
        for (String name : new ArrayList<>(connectors.keySet())) {
            stop(name);
        }
    }

    /** Take the changes from the log of the consumers. */
    private static void listen() {
        BasicConfigurator.configure(new AppenderSkeleton() {
            @Override
            protected void append(LoggingEvent event) {
                Matcher found = id.matcher(event.getThreadName());
                String text = event.getRenderedMessage();
                if (text != null && found.find() && lines.containsKey(found.group(1))) {
                    understand(found.group(1), text);
                }
            }

            @Override
            public void close() {}

            @Override
            public boolean requiresLayout() {
                return false;
            }
        });
        Logger.getRootLogger().setLevel(Level.WARN);
        Logger.getLogger("kafka.consumer").setLevel(Level.INFO);
    }

    private static void understand(String name, String text) {
        Lines own = lines.get(name);
        if (text.contains("begin rebalancing consumer")) {
            own.write("attempt", "");
        } else if (text.contains("can't rebalance after")) {
            own.write("gave-up", "");
        } else if (text.contains("Rebalancing attempt failed") || text.contains("exception during rebalance")) {
            own.write("attempt-failed", "");
        } else if (text.contains("waiting for the partition ownership to be deleted")) {
            own.write("conflict", "");
        } else if (text.contains("Stopping all fetchers") || text.contains("Stopping leader finder thread")) {
            change(name, null);
        } else if (text.contains("Added fetcher for partitions")) {
            TreeSet<String> added = new TreeSet<>();
            for (Matcher found = ADDED.matcher(text); found.find(); ) {
                added.add(Lines.partition(found.group(1), Integer.parseInt(found.group(2))));
            }
            change(name, added);
        }
    }

    /** Note that a consumer reads more partitions, or, with null, that it has stopped. */
    private static synchronized void change(String name, TreeSet<String> added) {
        TreeSet<String> now = reading.computeIfAbsent(name, key -> new TreeSet<>());
        boolean changed = added == null ? !now.isEmpty() : now.addAll(added);
        if (added == null) {
            now.clear();
        }
        if (changed) {
            lines.get(name).taken(now);
        }
    }

    private static void inThreadOf(String name, String suffix, Runnable work) {
        new Thread(work, settings.getProperty("group.id") + "_" + name + suffix).start();
    }
}
