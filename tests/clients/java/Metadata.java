import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.ParameterMetaData;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.Statement;
import java.sql.Types;
import java.util.List;

/** What tools ask about a database: DatabaseMetaData, and what results and parameters tell of themselves. */
final class Metadata {
    static final String SCHEMA = "jdbc_meta";

    /** Two tables in a schema of their own, whatever other tests have made. */
    static DatabaseMetaData filled(Session s) throws Exception {
        drop(s);
        s.execute("CREATE SCHEMA " + SCHEMA);
        s.execute("CREATE TABLE " + SCHEMA + ".cpu (time TIMESTAMPTZ(6) NOT NULL, host TEXT NOT NULL, "
            + "usage DOUBLE PRECISION DEFAULT 1.5, cost NUMERIC(8,2), tags TEXT[], \"Odd name\" BIGINT, PRIMARY KEY (host, time))");
        s.execute("CREATE TABLE " + SCHEMA + ".plain (time TIMESTAMP NOT NULL, ok BOOLEAN, small SMALLINT, big BIGINT, real REAL, "
            + "day DATE, clock TIME, raw BYTEA, id UUID, doc JSONB, span INTERVAL, n INT NOT NULL DEFAULT 7)");
        s.execute("COMMENT ON TABLE " + SCHEMA + ".cpu IS 'processors'");
        s.execute("COMMENT ON COLUMN " + SCHEMA + ".cpu.usage IS 'of one second'");
        return s.connection.getMetaData();
    }

    private static void drop(Session s) throws Exception {
        for (String table : List.of("cpu", "plain")) {
            s.execute("DROP TABLE IF EXISTS " + SCHEMA + "." + table);
        }
        s.execute("DROP SCHEMA IF EXISTS " + SCHEMA);
    }

    static void theProduct(Session s) throws Exception {
        DatabaseMetaData meta = s.connection.getMetaData();
        Session.equal("PostgreSQL", meta.getDatabaseProductName());
        Session.equal(15, meta.getDatabaseMajorVersion());
        Session.equal(System.getenv("PGUSER"), meta.getUserName());
        Session.equal(63, meta.getMaxColumnNameLength());
        Session.isTrue(meta.getSQLKeywords().contains("analyze"), meta.getSQLKeywords());
        Session.isTrue(meta.getDefaultTransactionIsolation() != Connection.TRANSACTION_NONE, "isolation");
        Session.isTrue(!meta.isReadOnly(), "read-write");
    }

    static void tablesAndTheirComments(Session s) throws Exception {
        DatabaseMetaData meta = filled(s);
        String[] shown = {"TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE", "REMARKS"};
        Session.equal(List.of("jdbc_meta cpu TABLE processors", "jdbc_meta plain TABLE null"),
            Session.columns(meta.getTables(null, SCHEMA, "%", new String[] {"TABLE", "VIEW", "PARTITIONED TABLE"}), shown));
        Session.equal(List.of("jdbc_meta cpu TABLE processors"),
            Session.columns(meta.getTables(null, "jdbc\\_m%", "c_u", new String[] {"TABLE"}), shown));
        Session.equal(List.of(), Session.columns(meta.getTables(null, SCHEMA, "%", new String[] {"VIEW"}), shown));
        Session.equal(List.of("cpu TABLE", "plain TABLE", "cpu_pkey INDEX"),
            Session.columns(meta.getTables(null, SCHEMA, null, null), "TABLE_NAME", "TABLE_TYPE").stream()
                .sorted((a, b) -> b.substring(b.lastIndexOf(' ')).compareTo(a.substring(a.lastIndexOf(' ')))).toList());
        Session.isTrue(Session.columns(meta.getTables(null, "pg_catalog", "pg_cl%", new String[] {"SYSTEM TABLE"}), "TABLE_NAME")
            .contains("pg_class"), "pg_class");
        drop(s);
    }

