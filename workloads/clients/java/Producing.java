import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** A producer, transactional or not. */
final class Producing extends Seat {

    private volatile KafkaProducer<byte[], byte[]> producer;

    Producing(int id, Bridge bridge) {
        super(id, bridge);
    }

    @Override
    void open(Map<String, Object> settings) {
        ByteArraySerializer raw = new ByteArraySerializer();
        producer = new KafkaProducer<>(settings, raw, raw);
    }

    @Override
    Set<String> known() {
        return ProducerConfig.configNames();
    }

    @Override
    void close(byte how) {
        cut();
    }

    /** End the producer at once: what it has open is neither sent nor aborted. */
    void cut() {
        KafkaProducer<byte[], byte[]> ended = producer;
        if (ended != null) ended.close(Duration.ZERO);
    }

    @Override
    Frame reply(byte kind, ByteBuffer body) throws Exception {
        switch (kind) {
            case Frame.SEND:
                send(body);
                return null;
            case Frame.REACH:
                reach(Frame.text(body), body.getInt());
                return done();
            case Frame.INIT:
                producer.initTransactions();
                return done();
            case Frame.BEGIN:
                producer.beginTransaction();
                return done();
            case Frame.OFFSETS:
                String group = Frame.text(body);
                int generation = body.getInt();
                ConsumerGroupMetadata member =
                    new ConsumerGroupMetadata(group, generation, Frame.text(body), Optional.empty());
                producer.sendOffsetsToTransaction(Frame.commits(body, ""), member);
                return done();
            case Frame.COMMIT_TXN:
                producer.commitTransaction();
                return done();
            case Frame.ABORT_TXN:
                producer.abortTransaction();
                return done();
            default:
                throw new IllegalArgumentException("a producer cannot do " + kind);
        }
    }

    /** Ask for a topic's partitions, again and again until the limit. */
    private void reach(String topic, int limitMs) {
        long deadline = System.nanoTime() + limitMs * 1_000_000L;
        while (true) {
            try {
                producer.partitionsFor(topic);
                return;
            } catch (RetriableException later) {
                if (System.nanoTime() > deadline) throw later;
            }
        }
    }

    private void send(ByteBuffer in) {
        long op = in.getLong();
        String topic = Frame.text(in);
        int partition = in.getInt();
        long atMs = in.getLong();
        int[] sizes = new int[in.getInt()];
        for (int index = 0; index < sizes.length; index++) sizes[index] = in.getInt();
        List<List<Header>> headers = new ArrayList<>();
        for (int left = sizes.length; left > 0; left--) headers.add(headers(in));
        byte[][] keys = new byte[sizes.length][in.getInt()];
        for (byte[] key : keys) in.get(key);
        Flight flight = new Flight(op, sizes.length);
        for (int index = 0; index < sizes.length; index++) {
            byte[] payload = sizes[index] < 0 ? null : new byte[sizes[index]];
            if (payload != null) in.get(payload);
            flight.hand(index, new ProducerRecord<>(
                topic, partition, atMs, keys[index], payload, headers.get(index)));
        }
    }

    /** Read the headers of a record; null: it has none. */
    private static List<Header> headers(ByteBuffer in) {
        byte count = in.get();
        if (count == 0) return null;
        List<Header> headers = new ArrayList<>();
        for (int left = count; left > 0; left--) {
            String name = Frame.text(in);
            int size = in.getInt();
            byte[] content = size < 0 ? null : new byte[size];
            if (content != null) in.get(content);
            headers.add(new RecordHeader(name, content));
        }
        return headers;
    }

    /** The records of one op, until the last of them has its report. */
    private final class Flight {
        private static final byte REPORTED = 0, LOCAL = 1, THROWN = 2;

        private final Thread owner = Thread.currentThread();
        private final long op;
        private final long[] offsets;
        private final boolean[] told;
        private final List<Frame> failures = new ArrayList<>();
        private int due;
        private int handing = -1;

        Flight(long op, int count) {
            this.op = op;
            offsets = new long[count];
            told = new boolean[count];
            due = count;
        }

        void hand(int index, ProducerRecord<byte[], byte[]> record) {
            handing = index;
            Callback callback = (metadata, failed) -> {
                // Called inside of `send` it is of a record that the producer never took.
                boolean local = Thread.currentThread() == owner && handing == index;
                note(index, metadata, failed, local ? LOCAL : REPORTED);
            };
            try {
                producer.send(record, callback);
            } catch (RuntimeException thrown) {
                note(index, null, thrown, THROWN);
            }
            handing = -1;
        }

        private synchronized void note(
                int index, RecordMetadata metadata, Exception failed, byte how) {
            if (told[index]) return;
            told[index] = true;
            offsets[index] = failed == null && metadata.hasOffset() ? metadata.offset() : -1;
            if (failed != null) {
                Frame failure = new Frame(id, Frame.SENT);
                failure.reset();
                failures.add(failure.integer(index).octet(how).text(why(failed)));
            }
            if (--due > 0) return;
            Frame report = new Frame(id, Frame.SENT).number(op).integer(offsets.length);
            for (long offset : offsets) report.number(offset);
            report.integer(failures.size());
            failures.forEach(each -> report.raw(each.toByteArray()));
            bridge.tell(report);
        }
    }
}
