import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.Array;
import java.sql.Connection;
import java.sql.Date;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.Calendar;
import java.util.List;
import java.util.TimeZone;
import java.util.UUID;
import org.postgresql.PGStatement;
import org.postgresql.util.PGInterval;
import org.postgresql.util.PGobject;

/** Values of every type, in both directions, as text (threshold 0) and binary (-1: from the first execution). */
final class Values {
    static final int[] THRESHOLDS = {0, 1, -1};

    interface Setter {
        void set(PreparedStatement statement, int at) throws Exception;
    }

    interface Getter {
        Object get(ResultSet found, int at) throws Exception;
    }

    /** Stores a value in a column of that type, finds it by it, and reads it back, in text and binary. */
    private static void thereAndBack(Session s, String type, Object expected, Setter setter, Getter getter) throws Exception {
        s.execute("DROP TABLE IF EXISTS " + s.table);
        s.create("v " + type);
        for (int threshold : THRESHOLDS) {
            try (Connection connection = Session.connect("prepareThreshold", "" + threshold);
                 PreparedStatement insert = connection.prepareStatement("INSERT INTO " + s.table + " VALUES (now(), ?)");
                 PreparedStatement select = connection.prepareStatement("SELECT v FROM " + s.table + " WHERE v = ?")) {
                Session.execute(connection, "DELETE FROM " + s.table);
                for (int n = 1; n <= 3; n++) {
                    setter.set(insert, 1);
                    insert.executeUpdate();
                    setter.set(select, 1);
                    try (ResultSet found = select.executeQuery()) {
                        for (int row = 1; row <= n; row++) {
                            Session.isTrue(found.next(), type + ": " + n + " rows are " + (row - 1));
                            Object got = getter.get(found, 1);
                            Session.equal(expected, got);
                        }
                    }
                }
            }
        }
    }

    private static void byObject(Session s, String type, Object... values) throws Exception {
        for (Object value : values) {
            thereAndBack(s, type, value, (statement, at) -> statement.setObject(at, value), (found, at) -> found.getObject(at, value.getClass()));
        }
    }

    static void numbers(Session s) throws Exception {
        byObject(s, "INT", Integer.MIN_VALUE, 0, Integer.MAX_VALUE);
        byObject(s, "BIGINT", Long.MIN_VALUE, Long.MAX_VALUE);
        byObject(s, "DOUBLE PRECISION", 0.1, -1e300, Double.NaN, Double.POSITIVE_INFINITY);
        byObject(s, "REAL", 0.25f, Float.NEGATIVE_INFINITY);
        thereAndBack(s, "SMALLINT", (short) -32768, (statement, at) -> statement.setShort(at, (short) -32768), ResultSet::getShort);
    }

    static void decimalsAreExact(Session s) throws Exception {
        byObject(s, "NUMERIC(30,6)", new BigDecimal("123456789012345678901234.123456"), new BigDecimal("-0.000001"), new BigDecimal("10000.000000"));
        byObject(s, "NUMERIC(8,0)", new BigDecimal("-99999999"), new BigDecimal("0"));
        try (PreparedStatement sum = s.connection.prepareStatement("SELECT ?::numeric(20,4) * 2")) {
            for (int n = 0; n < 7; n++) {
                sum.setBigDecimal(1, new BigDecimal("12345678901234.5678"));
                Session.equal(List.of(List.of(new BigDecimal("24691357802469.1356"))), Session.rows(sum.executeQuery()));
            }
        }
    }

    static void textsAndBytes(Session s) throws Exception {
        byObject(s, "TEXT", "", "naïve 日本語 \uD83D\uDE00", "it's \\ \"quoted\"\n\t", "x".repeat(100_000));
        byte[] bytes = "\0\1\377\\x".getBytes(StandardCharsets.ISO_8859_1);
        thereAndBack(s, "BYTEA", bytes, (statement, at) -> statement.setBytes(at, bytes), ResultSet::getBytes);
        thereAndBack(s, "BYTEA", bytes, (statement, at) -> statement.setBinaryStream(at, new java.io.ByteArrayInputStream(bytes)),
            (found, at) -> found.getBinaryStream(at).readAllBytes());
    }

