import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** One client of Kafka and the thread that uses it: what Python asks for is done in order. */
abstract class Seat implements Runnable {
    protected final int id;
    protected final Bridge bridge;
    protected final BlockingQueue<ByteBuffer> requests = new LinkedBlockingQueue<>();

    Seat(int id, Bridge bridge) {
        this.id = id;
        this.bridge = bridge;
    }

    /** Make the client. */
    abstract void open(Map<String, Object> settings);

    /** Carry a request out; return the reply, null if it comes later, or never. */
    abstract Frame reply(byte kind, ByteBuffer body) throws Exception;

    /** End the client, if there is one. */
    abstract void close(byte how);

    /** Names of settings that the client knows. */
    abstract Set<String> known();

    @Override
    public void run() {
        try {
            while (true) {
                ByteBuffer body = requests.take();
                byte kind = body.get();
                if (kind == Frame.CLOSE) {
                    close(body.get());
                    return;
                }
                handle(kind, body);
            }
        } catch (Throwable broken) { // A bug, or no memory: no record may rest on what is left.
            broken.printStackTrace();
            Runtime.getRuntime().halt(70);
        }
    }

    protected void handle(byte kind, ByteBuffer body) {
        Frame reply;
        try {
            if (kind == Frame.OPEN || kind == Frame.CHECK) {
                open(settings(body));
                reply = done();
                if (kind == Frame.CHECK) close((byte) 0);
            } else if (kind == Frame.KNOWN) {
                reply = done().integer(known().size());
                for (String name : known()) reply.text(name);
            } else {
                reply = reply(kind, body);
            }
            if (kind == Frame.OPEN) return; // Nobody waits for it; what fails then fails later.
        } catch (Exception failed) {
            if (kind == Frame.OPEN) failed.printStackTrace();
            reply = kind == Frame.OPEN ? null : new Frame(id, Frame.FAILED).text(why(failed));
        }
        if (reply != null) bridge.tell(reply);
    }

    /** Read settings: the plan's, and of the user's own those that this kind of client knows. */
    private Map<String, Object> settings(ByteBuffer body) {
        Map<String, Object> settings = new HashMap<>(Frame.settings(body));
        Frame.settings(body).forEach((name, value) -> {
            if (known().contains(name)) settings.put(name, value);
        });
        return settings;
    }

    protected Frame done() {
        return new Frame(id, Frame.DONE);
    }

    /** Say of what something failed: the class of the first cause, and its message in one line. */
    static String why(Throwable failed) {
        Throwable cause = failed;
        boolean wrapped = cause.getClass() == org.apache.kafka.common.KafkaException.class;
        if (wrapped && cause.getCause() != null) cause = cause.getCause();
        String message = String.valueOf(cause.getMessage()).replaceAll("\\s+", " ").trim();
        return cause.getClass().getSimpleName() + ": " + message;
    }
}
