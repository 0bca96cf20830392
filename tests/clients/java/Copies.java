import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.StringReader;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyIn;
import org.postgresql.copy.CopyManager;
import org.postgresql.copy.PGCopyOutputStream;

/** COPY through the driver's CopyManager. */
final class Copies {
    private static CopyManager manager(Session s) throws Exception {
        s.create("host TEXT, v DOUBLE PRECISION");
        return s.connection.unwrap(PGConnection.class).getCopyAPI();
    }

    private static String lines(int count) {
        StringBuilder lines = new StringBuilder();
        for (int n = 0; n < count; n++) {
            lines.append(String.format("2024-01-01 %02d:%02d:%02d+00,\"host, %d\",%d.5%n", n / 3600, n / 60 % 60, n % 60, n % 7, n));
        }
        return lines.toString();
    }

    static void inAndOut(Session s) throws Exception {
        CopyManager copies = manager(s);
        Session.equal(20_000L, copies.copyIn("COPY " + s.table + " FROM STDIN WITH (FORMAT csv)", new StringReader(lines(20_000))));
        Session.equal(List.of(20_000L, 7L, 199_990_000.0 + 10_000),
            s.rows("SELECT count(*), count(DISTINCT host), sum(v) FROM " + s.table).get(0));
        StringWriter out = new StringWriter();
        Session.equal(3L, copies.copyOut("COPY (SELECT host, v FROM " + s.table + " ORDER BY time LIMIT 3) TO STDOUT", out));
        Session.equal("host, 0\t0.5\nhost, 1\t1.5\nhost, 2\t2.5\n", out.toString());
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        Session.equal(20_000L, copies.copyOut("COPY " + s.table + " TO STDOUT WITH (FORMAT csv, HEADER)", all));
        Session.isTrue(all.toString(StandardCharsets.UTF_8).startsWith("time,host,v\n"), "header");
    }

    static void binaryThereAndBack(Session s) throws Exception {
        CopyManager copies = manager(s);
        copies.copyIn("COPY " + s.table + " FROM STDIN WITH (FORMAT csv)", new StringReader(lines(500)));
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        Session.equal(500L, copies.copyOut("COPY " + s.table + " TO STDOUT WITH (FORMAT binary)", out));
        Session.equal("PGCOPY\n", new String(out.toByteArray(), 0, 7, StandardCharsets.US_ASCII));
        Session.equal(500L, copies.copyIn("COPY " + s.table + " FROM STDIN WITH (FORMAT binary)", new ByteArrayInputStream(out.toByteArray())));
        Session.equal(List.of(1000L, 500L), s.rows("SELECT count(*), count(DISTINCT (time, host, v)) FROM " + s.table).get(0));
    }

    static void throughAStream(Session s) throws Exception {
        manager(s);
        try (PGCopyOutputStream out = new PGCopyOutputStream(s.connection.unwrap(PGConnection.class), "COPY " + s.table + " (time, v) FROM STDIN")) {
            out.write("2024-01-01\t1\n2024-01-02\t\\N\n".getBytes(StandardCharsets.UTF_8));
        }
        Session.equal(List.of(2L, 1L), s.rows("SELECT count(*), count(v) FROM " + s.table).get(0));
    }

    static void anErrorStoresNothing(Session s) throws Exception {
        CopyManager copies = manager(s);
        Exception error = Session.fails("22P02", () -> copies.copyIn("COPY " + s.table + " FROM STDIN WITH (FORMAT csv)",
            new StringReader(lines(1000) + "2024-01-02,a,not a number\n")));
        Session.isTrue(error.getMessage().contains("line 1001"), error.getMessage());
        Session.equal(0L, s.count());
    }

    static void cancelledCopiesStoreNothing(Session s) throws Exception {
        CopyManager copies = manager(s);
        CopyIn in = copies.copyIn("COPY " + s.table + " FROM STDIN WITH (FORMAT csv)");
        byte[] bytes = lines(10).getBytes(StandardCharsets.UTF_8);
        in.writeToCopy(bytes, 0, bytes.length);
        in.cancelCopy();
        Session.equal(0L, s.count());
    }

    static void inATransaction(Session s) throws Exception {
        CopyManager copies = manager(s);
        s.connection.setAutoCommit(false);
        copies.copyIn("COPY " + s.table + " FROM STDIN WITH (FORMAT csv)", new StringReader(lines(10)));
        Session.equal(10L, s.count());
        s.connection.rollback();
        Session.equal(0L, s.count());
        copies.copyIn("COPY " + s.table + " FROM STDIN WITH (FORMAT csv)", new StringReader(lines(5)));
        s.connection.commit();
        Session.equal(5L, s.count());
    }

    private Copies() {}
}
