use std::sync::Arc;

use arrow::{
    array::{ArrayRef, RecordBatch, StringViewArray, TimestampMicrosecondArray},
    datatypes::{FieldRef, Schema},
};
use datafusion::{
    common::Result as PlanResult,
    execution::{FunctionRegistry, SessionStateBuilder},
    logical_expr::planner::TypePlanner,
    prelude::{SessionConfig, SessionContext},
    sql::sqlparser::ast::DataType,
};
use stratalog_functions::{operators, register};
use stratalog_model::ColumnType;
use stratalog_text::{TextStyle, write_value};

/// Plans casts to SQL types that DataFusion does not know.
#[derive(Debug)]
struct Types;

impl TypePlanner for Types {
    fn plan_type_field(&self, sql_type: &DataType) -> PlanResult<Option<FieldRef>> {
        let column_type = match sql_type {
            DataType::Uuid => ColumnType::Uuid,
            DataType::JSONB => ColumnType::Jsonb,
            _ => return Ok(None),
        };
        Ok(Some(Arc::new(column_type.arrow_field("", true))))
    }
}

fn context(zone: &str) -> SessionContext {
    let mut config = SessionConfig::new();
    config.options_mut().execution.time_zone = Some(zone.to_string());
    config.options_mut().sql_parser.dialect = datafusion::config::Dialect::PostgreSQL;
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_type_planner(Arc::new(Types))
        .build();
    let context = SessionContext::new_with_state(state);
    register(&mut *context.state_ref().write()).unwrap();
    let planner = Arc::new(operators());
    context.state_ref().write().register_expr_planner(planner).unwrap();
    let types = [
        ("time", ColumnType::TimestampTz { precision: 6 }),
        ("host", ColumnType::Text),
        ("tags", ColumnType::Jsonb),
        ("id", ColumnType::Uuid),
    ];
    let schema = Arc::new(Schema::new(
        types
            .iter()
            .map(|(name, column_type)| column_type.arrow_field(name, true))
            .collect::<Vec<_>>(),
    ));
    let times = [0_i64, 59_999_999, 60_000_000, -1];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampMicrosecondArray::from(times.to_vec()).with_timezone("UTC")),
        Arc::new(StringViewArray::from(vec![Some("a"), Some("b"), None, Some("a")])),
        Arc::new(StringViewArray::from(vec![
            Some(r#"{"a": 1, "b": ["x", {"c": true}]}"#),
            Some("[1, 2]"),
            None,
            Some("\"text\""),
        ])),
        Arc::new({
            let mut ids = arrow::array::FixedSizeBinaryBuilder::new(16);
            for at in 0..4_u8 {
                ids.append_value([at; 16]).unwrap();
            }
            ids.finish()
        }),
    ];
    context.register_batch("t", RecordBatch::try_new(schema, columns).unwrap()).unwrap();
    context
}

async fn rows_in(zone: &str, sql: &str) -> Result<Vec<String>, String> {
    let context = context(zone);
    let frame = context.sql(sql).await.map_err(|error| error.to_string())?;
    let batches = frame.collect().await.map_err(|error| error.to_string())?;
    let mut rows = Vec::new();
    for batch in &batches {
        for row in 0..batch.num_rows() {
            let values: Vec<String> = batch
                .columns()
                .iter()
                .zip(batch.schema().fields())
                .map(|(column, field)| {
                    write_value(column.as_ref(), row, field, &TextStyle::default())
                        .unwrap()
                        .unwrap_or_else(|| "NULL".to_string())
                })
                .collect();
            rows.push(values.join("|"));
        }
    }
    Ok(rows)
}

