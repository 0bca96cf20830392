//! The audit log: records of statements that change rights, definitions or stored events, and of
//! denied statements.

use std::sync::Arc;

use stratalog_model::ErrorKind;
use stratalog_query::{Command, Identity, Login, Session};
use stratalog_visor_core::access::{AccessCommand, RoleOptions, Verifier};

use crate::harness::{Database, login, run};

async fn access(database: &Database, command: AccessCommand) {
    let catalog = &database.service.parts().catalog;
    catalog.apply(Identity::System, Command::Access(command)).await.unwrap();
}

/// Creates a role that may log in, and opens its session.
async fn role(database: &Database, name: &str, superuser: bool) -> Arc<Session> {
    let verifier = Verifier::of_password("secret", 4096).unwrap();
    let options = RoleOptions {
        login: Some(true),
        superuser: Some(superuser),
        password: Some(Some(verifier)),
        ..RoleOptions::default()
    };
    let command = AccessCommand::CreateRole {
        name: name.to_string(),
        options,
        member_of: Vec::new(),
        members: Vec::new(),
        admins: Vec::new(),
        if_not_exists: false,
    };
    access(database, command).await;
    let id = database.service.parts().catalog.state().access().role_named(name).unwrap().id;
    let identity = Identity::of_role(id);
    database.service.connect(Login { user: name.to_string(), identity, ..login() }).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_passwords_keeps_no_audit_log() {
    let database = Database::new();
    database.tag("CREATE TABLE t (time TIMESTAMPTZ NOT NULL, v INT)").await;
    let missing = database.kind("SELECT * FROM stratalog.audit").await;
    assert_eq!(missing, ErrorKind::UndefinedTable);
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_deletes_and_denials_leave_records_that_nobody_can_remove() {
    let database = Database::new();
    let root = role(&database, "root", true).await;
    let ann = role(&database, "ann", false).await;
    run(&root, "CREATE TABLE t (time TIMESTAMPTZ NOT NULL, v INT)").await.unwrap();
    run(&root, "INSERT INTO t VALUES ('2024-01-01', 1), ('2024-01-02', 2)").await.unwrap();
    run(&root, "DELETE FROM t WHERE time < '2024-01-02'").await.unwrap();
    let denied = run(&ann, "CREATE TABLE u (time TIMESTAMPTZ NOT NULL)").await.unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::InsufficientPrivilege);
    run(&root, "DROP TABLE nope").await.unwrap_err();
    run(&root, "SELECT 1").await.unwrap();
    let records = "SELECT event, role, statement, sqlstate FROM stratalog.audit ORDER BY time";
    let found = run(&root, records).await.unwrap().lines();
    assert_eq!(
        found,
        [
            "statement|root|CREATE TABLE t (time TIMESTAMPTZ NOT NULL, v INT)|00000",
            "statement|root|DELETE FROM t WHERE time < '2024-01-02'|00000",
            "denied|ann|CREATE TABLE u (time TIMESTAMPTZ NOT NULL)|42501",
            "statement|root|DROP TABLE nope|42P01",
        ]
    );
    // A role without the right does not see the log; nobody can change it.
    let hidden = run(&ann, records).await.unwrap_err();
    assert_eq!(hidden.kind(), ErrorKind::UndefinedTable);
    for sql in [
        "DELETE FROM stratalog.audit",
        "TRUNCATE stratalog.audit",
        "DROP TABLE stratalog.audit",
        "ALTER TABLE stratalog.audit RENAME TO other",
        "ALTER TABLE stratalog.audit SET (retention = '1s')",
        "INSERT INTO stratalog.audit (time, event) VALUES (now(), 'login')",
        "COPY stratalog.audit FROM STDIN",
        "ACQUIRE stratalog.audit",
        "CREATE INDEX i ON stratalog.audit USING bloom (role)",
        "COMMENT ON TABLE stratalog.audit IS 'x'",
        "DROP SCHEMA stratalog CASCADE",
    ] {
        let refused = run(&root, sql).await;
        assert!(refused.is_err(), "{sql}: {:?}", refused.unwrap());
    }
    let left = run(&root, "SELECT count(*) FROM stratalog.audit WHERE event <> 'denied'").await;
    assert!(left.unwrap().lines()[0].parse::<u32>().unwrap() >= 3);
    let counted = run(&root, "SELECT count(*) FROM pg_namespace WHERE nspname = 'stratalog'").await;
    assert_eq!(counted.unwrap().lines(), ["1"]);
}
