import java.sql.BatchUpdateException;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.postgresql.PGStatement;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;

/** Statements, simple and prepared; batches; keys that INSERT returns; cancelling. */
final class Statements {
    static final String TIME = "2024-01-01 00:00:00+00";

    static void severalStatementsHaveSeveralResults(Session s) throws Exception {
        s.create("v INT");
        try (Statement statement = s.connection.createStatement()) {
            Session.isTrue(statement.execute("SELECT 1; INSERT INTO " + s.table + " VALUES ('" + TIME + "', 7), ('"
                + TIME + "', 8); SELECT 'two' AS name"), "the first is a result set");
            Session.equal(List.of(List.of(1)), Session.rows(statement.getResultSet()));
            Session.isTrue(!statement.getMoreResults(), "the second is a count");
            Session.equal(2, statement.getUpdateCount());
            Session.isTrue(statement.getMoreResults(), "the third is a result set");
            try (ResultSet third = statement.getResultSet()) {
                third.next();
                Session.equal("two", third.getString("name"));
            }
            Session.isTrue(!statement.getMoreResults() && statement.getUpdateCount() == -1, "that is all");
        }
    }

    static void preparedStatementsStayOnTheServer(Session s) throws Exception {
        s.create("k TEXT, v INT");
        try (PreparedStatement insert = s.connection.prepareStatement("INSERT INTO " + s.table + " VALUES (?, ?, ?)");
             PreparedStatement select = s.connection.prepareStatement("SELECT v FROM " + s.table + " WHERE k = ? AND v > ? ORDER BY v LIMIT ?")) {
            for (int n = 0; n < 12; n++) {
                insert.setTimestamp(1, Timestamp.valueOf("2024-01-01 00:00:" + (10 + n)));
                insert.setString(2, n % 2 == 0 ? "even" : "odd");
                insert.setInt(3, n);
                Session.equal(1, insert.executeUpdate());
                select.setString(1, "even");
                select.setInt(2, -1);
                select.setLong(3, 3);
                Session.equal(List.of(List.of(0), List.of(0, 2), List.of(0, 2, 4)).get(Math.min(n / 2, 2)),
                    Session.rows(select.executeQuery()).stream().map(row -> row.get(0)).toList());
                // The threshold is 5, told one before: from there on parameters and rows are binary.
                Session.equal(n >= 3, select.unwrap(PGStatement.class).isUseServerPrepare());
            }
        }
    }

    static void everyQueryModeGivesTheSame(Session s) throws Exception {
        s.create("v INT, d DOUBLE PRECISION, t TEXT");
        for (String mode : List.of("simple", "extended", "extendedForPrepared", "extendedCacheEverything")) {
            for (String threshold : List.of("0", "1", "-1")) {
                try (Connection connection = Session.connect("preferQueryMode", mode, "prepareThreshold", threshold);
                     PreparedStatement insert = connection.prepareStatement("INSERT INTO " + s.table + " VALUES (?, ?, ?, ?)");
                     PreparedStatement select = connection.prepareStatement("SELECT v, d, t, v + ? FROM " + s.table + " WHERE t = ?")) {
                    String text = mode + " it's " + threshold;
                    for (int n = 0; n < 3; n++) {
                        insert.setTimestamp(1, Timestamp.valueOf("2024-01-01 00:00:00"));
                        insert.setInt(2, -5);
                        insert.setDouble(3, 0.1);
                        insert.setString(4, text + n);
                        Session.equal(1, insert.executeUpdate());
                        select.setInt(1, 6);
                        select.setString(2, text + n);
                        Session.equal(List.of(List.of(-5, 0.1, text + n, 1)), Session.rows(select.executeQuery()));
                    }
                    Session.equal(List.of(List.of(1)), Session.rows(connection, "SELECT 1"));
                }
            }
        }
    }

    static void preparedStatementsFollowTheTable(Session s) throws Exception {
        s.create("v INT");
        s.execute("INSERT INTO " + s.table + " VALUES ('" + TIME + "', 1)");
        try (Connection connection = Session.connect("prepareThreshold", "1", "autosave", "conservative");
             PreparedStatement select = connection.prepareStatement("SELECT * FROM " + s.table)) {
            connection.setAutoCommit(false);
            for (String columns : List.of("v INT", "w INT", "x TEXT DEFAULT 'x'")) {
                if (!columns.equals("v INT")) {
                    s.execute("ALTER TABLE " + s.table + " ADD COLUMN " + columns);
                }
                for (int n = 0; n < 3; n++) {
                    try (ResultSet found = select.executeQuery()) {
                        Session.equal(columns.substring(0, 1), found.getMetaData().getColumnName(found.getMetaData().getColumnCount()));
                        Session.isTrue(found.next() && found.getInt("v") == 1, "a row");
                    }
                }
                connection.commit();
            }
        }
    }

