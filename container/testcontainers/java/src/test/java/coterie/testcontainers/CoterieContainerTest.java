package coterie.testcontainers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;
import org.testcontainers.DockerClientFactory;
import org.testcontainers.images.builder.Transferable;

class CoterieContainerTest {

  /** A container whose engine has chosen port 49153, and which keeps what is copied into it. */
  private static class StartedContainer extends CoterieContainer {
    final Map<String, String> copied = new HashMap<>();

    @Override
    public String getHost() {
      return "docker.example.org";
    }

    @Override
    public Integer getMappedPort(int port) {
      assertEquals(9092, port);
      return 49153;
    }

    @Override
    public void copyFileToContainer(Transferable file, String path) {
      copied.put(path, new String(file.getBytes(), StandardCharsets.UTF_8));
    }
  }

  @Test
  void theBrokerIsGivenTheAddressThatTheEngineHasChosen() {
    try (StartedContainer container = new StartedContainer()) {
      container.containerIsStarting(null, false);
      String file = container.getEnvMap().get("COTERIE_ADVERTISE_FILE");
      assertEquals(Map.of(file, "docker.example.org:49153"), container.copied);
      assertEquals("docker.example.org:49153", container.getBootstrapServers());
    }
  }

  @Test
  void settingsAreVariablesAndBothPortsAreExposed() {
    try (CoterieContainer container =
        new CoterieContainer("registry.example.org/coterie:1.0")
            .withSetting("group.initial.rebalance.delay.ms", "3000")) {
      assertEquals("3000", container.getEnvMap().get("COTERIE_GROUP_INITIAL_REBALANCE_DELAY_MS"));
      assertEquals(":memory:", container.getEnvMap().get("COTERIE_LOG_DIRS"));
      assertEquals(List.of(9092, 19092), container.getExposedPorts());
      assertEquals("broker:19092", container.getNetworkBootstrapServers("broker"));
    }
  }

  @Test
  void aGroupReadsFromTheContainer() {
    assumeTrue(DockerClientFactory.instance().isDockerAvailable(), "no Docker engine is running");
    String image = System.getProperty("coterie.image", "coterie:latest");
    try (CoterieContainer container = new CoterieContainer(image)) {
      container.start();
      Map<String, Object> client = Map.of("bootstrap.servers", container.getBootstrapServers());
      StringSerializer text = new StringSerializer();
      try (KafkaProducer<String, String> producer = new KafkaProducer<>(client, text, text)) {
        producer.send(new ProducerRecord<>("orders", "espresso"));
      }
      Map<String, Object> reader = new HashMap<>(client);
      reader.putAll(Map.of("group.id", "bar", "auto.offset.reset", "earliest"));
      StringDeserializer value = new StringDeserializer();
      try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reader, value, value)) {
        consumer.subscribe(List.of("orders"));
        ConsumerRecords<String, String> records = ConsumerRecords.empty();
        for (int polls = 0; records.isEmpty() && polls < 30; polls++) {
          records = consumer.poll(Duration.ofSeconds(1));
        }
        assertTrue(records.iterator().hasNext(), "no record within 30 s");
        assertEquals("espresso", records.iterator().next().value());
      }
    }
  }
}