async fn rows(sql: &str) -> Vec<String> {
    rows_in("UTC", sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

async fn one(sql: &str) -> String {
    rows(sql).await.join("\n")
}

#[tokio::test]
async fn time_bucket_groups_by_alias_as_tsbs_does() {
    let sql = "SELECT time_bucket('60 seconds', time) AS minute, count(*) AS n FROM t \
               WHERE time >= '1969-12-31 23:00:00.5 +0000' AND host IN ('a', 'b') GROUP BY minute ORDER BY minute";
    assert_eq!(rows(sql).await, ["1969-12-31 23:59:00+00|1", "1970-01-01 00:00:00+00|2"]);
}

#[tokio::test]
async fn time_bucket_takes_origins_offsets_dates_and_integers() {
    assert_eq!(one("SELECT time_bucket('1 week', DATE '2026-11-21')").await, "2026-11-16");
    assert_eq!(
        one("SELECT time_bucket(INTERVAL '1 month', DATE '2026-11-21')").await,
        "2026-11-01"
    );
    assert_eq!(
        one("SELECT time_bucket('1 hour', TIMESTAMP '2026-11-21 10:20:00', INTERVAL '30 minutes')")
            .await,
        "2026-11-21 09:30:00"
    );
    assert_eq!(
        one("SELECT time_bucket('1 hour', TIMESTAMP '2026-11-21 10:20:00', TIMESTAMP '2000-01-01 00:15:00')").await,
        "2026-11-21 10:15:00"
    );
    assert_eq!(
        one("SELECT time_bucket(10, -3), time_bucket(10, 13, 5), time_bucket('1 h', NULL)").await,
        "-10|5|NULL"
    );
    let error = rows_in("UTC", "SELECT time_bucket('0 s', time) FROM t").await.unwrap_err();
    assert!(error.contains("greater than 0"), "{error}");
    let error = rows_in("UTC", "SELECT time_bucket('x y', time) FROM t").await.unwrap_err();
    assert!(error.contains("invalid input syntax for type interval"), "{error}");
}

#[tokio::test]
async fn buckets_follow_the_order_of_times_and_prune_by_them() {
    let context = context("UTC");
    let explain = |sql: &'static str| {
        let context = context.clone();
        async move {
            let batches = context.sql(sql).await.unwrap().collect().await.unwrap();
            arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string()
        }
    };
    let plan = explain(
        "EXPLAIN SELECT * FROM t WHERE time_bucket('1 minute', time) = '1970-01-01 00:01:00'",
    )
    .await;
    assert!(plan.contains("time@0 >=") && plan.contains("time@0 <"), "{plan}");
    let plan =
        explain("EXPLAIN SELECT * FROM t WHERE time >= '2016-01-01 20:03:37.430883 +0000'").await;
    assert!(plan.contains("time@0 >= 1451678617430883"), "{plan}");
    let plan = explain(
        "EXPLAIN SELECT time_bucket('1 minute', time) AS b, max(host) FROM (SELECT * FROM t ORDER BY time) GROUP BY b ORDER BY b",
    )
    .await;
    assert_eq!(plan.matches("SortExec").count(), 1, "{plan}");
}

#[tokio::test]
async fn jsonb_operators() {
    assert_eq!(
        rows("SELECT tags->'a', tags->>'a', tags->'b'->1->>'c', tags#>>'{b,0}', tags->>0 FROM t")
            .await,
        [
            "1|1|true|x|NULL",
            "NULL|NULL|NULL|NULL|1",
            "NULL|NULL|NULL|NULL|NULL",
            // Like in PostgreSQL, a scalar is its own element 0.
            "NULL|NULL|NULL|NULL|text"
        ]
    );
    assert_eq!(rows("SELECT host FROM t WHERE tags->>'a' = '1'").await, ["a"]);
    assert_eq!(rows("SELECT host FROM t WHERE tags @> '{\"a\":1}'").await, ["a"]);
    assert_eq!(rows("SELECT host FROM t WHERE tags ? 'a'").await, ["a"]);
    assert_eq!(
        rows("SELECT jsonb_typeof(tags) FROM t").await,
        ["object", "array", "NULL", "string"]
    );
    assert_eq!(one("SELECT jsonb_array_length('[1, [2, 3]]'), jsonb_extract_path_text('{\"a\":{\"b\":7}}', 'a', 'b')").await, "2|7");
    assert_eq!(one("SELECT '{\"b\":1,\"a\":2,\"b\":3}'::jsonb").await, r#"{"a": 2, "b": 3}"#);
    assert_eq!(
        one("SELECT to_jsonb(1.5::double), to_jsonb('x\"y'), to_jsonb(true)").await,
        r#"1.5|"x\"y"|true"#
    );
}

#[tokio::test]
async fn jsonb_results_are_jsonb() {
    let context = context("UTC");
    let frame = context.sql("SELECT tags->'a' AS a, tags->>'a' AS b FROM t").await.unwrap();
    let schema = frame.schema().as_arrow();
    assert_eq!(ColumnType::from_arrow_field(schema.field(0)), Some(ColumnType::Jsonb));
    assert_eq!(ColumnType::from_arrow_field(schema.field(1)), Some(ColumnType::Text));
    let batches = frame.collect().await.unwrap();
    assert_eq!(ColumnType::from_arrow_field(batches[0].schema().field(0)), Some(ColumnType::Jsonb));
}

#[tokio::test]
async fn uuids_compare_with_text() {
    let wanted = "01010101-0101-0101-0101-010101010101";
    assert_eq!(rows(&format!("SELECT host FROM t WHERE id = '{wanted}'")).await, ["b"]);
    assert_eq!(
        rows(&format!(
            "SELECT host FROM t WHERE id IN ('{wanted}', '00000000000000000000000000000000')"
        ))
        .await,
        ["a", "b"]
    );
    assert_eq!(one("SELECT id::text FROM t WHERE host = 'b'").await, wanted);
    assert_eq!(
        one("SELECT count(DISTINCT g) FROM (SELECT gen_random_uuid() AS g FROM t)").await,
        "4"
    );
    assert_eq!(
        rows(&format!("SELECT host FROM t WHERE id = lower('{wanted}')::uuid")).await,
        ["b"]
    );
    assert_eq!(one(&format!("SELECT '{wanted}'::uuid")).await, wanted);
    let error = rows_in("UTC", "SELECT * FROM t WHERE id = 'x'").await.unwrap_err();
    assert!(error.contains("invalid input syntax for type uuid"), "{error}");
}

#[tokio::test]
async fn values_become_text_as_in_postgresql() {
    assert_eq!(
        one("SELECT time::text, (1.0::double)::text, INTERVAL '1 month 2 hours'::text, true::text, 5::text FROM t WHERE host = 'b'").await,
        "1970-01-01 00:00:59.999999+00|1|1 mon 02:00:00|true|5"
    );
}

#[tokio::test]
async fn the_session_zone_decides_days_and_hours() {
    let sql = "SELECT date_trunc('day', time)::text, extract(hour FROM time), extract(epoch FROM time), time::date FROM t WHERE host = 'b'";
    assert_eq!(rows(sql).await, ["1970-01-01 00:00:00+00|0|59.999999|1970-01-01"]);
    assert_eq!(
        rows_in("America/New_York", sql).await.unwrap(),
        ["1969-12-31 00:00:00-05|19|59.999999|1969-12-31"]
    );
    assert_eq!(
        one("SELECT timezone('Europe/Berlin', TIMESTAMP '2026-07-01 12:00:00'), timezone('Asia/Tokyo', time) FROM t WHERE host = 'b'").await,
        "2026-07-01 10:00:00+00|1970-01-01 09:00:59.999999"
    );
    let error = rows_in("UTC", "SELECT timezone('Nowhere/At_All', time) FROM t").await.unwrap_err();
    assert!(error.contains("not recognized"), "{error}");
}

#[tokio::test]
async fn literals_take_the_type_of_what_they_meet() {
    let number = "arrow_cast(1.56, 'Decimal128(10, 2)')";
    assert_eq!(
        one(&format!(
            "SELECT {number} = '1.56', {number} > '1.555', {number} = '1.555', {number} < '1e1'"
        ))
        .await,
        "t|t|f|t"
    );
    assert_eq!(one("SELECT 5 = '5', true = 'on', DATE '2020-01-01' = '2020-01-01'").await, "t|t|t");
    assert_eq!(rows("SELECT host FROM t WHERE time BETWEEN '1970-01-01 00:00:30+00' AND '1970-01-01 02:00:00+02'").await, Vec::<String>::new());
    assert_eq!(rows("SELECT host FROM t WHERE time BETWEEN '1970-01-01 00:00:30+00' AND '1970-01-01 02:01:00+02'").await, ["b", "NULL"]);
    assert_eq!(one("SELECT INTERVAL '1 hour' = '60 minutes', TIMESTAMP '2020-01-01' + '1 hour', '{\"b\":1}' = tags FROM t LIMIT 1").await, "t|2020-01-01 01:00:00|f");
    let whole = "arrow_cast('2020-01-01 00:00:01', 'Timestamp(s)')";
    assert_eq!(one(&format!("SELECT {whole} = '2020-01-01 00:00:00.6', {whole} > '2020-01-01 00:00:00.6', {whole} = '2020-01-01 00:00:01', {whole} < '4020-01-01'")).await, "f|t|t|t");
    let error = rows_in("UTC", "SELECT 5 = 'five'").await.unwrap_err();
    assert!(error.contains("invalid input syntax for type bigint"), "{error}");
}

#[tokio::test]
async fn small_functions() {
    assert_eq!(
        one("SELECT quote_ident('Host'), quote_literal('a''b'), quote_nullable(NULL)").await,
        "\"Host\"|'a''b'|NULL"
    );
    assert_eq!(one("SELECT array_lower(make_array(5, 6), 1), array_upper(make_array(5, 6), 1), array_upper(make_array(5, 6), 2)").await, "1|2|NULL");
    assert_eq!(
        one("SELECT make_interval(1, 2, 1), justify_hours(INTERVAL '50 hours')").await,
        "1 year 2 mons 7 days|2 days 02:00:00"
    );
    assert_eq!(
        one("SELECT age(TIMESTAMP '2001-04-10', TIMESTAMP '1957-06-13')").await,
        "43 years 9 mons 27 days"
    );
    assert_eq!(
        one("SELECT pg_typeof(time), pg_typeof(1), pg_typeof(tags) FROM t LIMIT 1").await,
        "timestamp with time zone|bigint|jsonb"
    );
    assert_eq!(one("SELECT clock_timestamp() > '2020-01-01'").await, "t");
}

#[tokio::test]
async fn sleeping_stops_when_it_is_dropped() {
    assert_eq!(rows("SELECT pg_sleep(0.01)").await, [""]);
    let waited =
        tokio::time::timeout(std::time::Duration::from_millis(100), rows("SELECT pg_sleep(30)"))
            .await;
    assert!(waited.is_err());
}

#[test]
fn every_function_is_documented_once() {
    let pages = stratalog_functions::documentation();
    assert!(
        pages.iter().all(|page| page.description.ends_with('.') && !page.signatures.is_empty())
    );
    assert!(pages.windows(2).all(|pair| pair[0].name < pair[1].name));
}