    static void proceduresAreCalled(Session s) throws Exception {
        Session.ours();
        s.create("v INT");
        s.execute("INSERT INTO " + s.table + " VALUES ('" + TIME + "', 1)");
        try (Connection connection = Session.connect("escapeSyntaxCallMode", "callIfNoReturn");
             CallableStatement call = connection.prepareCall("{call stratalog.flush(?)}")) {
            call.setString(1, s.table);
            Session.isTrue(call.execute(), "a row");
            Session.equal(1L, Session.rows(call.getResultSet()).get(0).get(0));
        }
    }

    static void typesOfParametersAreInferred(Session s) throws Exception {
        s.create("v INT");
        s.execute("INSERT INTO " + s.table + " SELECT to_timestamp(n), n FROM generate_series(1, 9) AS g(n)");
        try (PreparedStatement statement = s.connection.prepareStatement(
            "SELECT array_agg(v ORDER BY v) FROM " + s.table + " WHERE v = ANY (?) OR v IN (?, ?) OR v BETWEEN ? AND ?")) {
            for (int n = 0; n < 7; n++) {
                statement.setArray(1, s.connection.createArrayOf("int4", new Integer[] {1, 3}));
                statement.setObject(2, 5);
                statement.setObject(3, 100L);
                statement.setShort(4, (short) 8);
                statement.setNull(5, Types.INTEGER);
                try (ResultSet found = statement.executeQuery()) {
                    found.next();
                    Session.equal(new Integer[] {1, 3, 5}, found.getArray(1).getArray());
                }
            }
        }
        // Without a type of the driver's own: what stands beside it decides.
        try (Connection untyped = Session.connect("stringtype", "unspecified", "prepareThreshold", "1");
             PreparedStatement statement = untyped.prepareStatement("SELECT v FROM " + s.table + " WHERE v = ? AND time < ? LIMIT ?")) {
            for (int n = 0; n < 2; n++) {
                statement.setString(1, "4");
                statement.setString(2, "2024-01-01");
                statement.setString(3, "10");
                Session.equal(List.of(List.of(4)), Session.rows(statement.executeQuery()));
            }
        }
    }

    static void fetchSizeReadsByPortals(Session s) throws Exception {
        s.create("v INT");
        s.execute("INSERT INTO " + s.table + " SELECT to_timestamp(n), n FROM generate_series(1, 1000) AS g(n)");
        s.connection.setAutoCommit(false);
        try (PreparedStatement all = s.connection.prepareStatement("SELECT v FROM " + s.table + " WHERE v > ? ORDER BY v");
             Statement other = s.connection.createStatement()) {
            for (int threshold : new int[] {0, 1}) {
                all.unwrap(PGStatement.class).setPrepareThreshold(threshold);
                for (int size : new int[] {7, 1000, 1}) {
                    all.setFetchSize(size);
                    all.setInt(1, 500);
                    try (ResultSet found = all.executeQuery()) {
                        for (int n = 501; n <= 1000; n++) {
                            Session.isTrue(found.next(), n);
                            Session.equal(n, found.getInt(1));
                            if (n % 100 == 0) {
                                // The portal outlives other statements of its transaction.
                                other.executeQuery("SELECT 1").close();
                            }
                        }
                        Session.isTrue(!found.next(), "the end");
                    }
                }
            }
            all.setFetchSize(10);
            ResultSet cut = all.executeQuery();
            cut.next();
            s.connection.commit();
            Session.fails("34000", () -> Session.rows(cut));
        }
        s.connection.rollback();
        s.connection.setAutoCommit(true);
        try (Statement statement = s.connection.createStatement()) {
            statement.setMaxRows(13);
            Session.equal(13, Session.rows(statement.executeQuery("SELECT v FROM " + s.table)).size());
        }
    }

    static void twoPortalsAtOnce(Session s) throws Exception {
        s.connection.setAutoCommit(false);
        try (Statement one = s.connection.createStatement(); Statement two = s.connection.createStatement()) {
            one.setFetchSize(3);
            two.setFetchSize(5);
            ResultSet up = one.executeQuery("SELECT n FROM generate_series(1, 50) AS g(n) ORDER BY n");
            ResultSet down = two.executeQuery("SELECT n FROM generate_series(1, 50) AS g(n) ORDER BY n DESC");
            for (int n = 1; n <= 50; n++) {
                Session.isTrue(up.next() && down.next(), n);
                Session.equal(51, up.getInt(1) + down.getInt(1));
            }
        }
        s.connection.commit();
    }