    static void columns(Session s) throws Exception {
        DatabaseMetaData meta = filled(s);
        Session.equal(List.of(
            "time 93 timestamptz 35 6 0 null null 1 NO", "host 12 text 2147483647 0 0 null null 2 NO",
            "usage 8 float8 17 17 1 of one second 1.5 3 NO", "cost 2 numeric 8 2 1 null null 4 NO",
            "tags 2003 _text 2147483647 0 1 null null 5 NO", "Odd name -5 int8 19 0 1 null null 6 NO"),
            Session.columns(meta.getColumns(null, SCHEMA, "cpu", "%"), "COLUMN_NAME", "DATA_TYPE", "TYPE_NAME", "COLUMN_SIZE",
                "DECIMAL_DIGITS", "NULLABLE", "REMARKS", "COLUMN_DEF", "ORDINAL_POSITION", "IS_AUTOINCREMENT"));
        Session.equal(List.of("time 93 timestamp NO", "ok -7 bool YES", "small 5 int2 YES", "big -5 int8 YES", "real 7 float4 YES",
            "day 91 date YES", "clock 92 time YES", "raw -2 bytea YES", "id 1111 uuid YES", "doc 1111 jsonb YES",
            "span 1111 interval YES", "n 4 int4 NO"),
            Session.columns(meta.getColumns(null, SCHEMA, "plain", null), "COLUMN_NAME", "DATA_TYPE", "TYPE_NAME", "IS_NULLABLE"));
        Session.equal(List.of("cpu usage"), Session.columns(meta.getColumns(null, SCHEMA, "c%", "us_ge"), "TABLE_NAME", "COLUMN_NAME"));
        drop(s);
    }

