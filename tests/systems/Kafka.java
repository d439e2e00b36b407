package kafka;

import org.apache.kafka.common.utils.AppInfoParser;

/** Stands in for the server's main class: it says who it is, and beside which jars it runs. */
public final class Kafka {
    private Kafka() {}

    public static void main(String[] settings) {
        System.out.println("a Kafka of mine, beside " + AppInfoParser.getVersion());
        System.exit(3);
    }
}
