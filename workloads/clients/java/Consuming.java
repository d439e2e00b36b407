import java.io.ByteArrayOutputStream;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A consumer, assigned by hand or a member of a group. */
final class Consuming extends Seat implements ConsumerRebalanceListener {
    private static final String HEADER = "logquake";
    private static final int KEY_BYTES = 8;
    private static final int MARK_BYTES = 12;
    private static final byte VANISH = 1;
    private static final Duration AT_ONCE = Duration.ZERO, LEAVING = Duration.ofSeconds(5);

    private KafkaConsumer<byte[], byte[]> consumer;
    private Iterator<ConsumerRecord<byte[], byte[]>> rest = Collections.emptyIterator();
    private boolean ending;

    Consuming(int id, Bridge bridge) {
        super(id, bridge);
    }

    @Override
    void open(Map<String, Object> settings) {
        ByteArrayDeserializer raw = new ByteArrayDeserializer();
        consumer = new KafkaConsumer<>(settings, raw, raw);
    }

    @Override
    Set<String> known() {
        return ConsumerConfig.configNames();
    }

    @Override
    void close(byte how) {
        ending = true; // Whoever listened is gone.
        if (consumer == null) return;
        if (how == VANISH) {
            vanish();
        } else {
            consumer.close(LEAVING);
        }
    }

    /** End the consumer so that its group learns of it by the session's timeout. */
    private void vanish() {
        try {
            try { // Since 4.1 (KIP-1092); compiled with older clients, too.
                String options = "org.apache.kafka.clients.consumer.CloseOptions";
                Class<?> type = Class.forName(options);
                Class<?> what = Class.forName(options + "$GroupMembershipOperation");
                Object remain = what.getField("REMAIN_IN_GROUP").get(null);
                Object how = type.getMethod("groupMembershipOperation", what).invoke(null, remain);
                type.getMethod("withTimeout", Duration.class).invoke(how, AT_ONCE);
                KafkaConsumer.class.getMethod("close", type).invoke(consumer, how);
                return;
            } catch (ClassNotFoundException older) {
                stayOnClose();
            }
        } catch (ReflectiveOperationException unable) {
            unable.printStackTrace();
        }
        consumer.close(AT_ONCE);
    }

    /** Have an older client's coordinator send no LeaveGroup, as Kafka Streams has it. */
    private void stayOnClose() throws ReflectiveOperationException {
        Object coordinator = valueOf(delegate(), "coordinator");
        Object rebalances = valueOf(coordinator, "rebalanceConfig");
        Field leaves = fieldOf(rebalances, "leaveGroupOnClose");
        leaves.setBoolean(rebalances, false);
    }

    /** What does the work: since 3.7 not the consumer itself. */
    private Object delegate() {
        try {
            return valueOf(consumer, "delegate");
        } catch (ReflectiveOperationException older) {
            return consumer;
        }
    }

    private static Object valueOf(Object owner, String name) throws ReflectiveOperationException {
        return fieldOf(owner, name).get(owner);
    }

    private static Field fieldOf(Object owner, String name) throws NoSuchFieldException {
        for (Class<?> type = owner.getClass(); type != null; type = type.getSuperclass()) {
            try {
                Field field = type.getDeclaredField(name);
                field.setAccessible(true);
                return field;
            } catch (NoSuchFieldException above) {
                // It is a superclass's.
            }
        }
        throw new NoSuchFieldException(owner.getClass() + " has no " + name);
    }

    @Override
    Frame reply(byte kind, ByteBuffer body) throws Exception {
        switch (kind) {
            case Frame.ASSIGN:
                Map<TopicPartition, Long> starts = Frame.offsets(body);
                rest = Collections.emptyIterator();
                consumer.assign(starts.keySet());
                seek(starts);
                return done();
            case Frame.SEEK:
                rest = Collections.emptyIterator();
                seek(Frame.offsets(body));
                return done();
            case Frame.SUBSCRIBE:
                consumer.subscribe(Frame.texts(body), this);
                return done();
            case Frame.POLL:
                return poll(body.getInt(), Duration.ofMillis(body.getInt()));
            case Frame.COMMITTED:
                Duration limit = Duration.ofMillis(body.getInt());
                Set<TopicPartition> keys = Frame.offsets(body).keySet();
                return new Frame(id, Frame.ANSWERS).answers(consumer.committed(keys, limit));
            case Frame.COMMIT:
                return commit(body);
            default:
                throw new IllegalArgumentException("a consumer cannot do " + kind);
        }
    }

    private void seek(Map<TopicPartition, Long> starts) {
        starts.forEach((key, offset) -> {
            if (offset == Frame.BEGINNING) consumer.seekToBeginning(List.of(key));
            else if (offset != Frame.STORED) consumer.seek(key, offset);
        });
    }

