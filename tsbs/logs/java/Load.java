import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Appends to a log for some seconds and follows it meanwhile; prints what came of it as JSON.
 *
 * <p>{@code Load --log kafka --server host:port --size 4096 --clients 8 --window 128 --seconds 5 --warm-up 2}: so many
 * clients, each with so many records that are not acknowledged. A record begins with the number of its client, its own, and
 * when it was appended; the rest is noise. Each must arrive once, and those of a client in their order.
 */
final class Load {
    private static final int HEAD_BYTES = 20;
    private static final int CATCH_UP_SECONDS = 120;

    private final Options options;
    private final Log log;
    private final int clients;
    private final AtomicReference<Throwable> failure = new AtomicReference<>();
    private final AtomicLong followed = new AtomicLong();
    private final Samples read = new Samples();
    /** Only what comes between these two counts; System.nanoTime. */
    private long from;
    private long until;
    private volatile long appended = Long.MAX_VALUE;

    private Load(Options options, Log log) {
        this.options = options;
        this.log = log;
        this.clients = options.number("clients", 8);
    }

    public static void main(String[] arguments) throws Exception {
        Options options = new Options(arguments);
        String name = options.text("log").equals("kafka") ? "KafkaLog" : "BookKeeperLog";
        // Compiled without the other one, whose libraries do not go with its own.
        Log log = (Log) Class.forName(name).getDeclaredConstructor(Options.class).newInstance(options);
        try (log) {
            System.out.println(new Load(options, log).run());
        }
        // Clients leave threads behind.
        System.exit(0);
    }

    private String run() throws Exception {
        CountDownLatch ready = new CountDownLatch(1);
        Thread follower = started(() -> log.follow(ready::countDown, new Follower()::take, this::ended), ready);
        ready.await();
        from = System.nanoTime() + TimeUnit.SECONDS.toNanos(options.number("warm-up", 2));
        until = from + TimeUnit.SECONDS.toNanos(options.number("seconds", 5));
        List<Client> all = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < clients; number++) {
            Client client = new Client(number);
            all.add(client);
            threads.add(started(client::run, null));
        }
        for (Thread thread : threads) {
            thread.join();
        }
        appended = all.stream().mapToLong(client -> client.sequence).sum();
        follower.join(TimeUnit.SECONDS.toMillis(CATCH_UP_SECONDS));
        if (failure.get() == null && followed.get() != appended) {
            failure.set(new IllegalStateException(followed + " of " + appended + " records could be read"));
        }
        if (failure.get() != null) {
            throw new IllegalStateException(failure.get());
        }
        double seconds = (until - from) / 1e9;
        Samples acknowledged = new Samples();
        all.forEach(client -> acknowledged.addAll(client.times));
        return String.format(Locale.ROOT, "{\"seconds\": %.3f, \"records\": %d, %s, %s}", seconds, appended,
            acknowledged.json("append", seconds), read.json("tail", seconds));
    }

    private boolean ended() {
        return failure.get() != null || followed.get() >= appended;
    }

    private Thread started(Work work, CountDownLatch also) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Throwable error) {
                failure.compareAndSet(null, error);
            } finally {
                if (also != null) {
                    also.countDown();
                }
            }
        });
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private interface Work {
        void run() throws Exception;
    }

    /** Appends, as long as no more than a window of its records are not acknowledged. */
    private final class Client {
        final int number;
        final Samples times = new Samples();
        long sequence = 0;

        Client(int number) {
            this.number = number;
        }

        void run() throws Exception {
            int window = options.number("window", 128);
            Semaphore room = new Semaphore(window);
            byte[] record = new byte[options.number("size", 4096)];
            new Random(number).nextBytes(record);
            try (Log.Appender appender = log.appender()) {
                while (failure.get() == null) {
                    room.acquire();
                    long began = System.nanoTime();
                    if (began >= until) {
                        room.release();
                        break;
                    }
                    ByteBuffer.wrap(record).putInt(number).putLong(sequence++).putLong(began);
                    appender.append(record, error -> {
                        long now = System.nanoTime();
                        if (error != null) {
                            failure.compareAndSet(null, error);
                        } else if (now >= from && now < until) {
                            times.add(now - began);
                        }
                        room.release();
                    });
                }
                if (failure.get() == null) {
                    room.acquire(window);
                }
            }
        }
    }

    private final class Follower {
        private final long[] next = new long[clients];

        void take(ByteBuffer record) {
            long now = System.nanoTime();
            if (record.remaining() < HEAD_BYTES) {
                throw new IllegalStateException("a record of " + record.remaining() + " bytes");
            }
            int client = record.getInt();
            long sequence = record.getLong();
            if (sequence != next[client]++) {
                throw new IllegalStateException("record " + sequence + " of client " + client + ", and not " + (next[client] - 1));
            }
            if (now >= from && now < until) {
                read.add(now - record.getLong());
            }
            followed.incrementAndGet();
        }
    }

    /** Nanoseconds. */
    private static final class Samples {
        private long[] values = new long[1024];
        private int count = 0;

        synchronized void add(long value) {
            if (count == values.length) {
                values = Arrays.copyOf(values, 2 * count);
            }
            values[count++] = value;
        }

        void addAll(Samples others) {
            for (int at = 0; at < others.count; at++) {
                add(others.values[at]);
            }
        }

        String json(String name, double seconds) {
            Arrays.sort(values, 0, count);
            return String.format(Locale.ROOT, "\"%s_per_second\": %.1f, \"%s_p50_ms\": %.4f, \"%s_p99_ms\": %.4f",
                name, count / seconds, name, percentile(50), name, percentile(99));
        }

        private double percentile(int percent) {
            return count == 0 ? 0 : values[(int) Math.min(count - 1, (long) count * percent / 100)] / 1e6;
        }
    }

    /** {@code --name value} … */
    static final class Options {
        private final Map<String, String> given = new HashMap<>();

        Options(String[] arguments) {
            for (int at = 0; at + 1 < arguments.length; at += 2) {
                given.put(arguments[at].substring(2), arguments[at + 1]);
            }
        }

        String text(String name) {
            if (!given.containsKey(name)) {
                throw new IllegalArgumentException("--" + name + " is missing");
            }
            return given.get(name);
        }

        int number(String name, int otherwise) {
            return given.containsKey(name) ? Integer.parseInt(given.get(name)) : otherwise;
        }
    }
}
