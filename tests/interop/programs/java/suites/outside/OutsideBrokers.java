package outside;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.Writer;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.common.test.JaasUtils;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;

/**
 * Brokers in a process of their own, where Kafka's tests expect them in their own.
 *
 * <p>The system property `outside.command` is the program, `outside.several` that for several
 * brokers, of which single ones stop and start, and `outside.directory` the place for data
 * directories. A process that has ended starts again with all brokers.
 */
public final class OutsideBrokers {
    private static final long LIMIT_NANOS = TimeUnit.SECONDS.toNanos(60);
    /** Settings of a broker without others. */
    public static final Map<String, String> ONE_NODE = Map.of(
        "default.replication.factor", "1",
        "offsets.topic.replication.factor", "1",
        "transaction.state.log.replication.factor", "1",
        "transaction.state.log.min.isr", "1",
        "min.insync.replicas", "1");

    public final int firstId;
    public final int count;
    private final int firstPort;
    public final Map<String, String> settings = new TreeMap<>();
    public final Map<String, Short> features = new TreeMap<>();
    /** What clients need besides the address. */
    public final Map<String, Object> client = new TreeMap<>();
    /** The ports that this process has chosen; the lock of a channel lasts as long as the process. */
    private static final Set<FileChannel> KEPT = new HashSet<>();
    private static final String PRINCIPALS = "principal.builder.class";
    /** The credentials of SCRAM that the brokers begin with, as for `--add-scram`. */
    public final List<String> scram = new ArrayList<>();
    /** The port of the listener BROKER, if the listeners say who a client is; 0 if there is one listener. */
    public final int ownPort;
    /** The ports of the first broker by listener, if there are several. */
    private final Map<String, Integer> ports = new TreeMap<>();
    public final Path directory;
    private final Set<Integer> running = new TreeSet<>();
    private Process process;

