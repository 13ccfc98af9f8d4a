import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import kafka.admin.TopicCommand;
import kafka.javaapi.producer.Producer;
import kafka.producer.KeyedMessage;
import kafka.producer.Partitioner;
import kafka.producer.ProducerConfig;
import kafka.utils.VerifiableProperties;

/**
 * A producer of Kafka 0.8.2, for `coterie lab live`.
 *
 * Usage: OldProducer LINES ZOOKEEPER HOST:PORT TOPIC:PARTITIONS,... RECORDS_PER_SECOND_AND_PARTITION
 *
 * It makes the topics, too; its first line says so.
 */
public final class OldProducer {
    /** Gives a record to the partition whose number is its key. */
    public static final class ByNumber implements Partitioner {
        public ByNumber(VerifiableProperties settings) {}

        @Override
        public int partition(Object key, int partitions) {
            return Integer.parseInt(new String((byte[]) key)) % partitions;
        }
    }

    public static void main(String[] arguments) throws Exception {
        Lines lines = new Lines(arguments[0], "producer");
        for (String each : arguments[3].split(",")) {
            String[] topic = each.split(":");
            TopicCommand.main(new String[] {
                "--zookeeper", arguments[1], "--create", "--topic", topic[0], "--partitions", topic[1],
                "--replication-factor", "1",
            });
        }
        lines.produced(List.of());
        Properties settings = new Properties();
        settings.put("metadata.broker.list", arguments[2]);
        // A topic that was just made has no leaders for a while.
        settings.put("message.send.max.retries", "50");
        settings.put("retry.backoff.ms", "200");
        settings.put("request.required.acks", "1");
        settings.put("partitioner.class", ByNumber.class.getName());
        Producer<byte[], byte[]> producer = new Producer<>(new ProducerConfig(settings));
        int rate = Integer.parseInt(arguments[4]);
        long begin = System.nanoTime();
        for (long round = 0; ; round++) {
            List<String> ends = new ArrayList<>();
            List<KeyedMessage<byte[], byte[]>> records = new ArrayList<>();
            for (String each : arguments[3].split(",")) {
                String[] topic = each.split(":");
                for (int number = 0; number < Integer.parseInt(topic[1]); number++) {
                    byte[] key = String.valueOf(number).getBytes();
                    records.add(new KeyedMessage<>(topic[0], key, new byte[20]));
                    ends.add(Lines.end(topic[0], number, round + 1));
                }
            }
            long due = begin + round * 1_000_000_000L / rate;
            Thread.sleep(Math.max(0, (due - System.nanoTime()) / 1_000_000));
            producer.send(records);
            lines.produced(ends);
        }
    }
}