    private Frame commit(ByteBuffer body) {
        boolean waits = body.get() != 0;
        Duration limit = Duration.ofMillis(body.getInt());
        Map<TopicPartition, OffsetAndMetadata> commits = Frame.commits(body, Frame.text(body));
        if (waits) {
            consumer.commitSync(commits, limit);
            return new Frame(id, Frame.ANSWERS).answers(commits);
        }
        consumer.commitAsync(commits, (answers, failed) -> bridge.tell(
            new Frame(id, Frame.ENDED).text(failed == null ? null : why(failed)).answers(commits)));
        return new Frame(id, Frame.ANSWERS).answers(Map.of());
    }

    /** Return what was fetched; more than the limit is kept for the next time. */
    private Frame poll(int limit, Duration timeout) {
        if (!rest.hasNext()) rest = consumer.poll(timeout).iterator();
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        while (records.size() < limit && rest.hasNext()) records.add(rest.next());
        return batch(id, records);
    }

    static Frame batch(int id, List<ConsumerRecord<byte[], byte[]>> records) {
        Frame batch = new Frame(id, Frame.BATCH).integer(records.size());
        spans(batch, records);
        records.forEach(each -> batch.number(each.offset()));
        records.forEach(each -> batch.integer(each.leaderEpoch().orElse(-1)));
        records.forEach(each -> batch.number(
            each.timestampType() == TimestampType.CREATE_TIME ? each.timestamp() : -1));
        pieces(batch, records.stream().map(ConsumerRecord::value).toList());
        pieces(batch, records.stream().map(ConsumerRecord::key).toList());
        pieces(batch, records.stream().map(Consuming::mark).toList());
        return batch;
    }

    /** Write how many records of a partition follow one another. */
    private static void spans(Frame batch, List<ConsumerRecord<byte[], byte[]>> records) {
        List<TopicPartition> keys = new ArrayList<>();
        List<Integer> lengths = new ArrayList<>();
        TopicPartition last = null;
        for (ConsumerRecord<byte[], byte[]> each : records) {
            boolean same = last != null && each.partition() == last.partition()
                && each.topic().equals(last.topic());
            if (same) {
                lengths.set(lengths.size() - 1, lengths.get(lengths.size() - 1) + 1);
            } else {
                last = new TopicPartition(each.topic(), each.partition());
                keys.add(last);
                lengths.add(1);
            }
        }
        batch.integer(keys.size());
        for (int at = 0; at < keys.size(); at++) batch.key(keys.get(at)).integer(lengths.get(at));
    }

    /** Write the sizes of pieces, -1 for null, and then all of them. */
    private static void pieces(Frame batch, List<byte[]> pieces) {
        pieces.forEach(each -> batch.integer(each == null ? -1 : each.length));
        pieces.forEach(each -> {
            if (each != null) batch.raw(each);
        });
    }

    /** Return what is compared of a record's headers, as headers.py has it; null: it has none. */
    private static byte[] mark(ConsumerRecord<byte[], byte[]> record) {
        Header[] headers = record.headers().toArray();
        if (headers.length == 0) return null;
        byte[] first = headers[0].value();
        boolean ours = headers.length == 1 && headers[0].key().equals(HEADER);
        if (ours && first != null && (first.length == KEY_BYTES || first.length == MARK_BYTES)) {
            return first;
        }
        ByteArrayOutputStream coded = new ByteArrayOutputStream();
        varint(coded, headers.length);
        for (Header header : headers) {
            byte[] name = header.key().getBytes(StandardCharsets.UTF_8);
            byte[] value = header.value();
            varint(coded, name.length);
            coded.write(name, 0, name.length);
            varint(coded, value == null ? -1 : value.length);
            if (value != null) coded.write(value, 0, value.length);
        }
        return coded.toByteArray();
    }

    /** Write a number as format 2 of records has it, zigzag. */
    private static void varint(ByteArrayOutputStream out, int number) {
        int left = number << 1 ^ number >> 31;
        for (; (left & ~0x7F) != 0; left >>>= 7) out.write(left & 0x7F | 0x80);
        out.write(left);
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> given) {
        ConsumerGroupMetadata member = consumer.groupMetadata();
        told(
            new Frame(id, Frame.GIVEN).integer(member.generationId()).text(member.memberId()),
            given);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> taken) {
        told(new Frame(id, Frame.TAKEN), taken);
    }

    /** Tell of a rebalance, and do what is asked for until the record has it. */
    private void told(Frame event, Collection<TopicPartition> keys) {
        if (ending) return;
        event.integer(keys.size());
        keys.forEach(event::key);
        bridge.tell(event);
        try {
            while (true) {
                ByteBuffer body = requests.take();
                byte asked = body.get();
                if (asked == Frame.RESUME) return;
                handle(asked, body);
            }
        } catch (InterruptedException never) {
            throw new IllegalStateException(never);
        }
    }
}
