use std::collections::BTreeMap;

use datafusion::logical_expr::{col, lit};
use stratalog_model::{
    ChronicleId, Collision, ColumnDefinition, ColumnId, ColumnType, Durability, Granularity,
    LatePolicy, SchemaVersion, Tick, TickScale, TickSource,
};

use super::*;

fn column(id: u32, name: &str, column_type: ColumnType) -> ColumnDefinition {
    ColumnDefinition {
        id: ColumnId(id),
        name: name.to_string(),
        column_type,
        nullable: false,
        default_sql: None,
        missing_value: None,
        comment: None,
    }
}

pub(in crate::table) fn chronicle(granularity: &str, precision: u8) -> ChronicleDefinition {
    let granularity: Granularity = granularity.parse().unwrap();
    ChronicleDefinition {
        id: ChronicleId(1),
        database: "d".into(),
        schema: "public".into(),
        name: "t".into(),
        columns: vec![
            column(1, "time", ColumnType::TimestampTz { precision }),
            column(2, "host", ColumnType::Text),
            column(3, "n", ColumnType::SmallInt),
            column(4, "on", ColumnType::Boolean),
        ],
        tick_column: ColumnId(1),
        key_columns: vec![ColumnId(2), ColumnId(3), ColumnId(4)],
        keys_added: 0,
        indexes: Vec::new(),
        indexes_made: 0,
        primary_key: true,
        scale: TickScale::starting_at(1_000_000_000_000_000_000, granularity),
        coarsened: None,
        collision: Collision::Last,
        late: LatePolicy::Accept,
        time_source: TickSource::Column,
        acceptance_window_ms: None,
        tiering: Default::default(),
        durability: Durability::Disk,
        schema_version: SchemaVersion(1),
        schema_versions: BTreeMap::new(),
        comment: None,
        created_ns: 0,
    }
}

fn at(ns: i64) -> Expr {
    lit(ScalarValue::TimestampNanosecond(Some(ns), Some("UTC".into())))
}

const BASE: i64 = 1_000_000_000_000_000_000;

#[test]
fn a_time_between_two_ticks_equals_none_and_bounds_both() {
    let chronicle = chronicle("1s", 9);
    let half = at(BASE + 500_000_000);
    let shown = |filter: Expr| ticks(&chronicle, &filter).unwrap().to_string();
    assert_eq!(shown(col("time").eq(half.clone())), "none");
    assert_eq!(shown(col("time").not_eq(half.clone())), "[-inf, +inf)");
    assert_eq!(shown(col("time").lt(half.clone())), "[-inf, 1)");
    assert_eq!(shown(col("time").lt_eq(half.clone())), "[-inf, 1)");
    assert_eq!(shown(col("time").gt(half.clone())), "[1, +inf)");
    assert_eq!(shown(half.clone().lt(col("time"))), "[1, +inf)");
    assert_eq!(shown(col("time").eq(at(BASE))), "[0, 1)");
    assert_eq!(shown(col("time").lt_eq(at(BASE))), "[-inf, 1)");
    assert_eq!(shown(col("time").between(at(BASE), at(BASE + 2_000_000_000))), "[0, 3)");
    assert_eq!(
        shown(col("time").in_list(vec![at(BASE), at(BASE + 1_000_000_000), half], false)),
        "[0, 2)"
    );
}

#[test]
fn times_beyond_all_ticks_are_ends() {
    let chronicle = chronicle("1ns", 9);
    let second =
        |seconds: i64| lit(ScalarValue::TimestampSecond(Some(seconds), Some("UTC".into())));
    assert!(ticks(&chronicle, &col("time").gt(second(i64::MIN))).unwrap().is_all());
    assert!(ticks(&chronicle, &col("time").lt(second(i64::MAX))).unwrap().is_all());
    assert!(ticks(&chronicle, &col("time").gt(second(i64::MAX))).unwrap().is_empty());
}

