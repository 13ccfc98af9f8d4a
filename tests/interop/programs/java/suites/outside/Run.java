package outside;

import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.takesArgument;

import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import kafka.integration.KafkaServerTestHarness;
import kafka.server.KafkaBroker;
import net.bytebuddy.agent.ByteBuddyAgent;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.Advice;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.test.KafkaClusterTestKit;
import org.apache.kafka.common.test.TestKitNodes;
import org.apache.kafka.connect.runtime.isolation.PluginDiscoveryMode;
import org.apache.kafka.server.authorizer.Authorizer;
import org.junit.platform.console.ConsoleLauncher;
import scala.jdk.javaapi.CollectionConverters;

/** Run JUnit, with what the tests in Scala ask of a controller asked of their brokers. */
public final class Run {
    /** For how many brokers a test in Scala has made settings; 1 again as soon as they are started. */
    public static final AtomicInteger BROKERS_OF_TEST = new AtomicInteger(1);

    private Run() { }

    public static void main(String[] arguments) {
        new AgentBuilder.Default()
            .disableClassFormatChanges()
            .with(AgentBuilder.RedefinitionStrategy.RETRANSFORMATION)
            .type(named("kafka.utils.TestUtils$"))
            .transform((builder, type, loader, module, domain) -> builder
                .visit(Advice.to(Count.class).on(named("createBrokerConfigs")))
                .visit(Advice.to(OutsideRules.class).on(named("pickAuthorizerForWrite")))
                .visit(Advice.to(BrokersRules.class).on(
                    named("waitAndVerifyAcls").and(takesArgument(1, Authorizer.class)))))
            .type(named("kafka.api.FixedPortTestUtils$"))
            .transform((builder, type, loader, module, domain) -> builder
                .visit(Advice.to(Count.class).on(named("createBrokerConfigs"))))
            .type(named("kafka.integration.KafkaServerTestHarness"))
            .transform((builder, type, loader, module, domain) ->
                System.getProperty("outside.command") == null ? builder : builder
                    .visit(Advice.to(Ids.class).on(named("getTopicIds")))
                    .visit(Advice.to(Names.class).on(named("getTopicNames"))))
            .type(named("org.apache.kafka.clients.consumer.ShareConsumerTest"))
            .transform((builder, type, loader, module, domain) ->
                System.getProperty("outside.command") == null ? builder : builder
                    .visit(Advice.to(Skip.class).on(named("verifyYammerMetricCount"))))
            .type(named("org.apache.kafka.common.test.KafkaClusterTestKit$Builder"))
            .transform((builder, type, loader, module, domain) ->
                System.getProperty("outside.command") == null ? builder : builder
                    .visit(Advice.to(Kit.class).on(named("build"))))
            .type(named("org.apache.kafka.connect.runtime.WorkerConfig"))
            .transform((builder, type, loader, module, domain) -> builder
                .visit(Advice.to(Listed.class).on(named("pluginDiscovery"))))
            .installOn(ByteBuddyAgent.install());
        ConsoleLauncher.main(arguments);
    }

    /** Return the ids of the topics of the first broker by name. */
    public static Map<String, Uuid> ids(KafkaServerTestHarness harness) {
        return harness.brokers().head().metadataCache().topicNamesToIds();
    }

    /** Asks the broker and not the controller for the ids of topics. */
    public static final class Ids {
        @Advice.OnMethodExit
        static void exit(
                @Advice.This KafkaServerTestHarness harness,
                @Advice.Return(readOnly = false) scala.collection.immutable.Map<String, Uuid> ids) {
            ids = scala.collection.immutable.Map$.MODULE$.from(
                CollectionConverters.asScala(Run.ids(harness)));
        }
    }

    /** Asks the broker and not the controller for the names of topics. */
    public static final class Names {
        @Advice.OnMethodExit
        static void exit(
                @Advice.This KafkaServerTestHarness harness,
                @Advice.Return(readOnly = false)
                    scala.collection.immutable.Map<Uuid, String> names) {
            names = scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(
                harness.brokers().head().metadataCache().topicIdsToNames()));
        }
    }

    /** Changes the rules of the broker and not of the controller. */
    public static final class OutsideRules {
        @Advice.OnMethodExit(onThrowable = Throwable.class)
        static void exit(
                @Advice.Argument(0) scala.collection.Seq<KafkaBroker> brokers,
                @Advice.Return(readOnly = false) Authorizer rules,
                @Advice.Thrown(readOnly = false) Throwable thrown) {
            brokers.head().authorizerPlugin();
            rules = OutsideAuthorizer.insteadOf(rules);
            if (rules != null) {
                thrown = null;
            }
        }
    }

    /** Looks at the rules of the broker and not of the controller. */
    public static final class BrokersRules {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean enter(@Advice.Argument(1) Authorizer rules) {
            return OutsideAuthorizer.isIdle(rules);
        }
    }

    /** Leaves out what looks at a metric of the broker's in this process; the rest of the test goes on. */
    public static final class Skip {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean enter() {
            return true;
        }
    }

    /** Has brokers outside in the cluster that a test builds itself. */
    public static final class Kit {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static KafkaClusterTestKit enter(
                @Advice.FieldValue("nodes") TestKitNodes nodes,
                @Advice.FieldValue("configProps") Map<String, Object> settings) {
            return OutsideTestKit.of(nodes, settings);
        }

        @Advice.OnMethodExit
        static void exit(
                @Advice.Enter KafkaClusterTestKit outside,
                @Advice.Return(readOnly = false) KafkaClusterTestKit kit) {
            kit = outside;
        }
    }

    /** Has Connect take the plugins that the jars list: to look for others takes each worker many seconds. */
    public static final class Listed {
        @Advice.OnMethodExit
        static void exit(@Advice.Return(readOnly = false) PluginDiscoveryMode mode) {
            mode = PluginDiscoveryMode.SERVICE_LOAD;
        }
    }

    /** Notes the number of brokers. */
    public static final class Count {
        @Advice.OnMethodEnter
        static void enter(@Advice.Argument(0) int count) {
            Run.BROKERS_OF_TEST.set(count);
        }
    }
}
