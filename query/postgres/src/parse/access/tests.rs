use stratalog_model::ErrorKind;

use crate::parse::{OwnStatement, Tree, statements};

fn parsed(sql: &str) -> Tree {
    statements(sql, 1 << 20).unwrap_or_else(|error| panic!("{sql}: {error}")).remove(0)
}

fn tag(sql: &str) -> &'static str {
    match parsed(sql).own {
        Some(OwnStatement::Access(syntax)) => syntax.tag(),
        other => panic!("{sql}: {other:?}"),
    }
}

#[test]
fn statements_of_roles_and_rights_are_read() {
    for (sql, expected) in [
        (
            "CREATE USER u WITH PASSWORD 'x' LOGIN IN ROLE a, b VALID UNTIL 'infinity'",
            "CREATE ROLE",
        ),
        ("CREATE ROLE \"password\" CONNECTION LIMIT -1", "CREATE ROLE"),
        ("ALTER USER u SET search_path = a, 'B', \"c\"", "ALTER ROLE"),
        ("ALTER ROLE CURRENT_USER SET TIME ZONE 'UTC'", "ALTER ROLE"),
        ("ALTER ROLE u SET work_mem FROM CURRENT", "ALTER ROLE"),
        ("ALTER GROUP g ADD USER a, b", "ALTER ROLE"),
        ("DROP USER IF EXISTS a, b", "DROP ROLE"),
        ("COMMENT ON ROLE a IS NULL", "COMMENT"),
        ("GRANT a, b TO c, CURRENT_ROLE WITH ADMIN TRUE", "GRANT ROLE"),
        ("REVOKE ADMIN OPTION FOR a FROM b CASCADE", "REVOKE ROLE"),
        (
            "GRANT SELECT (a, b), INSERT ON TABLE s.t, u TO PUBLIC, GROUP g WITH GRANT OPTION",
            "GRANT",
        ),
        ("GRANT ALL ON DATABASE d TO a GRANTED BY CURRENT_USER", "GRANT"),
        ("GRANT ALL PRIVILEGES ON ALL TABLES IN SCHEMA s, p TO a", "GRANT"),
        ("REVOKE GRANT OPTION FOR TRIM, TRUNCATE ON t FROM a RESTRICT", "REVOKE"),
        (
            "ALTER DEFAULT PRIVILEGES FOR ROLE a IN SCHEMA s GRANT SELECT ON TABLES TO b",
            "ALTER DEFAULT PRIVILEGES",
        ),
        ("ALTER DATABASE d OWNER TO a", "ALTER DATABASE"),
        ("REASSIGN OWNED BY a TO SESSION_USER", "REASSIGN OWNED"),
        ("DROP OWNED BY a, b CASCADE", "DROP OWNED"),
        (
            "CREATE POLICY p ON t AS RESTRICTIVE FOR ALL TO a USING (x = 1) WITH CHECK (y > 2)",
            "CREATE POLICY",
        ),
        ("ALTER POLICY p ON s.t RENAME TO q", "ALTER POLICY"),
        ("DROP POLICY IF EXISTS p ON t", "DROP POLICY"),
    ] {
        assert_eq!(tag(sql), expected, "{sql}");
    }
}

#[test]
fn a_password_is_not_in_the_text() {
    for (sql, text) in [
        (
            "CREATE USER ann LOGIN PASSWORD 'secret' INHERIT",
            "CREATE USER ann LOGIN PASSWORD '***' INHERIT",
        ),
        ("ALTER ROLE ann ENCRYPTED PASSWORD E'secret'", "ALTER ROLE ann ENCRYPTED PASSWORD '***'"),
        ("ALTER ROLE ann PASSWORD $$secret$$", "ALTER ROLE ann PASSWORD '***'"),
        ("ALTER ROLE ann PASSWORD NULL", "ALTER ROLE ann PASSWORD NULL"),
    ] {
        let tree = parsed(&format!("SELECT 1; {sql} ; SELECT 2").replace("SELECT 1; ", ""));
        assert_eq!(tree.text, text);
        assert!(!format!("{tree:?}").contains("secret"), "{tree:?}");
    }
}

#[test]
fn refused_forms_have_their_sqlstates() {
    for (sql, kind) in [
        ("CREATE ROLE a FLY", ErrorKind::SyntaxError),
        ("CREATE ROLE a LOGIN NOLOGIN", ErrorKind::SyntaxError),
        ("CREATE ROLE", ErrorKind::SyntaxError),
        ("CREATE ROLE none", ErrorKind::ReservedName),
        ("ALTER ROLE a IN DATABASE d SET x = 1", ErrorKind::FeatureNotSupported),
        ("ALTER ROLE ALL SET x = 1", ErrorKind::FeatureNotSupported),
        ("GRANT SELECT ON t TO a extra", ErrorKind::SyntaxError),
        ("GRANT SELECT, ALL ON t TO a", ErrorKind::SyntaxError),
        ("GRANT USAGE ON SEQUENCE s TO a", ErrorKind::FeatureNotSupported),
        ("GRANT a (b) TO c", ErrorKind::SyntaxError),
        ("CREATE POLICY p ON t FOR UPDATE USING (true)", ErrorKind::FeatureNotSupported),
        ("CREATE POLICY p ON t FOR SELECT WITH CHECK (true)", ErrorKind::SyntaxError),
        ("ALTER DATABASE d RENAME TO e", ErrorKind::FeatureNotSupported),
    ] {
        assert_eq!(statements(sql, 1 << 20).unwrap_err().kind(), kind, "{sql}");
    }
}
