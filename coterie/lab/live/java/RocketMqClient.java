import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.consumer.ProcessQueue;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Real push consumers of RocketMQ, for `coterie lab live`.
 *
 * Usage: RocketMqClient LINES NAMES TOPIC,TOPIC... NAME_SERVER GROUP concurrently|orderly COMMIT_MS
 *
 * NAMES are members that start at once, separated by commas, or "-". Lines of standard input, "start NAME"
 * and "stop NAME", start and stop others in the same process. SIGTERM stops all of them. Each member writes
 * its lines to LINES/NAME.jsonl. A queue belongs to a member from one call of its MessageQueueListener to the
 * next. In order a queue belongs to it while it has the lock: the listener is also called with queues whose
 * lock the broker has refused, and which are not consumed.
 */
public final class RocketMqClient {
    private static final int TRIES = 5;
    /** How often a member that consumes in order is asked for its locks. */
    private static final int LOCKS_MS = 20;

    private static String[] arguments;
    private static final Map<String, DefaultMQPushConsumer> consumers = new ConcurrentHashMap<>();
    private static final Map<String, Lines> lines = new ConcurrentHashMap<>();

    public static void main(String[] given) throws Exception {
        arguments = given;
        Runtime.getRuntime().addShutdownHook(new Thread(RocketMqClient::stopAll));
        for (String name : given[1].equals("-") ? new String[0] : given[1].split(",")) {
            new Thread(() -> start(name)).start();
        }
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.trim().split(" ");
            if (words[0].equals("start")) {
                new Thread(() -> start(words[1])).start();
            } else if (words[0].equals("stop")) {
                new Thread(() -> stop(words[1])).start();
            }
        }
        System.exit(0);
    }

    private static void start(String name) {
        Lines own;
        try {
            own = new Lines(arguments[0], name);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
        lines.put(name, own);
        own.write("ready", "");
        for (int tries = 1; ; tries++) {
            DefaultMQPushConsumer consumer = null;
            try {
                consumer = consumer(name, own);
                consumer.start();
                consumers.put(name, consumer);
                if (arguments[5].equals("orderly")) {
                    watchLocks(name, own, consumer);
                }
                return;
            } catch (Exception error) {
                // On a busy machine a request may take longer than the client waits.
                own.write("failed", Lines.error(error));
                error.printStackTrace();
                if (tries == TRIES) {
                    System.exit(1);
                }
                consumer.shutdown();
            }
        }
    }

    private static DefaultMQPushConsumer consumer(String name, Lines own) throws MQClientException {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments[4]);
        consumer.setNamesrvAddr(arguments[3]);
        // The id of a client is its address and this name, so the order of clients is that of their names.
        consumer.setInstanceName(name);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPersistConsumerOffsetInterval(Integer.parseInt(arguments[6]));
        if (arguments[5].equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (records, context) -> {
                deliver(own, records);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (records, context) -> {
                deliver(own, records);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        if (!arguments[5].equals("orderly")) {
            Map<String, Set<MessageQueue>> owned = new HashMap<>();
            consumer.setMessageQueueListener((topic, all, assigned) -> {
                if (!topic.startsWith("%RETRY%")) {
                    change(own, owned, topic, assigned);
                }
            });
        }
        for (String topic : arguments[2].split(",")) {
            consumer.subscribe(topic, "*");
        }
        return consumer;
    }

    private static void change(
        Lines own, Map<String, Set<MessageQueue>> owned, String topic, Set<MessageQueue> assigned
    ) {
        synchronized (owned) {
            owned.put(topic, assigned);
            TreeSet<String> now = new TreeSet<>();
            for (Map.Entry<String, Set<MessageQueue>> each : owned.entrySet()) {
                for (MessageQueue queue : each.getValue()) {
                    now.add(Lines.partition(each.getKey(), queue.getQueueId()));
                }
            }
            own.taken(now);
        }
    }

    /** Write a line whenever the queues that a member may consume in order are others than before. */
    private static void watchLocks(String name, Lines own, DefaultMQPushConsumer consumer) {
        Map<MessageQueue, ProcessQueue> table =
            consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable();
        Thread watch = new Thread(() -> {
            TreeSet<String> before = new TreeSet<>();
            while (true) {
                TreeSet<String> now = new TreeSet<>();
                table.forEach((queue, process) -> {
                    boolean mine = process.isLocked() && !process.isLockExpired() && !process.isDropped();
                    if (mine && !queue.getTopic().startsWith("%RETRY%")) {
                        now.add(Lines.partition(queue.getTopic(), queue.getQueueId()));
                    }
                });
                // Together with the check, so that no line follows the one of `stop`.
                synchronized (consumer) {
                    if (consumers.get(name) != consumer) {
                        return;
                    }
                    if (!now.equals(before)) {
                        own.taken(now);
                    }
                }
                before = now;
                try {
                    Thread.sleep(LOCKS_MS);
                } catch (InterruptedException error) {
                    return;
                }
            }
        });
        watch.setDaemon(true);
        watch.start();
    }

    private static void deliver(Lines own, List<MessageExt> records) {
        for (MessageExt each : records) {
            if (!each.getTopic().startsWith("%RETRY%")) {
                own.delivered(each.getTopic(), each.getQueueId(), each.getQueueOffset());
            }
        }
    }

    private static void stop(String name) {
        DefaultMQPushConsumer consumer = consumers.remove(name);
        if (consumer != null) {
            // The first thing that a shutdown does is to stop consuming; it ends some time later.
            synchronized (consumer) {
                lines.get(name).taken(List.of());
            }
            consumer.shutdown();
            lines.get(name).write("ending", "");
        }
    }

    private static void stopAll() {
        for (String name : new ArrayList<>(consumers.keySet())) {
            stop(name);
        }
    }
}
