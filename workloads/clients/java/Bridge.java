import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * Kafka's own clients for a worker of Logquake, which is written in Python.
 *
 * <p>Standard input brings frames, standard output takes them; frames.py describes both. The end of
 * standard input means that the worker is gone: this process then ends at once.
 */
final class Bridge {
    private static final int BUFFER = 1 << 16;
    private static final long GRACE_MS = 2000;

    private final BlockingQueue<byte[]> out = new LinkedBlockingQueue<>();
    private final Map<Integer, Seat> seats = new HashMap<>();

    public static void main(String[] arguments) throws IOException {
        OutputStream pipe = new FileOutputStream(FileDescriptor.out);
        System.setOut(System.err); // What a library prints is no frame.
        new Bridge().work(pipe);
    }

    /** Have a frame written; never waits. */
    void tell(Frame frame) {
        out.add(frame.whole());
    }

    private void work(OutputStream pipe) throws IOException {
        start(() -> write(pipe), "writer");
        DataInputStream in = new DataInputStream(
            new BufferedInputStream(new FileInputStream(FileDescriptor.in), BUFFER));
        try {
            while (true) {
                byte[] body = new byte[in.readInt()];
                in.readFully(body);
                route(ByteBuffer.wrap(body));
            }
        } catch (EOFException gone) {
            end();
        }
    }

    private void route(ByteBuffer body) {
        int id = body.getInt();
        byte kind = body.get(body.position());
        if (kind == Frame.OPEN || kind == Frame.CHECK) {
            byte role = body.get(body.position() + 1);
            ByteBuffer rest = ByteBuffer.allocate(body.remaining() - 1);
            body.get();
            body.get();
            rest.put(kind).put(body).flip();
            Seat seat = seat(role, id);
            seats.put(id, seat);
            seat.requests.add(rest);
            start(seat, "seat-" + id);
            return;
        }
        Seat seat = kind == Frame.CLOSE ? seats.remove(id) : seats.get(id);
        if (seat == null) return;
        seat.requests.add(body);
        if (kind == Frame.CLOSE && seat instanceof Producing) {
            start(((Producing) seat)::cut, "end-" + id); // Its thread may wait for a broker.
        }
    }

    private Seat seat(byte role, int id) {
        switch (role) {
            case 0: return new Producing(id, this);
            case 1: return new Consuming(id, this);
            default: return sharing(id);
        }
    }

    /** What older clients lack is not compiled with them. */
    private Seat sharing(int id) {
        try {
            return (Seat) Class.forName("Sharing")
                .getDeclaredConstructor(int.class, Bridge.class).newInstance(id, this);
        } catch (ReflectiveOperationException older) {
            throw new IllegalStateException(older);
        }
    }

    private void write(OutputStream pipe) {
        List<byte[]> frames = new ArrayList<>();
        try {
            while (true) {
                frames.add(out.take());
                out.drainTo(frames);
                pipe.write(joined(frames)); // Many at once: a call of the kernel costs more.
                frames.clear();
            }
        } catch (IOException | InterruptedException gone) {
            end();
        }
    }

    private static byte[] joined(List<byte[]> frames) {
        if (frames.size() == 1) return frames.get(0);
        int length = 0;
        for (byte[] frame : frames) length += frame.length;
        ByteBuffer all = ByteBuffer.allocate(length);
        frames.forEach(all::put);
        return all.array();
    }

    static void start(Runnable work, String name) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.start();
    }

    /** End the process; the hooks remove what libraries unpacked, and get some time for it. */
    private static void end() {
        start(() -> {
            try {
                Thread.sleep(GRACE_MS);
            } catch (InterruptedException early) {
                // Then it ends now.
            }
            Runtime.getRuntime().halt(0);
        }, "end");
        System.exit(0);
    }
}
