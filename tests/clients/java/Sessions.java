import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.SQLClientInfoException;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.postgresql.PGConnection;
import org.postgresql.ds.PGSimpleDataSource;

/** Transactions, savepoints, and what a connection and a pool of them are told. */
final class Sessions {
    private static String insert(Session s, int v) {
        return "INSERT INTO " + s.table + " VALUES ('2024-01-01', " + v + ")";
    }

    static void commitAndRollback(Session s) throws Exception {
        s.create("v INT");
        s.connection.setAutoCommit(false);
        s.execute(insert(s, 1));
        try (Connection other = Session.connect()) {
            String count = "SELECT count(*) FROM " + s.table;
            Session.equal(List.of(List.of(0L)), Session.rows(other, count));
            s.connection.commit();
            Session.equal(List.of(List.of(1L)), Session.rows(other, count));
            s.execute(insert(s, 2));
            Session.equal(2L, s.count());
            s.connection.rollback();
            Session.equal(1L, s.count());
            s.execute(insert(s, 3));
            s.connection.setAutoCommit(true);
            Session.equal(List.of(List.of(2L)), Session.rows(other, count));
        }
    }

    static void anErrorAbortsTheBlock(Session s) throws Exception {
        s.connection.setAutoCommit(false);
        Session.fails("22012", () -> s.execute("SELECT 1/0"));
        Session.fails("25P02", () -> s.execute("SELECT 1"));
        s.connection.rollback();
        Session.equal(1, s.value("SELECT 1"));
    }

    static void aBlockOpenAtCloseIsUndone(Session s) throws Exception {
        s.create("v INT");
        try (Connection left = Session.connect()) {
            left.setAutoCommit(false);
            Session.execute(left, insert(s, 1));
        }
        Session.equal(0L, s.count());
    }

    static void isolationLevels(Session s) throws Exception {
        for (int level : new int[] {Connection.TRANSACTION_READ_COMMITTED, Connection.TRANSACTION_REPEATABLE_READ}) {
            s.connection.setTransactionIsolation(level);
            Session.equal(level, s.connection.getTransactionIsolation());
        }
        s.create("v INT");
        try (Connection other = Session.connect()) {
            s.connection.setAutoCommit(false);
            Session.equal(0L, s.count());
            Session.execute(other, insert(s, 1));
            Session.equal(0L, s.count());
            s.connection.commit();
            s.connection.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
            Session.equal(1L, s.count());
            Session.execute(other, insert(s, 2));
            Session.equal(2L, s.count());
        }
        s.connection.commit();
    }

