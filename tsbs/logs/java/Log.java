import java.nio.ByteBuffer;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;

/** A log, made for one run: appenders add records to it, and one reader follows it. */
interface Log extends AutoCloseable {
    /** For one thread. */
    Appender appender() throws Exception;

    /** Gives each record as soon as it can be read, in the order in which each appender added it, until `ended`. */
    void follow(Runnable ready, Consumer<ByteBuffer> each, BooleanSupplier ended) throws Exception;

    interface Appender extends AutoCloseable {
        /**
         * Returns once the record is on its way, and its bytes may be others; `done` is called when it is on disk, with null, or
         * when it failed.
         */
        void append(byte[] record, Consumer<Throwable> done) throws Exception;
    }
}
