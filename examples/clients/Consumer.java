// A consumer for `coterie check-client`, with Kafka's own client.
//   javac -cp 'libs/*' Consumer.java
//   java -cp 'libs/*:.' Consumer {bootstrap} {topic} {group} {assignor} {instance_id} {protocol}
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

public class Consumer {
    static final Map<String, String> ASSIGNORS = Map.of(
            "range", "RangeAssignor",
            "roundrobin", "RoundRobinAssignor",
            "sticky", "StickyAssignor",
            "cooperative-sticky", "CooperativeStickyAssignor");

    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("group.id", args[2]);
        config.put("auto.offset.reset", "earliest");
        if (args.length > 5 && args[5].equals("consumer")) {
            config.put("group.protocol", args[5]);
        } else {
            config.put("partition.assignment.strategy",
                    "org.apache.kafka.clients.consumer." + ASSIGNORS.get(args[3]));
        }
        if (args.length > 4 && !args[4].isEmpty()) {
            config.put("group.instance.id", args[4]);
        }
        KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                main.join();
            } catch (InterruptedException ignored) {
                Thread.currentThread().interrupt();
            }
        }));
        consumer.subscribe(List.of(args[1]));
        try {
            while (true) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    if (record.value().startsWith("sleep ")) {
                        Thread.sleep((long) (1000 * Double.parseDouble(record.value().substring(6))));
                    }
                    System.out.println(record.topic() + " " + record.partition() + " "
                            + record.offset() + " " + record.value());
                }
            }
        } catch (WakeupException closing) {
            // SIGTERM.
        } finally {
            consumer.close();
        }
    }
}
