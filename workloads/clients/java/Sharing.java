import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A member of a share group (KIP-932); compiled with clients that have them. */
final class Sharing extends Seat {
    private static final String NO_ANSWER = "no broker confirmed it";
    private static final byte VANISH = 1;
    private static final Duration AT_ONCE = Duration.ZERO, LEAVING = Duration.ofSeconds(5);

    private final Map<TopicPartition, Set<Long>> confirmed = new HashMap<>();
    private KafkaShareConsumer<byte[], byte[]> consumer;
    private List<ConsumerRecord<byte[], byte[]>> held = List.of();

    Sharing(int id, Bridge bridge) {
        super(id, bridge);
    }

    @Override
    void open(Map<String, Object> settings) {
        ByteArrayDeserializer raw = new ByteArrayDeserializer();
        consumer = new KafkaShareConsumer<>(settings, raw, raw);
        consumer.setAcknowledgementCommitCallback((offsets, failed) -> {
            if (failed == null) offsets.forEach(
                (key, mine) -> confirmed.computeIfAbsent(
                    key.topicPartition(), each -> new HashSet<>()).addAll(mine));
        });
    }

    @Override
    Set<String> known() {
        return ConsumerConfig.configNames();
    }

    /** End it; one that shall vanish waits for nobody, for it cannot stay in its group. */
    @Override
    void close(byte how) {
        if (consumer != null) consumer.close(how == VANISH ? AT_ONCE : LEAVING);
    }

    @Override
    Frame reply(byte kind, ByteBuffer body) {
        switch (kind) {
            case Frame.SUBSCRIBE:
                consumer.subscribe(Frame.texts(body));
                return done();
            case Frame.POLL:
                body.getInt(); // How much is given at most, a setting says.
                return poll(Duration.ofMillis(body.getInt()));
            case Frame.ACKNOWLEDGE:
                return acknowledge(body);
            default:
                throw new IllegalArgumentException("a member of a share group cannot do " + kind);
        }
    }

    /** Return what was acquired, and behind it how often each record was delivered. */
    private Frame poll(Duration timeout) {
        held = new ArrayList<>();
        consumer.poll(timeout).forEach(held::add);
        Frame batch = Consuming.batch(id, held);
        held.forEach(each -> batch.integer(each.deliveryCount().orElse((short) 0)));
        return batch;
    }

    /** Say what becomes of each record, and return each one's error; null: it is confirmed. */
    private Frame acknowledge(ByteBuffer body) {
        Duration limit = Duration.ofMillis(body.getInt());
        List<String> refused = new ArrayList<>();
        confirmed.clear();
        for (ConsumerRecord<byte[], byte[]> record : held) {
            try {
                consumer.acknowledge(record, type(body.get()));
                refused.add(null);
            } catch (KafkaException | IllegalStateException failed) {
                refused.add(why(failed));
            }
        }
        Map<TopicPartition, String> answers = new HashMap<>();
        Map<TopicIdPartition, Optional<KafkaException>> told = consumer.commitSync(limit);
        told.forEach((key, error) -> answers.put(
            key.topicPartition(), error.map(Seat::why).orElse(null)));
        Frame errors = done().integer(held.size());
        for (int at = 0; at < held.size(); at++) {
            errors.text(refused.get(at) != null ? refused.get(at) : error(held.get(at), answers));
        }
        held = List.of();
        return errors;
    }

    private String error(
        ConsumerRecord<byte[], byte[]> record, Map<TopicPartition, String> answers) {
        TopicPartition key = new TopicPartition(record.topic(), record.partition());
        if (!answers.containsKey(key)) return NO_ANSWER;
        if (answers.get(key) != null) return answers.get(key);
        boolean named = confirmed.getOrDefault(key, Set.of()).contains(record.offset());
        return named ? null : NO_ANSWER;
    }

    private static AcknowledgeType type(byte id) {
        for (AcknowledgeType each : AcknowledgeType.values()) if (each.id == id) return each;
        throw new IllegalArgumentException("no acknowledgement is " + id);
    }
}
