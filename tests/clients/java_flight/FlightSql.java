import java.lang.reflect.InvocationTargetException;
import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.Date;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;

/** Apache Arrow's JDBC driver of Flight SQL, unmodified. */
public class FlightSql {
    static final String URL = "jdbc:arrow-flight-sql://127.0.0.1:" + System.getenv("FLIGHT_PORT") + "/?useEncryption=false";
    static int tables = 0;

    public static void main(String[] arguments) {
        Arrays.stream(FlightSql.class.getDeclaredMethods())
            .filter(method -> method.getParameterCount() == 1 && method.getParameterTypes()[0] == Connection.class)
            .filter(method -> method.getReturnType() == void.class)
            .sorted(Comparator.comparing(method -> method.getName()))
            .forEach(method -> {
                try (Connection connection = DriverManager.getConnection(URL)) {
                    method.invoke(null, connection);
                    System.out.println("== pass FlightSql." + method.getName());
                } catch (InvocationTargetException error) {
                    System.out.println("== fail FlightSql." + method.getName());
                    error.getCause().printStackTrace(System.out);
                } catch (Exception error) {
                    System.out.println("== fail FlightSql." + method.getName());
                    error.printStackTrace(System.out);
                }
            });
        System.exit(0);
    }

    static void same(Object wanted, Object found) {
        if (!Objects.equals(wanted, found)) {
            throw new AssertionError("wanted " + wanted + ", found " + found);
        }
    }

    static String refused(Attempt attempt) throws Exception {
        try {
            attempt.run();
        } catch (SQLException error) {
            return String.valueOf(error.getMessage());
        }
        throw new AssertionError("nothing was refused");
    }

    interface Attempt {
        void run() throws Exception;
    }

    static String made(Connection c) throws SQLException {
        String name = "jdbcflight" + tables++;
        try (Statement s = c.createStatement()) {
            s.executeUpdate("CREATE TABLE " + name + " (time timestamptz, host text, v double precision, n int, PRIMARY KEY (host, time))");
            s.executeUpdate("INSERT INTO " + name + " SELECT timestamptz '2024-01-01' + k * interval '1 s', 'h' || k % 2, k / 2.0, k FROM generate_series(0, 9) AS s(k)");
        }
        return name;
    }

    static List<List<Object>> rows(ResultSet rows) throws SQLException {
        List<List<Object>> all = new ArrayList<>();
        int width = rows.getMetaData().getColumnCount();
        while (rows.next()) {
            List<Object> row = new ArrayList<>();
            for (int at = 1; at <= width; at++) {
                row.add(rows.getObject(at));
            }
            all.add(row);
        }
        return all;
    }

    static List<List<Object>> ask(Connection c, String sql) throws SQLException {
        try (Statement s = c.createStatement(); ResultSet found = s.executeQuery(sql)) {
            return rows(found);
        }
    }

    static void statements(Connection c) throws Exception {
        String table = made(c);
        same(List.of(List.of(10L)), ask(c, "SELECT count(*) FROM " + table));
        try (Statement s = c.createStatement()) {
            same(1, s.executeUpdate("INSERT INTO " + table + " VALUES ('2025-01-01', 'x', 1, 1)"));
            same(false, s.execute("INSERT INTO " + table + " VALUES ('2025-01-02', 'x', 1, 1)"));
            same(1, s.getUpdateCount());
            same(true, s.execute("SELECT 1"));
            same(2, s.executeUpdate("DELETE FROM " + table + " WHERE time >= '2025-01-01'"));
        }
        same(List.of(List.of(10L)), ask(c, "SELECT count(*) FROM " + table));
    }

