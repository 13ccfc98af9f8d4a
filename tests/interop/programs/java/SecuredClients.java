import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Clients of a secured broker: each line of standard input is a case, as JSON, and each is answered with a line
 * {"error": ""}. A case produces a record, consumes it in a group, commits, and asks for what is committed.
 */
public final class SecuredClients {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration LIMIT = Duration.ofSeconds(30);

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String error = "";
            try {
                run(JSON.readTree(line));
            } catch (Throwable failed) {
                error = text(failed instanceof ExecutionException ? failed.getCause() : failed);
            }
            System.out.println("answer " + JSON.writeValueAsString(Map.of("error", error)));
        }
    }

    private static String text(Throwable failed) {
        String causes = "";
        for (Throwable each = failed; each != null; each = each.getCause()) {
            causes += each + " ";
        }
        return causes;
    }

    private static void run(JsonNode wanted) throws Exception {
        Properties settings = new Properties();
        wanted.get("properties").fields().forEachRemaining(
            each -> settings.put(each.getKey(), each.getValue().asText()));
        settings.put("bootstrap.servers", wanted.get("bootstrap").asText());
        settings.put("max.block.ms", "20000");
        settings.put("default.api.timeout.ms", "20000");
        String topic = wanted.get("topic").asText(), value = wanted.get("value").asText();
        if (!wanted.get("consumes_only").asBoolean()) {
            produce(settings, topic, value);
        }
        consume(settings, topic, value, wanted.get("group").asText());
    }

    private static void produce(Properties settings, String topic, String value) throws Exception {
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, value)).get();
        }
    }

    private static void consume(Properties settings, String topic, String value, String group) {
        settings.put("group.id", group);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            long end = System.nanoTime() + LIMIT.toNanos();
            while (System.nanoTime() < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    if (record.value().equals(value)) {
                        commit(consumer, record);
                        return;
                    }
                }
            }
            throw new IllegalStateException("the record is not there");
        }
    }

    private static void commit(KafkaConsumer<String, String> consumer, ConsumerRecord<String, String> record) {
        TopicPartition partition = new TopicPartition(record.topic(), record.partition());
        OffsetAndMetadata position = new OffsetAndMetadata(record.offset() + 1);
        consumer.commitSync(Map.of(partition, position));
        if (!position.equals(consumer.committed(Set.of(partition)).get(partition))) {
            throw new IllegalStateException("another offset is committed");
        }
    }
}
