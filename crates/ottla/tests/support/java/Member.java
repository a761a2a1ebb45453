import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a consumer group, as Kafka's own client is one, for tests that mix it with ours.
 *
 * <pre>
 * Member BOOTSTRAP GROUP TOPIC,TOPIC,... [PROPERTY=VALUE]...
 * </pre>
 *
 * It says on standard output, a line each and at once:
 *
 * <pre>
 * assigned [TOPIC:PARTITION ...]      all that it owns now
 * revoked [TOPIC:PARTITION ...]       before it gives them up
 * lost [TOPIC:PARTITION ...]          it was thrown out
 * record TOPIC PARTITION OFFSET
 * committed TOPIC PARTITION OFFSET    the next one to read
 * refused REASON                      a commit that came too late
 * closed                              it has left
 * </pre>
 *
 * What it has printed it commits. It leaves when its standard input ends.
 */
public class Member {
    public static void main(String[] args) throws Exception {
        AtomicBoolean ends = new AtomicBoolean();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties(args))) {
            endWithStandardInput(ends, consumer);
            consumer.subscribe(List.of(args[2].split(",")), new Listener(consumer));
            while (!ends.get()) {
                readSome(consumer);
            }
        } catch (WakeupException e) {
            // Closed all the same.
        }
        say("closed");
    }

    private static Properties properties(String[] args) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("group.id", args[1]);
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        for (int i = 3; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        return properties;
    }

    private static void endWithStandardInput(AtomicBoolean ends, KafkaConsumer<?, ?> consumer) {
        Thread thread = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {}
            } catch (java.io.IOException e) {
                // As good as its end.
            }
            ends.set(true);
            consumer.wakeup();
        });
        thread.setDaemon(true);
        thread.start();
    }

    private static void readSome(KafkaConsumer<byte[], byte[]> consumer) {
        StringBuilder lines = new StringBuilder();
        var records = consumer.poll(Duration.ofMillis(200));
        for (ConsumerRecord<byte[], byte[]> r : records) {
            lines.append("record ").append(r.topic()).append(' ').append(r.partition());
            lines.append(' ').append(r.offset()).append('\n');
        }
        System.out.print(lines);
        System.out.flush();
        if (!records.isEmpty()) {
            commit(consumer, records.nextOffsets());
        }
    }

    private static void commit(KafkaConsumer<?, ?> consumer, Map<TopicPartition, OffsetAndMetadata> offsets) {
        try {
            consumer.commitSync(offsets);
            offsets.forEach((at, next) ->
                say("committed " + at.topic() + " " + at.partition() + " " + next.offset()));
        } catch (CommitFailedException | RebalanceInProgressException e) {
            say("refused " + e.getClass().getSimpleName());
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private record Listener(KafkaConsumer<?, ?> consumer) implements ConsumerRebalanceListener {
        /** The argument names only what is new to it, which is not all under a cooperative assignor. */
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> added) {
            say("assigned " + shown(consumer.assignment()));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> taken) {
            say("revoked " + shown(taken));
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> lost) {
            say("lost " + shown(lost));
        }

        private static String shown(Collection<TopicPartition> partitions) {
            return partitions.stream().map(at -> at.topic() + ":" + at.partition()).sorted().collect(Collectors.joining(" "));
        }
    }
}
