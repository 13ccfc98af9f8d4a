package coterie.testcontainers;

import com.github.dockerjava.api.command.InspectContainerResponse;
import java.util.Locale;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.images.builder.Transferable;
import org.testcontainers.utility.DockerImageName;

/**
 * A broker of Coterie in a container, which keeps its data in memory.
 *
 * <p>Rebalances of empty groups do not wait for more members, and sessions may be short, as tests
 * want it. {@link #withSetting} changes that.
 */
public class CoterieContainer extends GenericContainer<CoterieContainer> {

  public static final DockerImageName IMAGE = DockerImageName.parse("coterie");

  /** For clients on the host. */
  public static final int HOST_PORT = 9092;

  /** For clients in containers of one network. */
  public static final int NETWORK_PORT = 19092;

  // The engine chooses the port on the host when the container runs; the image waits for this file.
  private static final String ADDRESS_FILE = "/tmp/coterie-address";

  public CoterieContainer() {
    this(IMAGE.withTag("latest"));
  }

  public CoterieContainer(String image) {
    this(DockerImageName.parse(image));
  }

  public CoterieContainer(DockerImageName image) {
    super(image);
    withExposedPorts(HOST_PORT, NETWORK_PORT);
    withEnv("COTERIE_ADVERTISE_FILE", ADDRESS_FILE);
    withSetting("log.dirs", ":memory:");
    withSetting("group.initial.rebalance.delay.ms", "0");
    withSetting("group.min.session.timeout.ms", "100");
    waitingFor(Wait.forLogMessage(".*ready on .*", 1));
  }

  /** Sets a setting of the broker by Kafka's name, such as num.partitions. */
  public CoterieContainer withSetting(String name, String value) {
    return withEnv("COTERIE_" + name.replace('.', '_').toUpperCase(Locale.ROOT), value);
  }

  /** The address for clients on the host, as host:port. */
  public String getBootstrapServers() {
    return getHost() + ":" + getMappedPort(HOST_PORT);
  }

  /**
   * The address for clients in containers of the same network.
   *
   * @param alias the name of this container in the network, from withNetworkAliases
   */
  public String getNetworkBootstrapServers(String alias) {
    return alias + ":" + NETWORK_PORT;
  }

  @Override
  protected void containerIsStarting(InspectContainerResponse info, boolean reused) {
    super.containerIsStarting(info, reused);
    copyFileToContainer(Transferable.of(getBootstrapServers()), ADDRESS_FILE);
  }
}