    static void typesOfColumns(Connection c) throws Exception {
        try (Statement s = c.createStatement();
             ResultSet r = s.executeQuery("SELECT true, 1::int2, 2::int4, 3::int8, 1.5::float4, 2.5::float8, 12.34::numeric(10,2), 'text', "
                 + "'\\x00ff'::bytea, timestamptz '2024-02-29 12:00:00.123456+00', timestamp '2024-02-29 12:00:00', date '2024-02-29', NULL::int")) {
            same(true, r.next());
            same(true, r.getBoolean(1));
            same((short) 1, r.getShort(2));
            same(2, r.getInt(3));
            same(3L, r.getLong(4));
            same(1.5f, r.getFloat(5));
            same(2.5, r.getDouble(6));
            same(new BigDecimal("12.34"), r.getBigDecimal(7));
            same("text", r.getString(8));
            same(2, r.getBytes(9).length);
            same(1709208000123L, r.getTimestamp(10).getTime());
            same("2024-02-29", r.getDate(12).toString());
            same(0, r.getInt(13));
            same(true, r.wasNull());
            same(false, r.next());
            ResultSetMetaData m = r.getMetaData();
            same(13, m.getColumnCount());
            same(12, java.sql.Types.VARCHAR);
            same(java.sql.Types.VARCHAR, m.getColumnType(8));
            same(java.sql.Types.DOUBLE, m.getColumnType(6));
        }
    }

    static void preparedQueries(Connection c) throws Exception {
        String table = made(c);
        try (PreparedStatement p = c.prepareStatement("SELECT n FROM " + table + " WHERE host = ? AND v > ? ORDER BY n")) {
            same(2, p.getParameterMetaData().getParameterCount());
            p.setString(1, "h1");
            p.setDouble(2, 2.0);
            try (ResultSet r = p.executeQuery()) {
                same(List.of(List.of(5), List.of(7), List.of(9)), rows(r));
            }
            p.setDouble(2, 4.0);
            try (ResultSet r = p.executeQuery()) {
                same(List.of(List.of(9)), rows(r));
            }
        }
    }

    static void preparedUpdates(Connection c) throws Exception {
        String table = made(c);
        try (PreparedStatement p = c.prepareStatement("INSERT INTO " + table + " (time, host, v, n) VALUES (?, ?, ?, ?)")) {
            p.setTimestamp(1, Timestamp.valueOf("2025-01-01 00:00:00"));
            p.setString(2, "new");
            p.setDouble(3, 1.25);
            p.setNull(4, java.sql.Types.INTEGER);
            same(1, p.executeUpdate());
        }
        same(List.of(Arrays.asList(1.25, null)), ask(c, "SELECT v, n FROM " + table + " WHERE host = 'new'"));
    }

    static void batches(Connection c) throws Exception {
        String table = made(c);
        try (PreparedStatement p = c.prepareStatement("INSERT INTO " + table + " (time, host, n) VALUES (?, ?, ?)")) {
            for (int at = 0; at < 20; at++) {
                p.setTimestamp(1, new Timestamp(1735689600000L + at * 1000L));
                p.setString(2, "batch");
                p.setInt(3, at);
                p.addBatch();
            }
            p.executeBatch();
        }
        same(List.of(Arrays.asList(20L, 190L)), ask(c, "SELECT count(*), sum(n) FROM " + table + " WHERE host = 'batch'"));
    }

    static void errors(Connection c) throws Exception {
        same(true, refused(() -> ask(c, "SELECT nope")).contains("nope"));
        same(true, refused(() -> ask(c, "SELECT 1/0 FROM generate_series(1,1)")).contains("division by zero"));
        same(List.of(List.of(1)), ask(c, "SELECT 1"));
    }

    static void metadataOfTables(Connection c) throws Exception {
        String table = made(c);
        DatabaseMetaData m = c.getMetaData();
        try (ResultSet r = m.getTables(null, "public", table, new String[] {"TABLE"})) {
            same(true, r.next());
            same(table, r.getString("TABLE_NAME"));
            same("public", r.getString("TABLE_SCHEM"));
            same("TABLE", r.getString("TABLE_TYPE"));
            same(false, r.next());
        }
        List<Object> columns = new ArrayList<>();
        try (ResultSet r = m.getColumns(null, "public", table, "%")) {
            while (r.next()) {
                columns.add(r.getString("COLUMN_NAME") + " " + r.getString("TYPE_NAME"));
            }
        }
        same(4, columns.size());
        List<Object> keys = new ArrayList<>();
        try (ResultSet r = m.getPrimaryKeys(null, "public", table)) {
            while (r.next()) {
                keys.add(r.getString("COLUMN_NAME") + r.getInt("KEY_SEQ"));
            }
        }
        same(List.of("host1", "time2"), keys);
        try (ResultSet r = m.getImportedKeys(null, "public", table)) {
            same(false, r.next());
        }
        try (ResultSet r = m.getExportedKeys(null, "public", table)) {
            same(false, r.next());
        }
        try (ResultSet r = m.getCrossReference(null, "public", table, null, "public", table)) {
            same(false, r.next());
        }
    }

