package outside;

import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.nameStartsWith;
import static net.bytebuddy.matcher.ElementMatchers.takesArgument;
import static net.bytebuddy.matcher.ElementMatchers.takesArguments;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import kafka.integration.KafkaServerTestHarness;
import kafka.server.KafkaBroker;
import net.bytebuddy.agent.ByteBuddyAgent;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.Advice;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.authorizer.Authorizer;
import org.junit.platform.console.ConsoleLauncher;
import scala.jdk.javaapi.CollectionConverters;

/** Run JUnit, with the numbers of brokers and replicas in the tests in Scala replaced by one. */
public final class Run {
    private Run() { }

    public static void main(String[] arguments) {
        new AgentBuilder.Default()
            .disableClassFormatChanges()
            .with(AgentBuilder.RedefinitionStrategy.RETRANSFORMATION)
            .type(nameStartsWith("kafka.api.").or(nameStartsWith("kafka.server."))
                .or(nameStartsWith("integration.kafka")))
            .transform((builder, type, loader, module, domain) -> builder
                .visit(Advice.to(One.class).on(named("brokerCount"))))
            .type(named("kafka.utils.TestUtils$"))
            .transform((builder, type, loader, module, domain) -> builder
                .visit(Advice.to(OneConfig.class).on(named("createBrokerConfigs")))
                .visit(Advice.to(OneReplica.class).on(named("createTopicWithAdmin")))
                .visit(Advice.to(OutsideRules.class).on(named("pickAuthorizerForWrite")))
                .visit(Advice.to(SameRules.class).on(
                    named("waitAndVerifyAcls").and(takesArgument(1, Authorizer.class)))))
            .type(named("kafka.integration.KafkaServerTestHarness"))
            .transform((builder, type, loader, module, domain) ->
                System.getProperty("outside.command") == null ? builder : builder
                    .visit(Advice.to(Ids.class).on(named("getTopicIds")))
                    .visit(Advice.to(Names.class).on(named("getTopicNames"))))
            .type(named("org.apache.kafka.clients.admin.KafkaAdminClient"))
            .transform((builder, type, loader, module, domain) -> builder
                .visit(Advice.to(OneNode.class).on(named("createTopics").and(takesArguments(2)))))
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

    /** Return topics with the same partitions, each with the first broker as its only replica. */
    public static Collection<NewTopic> onOneNode(Collection<NewTopic> topics) {
        List<NewTopic> changed = new ArrayList<>();
        for (NewTopic topic : topics) {
            Map<Integer, List<Integer>> replicas = topic.replicasAssignments();
            if (replicas == null && topic.replicationFactor() > 3) {
                changed.add(topic);
                continue;
            }
            NewTopic one;
            if (replicas == null) {
                Optional<Integer> count = topic.numPartitions() < 0
                    ? Optional.empty() : Optional.of(topic.numPartitions());
                short factor = topic.replicationFactor();
                one = new NewTopic(
                    topic.name(), count, Optional.of(factor > 1 ? (short) 1 : factor));
            } else {
                Map<Integer, List<Integer>> first = new TreeMap<>();
                replicas.forEach((partition, ids) -> first.put(partition, List.of(0)));
                one = new NewTopic(topic.name(), first);
            }
            changed.add(one.configs(topic.configs()));
        }
        return changed;
    }

    /** Creates topics on one node. */
    public static final class OneNode {
        @Advice.OnMethodEnter
        static void enter(
                @Advice.Argument(value = 0, readOnly = false) Collection<NewTopic> topics) {
            topics = Run.onOneNode(topics);
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
    public static final class SameRules {
        @Advice.OnMethodEnter
        static void enter(@Advice.Argument(value = 1, readOnly = false) Authorizer rules) {
            rules = OutsideAuthorizer.insteadOf(rules);
        }
    }

    /** Returns one. */
    public static final class One {
        @Advice.OnMethodExit
        static void exit(@Advice.Return(readOnly = false) int count) {
            count = 1;
        }
    }

    /** Asks for one. */
    public static final class OneConfig {
        @Advice.OnMethodEnter
        static void enter(@Advice.Argument(value = 0, readOnly = false) int count) {
            count = 1;
        }
    }

    /** Asks for one replica. */
    public static final class OneReplica {
        @Advice.OnMethodEnter
        static void enter(@Advice.Argument(value = 5, readOnly = false) int replicas) {
            replicas = 1;
        }
    }
}
