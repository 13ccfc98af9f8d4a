import java.time.Duration;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Producers that take one transactional id from each other. Each line of the output is what has become of a
 * transaction: its value, which was sent to two partitions, and committed, aborted, fenced or unknown.
 * Arguments: bootstrap servers, transactional id, topic, number of producers, seconds.
 */
public final class Race {
    public static void main(String[] arguments) throws Exception {
        long endNanos = System.nanoTime() + Duration.ofSeconds(Integer.parseInt(arguments[4])).toNanos();
        Thread[] threads = new Thread[Integer.parseInt(arguments[3])];
        for (int number = 0; number < threads.length; number++) {
            int name = number;
            threads[number] = new Thread(() -> race(arguments, name, endNanos));
            threads[number].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println("ended");
    }

    private static void race(String[] arguments, int name, long endNanos) {
        Random random = new Random(name);
        int count = 0;
        while (System.nanoTime() < endNanos) {
            KafkaProducer<String, String> producer = new KafkaProducer<>(settings(arguments[0], arguments[1]));
            String value = null;
            try {
                producer.initTransactions();
                for (int left = 1 + random.nextInt(5); left > 0; left--) {
                    value = name + "-" + count++;
                    producer.beginTransaction();
                    producer.send(new ProducerRecord<>(arguments[2], 0, null, value));
                    producer.send(new ProducerRecord<>(arguments[2], 1, null, value));
                    // Another producer begins meanwhile.
                    Thread.sleep(random.nextInt(20));
                    boolean aborts = random.nextInt(4) == 0;
                    if (aborts) {
                        producer.abortTransaction();
                    } else {
                        producer.commitTransaction();
                    }
                    tell(value, aborts ? "aborted" : "committed");
                    value = null;
                }
            } catch (ProducerFencedException | InvalidProducerEpochException fenced) {
                tell(value, "fenced");
            } catch (KafkaException failed) {
                boolean fenced = failed.getCause() instanceof ProducerFencedException
                    || failed.getCause() instanceof InvalidProducerEpochException;
                tell(value, fenced ? "fenced" : "unknown " + failed);
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException(interrupted);
            }
            producer.close(Duration.ZERO);
        }
    }

    private static void tell(String value, String outcome) {
        if (value != null) {
            System.out.println("outcome " + value + " " + outcome);
        }
    }

    private static Properties settings(String servers, String transactionalId) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("transactional.id", transactionalId);
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        settings.put("retry.backoff.ms", "5");
        settings.put("retry.backoff.max.ms", "20");
        return settings;
    }
}
