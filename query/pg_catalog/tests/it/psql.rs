//! The answers behind `\l \dn \dt \d t \d+ t \dT \du`, compared with PostgreSQL 15's answers for
//! the same table.

use datafusion::execution::context::SessionContext;

use crate::fixture::{rows, session};

const CPU: &str = "16385";

#[tokio::test]
async fn databases_schemas_and_roles() {
    let session = session().await;
    assert_eq!(
        rows(
            &session,
            "SELECT d.datname as \"Name\", pg_catalog.pg_get_userbyid(d.datdba) as \"Owner\", \
             pg_catalog.pg_encoding_to_char(d.encoding) as \"Encoding\", d.datcollate as \"Collate\", \
             CASE d.datlocprovider WHEN 'c' THEN 'libc' WHEN 'i' THEN 'icu' END AS \"Locale Provider\", \
             pg_catalog.array_to_string(d.datacl, E'\\n') AS \"Access privileges\" \
             FROM pg_catalog.pg_database d ORDER BY 1"
        )
        .await,
        [
            "postgres|stratalog|UTF8|C|libc|",
            "stratalog|stratalog|UTF8|C|libc|",
            "template1|stratalog|UTF8|C|libc|"
        ]
    );
    assert_eq!(
        rows(
            &session,
            "SELECT n.nspname AS \"Name\", pg_catalog.pg_get_userbyid(n.nspowner) AS \"Owner\" \
             FROM pg_catalog.pg_namespace n \
             WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' ORDER BY 1"
        )
        .await,
        ["other|stratalog", "public|stratalog", "stratalog|stratalog"]
    );
    assert_eq!(
        rows(
            &session,
            "SELECT r.rolname, r.rolsuper, ARRAY(SELECT b.rolname FROM pg_catalog.pg_auth_members m \
             JOIN pg_catalog.pg_roles b ON (m.roleid = b.oid) WHERE m.member = r.oid) as memberof \
             FROM pg_catalog.pg_roles r WHERE r.rolname !~ '^pg_' ORDER BY 1"
        )
        .await,
        [
            "stratalog|true|[]",
            "stratalog_administer|false|[]",
            "stratalog_audit|false|[]",
            "stratalog_backup|false|[]"
        ]
    );
}

#[tokio::test]
async fn tables_that_the_search_path_finds() {
    let session = session().await;
    let list = |kinds: &str, condition: &str| {
        format!(
            "SELECT n.nspname as \"Schema\", c.relname as \"Name\", \
             CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' WHEN 'i' THEN 'index' END as \"Type\", \
             pg_catalog.pg_get_userbyid(c.relowner) as \"Owner\", am.amname \
             FROM pg_catalog.pg_class c \
             LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             LEFT JOIN pg_catalog.pg_am am ON am.oid = c.relam \
             WHERE c.relkind IN ({kinds}) AND n.nspname <> 'pg_catalog' AND n.nspname !~ '^pg_toast' \
             AND n.nspname <> 'information_schema' AND {condition} ORDER BY 1,2"
        )
    };
    let visible = "pg_catalog.pg_table_is_visible(c.oid)";
    assert_eq!(
        rows(&session, &list("'r','p',''", visible)).await,
        ["public|cpu|table|stratalog|chronicle"]
    );
    assert_eq!(
        rows(&session, &list("'i','I',''", visible)).await,
        ["public|cpu_pkey|index|stratalog|btree"]
    );
    let named = "c.relname OPERATOR(pg_catalog.~) '^(log)$' COLLATE pg_catalog.default";
    assert_eq!(
        rows(&session, &list("'r','p',''", named)).await,
        ["other|log|table|stratalog|chronicle"]
    );
}

