import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A transactional producer that does what standard input says, line by line, and answers each line with "done" or
 * with the error. Arguments: bootstrap servers, transactional id, topic with two partitions.
 *
 * begin · send VALUE · commit · abort · level N (of transaction.version)
 */
public final class Transactions {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("transactional.id", arguments[1]);
        settings.put("client.id", "transactions");
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        // A change of features is seen with the next ApiVersions, which is that of a new connection.
        settings.put("connections.max.idle.ms", "300");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings);
                Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            producer.initTransactions();
            System.out.println("done init");
            BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                String[] words = line.split(" ");
                try {
                    run(producer, admin, arguments[2], words);
                    System.out.println("done " + line);
                } catch (Exception failed) {
                    System.out.println("failed " + line + ": " + failed);
                }
            }
        }
    }

    private static void run(KafkaProducer<String, String> producer, Admin admin, String topic, String[] words)
            throws Exception {
        switch (words[0]) {
            case "begin" -> producer.beginTransaction();
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "send" -> {
                for (int partition = 0; partition < 2; partition++) {
                    producer.send(new ProducerRecord<>(topic, partition, null, words[1])).get();
                }
            }
            case "level" -> {
                short level = Short.parseShort(words[1]);
                var finalized = admin.describeFeatures().featureMetadata().get().finalizedFeatures();
                var now = finalized.get("transaction.version");
                boolean upgrade = now == null || now.maxVersionLevel() < level;
                FeatureUpdate.UpgradeType type =
                    upgrade ? FeatureUpdate.UpgradeType.UPGRADE : FeatureUpdate.UpgradeType.SAFE_DOWNGRADE;
                admin.updateFeatures(Map.of("transaction.version", new FeatureUpdate(level, type)),
                    new UpdateFeaturesOptions()).all().get();
            }
            default -> throw new IllegalArgumentException(words[0]);
        }
    }
}
