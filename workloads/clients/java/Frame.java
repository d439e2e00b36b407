import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** A frame on its way to Python, and how the parts of one from there are read; see frames.py. */
final class Frame extends ByteArrayOutputStream {
    // What Python asks for.
    static final byte OPEN = 1, CHECK = 2, CLOSE = 3, SEND = 4, REACH = 5, ASSIGN = 6, POLL = 7;
    static final byte SUBSCRIBE = 8, SEEK = 9, RESUME = 10, COMMITTED = 11, COMMIT = 12;
    static final byte INIT = 13, BEGIN = 14, OFFSETS = 15, COMMIT_TXN = 16, ABORT_TXN = 17;
    static final byte KNOWN = 18, ACKNOWLEDGE = 19;
    // What it is told.
    static final byte DONE = 1, FAILED = 2, BATCH = 3, ANSWERS = 4, SENT = 5;
    static final byte GIVEN = 6, TAKEN = 7, ENDED = 8;

    /** Where a partition is read from its beginning, or from where its group has committed. */
    static final long BEGINNING = -1, STORED = -2;

    Frame(int seat, byte kind) {
        integer(0); // Its length, which is known at the end.
        integer(seat);
        octet(kind);
    }

    byte[] whole() {
        byte[] bytes = toByteArray();
        ByteBuffer.wrap(bytes).putInt(0, bytes.length - Integer.BYTES);
        return bytes;
    }

    Frame octet(int value) {
        write(value);
        return this;
    }

    Frame integer(int value) {
        write(value >>> 24);
        write(value >>> 16);
        write(value >>> 8);
        write(value);
        return this;
    }

    Frame number(long value) {
        return integer((int) (value >>> 32)).integer((int) value);
    }

    Frame raw(byte[] bytes) {
        write(bytes, 0, bytes.length);
        return this;
    }

    /** Write a text; null has a length of its own. */
    Frame text(String value) {
        if (value == null) return integer(-1);
        byte[] bytes = value.getBytes(StandardCharsets.UTF_8);
        return integer(bytes.length).raw(bytes);
    }

    Frame key(TopicPartition key) {
        return text(key.topic()).integer(key.partition());
    }

    /** Write what was committed of partitions; null: nothing was. */
    Frame answers(Map<TopicPartition, OffsetAndMetadata> answers) {
        integer(answers.size());
        answers.forEach((key, answer) -> key(key)
            .number(answer == null ? -1 : answer.offset())
            .text(answer == null ? null : answer.metadata()));
        return this;
    }

    static String text(ByteBuffer in) {
        byte[] bytes = new byte[in.getInt()];
        in.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    static Map<String, Object> settings(ByteBuffer in) {
        Map<String, Object> settings = new LinkedHashMap<>();
        for (int left = in.getInt(); left > 0; left--) settings.put(text(in), text(in));
        return settings;
    }

    static List<String> texts(ByteBuffer in) {
        List<String> texts = new ArrayList<>();
        for (int left = in.getInt(); left > 0; left--) texts.add(text(in));
        return texts;
    }

    static TopicPartition key(ByteBuffer in) {
        return new TopicPartition(text(in), in.getInt());
    }

    /** Read partitions, each with an offset. */
    static Map<TopicPartition, Long> offsets(ByteBuffer in) {
        Map<TopicPartition, Long> offsets = new LinkedHashMap<>();
        for (int left = in.getInt(); left > 0; left--) offsets.put(key(in), in.getLong());
        return offsets;
    }

    static Map<TopicPartition, OffsetAndMetadata> commits(ByteBuffer in, String metadata) {
        Map<TopicPartition, OffsetAndMetadata> commits = new LinkedHashMap<>();
        offsets(in).forEach(
            (key, offset) -> commits.put(key, new OffsetAndMetadata(offset, metadata)));
        return commits;
    }
}