    static void booleansAndIdentifiers(Session s) throws Exception {
        byObject(s, "BOOLEAN", true, false);
        byObject(s, "UUID", UUID.fromString("6f1c1d2e-3b6a-4a53-9f0e-0d5c3a4b7e11"));
        thereAndBack(s, "BOOLEAN", true, (statement, at) -> statement.setBoolean(at, true), ResultSet::getBoolean);
    }

    static void documents(Session s) throws Exception {
        PGobject document = new PGobject();
        document.setType("jsonb");
        document.setValue("{\"a\": [1, 2.50, null], \"b\": \"\\u00e9\"}");
        thereAndBack(s, "JSONB", "{\"a\": [1, 2.50, null], \"b\": \"é\"}",
            (statement, at) -> statement.setObject(at, document), ResultSet::getString);
        thereAndBack(s, "JSONB", "{\"a\": 1}", (statement, at) -> statement.setObject(at, "{\"a\":1}", Types.OTHER), ResultSet::getString);
    }

    static void intervals(Session s) throws Exception {
        PGInterval interval = new PGInterval(1, 2, 3, 4, 5, 6.789);
        thereAndBack(s, "INTERVAL", interval, (statement, at) -> statement.setObject(at, interval), (found, at) -> (PGInterval) found.getObject(at));
    }

    static void javaTime(Session s) throws Exception {
        byObject(s, "DATE", LocalDate.of(2024, 2, 29), LocalDate.of(1969, 12, 31));
        byObject(s, "TIME", LocalTime.of(23, 59, 59, 123456000), LocalTime.MIDNIGHT);
        byObject(s, "TIMESTAMP(6)", LocalDateTime.of(2024, 2, 29, 1, 2, 3, 4000), LocalDateTime.of(1969, 12, 31, 23, 59, 59, 999999000));
        byObject(s, "TIMESTAMPTZ(6)", OffsetDateTime.of(2024, 2, 29, 1, 2, 3, 4000, ZoneOffset.UTC),
            OffsetDateTime.of(1969, 12, 31, 23, 59, 59, 999999000, ZoneOffset.UTC));
        OffsetDateTime far = OffsetDateTime.of(2024, 2, 29, 1, 2, 3, 0, ZoneOffset.ofHours(9));
        thereAndBack(s, "TIMESTAMPTZ", far.toInstant(), (statement, at) -> statement.setObject(at, far),
            (found, at) -> found.getObject(at, OffsetDateTime.class).toInstant());
    }

    static void javaSqlTimes(Session s) throws Exception {
        Timestamp timestamp = Timestamp.valueOf("2024-07-01 12:34:56.123456");
        byObject(s, "TIMESTAMPTZ(6)", timestamp);
        byObject(s, "TIMESTAMP(6)", timestamp);
        byObject(s, "DATE", Date.valueOf("2024-07-01"));
        Calendar tokyo = Calendar.getInstance(TimeZone.getTimeZone("Asia/Tokyo"));
        thereAndBack(s, "TIMESTAMPTZ(6)", timestamp, (statement, at) -> statement.setTimestamp(at, timestamp, tokyo), ResultSet::getTimestamp);
        Session.equal(List.of(TimeZone.getDefault().getID()), s.rows("SHOW TimeZone").get(0));
    }

    static void nanosecondsAreReadAsText(Session s) throws Exception {
        Session.ours();
        s.create("v INT");
        s.execute("INSERT INTO " + s.table + " VALUES ('2024-01-01 00:00:00.123456789+00', 1)");
        try (Connection connection = Session.connect("binaryTransfer", "false");
                Statement setting = connection.createStatement()) {
            String time = "SELECT time FROM " + s.table;
            Timestamp read = (Timestamp) Session.rows(connection, time).get(0).get(0);
            Session.equal(123456000, read.getNanos());
            setting.execute("SET stratalog.fraction_digits = 9");
            read = (Timestamp) Session.rows(connection, time).get(0).get(0);
            Session.equal(123456789, read.getNanos());
        }
    }