    public OutsideBrokers(int firstId, int count, Map<String, String> settings) {
        this.firstId = firstId;
        this.count = count;
        this.firstPort = freePorts(count);
        this.settings.putAll(settings);
        if (count == 1) {
            this.settings.putAll(ONE_NODE);
        }
        this.settings.put("node.id", Integer.toString(firstId));
        this.ownPort = this.settings.remove(PRINCIPALS) == null ? 0 : freePorts(count);
        if (ownPort != 0) {
            String places = "CLIENT://127.0.0.1:" + firstPort + ",BROKER://127.0.0.1:" + ownPort;
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
        listen("EXTERNAL", "SASL_PLAINTEXT");
        settings.put("listener.name.external.plain.sasl.jaas.config", module + users);
        settings.putIfAbsent("sasl.enabled.mechanisms", "PLAIN");
        settings.putIfAbsent("authorizer.class.name", StandardAuthorizer.class.getName());
        settings.putIfAbsent("super.users", "User:" + JaasUtils.KAFKA_PLAIN_ADMIN);
        client.put("security.protocol", "SASL_PLAINTEXT");
        client.put("sasl.mechanism", "PLAIN");
        client.put("sasl.jaas.config", String.format("%s username=\"%s\" password=\"%s\";", module,
            JaasUtils.KAFKA_PLAIN_ADMIN, JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD));
    }

    /** Have one listener, with a security protocol. */
    public void listen(String name, String protocol) {
        listen(name, Map.of(name, protocol));
    }

    /** Have listeners with security protocols, and clients use one of them. */
    public void listen(String ofClients, Map<String, String> protocols) {
        protocols.keySet().forEach(
            name -> ports.put(name, name.equals(ofClients) ? firstPort : freePorts(count)));
        String places = ports.entrySet().stream()
            .map(each -> each.getKey() + "://127.0.0.1:" + each.getValue())
            .collect(Collectors.joining(","));
        settings.put("listeners", places);
        settings.put("advertised.listeners", places.replace("127.0.0.1", "localhost"));
        settings.put("listener.security.protocol.map", protocols.entrySet().stream()
            .map(each -> each.getKey() + ":" + each.getValue()).collect(Collectors.joining(",")));
    }

    /** Return the settings of a client that may do everything. */
    public Map<String, Object> administrator() {
        Map<String, Object> settings = new TreeMap<>(client);
        settings.put("bootstrap.servers", ownPort == 0 ? bootstrap() : "127.0.0.1:" + ownPort);
        return settings;
    }

    /** Return the ids of all brokers. */
    public List<Integer> ids() {
        return IntStream.range(firstId, firstId + count).boxed().collect(Collectors.toList());
    }

    public int port(int id) {
        return firstPort + id - firstId;
    }

    /** Return the port of a listener of a broker. */
    public int port(int id, String listener) {
        int first = ownPort != 0 && listener.equals("BROKER")
            ? ownPort : ports.getOrDefault(listener, firstPort);
        return first + id - firstId;
    }

    public String bootstrap() {
        return ids().stream().map(this::bootstrap).collect(Collectors.joining(","));
    }

    public String bootstrap(int id) {
        return "127.0.0.1:" + port(id);
    }

    /** Start a broker that was stopped, or all. */
    public synchronized void start(int id) {
        if (process == null) {
            start();
        } else if (!running.contains(id)) {
            command("start " + id);
            running.add(id);
        }
    }

    /** Stop a broker in order, and the process with the last one. */
    public synchronized void stop(int id) {
        if (running.size() == 1 && running.contains(id)) {
            stop();
        } else {
            stopAlone(id);
        }
    }

    /** Stop a broker in order; the process goes on, so that any of several can start alone. */
    public synchronized void stopAlone(int id) {
        if (running.contains(id)) {
            command("stop " + id);
            running.remove(id);
        }
    }

    /** Let the program carry out a line. */
    private void command(String line) {
        SocketAddress place = UnixDomainSocketAddress.of(commands());
        try (SocketChannel channel = SocketChannel.open(place)) {
            channel.write(ByteBuffer.wrap((line + "\n").getBytes(StandardCharsets.UTF_8)));
            String answer = new BufferedReader(
                Channels.newReader(channel, StandardCharsets.UTF_8)).readLine();
            if (!"done".equals(answer)) {
                throw new IllegalStateException(line + ": " + answer);
            }
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    private Path data() {
        return directory.resolve("data");
    }

    private File output() {
        return directory.resolve("output").toFile();
    }

    private Path commands() {
        return directory.resolve("commands");
    }

    /** Start the brokers and wait until all listen. */
    public synchronized void start() {
        List<String> command = new ArrayList<>();
        if (count > 1) {
            command.addAll(List.of(System.getProperty("outside.several").split(":")));
        } else if (ownPort == 0) {
            command.add(System.getProperty("outside.command"));
        } else {
            command.addAll(List.of(System.getProperty("outside.named").split(":")));
        }
        command.add("serve");
        command.addAll(List.of("--brokers", "" + count));
        if (!settings.containsKey("listeners")) {
            command.addAll(List.of("--host", "127.0.0.1", "--port", "" + firstPort));
            command.addAll(List.of("--advertise", "localhost:" + firstPort));
        }
        command.addAll(List.of("--data-dir", data().toString()));
        command.addAll(List.of("--properties", directory.resolve("server.properties").toString()));
        scram.forEach(each -> command.addAll(List.of("--add-scram", each)));
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
                    ProcessBuilder.Redirect.appendTo(output()));
            builder.environment().put(
                "PRINCIPAL_TYPE", settings.getOrDefault("super.users", "User:").split(":")[0]);
            builder.environment().put("COMMANDS", commands().toString());
            Files.deleteIfExists(commands());
            process = builder.start();
            long end = System.nanoTime() + LIMIT_NANOS;
            while (!listens()) {
                if (!process.isAlive() || System.nanoTime() > end) {
                    throw new IllegalStateException("the brokers do not start: "
                        + Files.readString(output().toPath()));
                }
                Thread.sleep(20);
            }
            running.addAll(ids());
        } catch (IOException | InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    /** End the process with SIGTERM; its data stay. */
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
        running.clear();
    }

    /** Stop the brokers, compact a partition, and start them again. */
    public synchronized void compact(String partition) {
        stop();
        ProcessBuilder builder = new ProcessBuilder(
            System.getProperty("outside.command"), "compact", data().toString(),
            "--partition", partition, "--include-active", "--min-cleanable-ratio", "0")
            .redirectErrorStream(true)
            .redirectOutput(ProcessBuilder.Redirect.appendTo(output()));
        try {
            if (builder.start().waitFor() != 0) {
                throw new IllegalStateException(Files.readString(output().toPath()));
            }
            start();
        } catch (IOException | InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    public synchronized boolean isRunning(int id) {
        return process != null && process.isAlive() && running.contains(id);
    }

    private synchronized void kill() {
        if (process != null) {
            process.destroyForcibly();
        }
    }

    /** Return whether all brokers listen: the last one starts last. */
    private boolean listens() {
        int port = firstPort + count - 1;
        if (count > 1 && !Files.exists(commands())) {
            return false;
        }
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress("127.0.0.1", port), 1000);
            return socket.getLocalPort() != port;
        } catch (IOException error) {
            return false;
        }
    }

    /** Return the first of some ports that are free, one after the other. */
    private static int freePorts(int count) {
        while (true) {
            int first = ThreadLocalRandom.current().nextInt(
                Integer.getInteger("outside.ports", 28000),
                Integer.getInteger("outside.ports", 28000) + 1000 - count);
            if (IntStream.range(first, first + count).allMatch(OutsideBrokers::isFree)) {
                return first;
            }
        }
    }

    /**
     * Return whether a port is free, and keep it for this process: until the broker listens, another
     * process with tests could choose it, too.
     */
    private static boolean isFree(int port) {
        Path places = Path.of(System.getProperty("java.io.tmpdir"), "outside-ports");
        try {
            Files.createDirectories(places);
            FileChannel place = FileChannel.open(
                places.resolve("" + port), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
            if (place.tryLock() == null) {
                place.close();
                return false;
            }
            KEPT.add(place);
        } catch (IOException | OverlappingFileLockException taken) {
            return false;
        }
        try (ServerSocket probe = new ServerSocket(port)) {
            return true;
        } catch (IOException taken) {
            return false;
        }
    }
}
