import java.io.File;
import java.lang.instrument.Instrumentation;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;

/**
 * A Java agent that deadlocks the request handlers of one broker, as a broken Kafka might.
 *
 * <p>Its argument is {@code NODE=FILE}: once the file is there, each request that a handler of the
 * node's broker takes needs two locks, and handlers take them in opposite orders. Replicas still
 * fetch, and the broker still sends its heartbeats; it answers nobody. The agent does nothing in
 * other processes.
 */
public final class Deadlock {
    private static final class FirstLock {}

    private static final class SecondLock {}

    private static final Object FIRST = new FirstLock();
    private static final Object SECOND = new SecondLock();
    private static final CountDownLatch BOTH_HELD = new CountDownLatch(2);
    private static final String HANDLERS = "data-plane-kafka-request-handler-";

    private Deadlock() {}

    public static void premain(String argument, Instrumentation instrumentation) {
        String[] parts = argument.split("=", 2);
        String command = System.getProperty("sun.java.command", "");
        if (!command.endsWith("/" + parts[0] + "/server.properties")) {
            return;
        }
        open(instrumentation);
        Thread watcher = new Thread(() -> awaitAndBreak(new File(parts[1])), "deadlock-agent");
        watcher.setDaemon(true);
        watcher.start();
    }

    /** Lets this class look into threads, which a module closes otherwise. */
    private static void open(Instrumentation instrumentation) {
        instrumentation.redefineModule(
                Object.class.getModule(),
                Set.of(),
                Map.of(),
                Map.of("java.lang", Set.of(Deadlock.class.getModule())),
                Set.of(),
                Map.of());
    }

    private static void awaitAndBreak(File trigger) {
        try {
            while (!trigger.exists()) {
                Thread.sleep(20);
            }
            for (Thread thread : Thread.getAllStackTraces().keySet()) {
                if (thread.getName().startsWith(HANDLERS)) {
                    entangle(thread);
                }
            }
        } catch (ReflectiveOperationException | InterruptedException failed) {
            failed.printStackTrace();
        }
    }

    /** Has a handler's requests take the locks first; a controller's handlers are left alone. */
    private static void entangle(Thread thread) throws ReflectiveOperationException {
        Object handler = taskOf(thread);
        Field field = handler.getClass().getDeclaredField("apis");
        field.setAccessible(true);
        Object apis = field.get(handler);
        if (!apis.getClass().getName().equals("kafka.server.KafkaApis")) {
            return;
        }
        boolean even = Integer.parseInt(thread.getName().substring(HANDLERS.length())) % 2 == 0;
        Object proxy =
                Proxy.newProxyInstance(
                        apis.getClass().getClassLoader(),
                        field.getType().isInterface()
                                ? new Class<?>[] {field.getType()}
                                : apis.getClass().getInterfaces(),
                        (self, method, arguments) -> lock(even, method));
        field.set(handler, proxy);
    }

    private static Object lock(boolean even, Method method) throws InterruptedException {
        synchronized (even ? FIRST : SECOND) {
            BOTH_HELD.countDown();
            BOTH_HELD.await();
            synchronized (even ? SECOND : FIRST) {
                throw new AssertionError("the locks are free: " + method);
            }
        }
    }

    /** Returns what a thread runs: Java keeps it in the thread up to 18, in its holder since 19. */
    private static Object taskOf(Thread thread) throws ReflectiveOperationException {
        try {
            return read(Thread.class, thread, "target");
        } catch (NoSuchFieldException newer) {
            Object holder = read(Thread.class, thread, "holder");
            return read(holder.getClass(), holder, "task");
        }
    }

    private static Object read(Class<?> owner, Object from, String name)
            throws ReflectiveOperationException {
        Field field = owner.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(from);
    }
}
