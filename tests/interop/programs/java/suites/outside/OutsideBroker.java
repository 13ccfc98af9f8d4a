package outside;

import java.io.File;
import java.io.IOException;
import java.io.Writer;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.test.JaasUtils;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;

/**
 * A broker in a process of its own, where Kafka's tests expect one in their own.
 *
 * <p>The system property `outside.command` is the program, `outside.directory` the place for data
 * directories.
 */
public final class OutsideBroker {
    private static final long LIMIT_NANOS = TimeUnit.SECONDS.toNanos(60);
    /** Settings of a broker without others. */
    public static final Map<String, String> ONE_NODE = Map.of(
        "default.replication.factor", "1",
        "offsets.topic.replication.factor", "1",
        "transaction.state.log.replication.factor", "1",
        "transaction.state.log.min.isr", "1",
        "min.insync.replicas", "1");

    public final int id;
    public final int port;
    public final Map<String, String> settings = new TreeMap<>();
    public final Map<String, Short> features = new TreeMap<>();
    /** What clients need besides the address. */
    public final Map<String, Object> client = new TreeMap<>();
    private static final String PRINCIPALS = "principal.builder.class";
    /** The port of the listener BROKER, if the listeners say who a client is; 0 if there is one listener. */
    public final int ownPort;
    private final Path directory;
    private Process process;

    public OutsideBroker(int id, Map<String, String> settings) {
        this.id = id;
        this.port = freePort();
        this.settings.putAll(settings);
        this.settings.putAll(ONE_NODE);
        this.settings.put("node.id", Integer.toString(id));
        this.ownPort = this.settings.remove(PRINCIPALS) == null ? 0 : freePort();
        if (ownPort != 0) {
            String places = "CLIENT://127.0.0.1:" + port + ",BROKER://127.0.0.1:" + ownPort;
            this.settings.put("listeners", places);
            this.settings.put("advertised.listeners", places.replace("127.0.0.1", "localhost"));
            this.settings.put("listener.security.protocol.map", "CLIENT:PLAINTEXT,BROKER:PLAINTEXT");
        }
        try {
            directory = Files.createTempDirectory(
                new File(System.getProperty("outside.directory")).toPath(), "broker-");
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
        Runtime.getRuntime().addShutdownHook(new Thread(this::kill));
    }

    /**
     * Let clients log in with PLAIN, and check what they may do, as Kafka's own cluster does for tests with SASL.
     */
    public void secure() {
        String module = "org.apache.kafka.common.security.plain.PlainLoginModule required";
        String users = String.format(" user_%s=\"%s\" user_%s=\"%s\";",
            JaasUtils.KAFKA_PLAIN_ADMIN, JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD,
            JaasUtils.KAFKA_PLAIN_USER1, JaasUtils.KAFKA_PLAIN_USER1_PASSWORD);
        settings.put("listeners", "EXTERNAL://127.0.0.1:" + port);
        settings.put("advertised.listeners", "EXTERNAL://localhost:" + port);
        settings.put("listener.security.protocol.map", "EXTERNAL:SASL_PLAINTEXT");
        settings.put("listener.name.external.plain.sasl.jaas.config", module + users);
        settings.putIfAbsent("sasl.enabled.mechanisms", "PLAIN");
        settings.putIfAbsent("authorizer.class.name", StandardAuthorizer.class.getName());
        settings.putIfAbsent("super.users", "User:" + JaasUtils.KAFKA_PLAIN_ADMIN);
        client.put("security.protocol", "SASL_PLAINTEXT");
        client.put("sasl.mechanism", "PLAIN");
        client.put("sasl.jaas.config", String.format("%s username=\"%s\" password=\"%s\";", module,
            JaasUtils.KAFKA_PLAIN_ADMIN, JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD));
    }

    /** Return the settings of a client that may do everything. */
    public Map<String, Object> administrator() {
        Map<String, Object> settings = new TreeMap<>(client);
        settings.put("bootstrap.servers", ownPort == 0 ? bootstrap() : "127.0.0.1:" + ownPort);
        return settings;
    }

    public String bootstrap() {
        return "127.0.0.1:" + port;
    }

    /** Start the broker and wait until it listens. */
    public synchronized void start() {
        List<String> command = new ArrayList<>();
        if (ownPort == 0) {
            command.add(System.getProperty("outside.command"));
        } else {
            command.addAll(List.of(System.getProperty("outside.named").split(":")));
        }
        command.add("serve");
        if (!settings.containsKey("listeners")) {
            command.addAll(List.of("--host", "127.0.0.1", "--port", "" + port));
            command.addAll(List.of("--advertise", "localhost:" + port));
        }
        command.addAll(List.of("--data-dir", directory.resolve("data").toString()));
        command.addAll(List.of("--properties", directory.resolve("server.properties").toString()));
        features.forEach((name, level) -> command.addAll(List.of("--feature", name + "=" + level)));
        try {
            Properties properties = new Properties();
            properties.putAll(settings);
            try (Writer file = Files.newBufferedWriter(directory.resolve("server.properties"))) {
                properties.store(file, null);
            }
            ProcessBuilder builder = new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(
                    ProcessBuilder.Redirect.appendTo(directory.resolve("output").toFile()));
            builder.environment().put(
                "PRINCIPAL_TYPE", settings.getOrDefault("super.users", "User:").split(":")[0]);
            process = builder.start();
            long end = System.nanoTime() + LIMIT_NANOS;
            while (!listens()) {
                if (!process.isAlive() || System.nanoTime() > end) {
                    throw new IllegalStateException("the broker does not start: "
                        + Files.readString(directory.resolve("output")));
                }
                Thread.sleep(20);
            }
        } catch (IOException | InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    /** End the broker with SIGTERM; its data stay. */
    public synchronized void stop() {
        if (process == null) {
            return;
        }
        process.destroy();
        try {
            if (!process.waitFor(20, TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
            }
        } catch (InterruptedException error) {
            kill();
            Thread.currentThread().interrupt();
        }
        process = null;
    }

    public synchronized boolean isRunning() {
        return process != null && process.isAlive();
    }

    private synchronized void kill() {
        if (process != null) {
            process.destroyForcibly();
        }
    }

    private boolean listens() {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress("127.0.0.1", port), 1000);
            return socket.getLocalPort() != port;
        } catch (IOException error) {
            return false;
        }
    }

    private static int freePort() {
        while (true) {
            int port = ThreadLocalRandom.current().nextInt(
                Integer.getInteger("outside.ports", 28000),
                Integer.getInteger("outside.ports", 28000) + 1000);
            try (ServerSocket probe = new ServerSocket(port)) {
                return probe.getLocalPort();
            } catch (IOException taken) {
                // Another one is tried.
            }
        }
    }
}