async fn describe(session: &SessionContext, oid: &str) -> Vec<String> {
    let sql = format!(
        "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), \
         (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid, true) FROM pg_catalog.pg_attrdef d \
          WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef), \
         a.attnotnull, \
         (SELECT c.collname FROM pg_catalog.pg_collation c, pg_catalog.pg_type t \
          WHERE c.oid = a.attcollation AND t.oid = a.atttypid AND a.attcollation <> t.typcollation) AS attcollation, \
         a.attidentity, a.attgenerated, a.attstorage, a.attcompression AS attcompression, \
         CASE WHEN a.attstattarget=-1 THEN NULL ELSE a.attstattarget END AS attstattarget, \
         pg_catalog.col_description(a.attrelid, a.attnum) \
         FROM pg_catalog.pg_attribute a WHERE a.attrelid = '{oid}' AND a.attnum > 0 AND NOT a.attisdropped \
         ORDER BY a.attnum"
    );
    rows(session, &sql).await
}

#[tokio::test]
async fn the_columns_of_a_table() {
    let session = session().await;
    let found = rows(
        &session,
        "SELECT c.oid, n.nspname, c.relname FROM pg_catalog.pg_class c \
         LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relname OPERATOR(pg_catalog.~) '^(cpu)$' COLLATE pg_catalog.default \
         AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 2, 3",
    )
    .await;
    assert_eq!(found, [format!("{CPU}|public|cpu")]);
    assert_eq!(
        describe(&session, CPU).await,
        [
            "time|timestamp with time zone||true||||p|||",
            "host|text||true||||x|||",
            "region|text|'x'::text|false||||x|||where",
            "usage|double precision||false||||p|||",
            "n|numeric(10,2)||false||||m|||",
        ]
    );
    assert_eq!(
        describe(&session, "16386").await,
        ["at|timestamp(3) without time zone||true||||p|||", "tags|text[]||false||||x|||"]
    );
}

#[tokio::test]
async fn the_key_of_a_table() {
    let session = session().await;
    let sql = format!(
        "SELECT c2.relname, i.indisprimary, i.indisunique, i.indisclustered, i.indisvalid, \
         pg_catalog.pg_get_indexdef(i.indexrelid, 0, true), pg_catalog.pg_get_constraintdef(con.oid, true), \
         contype, condeferrable, condeferred, i.indisreplident, c2.reltablespace \
         FROM pg_catalog.pg_class c, pg_catalog.pg_class c2, pg_catalog.pg_index i \
         LEFT JOIN pg_catalog.pg_constraint con ON (conrelid = i.indrelid AND conindid = i.indexrelid AND contype IN ('p','u','x')) \
         WHERE c.oid = '{CPU}' AND c.oid = i.indrelid AND i.indexrelid = c2.oid \
         ORDER BY i.indisprimary DESC, c2.relname"
    );
    assert_eq!(
        rows(&session, &sql).await,
        [
            "cpu_pkey|true|true|false|true|CREATE UNIQUE INDEX cpu_pkey ON public.cpu USING btree (host, \"time\")|PRIMARY KEY (host, \"time\")|p|false|false|false|0"
        ]
    );
}

#[tokio::test]
async fn types_by_pattern() {
    let session = session().await;
    assert_eq!(
        rows(
            &session,
            "SELECT n.nspname as \"Schema\", pg_catalog.format_type(t.oid, NULL) AS \"Name\" \
             FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace \
             WHERE (t.typrelid = 0 OR (SELECT c.relkind = 'c' FROM pg_catalog.pg_class c WHERE c.oid = t.typrelid)) \
             AND NOT EXISTS(SELECT 1 FROM pg_catalog.pg_type el WHERE el.oid = t.typelem AND el.typarray = t.oid) \
             AND t.typname OPERATOR(pg_catalog.~) '^(time.*)$' COLLATE pg_catalog.default \
             AND pg_catalog.pg_type_is_visible(t.oid) ORDER BY 1, 2"
        )
        .await,
        [
            "pg_catalog|time with time zone",
            "pg_catalog|time without time zone",
            "pg_catalog|timestamp with time zone",
            "pg_catalog|timestamp without time zone",
        ]
    );
}