    static void batches(Session s) throws Exception {
        s.create("v INT");
        String[][] settings = {{}, {"reWriteBatchedInserts", "true"}, {"prepareThreshold", "1"}, {"preferQueryMode", "simple"}};
        for (String[] each : settings) {
            try (Connection connection = Session.connect(each);
                 PreparedStatement insert = connection.prepareStatement("INSERT INTO " + s.table + " (time, v) VALUES (?, ?)")) {
                for (boolean auto : new boolean[] {true, false}) {
                    connection.setAutoCommit(auto);
                    for (int n = 0; n < 300; n++) {
                        insert.setTimestamp(1, new Timestamp(n * 1000L));
                        if (n == 17) {
                            insert.setNull(2, Types.INTEGER);
                        } else {
                            insert.setInt(2, n);
                        }
                        insert.addBatch();
                    }
                    int[] counts = insert.executeBatch();
                    Session.equal(300, counts.length);
                    boolean rewritten = each.length > 0 && each[0].equals("reWriteBatchedInserts");
                    Session.isTrue(Arrays.stream(counts).allMatch(n -> n == (rewritten ? Statement.SUCCESS_NO_INFO : 1)),
                        Arrays.toString(counts));
                    if (!auto) {
                        connection.commit();
                    }
                }
            }
        }
        Session.equal(List.of(2400L, 2392L), s.rows("SELECT count(*), count(v) FROM " + s.table).get(0));
        try (Statement statement = s.connection.createStatement()) {
            statement.addBatch("INSERT INTO " + s.table + " VALUES ('" + TIME + "', 1), ('" + TIME + "', 2)");
            statement.addBatch("INSERT INTO " + s.table + " SELECT time, v FROM " + s.table + " WHERE v = 299");
            Session.equal(new long[] {2, 8}, statement.executeLargeBatch());
        }
    }

    static void aBatchThatFailsStoresNothing(Session s) throws Exception {
        s.create("v INT NOT NULL");
        try (PreparedStatement insert = s.connection.prepareStatement("INSERT INTO " + s.table + " VALUES (?, ?)")) {
            for (int n = 0; n < 5; n++) {
                insert.setTimestamp(1, new Timestamp(n));
                insert.setObject(2, n == 3 ? null : n, Types.INTEGER);
                insert.addBatch();
            }
            BatchUpdateException error = (BatchUpdateException) Session.fails("23502", insert::executeBatch);
            Session.isTrue(error.getUpdateCounts()[3] == Statement.EXECUTE_FAILED, Arrays.toString(error.getUpdateCounts()));
        }
        Session.equal(0L, s.count());
    }

    static void keysAreReturned(Session s) throws Exception {
        s.create("host TEXT NOT NULL, v INT DEFAULT 4, PRIMARY KEY (host, time)");
        String sql = "INSERT INTO " + s.table + " (time, host) VALUES (?, ?)";
        try (PreparedStatement all = s.connection.prepareStatement(sql, Statement.RETURN_GENERATED_KEYS);
             PreparedStatement named = s.connection.prepareStatement(sql, new String[] {"v", "host"})) {
            all.setTimestamp(1, new Timestamp(0));
            all.setString(2, "a");
            Session.equal(1, all.executeUpdate());
            Session.equal(List.of(List.of(new Timestamp(0), "a", 4)), Session.rows(all.getGeneratedKeys()));
            for (int n = 0; n < 9; n++) {
                named.setTimestamp(1, new Timestamp(n));
                named.setString(2, "b");
                named.addBatch();
            }
            named.executeBatch();
            Session.equal(Collections.nCopies(9, List.of(4, "b")), Session.rows(named.getGeneratedKeys()));
        }
        try (Statement statement = s.connection.createStatement()) {
            Session.equal(List.of(List.of("c")), Session.rows(statement.executeQuery(
                "INSERT INTO " + s.table + " (time, host) VALUES ('" + TIME + "', 'c') RETURNING host")));
        }
    }

