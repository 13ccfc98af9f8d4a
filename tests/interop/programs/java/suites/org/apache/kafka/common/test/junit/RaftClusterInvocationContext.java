package org.apache.kafka.common.test.junit;

import java.lang.reflect.Constructor;
import java.util.List;
import java.util.function.Supplier;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import org.opentest4j.TestAbortedException;
import outside.OutsideCluster;

/**
 * In place of Kafka's class of this name: gives a test with @ClusterTest brokers in a process
 * of their own, or Kafka's own cluster if there is no `outside.command`.
 */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private final String name;
    private final ClusterConfig config;
    private final boolean isCombined;

    public RaftClusterInvocationContext(String name, ClusterConfig config, boolean isCombined) {
        this.name = name;
        this.config = config;
        this.isCombined = isCombined;
    }

    @Override
    public String getDisplayName(int index) {
        return name + " [" + index + "] " + String.join(", ", config.displayTags());
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        ClusterInstance cluster = isRepeated() ? null : cluster();
        return List.of(
            (BeforeEachCallback) context -> {
                if (cluster == null) {
                    throw new TestAbortedException("the same with a controller in the broker");
                }
                if (config.isAutoStart()) {
                    cluster.start();
                }
            },
            (AfterTestExecutionCallback) context -> cluster.stop(),
            new ClusterInstanceParameterResolver(cluster));
    }

    static void waitForCondition(Supplier<Boolean> condition, String message)
            throws InterruptedException {
        long end = System.nanoTime() + 60_000_000_000L;
        while (!condition.get()) {
            if (System.nanoTime() > end) {
                throw new AssertionError(message);
            }
            Thread.sleep(50);
        }
    }

    private boolean isRepeated() {
        return isCombined && config.clusterTypes().contains(Type.KRAFT);
    }

    private ClusterInstance cluster() {
        if (System.getProperty("outside.command") != null) {
            return new OutsideCluster(config);
        }
        try {
            Class<?> type = Class.forName(RaftClusterInvocationContext.class.getName()
                + "$RaftClusterInstance");
            Constructor<?> constructor =
                type.getDeclaredConstructor(ClusterConfig.class, boolean.class);
            constructor.setAccessible(true);
            Object kafka = constructor.newInstance(config, isCombined);
            java.lang.reflect.Method format = type.getDeclaredMethod("format");
            format.setAccessible(true);
            format.invoke(kafka);
            return (ClusterInstance) kafka;
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }
}
