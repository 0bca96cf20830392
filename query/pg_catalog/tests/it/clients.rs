//! Queries of drivers and tools other than psql at connect time and for introspection.

use crate::fixture::{rows, session};

async fn one(sql: &str) -> String {
    rows(&session().await, sql).await.join("\n")
}

#[tokio::test]
async fn psycopg_looks_up_a_type() {
    assert_eq!(
        one("SELECT typname AS name, oid, typarray AS array_oid, oid::regtype::text AS regtype, typdelim AS delimiter \
             FROM pg_type t WHERE t.oid = to_regtype('jsonb') ORDER BY t.oid").await,
        "jsonb|3802|3807|jsonb|,"
    );
}

#[tokio::test]
async fn tokio_postgres_looks_up_a_type() {
    assert_eq!(
        one("SELECT t.typname, t.typtype, t.typelem, r.rngsubtype, t.typbasetype, n.nspname, t.typrelid \
             FROM pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_range r ON r.rngtypid = t.oid \
             INNER JOIN pg_catalog.pg_namespace n ON t.typnamespace = n.oid WHERE t.oid = 1009").await,
        "_text|b|25||0|pg_catalog|0"
    );
}

#[tokio::test]
async fn adbc_reads_all_types() {
    let count = one("SELECT count(*) FROM (SELECT oid, typname, typreceive, typbasetype, typrelid, typarray FROM pg_catalog.pg_type \
                     WHERE (typreceive != 0 OR typsend != 0) AND typtype != 'r' AND typreceive::TEXT != 'array_recv') AS x").await;
    assert!(count.parse::<usize>().unwrap() > 30, "{count}");
}

#[tokio::test]
async fn pgjdbc_lists_tables_and_columns() {
    assert_eq!(
        one("SELECT NULL AS TABLE_CAT, n.nspname AS TABLE_SCHEM, c.relname AS TABLE_NAME, \
             CASE n.nspname ~ '^pg_' OR n.nspname = 'information_schema' WHEN true THEN 'SYSTEM TABLE' \
             WHEN false THEN CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'v' THEN 'VIEW' ELSE NULL END ELSE NULL END AS TABLE_TYPE, \
             d.description AS REMARKS \
             FROM pg_catalog.pg_namespace n, pg_catalog.pg_class c \
             LEFT JOIN pg_catalog.pg_description d ON (c.oid = d.objoid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass) \
             WHERE c.relnamespace = n.oid AND c.relname LIKE 'cpu' AND c.relkind = 'r' ORDER BY TABLE_TYPE, TABLE_SCHEM, TABLE_NAME").await,
        "|public|cpu|TABLE|usage"
    );
    assert_eq!(
        one("SELECT nspname, attname, attnum, dsc.description FROM (SELECT n.nspname, c.relname, a.attname, a.attrelid, a.atttypid, \
             row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum) AS attnum, pg_catalog.pg_get_expr(def.adbin, def.adrelid) AS adsrc \
             FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_class c ON (c.relnamespace = n.oid) \
             JOIN pg_catalog.pg_attribute a ON (a.attrelid = c.oid) JOIN pg_catalog.pg_type t ON (a.atttypid = t.oid) \
             LEFT JOIN pg_catalog.pg_attrdef def ON (a.attrelid = def.adrelid AND a.attnum = def.adnum) \
             WHERE c.relkind IN ('r','p','v','f','m') AND a.attnum > 0 AND NOT a.attisdropped AND c.relname LIKE 'cpu') c \
             LEFT JOIN pg_catalog.pg_description dsc ON (c.attrelid = dsc.objoid AND c.attnum = dsc.objsubid) \
             WHERE attname LIKE 'reg%' ORDER BY nspname, attnum").await,
        "public|region|3|where"
    );
}

#[tokio::test]
async fn grafana_finds_time_columns() {
    assert_eq!(
        one("SELECT quote_ident(column_name) AS \"column\", data_type AS \"type\" FROM information_schema.columns \
             WHERE CASE WHEN array_length(parse_ident('public.cpu'), 1) = 2 \
             THEN quote_ident(table_schema) = (parse_ident('public.cpu'))[1] AND quote_ident(table_name) = (parse_ident('public.cpu'))[2] \
             ELSE quote_ident(table_name) = 'public.cpu' END AND data_type LIKE 'timestamp%'").await,
        "\"time\"|timestamp with time zone"
    );
    assert_eq!(
        one("SELECT CASE WHEN quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = '\"$user\"' THEN user ELSE trim(s[i]) END \
             FROM generate_series(1, 2) AS g(i), (SELECT string_to_array(current_setting('search_path'), ',') AS s) AS x) \
             THEN quote_ident(table_name) ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS \"table\" \
             FROM information_schema.tables WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', 'stratalog') \
             ORDER BY CASE WHEN quote_ident(table_schema) = 'public' THEN 0 ELSE 1 END, 1").await,
        "cpu\nother.log"
    );
}

#[tokio::test]
async fn sqlalchemy_reflects_a_table() {
    assert_eq!(
        one("SELECT pg_catalog.pg_class.relname FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace \
             WHERE pg_catalog.pg_class.relkind = ANY (ARRAY['r', 'p', 'f']) AND pg_catalog.pg_class.relpersistence != 't' \
             AND pg_catalog.pg_table_is_visible(pg_catalog.pg_class.oid) AND pg_catalog.pg_namespace.nspname != 'pg_catalog'").await,
        "cpu"
    );
}