    static void serializableIsRefused(Session s) throws Exception {
        Session.ours();
        SQLException error = Session.fails("0A000", () -> s.connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE));
        Session.isTrue(error.getMessage().toLowerCase().contains("serializable"), error.getMessage());
    }

    static void savepoints(Session s) throws Exception {
        s.create("v INT");
        s.connection.setAutoCommit(false);
        s.execute(insert(s, 1));
        Savepoint unnamed = s.connection.setSavepoint();
        s.execute(insert(s, 2));
        Savepoint named = s.connection.setSavepoint("Odd name");
        Session.fails("42P01", () -> s.execute("SELECT * FROM jdbc_that_is_not_there"));
        s.connection.rollback(named);
        s.execute(insert(s, 3));
        s.connection.releaseSavepoint(named);
        Session.equal(3L, s.count());
        s.connection.rollback(unnamed);
        s.execute(insert(s, 4));
        s.connection.commit();
        Session.equal(List.of(List.of(1), List.of(4)), s.rows("SELECT v FROM " + s.table + " ORDER BY v"));
    }

    static void autosaveGoesOnAfterErrors(Session s) throws Exception {
        s.create("v INT");
        for (String autosave : List.of("always", "conservative")) {
            try (Connection connection = Session.connect("autosave", autosave, "cleanupSavepoints", "true")) {
                connection.setAutoCommit(false);
                Session.execute(connection, insert(s, 1));
                Session.fails("22012", () -> Session.execute(connection, "SELECT 1/0"));
                if (autosave.equals("conservative")) {
                    connection.rollback();
                }
                Session.execute(connection, insert(s, 2));
                connection.commit();
            }
        }
        Session.equal(List.of(List.of(1), List.of(2), List.of(2)), s.rows("SELECT v FROM " + s.table + " ORDER BY v"));
    }

    static void readOnlyConnectionsWriteNothing(Session s) throws Exception {
        s.create("v INT");
        s.connection.setReadOnly(true);
        s.connection.setAutoCommit(false);
        Session.fails("25006", () -> s.execute(insert(s, 1)));
        s.connection.rollback();
        s.connection.setReadOnly(false);
        s.execute(insert(s, 2));
        s.connection.commit();
        for (String mode : List.of("transaction", "always")) {
            try (Connection connection = Session.connect("readOnly", "true", "readOnlyMode", mode)) {
                connection.setAutoCommit(mode.equals("always"));
                Session.fails("25006", () -> Session.execute(connection, insert(s, 3)));
            }
        }
        Session.equal(1L, s.count());
    }

    static void whatAConnectionIsTold(Session s) throws Exception {
        Connection connection = s.connection;
        Session.isTrue(connection.isValid(5), "valid");
        s.execute("CREATE SCHEMA IF NOT EXISTS jdbc_other");
        connection.setSchema("jdbc_other");
        Session.equal("jdbc_other", connection.getSchema());
        Session.equal("jdbc_other", s.value("SHOW search_path"));
        Session.equal("jdbc_other", s.value("SELECT current_schema()"));
        connection.setSchema("public");
        s.execute("DROP SCHEMA jdbc_other");
        Session.equal(System.getenv("PGDATABASE"), connection.getCatalog());
        connection.setClientInfo("ApplicationName", "jdbc's own");
        Session.equal("jdbc's own", s.value("SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()"));
        Properties info = connection.getClientInfo();
        Session.equal("jdbc's own", info.getProperty("ApplicationName"));
        try {
            connection.setClientInfo("NoSuchThing", "x");
        } catch (SQLClientInfoException error) {
            throw new AssertionError(error);
        }
        connection.setNetworkTimeout(Runnable::run, 20_000);
        Session.equal(1, s.value("SELECT 1"));
        PGConnection ours = connection.unwrap(PGConnection.class);
        Session.equal("UTF8", ours.getParameterStatus("client_encoding"));
        Session.equal("on", ours.getParameterStatus("standard_conforming_strings"));
        Session.isTrue(ours.getNotifications() == null || ours.getNotifications().length == 0, "no notifications");
    }

    static void settingsAtConnect(Session s) throws Exception {
        try (Connection connection = Session.connect("options", "-c%20statement_timeout=1234%20-c%20DateStyle=ISO", "ApplicationName", "tests",
            "currentSchema", "public,pg_catalog", "targetServerType", "primary", "assumeMinServerVersion", "15", "sslmode", "prefer",
            "gssEncMode", "prefer", "loginTimeout", "20", "socketTimeout", "60", "tcpKeepAlive", "true", "logUnclosedConnections", "true")) {
            Session.equal(List.of(List.of("1234ms")), Session.rows(connection, "SHOW statement_timeout"));
            Session.equal(List.of(List.of("public,pg_catalog")), Session.rows(connection, "SHOW search_path"));
            Session.equal(List.of(List.of("tests")), Session.rows(connection, "SHOW application_name"));
        }
        Session.fails("3D000", () -> java.sql.DriverManager.getConnection(
            Session.url().replace("/" + System.getenv("PGDATABASE") + "?", "/jdbc_no_database?")).close());
    }

    static void abortedConnectionsEndTheirStatements(Session s) throws Exception {
        Object pid = s.value("SELECT pg_backend_pid()");
        ExecutorService threads = Executors.newFixedThreadPool(1);
        try (Connection other = Session.connect()) {
            Future<Object> running = threads.submit(() -> s.value(Session.FOREVER));
            Session.untilItRuns(other, pid);
            Session.execute(other, "SELECT pg_terminate_backend(" + pid + ")");
            try {
                running.get();
                throw new AssertionError("it ended by itself");
            } catch (java.util.concurrent.ExecutionException error) {
                Session.equal("57P01", ((SQLException) error.getCause()).getSQLState());
            }
            Session.isTrue(!s.connection.isValid(5), "the connection is gone");
        } finally {
            threads.shutdownNow();
        }
    }

    static void aPoolOfConnections(Session s) throws Exception {
        s.create("v INT");
        PGSimpleDataSource source = new PGSimpleDataSource();
        source.setUrl(Session.url("ApplicationName", "pooled"));
        HikariConfig config = new HikariConfig();
        config.setDataSource(source);
        config.setMaximumPoolSize(4);
        config.setAutoCommit(false);
        config.setTransactionIsolation("TRANSACTION_READ_COMMITTED");
        ExecutorService threads = Executors.newFixedThreadPool(8);
        try (HikariDataSource pool = new HikariDataSource(config)) {
            List<Callable<Object>> tasks = new ArrayList<>();
            for (int n = 0; n < 40; n++) {
                int v = n;
                tasks.add(() -> {
                    try (Connection connection = pool.getConnection()) {
                        connection.setReadOnly(v % 5 == 0);
                        if (v % 5 != 0) {
                            Session.execute(connection, insert(s, v));
                        }
                        if (v % 2 == 0) {
                            connection.commit();
                        }
                        // What is not committed is rolled back when the pool takes it back.
                        return Session.rows(connection, "SHOW application_name").get(0).get(0);
                    }
                });
            }
            for (Future<Object> done : threads.invokeAll(tasks)) {
                Session.equal("pooled", done.get());
            }
        } finally {
            threads.shutdownNow();
        }
        Session.equal(16L, s.count());
    }

    private Sessions() {}
}
