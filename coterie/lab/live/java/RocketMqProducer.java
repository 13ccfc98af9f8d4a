import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Makes topics in RocketMQ and produces to them, for `coterie lab live`.
 *
 * Usage: RocketMqProducer LINES NAME_SERVER TOPIC:QUEUES,... RECORDS_PER_SECOND_AND_QUEUE
 *
 * Its first line says that the topics are there. With rate 0 nothing is produced.
 */
public final class RocketMqProducer {
    public static void main(String[] arguments) throws Exception {
        Lines lines = new Lines(arguments[0], "producer");
        DefaultMQProducer producer = new DefaultMQProducer("lab-producer");
        producer.setNamesrvAddr(arguments[1]);
        producer.start();
        Map<String, Integer> topics = new HashMap<>();
        for (String each : arguments[2].split(",")) {
            String[] topic = each.split(":");
            topics.put(topic[0], Integer.parseInt(topic[1]));
        }
        List<MessageQueue> queues = new ArrayList<>();
        for (Map.Entry<String, Integer> topic : topics.entrySet()) {
            queues.addAll(makeTopic(producer, topic.getKey(), topic.getValue()));
        }
        lines.produced(List.of());
        int rate = Integer.parseInt(arguments[3]);
        long begin = System.nanoTime();
        for (long round = 0; rate > 0; round++) {
            long due = begin + round * 1_000_000_000L / rate;
            Thread.sleep(Math.max(0, (due - System.nanoTime()) / 1_000_000));
            List<String> ends = new ArrayList<>();
            for (MessageQueue queue : queues) {
                long offset = producer.send(new Message(queue.getTopic(), new byte[20]), queue).getQueueOffset();
                ends.add(Lines.end(queue.getTopic(), queue.getQueueId(), offset + 1));
            }
            lines.produced(ends);
        }
        producer.shutdown();
    }

    /** Make a topic and wait until the name server has it; a broker that has just started is not known there. */
    private static List<MessageQueue> makeTopic(DefaultMQProducer producer, String topic, int queues)
        throws Exception {
        MQClientException last = null;
        for (int tries = 0; tries < 300; tries++) {
            try {
                producer.createTopic("TBW102", topic, queues, Map.of());
                List<MessageQueue> found = producer.fetchPublishMessageQueues(topic);
                if (found.size() >= queues) {
                    return found;
                }
            } catch (MQClientException error) {
                last = error;
            }
            Thread.sleep(200);
        }
        throw new IllegalStateException("the name server does not have the topic " + topic, last);
    }
}