    static void rowsAreInsertedThroughAResultSet(Session s) throws Exception {
        s.create("host TEXT NOT NULL, v INT, PRIMARY KEY (host, time)");
        try (Statement statement = s.connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE);
             ResultSet found = statement.executeQuery("SELECT time, host, v FROM " + s.table)) {
            Session.equal(ResultSet.CONCUR_UPDATABLE, found.getConcurrency());
            found.moveToInsertRow();
            found.updateTimestamp("time", new Timestamp(5));
            found.updateString("host", "a");
            found.updateInt("v", 3);
            found.insertRow();
        }
        Session.equal(List.of(List.of(new Timestamp(5), "a", 3)), s.rows("SELECT * FROM " + s.table));
    }

    static void resultSetsScroll(Session s) throws Exception {
        try (Statement statement = s.connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_READ_ONLY);
             ResultSet found = statement.executeQuery("SELECT n FROM generate_series(1, 10) AS g(n) ORDER BY n")) {
            Session.isTrue(found.last() && found.getInt(1) == 10 && found.getRow() == 10, "last");
            Session.isTrue(found.absolute(4) && found.getInt(1) == 4 && found.previous() && found.getInt(1) == 3, "back");
        }
    }

    static void updatesAreRefusedClearly(Session s) throws Exception {
        Session.ours();
        s.create("v INT");
        for (String sql : List.of("UPDATE " + s.table + " SET v = 1", "DELETE FROM " + s.table + " WHERE v = 1",
            "CREATE TEMP TABLE jdbc_temporary (time TIMESTAMPTZ)", "LISTEN jdbc_channel", "SELECT v FROM " + s.table + " FOR UPDATE")) {
            Exception error = Session.fails("0A000", () -> s.execute(sql));
            Session.isTrue(error.getMessage().length() > 20, error.getMessage());
        }
    }

    static void timeoutsCancel(Session s) throws Exception {
        try (Statement statement = s.connection.createStatement()) {
            statement.setQueryTimeout(1);
            Session.fails("57014", () -> statement.executeQuery(Session.FOREVER));
            statement.setQueryTimeout(0);
            Session.equal(List.of(List.of(1)), Session.rows(statement.executeQuery("SELECT 1")));
        }
    }

    static void cancelStopsAStatement(Session s) throws Exception {
        Object pid = s.value("SELECT pg_backend_pid()");
        try (Statement statement = s.connection.createStatement(); Connection other = Session.connect()) {
            Thread canceller = new Thread(() -> {
                try {
                    Session.untilItRuns(other, pid);
                    statement.cancel();
                } catch (Exception error) {
                    error.printStackTrace();
                }
            });
            canceller.start();
            Session.fails("57014", () -> statement.executeQuery(Session.FOREVER));
            canceller.join();
        }
        Session.equal(1, s.value("SELECT 1"));
    }

    static void errorsHaveAllTheirFields(Session s) throws Exception {
        s.create("host TEXT NOT NULL, PRIMARY KEY (host, time)");
        String insert = "INSERT INTO " + s.table + " VALUES ('" + TIME + "', 'a')";
        s.execute(insert);
        ServerErrorMessage twice = ((PSQLException) Session.fails("23505", () -> s.execute(insert))).getServerErrorMessage();
        Session.equal(List.of("ERROR", s.table + "_pkey", s.table, "public"),
            List.of(twice.getSeverity(), twice.getConstraint(), twice.getTable(), twice.getSchema()));
        ServerErrorMessage unknown = ((PSQLException) Session.fails("42703",
            () -> s.execute("SELECT hots FROM " + s.table))).getServerErrorMessage();
        Session.equal(8, unknown.getPosition());
        Session.isTrue(unknown.getHint() != null && unknown.getHint().contains("host"), unknown.getHint());
    }

    static void noticesAreWarnings(Session s) throws Exception {
        try (Statement statement = s.connection.createStatement()) {
            statement.execute("DROP TABLE IF EXISTS jdbc_that_is_not_there");
            Session.equal("00000", statement.getWarnings().getSQLState());
            Session.isTrue(statement.getWarnings().getMessage().contains("jdbc_that_is_not_there"), statement.getWarnings());
        }
    }

    static void escapesOfJdbc(Session s) throws Exception {
        Session.equal(List.of("ab", 3, Timestamp.valueOf("2024-01-02 03:04:05"), 1.5),
            s.rows("SELECT {fn concat('a', 'b')}, {fn length('abc')}, {ts '2024-01-02 03:04:05'}, {fn abs(-1.5::float8)}").get(0));
        Session.isTrue(s.value("SELECT {fn now()}") instanceof Timestamp, "now");
        try (CallableStatement call = s.connection.prepareCall("{? = call upper(?)}")) {
            call.registerOutParameter(1, Types.VARCHAR);
            call.setString(2, "loud");
            call.execute();
            Session.equal("LOUD", call.getString(1));
        }
    }

    private Statements() {}
}