    static void nullsOfEveryType(Session s) throws Exception {
        s.create("i INT, t TEXT, d DOUBLE PRECISION, n NUMERIC(8,2), b BYTEA, o BOOLEAN, z TIMESTAMPTZ, a INT[], u UUID, j JSONB");
        int[] types = {Types.INTEGER, Types.VARCHAR, Types.DOUBLE, Types.NUMERIC, Types.BINARY, Types.BOOLEAN,
            Types.TIMESTAMP_WITH_TIMEZONE, Types.ARRAY, Types.OTHER, Types.NULL};
        try (PreparedStatement insert = s.connection.prepareStatement("INSERT INTO " + s.table + " VALUES (now(), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")) {
            for (int n = 0; n < 7; n++) {
                for (int at = 0; at < types.length; at++) {
                    insert.setNull(at + 1, types[at]);
                }
                insert.executeUpdate();
            }
        }
        try (Statement statement = s.connection.createStatement(); ResultSet found = statement.executeQuery("SELECT * FROM " + s.table)) {
            for (int n = 0; n < 7; n++) {
                found.next();
                for (int at = 2; at <= 11; at++) {
                    Session.isTrue(found.getObject(at) == null && found.wasNull(), at);
                }
                Session.equal(0, found.getInt("i"));
            }
        }
    }

    static void arrays(Session s) throws Exception {
        array(s, "INT[]", "int4", new Integer[] {1, null, -3});
        array(s, "BIGINT[]", "int8", new Long[] {1L << 40});
        array(s, "TEXT[]", "text", new String[] {"a", "", "with \"quotes\", {braces} and \\", null, "NULL"});
        array(s, "DOUBLE PRECISION[]", "float8", new Double[] {0.5, Double.NaN});
        array(s, "BOOLEAN[]", "bool", new Boolean[] {true, false, null});
        array(s, "INT[]", "int4", new Integer[] {});
        int[] primitive = {4, 5};
        thereAndBack(s, "INT[]", new Integer[] {4, 5}, (statement, at) -> statement.setObject(at, primitive),
            (found, at) -> found.getArray(at).getArray());
    }

    private static void array(Session s, String type, String element, Object[] values) throws Exception {
        Array array = s.connection.createArrayOf(element, values);
        thereAndBack(s, type, values, (statement, at) -> statement.setArray(at, array), (found, at) -> found.getArray(at).getArray());
    }

    static void binaryRowsEqualTextRows(Session s) throws Exception {
        s.create("i SMALLINT, r REAL, n NUMERIC(12,4), d DATE, c TIME, l TIMESTAMP(6), a TEXT[], b BYTEA, u UUID");
        s.execute("INSERT INTO " + s.table + " VALUES ('2024-01-01 00:00:00.5+00', -7, 1.1, -12.5, '1999-12-31', '01:02:03.5', "
            + "'2024-01-01 10:00', ARRAY['x', NULL], '\\x00ff', '6f1c1d2e-3b6a-4a53-9f0e-0d5c3a4b7e11')");
        try (PreparedStatement select = s.connection.prepareStatement("SELECT time, i, r, n, d, c, l, a::text, b, u FROM " + s.table)) {
            select.unwrap(PGStatement.class).setPrepareThreshold(0);
            List<List<Object>> text = Session.rows(select.executeQuery());
            select.unwrap(PGStatement.class).setPrepareThreshold(1);
            for (int n = 0; n < 3; n++) {
                List<List<Object>> binary = Session.rows(select.executeQuery());
                for (int column = 0; column < text.get(0).size(); column++) {
                    Session.equal(text.get(0).get(column), binary.get(0).get(column));
                }
            }
        }
    }

    private Values() {}
}