    static void metadataOfTheServer(Connection c) throws Exception {
        DatabaseMetaData m = c.getMetaData();
        same("Stratalog", m.getDatabaseProductName());
        same(true, m.getDatabaseProductVersion().length() > 0);
        same("\"", m.getIdentifierQuoteString());
        same(63, m.getMaxColumnNameLength());
        same(true, m.supportsGroupBy());
        same(true, m.supportsUnion());
        same(true, m.supportsUnionAll());
        same(false, m.supportsSavepoints());
        same(false, m.supportsStoredProcedures());
        same(true, m.supportsFullOuterJoins());
        same(true, m.supportsSubqueriesInExists());
        same(false, m.isReadOnly());
        same("schema", m.getSchemaTerm());
        same("database", m.getCatalogTerm());
        same(true, m.getSQLKeywords().contains("LIMIT"));
        same(true, m.getNumericFunctions().contains("ABS"));
        same(true, m.getStringFunctions().contains("LOWER"));
        same(true, m.getTimeDateFunctions().contains("NOW"));
        same(true, m.getSystemFunctions().contains("VERSION"));
        same(true, m.supportsTransactionIsolationLevel(Connection.TRANSACTION_READ_COMMITTED));
        same(true, m.supportsResultSetType(ResultSet.TYPE_FORWARD_ONLY));
        same(true, m.supportsConvert());
        List<Object> kinds = new ArrayList<>();
        try (ResultSet r = m.getTableTypes()) {
            while (r.next()) {
                kinds.add(r.getString(1));
            }
        }
        same(true, kinds.contains("TABLE"));
        try (ResultSet r = m.getCatalogs()) {
            same(true, r.next());
        }
        try (ResultSet r = m.getSchemas()) {
            same(true, r.next());
        }
        // Every getter that takes nothing answers, or says that it is not offered.
        for (java.lang.reflect.Method method : DatabaseMetaData.class.getMethods()) {
            if (method.getParameterCount() == 0 && method.getDeclaringClass() == DatabaseMetaData.class) {
                try {
                    if (method.invoke(m) instanceof ResultSet found) {
                        found.close();
                    }
                } catch (InvocationTargetException error) {
                    if (!(error.getCause() instanceof java.sql.SQLFeatureNotSupportedException)
                        && !(error.getCause() instanceof UnsupportedOperationException)
                        && !String.valueOf(error.getCause().getMessage()).contains("not supported")) {
                        throw new AssertionError(method.getName(), error.getCause());
                    }
                }
            }
        }
    }

    static void logins(Connection c) throws Exception {
        try (Connection named = DriverManager.getConnection(URL, "grace", "secret")) {
            // Without passwords, every client acts as the predefined superuser.
            same(List.of(List.of("stratalog")), ask(named, "SELECT current_user::text"));
        }
        same(true, refused(() -> DriverManager.getConnection(URL + "&token=stratalog-forged").createStatement().executeQuery("SELECT 1")).length() > 0);
    }

    static void largeResults(Connection c) throws Exception {
        long count = 0;
        long sum = 0;
        try (Statement s = c.createStatement(); ResultSet r = s.executeQuery("SELECT n, 'some text ' || n FROM generate_series(1, 200000) AS s(n)")) {
            while (r.next()) {
                count++;
                sum += r.getLong(1);
            }
        }
        same(200000L, count);
        same(20000100000L, sum);
    }
}
