use crate::fixture::{batches, names, rows, session};

async fn one(sql: &str) -> String {
    rows(&session().await, sql).await.join("\n")
}

#[tokio::test]
async fn identity_and_settings() {
    assert_eq!(
        one("SELECT current_database(), current_user, current_schema, current_schemas(true), pg_backend_pid()").await,
        "stratalog|stratalog|public|[pg_catalog, public]|77"
    );
    assert_eq!(one("SELECT current_setting('server_version_num')::int / 100").await, "1500");
    assert_eq!(one("SELECT current_setting('nothing', true) IS NULL").await, "true");
    let error = batches(&session().await, "SELECT current_setting('nothing')").await.unwrap_err();
    assert!(error.to_string().contains("unrecognized configuration parameter"), "{error}");
    assert_eq!(
        one("SELECT set_config('a.b', 'c', false), pg_cancel_backend(77), pg_cancel_backend(1)")
            .await,
        "c|true|false"
    );
    assert!(one("SELECT version()").await.starts_with("PostgreSQL 15"));
}

#[tokio::test]
async fn names_and_oids() {
    assert_eq!(one("SELECT 'cpu'::regclass").await, "cpu");
    assert_eq!(
        one("SELECT 'other.log'::regclass::oid, 16386::regclass::text").await,
        "16386|other.log"
    );
    assert_eq!(one("SELECT relname FROM pg_class WHERE oid = 'public.cpu'::regclass").await, "cpu");
    assert_eq!(
        one("SELECT to_regclass('nothing') IS NULL, to_regtype('numeric'), 'text'::regtype::oid")
            .await,
        "true|numeric|25"
    );
    assert_eq!(
        one("SELECT 2200::regnamespace::text, 'public'::regnamespace::oid, 10::regrole::text")
            .await,
        "public|2200|stratalog"
    );
    let error = batches(&session().await, "SELECT 'nothing'::regclass::oid").await.unwrap_err();
    assert!(error.to_string().contains("relation \"nothing\" does not exist"), "{error}");
    assert_eq!(names(&session().await, "SELECT 'cpu'::regclass").await, ["regclass"]);
}

#[tokio::test]
async fn sizes_comments_and_definitions() {
    assert_eq!(
        one("SELECT pg_size_pretty(pg_table_size('cpu'::regclass)), pg_total_relation_size('cpu'), obj_description('cpu'::regclass, 'pg_class')").await,
        "12 kB|12288|usage"
    );
    assert_eq!(
        one("SELECT col_description('cpu'::regclass, 3), pg_database_size('stratalog')").await,
        "where|12288"
    );
    assert_eq!(
        one("SELECT parse_ident('a.\"B c\"'), quote_ident('B c')").await,
        "[a, B c]|\"B c\""
    );
    assert_eq!(
        one("SELECT has_table_privilege('cpu', 'SELECT'), pg_is_in_recovery()").await,
        "true|false"
    );
}