#[test]
fn several_ticks_may_show_as_one_time() {
    let chronicle = chronicle("1ns", 3);
    let filter = col("time").eq(at(BASE + 5_000_000));
    let found = ticks(&chronicle, &filter).unwrap();
    assert!(found.contains(Tick(5_000_000)) && found.contains(Tick(5_999_999)), "{found}");
    assert!(!found.contains(Tick(4_999_999)) && !found.contains(Tick(6_000_000)), "{found}");
    assert!(ticks(&chronicle, &col("time").eq(at(BASE + 5_000_001))).unwrap().is_empty());
}

#[test]
fn groups_are_ranges_of_ticks() {
    let mut chronicle = chronicle("100ms", 9);
    chronicle.scale = TickScale::starting_at(BASE + 900_000_000, "100ms".parse().unwrap());
    let native = col("_group").lt_eq(lit(5i64));
    assert_eq!(ticks(&chronicle, &native).unwrap().to_string(), "[-inf, 6)");
    chronicle.coarsened = Some("1s".parse().unwrap());
    let shown = |filter: Expr| ticks(&chronicle, &filter).unwrap().to_string();
    assert_eq!(shown(col("_group").eq(lit(0i64))), "[-9, 1)");
    assert_eq!(shown(col("_group").eq(lit(-1i32))), "[-19, -9)");
    assert_eq!(shown(col("_group").lt(lit(2i64))), "[-inf, 11)");
    assert_eq!(shown(col("_group").gt(lit(2i64))), "[21, +inf)");
    assert_eq!(shown(col("_group").between(lit(0i64), lit(1i64))), "[-9, 11)");
    assert_eq!(shown(col("_group").in_list(vec![lit(0i64), lit(2i64)], false)), "[-9, 1) [11, 21)");
    assert_eq!(shown(col("_group").gt(lit(i64::MAX))), "none");
    assert_eq!(shown(col("_group").gt_eq(lit(i64::MIN))), "[-inf, +inf)");
}

#[test]
fn what_is_not_only_time_is_not_exact_but_may_narrow() {
    let chronicle = chronicle("1s", 9);
    let mixed = col("time").lt(at(BASE)).and(col("v").gt(lit(1)));
    assert!(ticks(&chronicle, &mixed).is_none());
    assert_eq!(hull(&chronicle, &mixed).to_string(), "[-inf, 0)");
    let either = col("time").lt(at(BASE)).or(col("v").gt(lit(1)));
    assert!(hull(&chronicle, &either).is_all());
    let no_zone = lit(ScalarValue::TimestampNanosecond(Some(BASE), None));
    assert!(ticks(&chronicle, &col("time").lt(no_zone)).is_none());
}

#[test]
fn keys_are_values_of_the_column() {
    let chronicle = chronicle("1s", 9);
    let keys = |filter: Expr| match exact(&chronicle, &filter) {
        Some(Conjunct::Keys(keys)) => (keys.column, keys.values.len()),
        other => panic!("{filter}: {other:?}"),
    };
    assert_eq!(keys(col("host").eq(lit("a"))), (1, 1));
    assert_eq!(keys(lit("a").eq(col("host"))), (1, 1));
    assert_eq!(
        keys(col("host").in_list(vec![lit("a"), lit("b"), lit(ScalarValue::Null)], false)),
        (1, 2)
    );
    assert_eq!(keys(col("host").eq(lit("a")).or(col("host").eq(lit("b")))), (1, 2));
    assert_eq!(keys(col("n").eq(lit(5i64))), (2, 1));
    assert_eq!(keys(col("on")), (3, 1));
    assert_eq!(keys(Expr::Not(Box::new(col("on")))), (3, 1));
    for nothing in [col("n").eq(lit(70_000i64)), col("host").eq(lit(ScalarValue::Utf8(None)))] {
        assert!(matches!(exact(&chronicle, &nothing), Some(Conjunct::Nothing)), "{nothing}");
    }
    for open in [
        col("host").not_eq(lit("a")),
        col("host").in_list(vec![lit("a")], true),
        col("n").eq(lit(1.5f64)),
        Expr::Not(Box::new(col("host").eq(lit("a")))),
        col("host").eq(lit("a")).or(col("n").eq(lit(1i64))),
    ] {
        assert!(exact(&chronicle, &open).is_none(), "{open}");
    }
}
