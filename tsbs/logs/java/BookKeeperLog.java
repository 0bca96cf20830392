import java.nio.ByteBuffer;
import java.util.Enumeration;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.BookKeeper;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/** A ledger, which all appenders share: its entries have one order, and one client may write it. */
final class BookKeeperLog implements Log {
    private static final byte[] PASSWORD = {};
    /** Of one read. */
    private static final int READ_ENTRIES_MAX = 10_000;
    private static final int READ_BYTES_MAX = 4 << 20;
    /** Of an entry from which on batches would have few. */
    private static final int LARGE_BYTES = 64 << 10;
    private static final int READS_MAX = 32;
    private static final int POLL_MS = 50;
    private static final long FIRST = 1;

    private final Load.Options options;
    private final BookKeeper client;
    private final WriteHandle ledger;
    /** Something was confirmed. */
    private final Semaphore news = new Semaphore(0);

    BookKeeperLog(Load.Options options) throws Exception {
        this.options = options;
        client = client();
        ledger = client.newCreateLedgerOp().withEnsembleSize(1).withWriteQuorumSize(1).withAckQuorumSize(1)
            .withDigestType(DigestType.CRC32C).withPassword(PASSWORD).execute().get();
        // What has no entry yet cannot be opened.
        ledger.append(PASSWORD);
    }

    /** As brokers of Pulsar have it. */
    private BookKeeper client() throws Exception {
        ClientConfiguration configuration = new ClientConfiguration();
        configuration.setMetadataServiceUri("zk+null://" + options.text("server") + "/ledgers");
        configuration.setUseV2WireProtocol(true);
        configuration.setBatchReadEnabled(true);
        // Operations a second, of which there would be 5000.
        configuration.setThrottleValue(0);
        return BookKeeper.newBuilder(configuration).build();
    }

    @Override
    public Appender appender() {
        return new Appender() {
            @Override
            public void append(byte[] record, Consumer<Throwable> done) {
                // The client keeps what it is given, and copies nothing.
                ledger.appendAsync(record.clone()).whenComplete((entry, error) -> {
                    done.accept(error);
                    news.release();
                });
            }

            @Override
            public void close() {}
        };
    }

    @Override
    public void follow(Runnable ready, Consumer<ByteBuffer> each, BooleanSupplier ended) throws Exception {
        try (BookKeeper own = client();
                // Its interface does not tell of reading in batches what others have confirmed.
                LedgerHandle reader = (LedgerHandle) own.newOpenLedgerOp().withLedgerId(ledger.getId()).withRecovery(false)
                    .withDigestType(DigestType.CRC32C).withPassword(PASSWORD).execute().get()) {
            boolean large = options.number("size", 4096) >= LARGE_BYTES;
            ready.run();
            long next = FIRST;
            while (!ended.getAsBoolean()) {
                long confirmed = ledger.getLastAddConfirmed();
                if (next > confirmed) {
                    news.tryAcquire(POLL_MS, TimeUnit.MILLISECONDS);
                    news.drainPermits();
                    continue;
                }
                next += large ? several(reader, next, confirmed, each) : batch(reader, next, confirmed, each);
            }
        }
    }

    /** In one answer; how many there were. */
    private static int batch(LedgerHandle reader, long next, long confirmed, Consumer<ByteBuffer> each) throws Exception {
        int most = (int) Math.min(READ_ENTRIES_MAX, confirmed - next + 1);
        Enumeration<LedgerEntry> entries = reader.batchReadUnconfirmedEntries(next, most, READ_BYTES_MAX);
        int count = 0;
        for (; entries.hasMoreElements(); count++) {
            each.accept(ByteBuffer.wrap(entries.nextElement().getEntry()));
        }
        return count;
    }

    /** Each by itself, all asked for at once. */
    private static int several(LedgerHandle reader, long next, long confirmed, Consumer<ByteBuffer> each) throws Exception {
        long last = Math.min(confirmed, next + READS_MAX - 1);
        try (LedgerEntries entries = reader.readUnconfirmed(next, last)) {
            entries.forEach(entry -> each.accept(entry.getEntryNioBuffer()));
        }
        return (int) (last - next + 1);
    }

    @Override
    public void close() throws Exception {
        long id = ledger.getId();
        ledger.close();
        client.newDeleteLedgerOp().withLedgerId(id).execute().get();
        client.close();
    }
}
