import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Clients for tests/failover: each connection to the port that is printed is one client. Its first line says
 * which; each further line is a call and is answered with `ok` and results, or with `failed` and a text. Words
 * are separated by blanks. Arguments: bootstrap servers, group protocol.
 */
public final class FailoverClients {
    private static final Duration LIMIT = Duration.ofSeconds(30);
    private static final Duration POLL = Duration.ofMillis(500);

    /** What a connection does with a line. */
    private interface Client extends AutoCloseable {
        String call(String[] words) throws Exception;

        @Override
        void close();
    }

    public static void main(String[] arguments) throws IOException {
        ServerSocket listening = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        System.out.println("port " + listening.getLocalPort());
        while (true) {
            Socket connection = listening.accept();
            new Thread(() -> converse(connection, arguments[0], arguments[1])).start();
        }
    }

    private static void converse(Socket connection, String servers, String protocol) {
        try (connection;
                BufferedReader calls = new BufferedReader(new InputStreamReader(connection.getInputStream()));
                PrintStream answers = new PrintStream(connection.getOutputStream(), true);
                Client client = made(calls.readLine().split(" "), servers, protocol)) {
            answers.println("ok");
            for (String line = calls.readLine(); line != null; line = calls.readLine()) {
                answers.println(answer(client, line.split(" ")));
            }
        } catch (IOException ended) {
            System.out.println(ended);
        }
    }

    private static String answer(Client client, String[] words) {
        try {
            return ("ok " + client.call(words)).trim();
        } catch (Exception failed) {
            return "failed " + failed.toString().replace('\n', ' ');
        }
    }

    private static Client made(String[] words, String servers, String protocol) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        // By default waits grow to a second, which is longer than a broker lives in a run.
        settings.put("retry.backoff.max.ms", "100");
        settings.put("reconnect.backoff.max.ms", "100");
        if (words[0].equals("producer")) {
            return new Producer(settings);
        }
        settings.put("group.id", words[1]);
        settings.put("group.protocol", protocol);
        settings.put("auto.offset.reset", "earliest");
        if (words[0].equals("register")) {
            return new Register(settings, new TopicPartition(words[2], Integer.parseInt(words[3])));
        }
        settings.put("auto.commit.interval.ms", "100");
        if (protocol.equals("classic")) {
            settings.put("session.timeout.ms", "30000");
            settings.put("heartbeat.interval.ms", "200");
        }
        return new Member(settings, words[2]);
    }

    private static KafkaConsumer<String, String> consumer(Properties settings) {
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private static final class Producer implements Client {
        private final KafkaProducer<String, String> producer;

        Producer(Properties settings) {
            settings.put("max.block.ms", String.valueOf(LIMIT.toMillis()));
            settings.put("delivery.timeout.ms", String.valueOf(LIMIT.toMillis()));
            settings.put("request.timeout.ms", "10000");
            producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        }

        @Override
        public String call(String[] words) throws Exception {
            ProducerRecord<String, String> sent =
                new ProducerRecord<>(words[1], Integer.parseInt(words[2]), null, words[3]);
            return String.valueOf(producer.send(sent).get(LIMIT.toMillis(), TimeUnit.MILLISECONDS).offset());
        }

        @Override
        public void close() {
            producer.close(LIMIT);
        }
    }

    private static final class Register implements Client {
        private final KafkaConsumer<String, String> consumer;
        private final TopicPartition partition;

        Register(Properties settings, TopicPartition partition) {
            settings.put("enable.auto.commit", "false");
            this.partition = partition;
            consumer = consumer(settings);
            consumer.assign(List.of(partition));
        }

        @Override
        public String call(String[] words) {
            if (words[0].equals("commit")) {
                long offset = Long.parseLong(words[1]);
                consumer.commitSync(Map.of(partition, new OffsetAndMetadata(offset)), LIMIT);
                return "";
            }
            OffsetAndMetadata found = consumer.committed(Set.of(partition), LIMIT).get(partition);
            return found == null ? "-1" : String.valueOf(found.offset());
        }

        @Override
        public void close() {
            consumer.close();
        }
    }

    /** Its answers begin with how often it was given partitions. */
    private static final class Member implements Client, ConsumerRebalanceListener {
        private final KafkaConsumer<String, String> consumer;
        private int assignments;

        Member(Properties settings, String topic) {
            consumer = consumer(settings);
            consumer.subscribe(List.of(topic), this);
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
            assignments += assigned.isEmpty() ? 0 : 1;
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> revoked) {}

        @Override
        public String call(String[] words) {
            StringBuilder records = new StringBuilder();
            for (ConsumerRecord<String, String> each : consumer.poll(POLL)) {
                records.append(String.join(" ", "", each.topic(), String.valueOf(each.partition()),
                    String.valueOf(each.offset()), each.value()));
            }
            return assignments + records.toString();
        }

        @Override
        public void close() {
            consumer.close();
        }
    }
}
