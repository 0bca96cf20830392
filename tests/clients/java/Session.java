import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;

/** What a test works with: a connection, a name for its table, and what it says must hold. */
final class Session implements AutoCloseable {
    static final boolean AGAINST_POSTGRES = "postgres".equals(System.getenv("CLIENT_TESTS_AGAINST"));
    /** Runs until it is cancelled. */
    static final String FOREVER = "SELECT count(*) FROM generate_series(1, 1000000) AS x(a), "
        + "generate_series(1, 1000000) AS y(b) WHERE (a + b) % 7 = 3";

    final Connection connection;
    final String table;

    Session(String test) throws SQLException {
        connection = connect();
        table = "jdbc_" + test.toLowerCase();
        if (table.length() > 60) {
            throw new IllegalArgumentException("too long a name: " + test);
        }
    }

    /** Settings are names and values of the driver's connection properties. */
    static Connection connect(String... settings) throws SQLException {
        return DriverManager.getConnection(url(settings));
    }

    static String url(String... settings) {
        StringBuilder url = new StringBuilder(String.format("jdbc:postgresql://%s:%s/%s?user=%s",
            System.getenv("PGHOST"), System.getenv("PGPORT"), System.getenv("PGDATABASE"), System.getenv("PGUSER")));
        for (int at = 0; at < settings.length; at += 2) {
            url.append('&').append(settings[at]).append('=').append(settings[at + 1]);
        }
        return url.toString();
    }

    /** Ends a test that PostgreSQL cannot pass. */
    static void ours() {
        if (AGAINST_POSTGRES) {
            throw new Runner.Skipped("PostgreSQL does not have it");
        }
    }

    /** Makes the test's table: columns after the time. */
    void create(String columns) throws SQLException {
        execute("CREATE TABLE " + table + " (time TIMESTAMPTZ NOT NULL, " + columns + ")");
    }

    void execute(String sql) throws SQLException {
        execute(connection, sql);
    }

    static void execute(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    /** All rows of a query; each is a list of objects. */
    List<List<Object>> rows(String sql) throws SQLException {
        return rows(connection, sql);
    }

    static List<List<Object>> rows(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet found = statement.executeQuery(sql)) {
            return rows(found);
        }
    }

    static List<List<Object>> rows(ResultSet found) throws SQLException {
        List<List<Object>> rows = new ArrayList<>();
        while (found.next()) {
            List<Object> row = new ArrayList<>();
            for (int column = 1; column <= found.getMetaData().getColumnCount(); column++) {
                row.add(found.getObject(column));
            }
            rows.add(row);
        }
        return rows;
    }

    /** Some columns of all rows, as texts with spaces between, e.g. of an answer of DatabaseMetaData. */
    static List<String> columns(ResultSet found, String... columns) throws SQLException {
        List<String> rows = new ArrayList<>();
        while (found.next()) {
            List<String> row = new ArrayList<>();
            for (String column : columns) {
                row.add(String.valueOf(found.getString(column)));
            }
            rows.add(String.join(" ", row));
        }
        return rows;
    }

    Object value(String sql) throws SQLException {
        return rows(sql).get(0).get(0);
    }

    long count() throws SQLException {
        return (Long) value("SELECT count(*) FROM " + table);
    }

    /** Waits until a session has been in FOREVER for so long that it is past reading the statement. */
    static void untilItRuns(Connection other, Object pid) throws Exception {
        String running = "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%generate_series%' "
            + "AND clock_timestamp() - query_start > INTERVAL '200 ms' AND pid = " + pid;
        while (rows(other, running).isEmpty()) {
            Thread.sleep(10);
        }
    }

    static void equal(Object expected, Object found) {
        if (!Objects.deepEquals(expected, found)) {
            throw new AssertionError("expected " + shown(expected) + ", found " + shown(found));
        }
    }

    private static String shown(Object value) {
        return value instanceof Object[] ? Arrays.deepToString((Object[]) value)
            : value instanceof byte[] ? Arrays.toString((byte[]) value) : String.valueOf(value);
    }

    static void isTrue(boolean holds, Object told) {
        if (!holds) {
            throw new AssertionError(String.valueOf(told));
        }
    }

    interface Step {
        void run() throws Exception;
    }

    /** The error that a step must end with. */
    static SQLException fails(String sqlstate, Step step) throws Exception {
        try {
            step.run();
        } catch (SQLException error) {
            if (!sqlstate.equals(error.getSQLState())) {
                throw new AssertionError("expected SQLSTATE " + sqlstate + ", found " + error.getSQLState(), error);
            }
            return error;
        }
        throw new AssertionError("SQLSTATE " + sqlstate + " did not come");
    }

    @Override
    public void close() throws SQLException {
        connection.close();
        try (Connection last = connect()) {
            execute(last, "DROP TABLE IF EXISTS " + table);
        }
    }
}