    static void primaryKeysAndIndexes(Session s) throws Exception {
        DatabaseMetaData meta = filled(s);
        Session.equal(List.of("host 1 cpu_pkey", "time 2 cpu_pkey"),
            Session.columns(meta.getPrimaryKeys(null, SCHEMA, "cpu"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME"));
        Session.equal(List.of(), Session.columns(meta.getPrimaryKeys(null, SCHEMA, "plain"), "COLUMN_NAME"));
        Session.equal(List.of("f cpu_pkey 1 host A", "f cpu_pkey 2 time A"), Session.columns(
            meta.getIndexInfo(null, SCHEMA, "cpu", true, false), "NON_UNIQUE", "INDEX_NAME", "ORDINAL_POSITION", "COLUMN_NAME", "ASC_OR_DESC"));
        Session.equal(List.of("host", "time"), Session.columns(
            meta.getBestRowIdentifier(null, SCHEMA, "cpu", DatabaseMetaData.bestRowSession, false), "COLUMN_NAME").stream().sorted().toList());
        Session.equal(List.of(), Session.columns(meta.getImportedKeys(null, SCHEMA, "cpu"), "FK_NAME"));
        Session.equal(List.of(), Session.columns(meta.getExportedKeys(null, SCHEMA, "cpu"), "FK_NAME"));
        Session.equal(List.of(), Session.columns(meta.getCrossReference(null, SCHEMA, "cpu", null, SCHEMA, "plain"), "FK_NAME"));
        drop(s);
    }

    static void schemasAndCatalogs(Session s) throws Exception {
        DatabaseMetaData meta = filled(s);
        List<String> schemas = Session.columns(meta.getSchemas(), "TABLE_SCHEM");
        Session.isTrue(schemas.containsAll(List.of("information_schema", SCHEMA, "pg_catalog", "public")), schemas);
        Session.equal(List.of(SCHEMA), Session.columns(meta.getSchemas(null, "jdbc\\_m%"), "TABLE_SCHEM"));
        Session.isTrue(Session.columns(meta.getCatalogs(), "TABLE_CAT").contains(System.getenv("PGDATABASE")), "catalogs");
        Session.isTrue(Session.columns(meta.getTableTypes(), "TABLE_TYPE").contains("TABLE"), "table types");
        drop(s);
    }

    static void privileges(Session s) throws Exception {
        DatabaseMetaData meta = filled(s);
        String user = System.getenv("PGUSER");
        List<String> granted = Session.columns(meta.getTablePrivileges(null, SCHEMA, "cpu"), "TABLE_NAME", "GRANTEE", "PRIVILEGE");
        Session.isTrue(granted.containsAll(List.of("cpu " + user + " SELECT", "cpu " + user + " INSERT")), granted);
        granted = Session.columns(meta.getColumnPrivileges(null, SCHEMA, "cpu", "usage"), "COLUMN_NAME", "PRIVILEGE");
        Session.isTrue(granted.contains("usage SELECT"), granted);
        drop(s);
    }

    static void types(Session s) throws Exception {
        DatabaseMetaData meta = s.connection.getMetaData();
        List<String> types = Session.columns(meta.getTypeInfo(), "TYPE_NAME", "DATA_TYPE");
        Session.isTrue(types.containsAll(List.of("int4 4", "int8 -5", "timestamptz 93", "text 12", "_int4 2003", "jsonb 1111")), types);
        Session.equal(List.of(), Session.columns(meta.getUDTs(null, "jdbc_no_schema", "%", null), "TYPE_NAME"));
    }

    static void functions(Session s) throws Exception {
        DatabaseMetaData meta = s.connection.getMetaData();
        Session.isTrue(Session.columns(meta.getFunctions(null, null, "date_trunc"), "FUNCTION_SCHEM", "FUNCTION_NAME")
            .contains("pg_catalog date_trunc"), "date_trunc");
        Session.isTrue(!Session.columns(meta.getFunctionColumns(null, "pg_catalog", "upper", "%"), "COLUMN_NAME", "TYPE_NAME").isEmpty(),
            "columns of upper");
        Session.columns(meta.getProcedures(null, null, "%"), "PROCEDURE_NAME");
        Session.columns(meta.getClientInfoProperties(), "NAME");
    }

    static void resultsTellAboutTheirColumns(Session s) throws Exception {
        filled(s);
        try (Statement statement = s.connection.createStatement();
             ResultSet found = statement.executeQuery("SELECT time, host AS machine, usage, cost, tags, 1 + 1 AS two FROM " + SCHEMA + ".cpu")) {
            ResultSetMetaData meta = found.getMetaData();
            StringBuilder told = new StringBuilder();
            for (int n = 1; n <= meta.getColumnCount(); n++) {
                told.append(String.join(" ", meta.getColumnLabel(n), meta.getColumnTypeName(n), "" + meta.getColumnType(n),
                    "" + meta.getPrecision(n), "" + meta.getScale(n), meta.getColumnClassName(n), meta.getTableName(n),
                    "" + meta.isNullable(n), "" + meta.isAutoIncrement(n), "" + meta.isSigned(n))).append('\n');
            }
            Session.equal("time timestamptz 93 35 6 java.sql.Timestamp cpu 0 false false\n"
                + "machine text 12 2147483647 0 java.lang.String cpu 0 false false\n"
                + "usage float8 8 17 17 java.lang.Double cpu 1 false true\n"
                + "cost numeric 2 8 2 java.math.BigDecimal cpu 1 false true\n"
                + "tags _text 2003 2147483647 0 java.sql.Array cpu 1 false false\n"
                + "two int4 4 10 0 java.lang.Integer  2 false true\n", told.toString());
        }
        drop(s);
    }

    static void parametersTellTheirTypes(Session s) throws Exception {
        filled(s);
        try (PreparedStatement statement = s.connection.prepareStatement(
            "SELECT usage + ? FROM " + SCHEMA + ".cpu WHERE host = ? AND time BETWEEN ? AND ? AND cost > ? AND tags = ? LIMIT ?")) {
            ParameterMetaData meta = statement.getParameterMetaData();
            StringBuilder told = new StringBuilder();
            for (int n = 1; n <= meta.getParameterCount(); n++) {
                told.append(meta.getParameterTypeName(n)).append(' ');
            }
            Session.equal("float8 text timestamptz timestamptz numeric _text int8 ", told.toString());
            Session.equal(Types.DOUBLE, statement.getMetaData().getColumnType(1));
        }
        try (PreparedStatement insert = s.connection.prepareStatement(
            "INSERT INTO " + SCHEMA + ".plain (time, small, id, doc, n) VALUES (?, ?, ?, ?, ?)")) {
            ParameterMetaData meta = insert.getParameterMetaData();
            Session.equal("timestamp int2 uuid jsonb int4", String.join(" ", meta.getParameterTypeName(1), meta.getParameterTypeName(2),
                meta.getParameterTypeName(3), meta.getParameterTypeName(4), meta.getParameterTypeName(5)));
            Session.isTrue(insert.getMetaData() == null, "no columns");
        }
        drop(s);
    }

    private Metadata() {}
}
