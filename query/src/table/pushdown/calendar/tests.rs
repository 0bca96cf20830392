use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::{
    catalog::Session,
    common::{DFSchema, tree_node::TreeNodeRecursion},
    execution::{SessionState, session_state::SessionStateBuilder},
    logical_expr::{LogicalPlan, LogicalPlanBuilder, TableProviderFilterPushDown, TableSource},
};
use proptest::{prelude::*, sample::select, test_runner::TestRunner};
use stratalog_model::{ColumnType, Tick};
use stratalog_text::{TimeZone, calendar::DAY_SECONDS};

use super::{super::tests::chronicle, zone::spans, *};
use crate::{QuerySettings, service::base, table::provider::answers};

/// 2000-01-01, in seconds.
const MILLENNIUM: i64 = 946_684_800;

/// A table that keeps its filters readable after planning.
#[derive(Debug)]
struct Table(SchemaRef);

impl TableSource for Table {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0)
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> datafusion::error::Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }
}

/// A chronicle in a session with a time zone.
struct Fixture {
    state: SessionState,
    definition: ChronicleDefinition,
}

impl Fixture {
    fn new(zone: &str, granularity: &str, time: ColumnType) -> Self {
        let mut definition = chronicle(granularity, 9);
        for column in definition.columns.iter_mut().filter(|column| column.name == "time") {
            column.column_type = time.clone();
        }
        let mut state = base::build(&QuerySettings::default()).unwrap();
        state.config_mut().options_mut().execution.time_zone = Some(zone.to_string());
        Self { state: SessionStateBuilder::new_from_existing(state).build(), definition }
    }

    fn zoned(zone: &str) -> Self {
        Self::new(zone, "1s", ColumnType::TimestampTz { precision: 9 })
    }

    /// The planner's filters for a WHERE clause.
    fn filters(&self, sql: &str) -> Vec<Expr> {
        let schema = self.definition.arrow_schema();
        let columns = DFSchema::try_from_qualified_schema("t", &schema).unwrap();
        let filter = self.state.create_logical_expr(sql, &columns).unwrap();
        let table = Arc::new(Table(schema));
        let plan = LogicalPlanBuilder::scan("t", table, None).unwrap().filter(filter).unwrap();
        let plan = self.state.optimize(&plan.build().unwrap()).unwrap();
        let mut found = Vec::new();
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                found.extend(scan.filters.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .unwrap();
        found
    }

    fn answers(
        &self,
        predicate: &Expr,
        times: Vec<i64>,
    ) -> datafusion::error::Result<BooleanArray> {
        let field = Arc::new(self.definition.arrow_schema().field(0).clone());
        answers(&self.state as &dyn Session, &field, predicate, times)
    }

    fn narrow(&self, filters: &[Expr], within: TickRange) -> TickRanges {
        let evaluate = |predicate: &Expr, times| self.answers(predicate, times);
        narrow(&self.definition, filters, within.into(), &evaluate)
    }

    /// The ticks between two times in seconds since 1970.
    fn ticks(&self, from: i64, to: i64) -> TickRange {
        let bound =
            |at: i64| self.definition.scale.bound_at_or_after(i128::from(at) * 1_000_000_000);
        TickRange::new(bound(from), bound(to))
    }

    /// The ranges of a WHERE clause in the years `from..to`.
    fn years(&self, sql: &str, from: i64, to: i64) -> TickRanges {
        self.narrow(&self.filters(sql), self.ticks(year(from), year(to)))
    }

    fn is_true(&self, filters: &[Expr], ticks: &[Tick]) -> Vec<bool> {
        let axis = axis_of_tick(&self.definition).unwrap();
        let times: Vec<i64> = ticks.iter().map(|tick| axis.count_of(*tick).unwrap()).collect();
        let mut all = vec![true; ticks.len()];
        for filter in filters {
            let answers = self.answers(filter, times.clone()).unwrap();
            for (at, all) in all.iter_mut().enumerate() {
                *all &= answers.is_valid(at) && answers.value(at);
            }
        }
        all
    }
}

/// The first second of a year, in UTC.
fn year(year: i64) -> i64 {
    use stratalog_text::calendar::{Civil, days_of};
    days_of(Civil { year, month: 1, day: 1 }) * DAY_SECONDS
}

fn seconds(ranges: &TickRanges) -> Vec<i64> {
    ranges.as_slice().iter().map(|range| range.end.0 - range.start.0).collect()
}

#[test]
fn mondays_are_days_of_the_zone() {
    let mondays = Fixture::zoned("UTC").years("extract(dow from time) = 1", 2012, 2013);
    assert_eq!(seconds(&mondays), vec![86_400; 53]);
    let berlin = Fixture::zoned("Europe/Berlin");
    let sundays = berlin.years("extract(isodow from time) = 7", 2012, 2013);
    let odd: Vec<i64> = seconds(&sundays).into_iter().filter(|length| *length != 86_400).collect();
    // The days of clock changes, and 1 January; the local day began in 2011 UTC.
    assert_eq!(odd, [82_800, 82_800, 90_000]);
    let plain = ColumnType::Timestamp { precision: 9 };
    let plain = Fixture::new("Europe/Berlin", "1s", plain);
    let sundays = plain.years("extract(isodow from time) = 7", 2012, 2013);
    assert_eq!(seconds(&sundays), vec![86_400; 53]);
}

#[test]
fn what_would_be_too_many_cells_is_narrowed_by_coarser_ones_first() {
    let utc = Fixture::zoned("UTC");
    let nine = "extract(hour from time) = 9";
    let all = utc.ticks(year(1990), year(2020));
    assert_eq!(utc.narrow(&utc.filters(nine), all), all.into());
    let ranges = utc.narrow(&utc.filters(&format!("{nine} AND extract(dow from time) = 1")), all);
    assert_eq!(seconds(&ranges), vec![3_600; 1_566]);
    // 32,000 ranges would cost more than they save.
    let all = utc.ticks(year(1900), year(2079));
    assert_eq!(utc.narrow(&utc.filters("extract(day from time) % 2 = 0"), all), all.into());
}

#[test]
fn parts_of_a_filter_narrow_where_others_speak_of_other_columns() {
    let utc = Fixture::zoned("UTC");
    let within = utc.ticks(year(2012), year(2013));
    let either = utc.filters("(extract(dow from time) = 1 AND host = 'a') OR (extract(dow from time) = 2 AND host = 'b')");
    assert!(either.iter().any(|filter| concerns(&utc.definition, filter)), "{either:?}");
    // 2012 ends on a Monday.
    let mut lengths = vec![2 * 86_400; 52];
    lengths.push(86_400);
    assert_eq!(seconds(&utc.narrow(&either, within)), lengths);
    for unbound in [
        "extract(dow from time) = 1 OR host = 'a'",
        "extract(second from time) = 1",
        "extract(epoch from time) = 1",
        "extract(dow from time) = n",
        "time > '2012-01-01'",
        "random() > extract(dow from time)",
    ] {
        let filters = utc.filters(unbound);
        assert!(!filters.iter().any(|filter| concerns(&utc.definition, filter)), "{unbound}");
        if !unbound.starts_with("time") {
            assert_eq!(utc.narrow(&filters, within), within.into(), "{unbound}");
        }
    }
}

#[test]
fn a_predicate_that_fails_narrows_nothing() {
    let utc = Fixture::zoned("UTC");
    let within = utc.ticks(year(2012), year(2013));
    let filters = utc.filters("10 / (extract(dow from time) - 1)::int > 2");
    assert_eq!(utc.narrow(&filters, within), within.into());
}

#[test]
fn every_change_of_the_clocks_is_found() {
    for name in ["Europe/Berlin", "Africa/Casablanca", "America/Argentina/San_Luis", "Pacific/Apia"]
    {
        let zone = TimeZone::named(name).unwrap();
        let (from, to) = (year(1985), year(2110));
        let mut found = spans(&zone, from, to).unwrap().into_iter().peekable();
        let mut east = 0;
        for at in (from..to).step_by(1_800) {
            while let Some(span) = found.next_if(|span| span.start <= at) {
                east = span.east;
            }
            assert_eq!(east, i64::from(zone.offset_at(at)), "{name} at {at}");
        }
    }
}

fn number(part: &'static str) -> BoxedStrategy<i64> {
    match part {
        "year" | "isoyear" => (1900..2200i64).boxed(),
        "quarter" => (1..5i64).boxed(),
        "month" => (1..13i64).boxed(),
        "week" => (1..54i64).boxed(),
        "doy" => (1..367i64).boxed(),
        "day" => (1..32i64).boxed(),
        "minute" => (0..60i64).boxed(),
        "hour" => (0..24i64).boxed(),
        "century" => (19..23i64).boxed(),
        _ => (0..8i64).boxed(),
    }
}

fn leaf_sql(around: i64) -> impl Strategy<Value = String> {
    let parts = vec![
        "year", "isoyear", "quarter", "month", "week", "doy", "day", "dow", "isodow", "hour",
        "minute", "century",
    ];
    let part = select(parts).prop_flat_map(|part| {
        let numbers = (number(part), number(part), number(part));
        (Just(part), select(vec!["=", "<>", "<", "<=", ">", ">="]), numbers)
    });
    let day = move |days: i64| {
        let at = chrono::DateTime::from_timestamp(around + days * DAY_SECONDS, 0).unwrap();
        at.format("%Y-%m-%d").to_string()
    };
    let days = (0..400i64, 0..400i64);
    let units = select(vec!["minute", "hour", "day", "week", "month", "quarter", "year", "decade"]);
    prop_oneof![
        part.clone().prop_map(|(part, op, (a, ..))| format!("extract({part} from time) {op} {a}")),
        part.clone().prop_map(|(part, _, (a, b, _))| format!(
            "date_part('{part}', time) BETWEEN {a} AND {b}"
        )),
        part.clone().prop_map(|(part, _, (a, b, c))| format!(
            "extract({part} from time) IN ({a}, {b}, {c})"
        )),
        part.prop_map(|(part, _, (a, ..))| format!("extract({part} from time) % 3 = {}", a % 3)),
        (units, select(vec!["=", "<", ">="]), days.clone(), 0..24i64).prop_map(
            move |(unit, op, (a, _), hour)| {
                format!("date_trunc('{unit}', time) {op} '{} {hour:02}:00'", day(a))
            }
        ),
        (select(vec!["=", "<>", "<", ">="]), days.clone())
            .prop_map(move |(op, (a, _))| format!("time::date {op} DATE '{}'", day(a))),
        days.clone().prop_map(move |(a, b)| format!("time::date IN ('{}', '{}')", day(a), day(b))),
        days.clone().prop_map(move |(a, b)| format!(
            "time::date BETWEEN '{}' AND '{}'",
            day(a),
            day(a + b)
        )),
        days.prop_map(move |(a, _)| format!("time < '{} 12:34:56'", day(a))),
    ]
}

fn where_sql(around: i64) -> impl Strategy<Value = String> {
    leaf_sql(around).prop_recursive(2, 4, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} AND {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} OR {b})")),
            inner.prop_map(|a| format!("(NOT {a})")),
        ]
    })
}

/// A time zone, a granularity, the column's type, the start of the time looked at, a WHERE
/// clause, and ticks in it by their share of 1.
type Case = (&'static str, &'static str, ColumnType, i64, String, Vec<f64>);

fn case() -> impl Strategy<Value = Case> {
    let zones = select(vec![
        "UTC",
        "Europe/Berlin",
        "America/Sao_Paulo",
        "Asia/Kathmandu",
        "Australia/Lord_Howe",
        "Africa/Casablanca",
        "Pacific/Apia",
        "-03:30",
    ]);
    let types = select(vec![
        ColumnType::TimestampTz { precision: 9 },
        ColumnType::TimestampTz { precision: 6 },
        ColumnType::TimestampTz { precision: 0 },
        ColumnType::Timestamp { precision: 9 },
        ColumnType::Timestamp { precision: 3 },
    ]);
    let ticks = prop::collection::vec(0.0..1.0f64, 40);
    let start = (1900..2190i64, 0..365i64).prop_map(|(y, day)| year(y) + day * DAY_SECONDS);
    let start =
        prop_oneof![4 => start, 1 => Just(MILLENNIUM), 1 => Just(year(1970) - 40 * DAY_SECONDS)];
    (zones, select(vec!["1ns", "7ms", "1s", "10min"]), types, start, ticks).prop_flat_map(
        |(zone, granularity, time, start, ticks)| {
            (Just(zone), Just(granularity), Just(time), Just(start), where_sql(start), Just(ticks))
        },
    )
}

#[test]
fn ticks_are_in_the_ranges_for_which_the_predicate_is_true() {
    let mut runner = TestRunner::new(ProptestConfig { cases: 500, ..ProptestConfig::default() });
    let outcome = runner.run(&case(), |(zone, granularity, time, start, sql, shares)| {
        let fixture = Fixture::new(zone, granularity, time);
        let days = match sql.as_str() {
            sql if sql.contains("minute") => 8,
            sql if sql.contains("hour") => 500,
            _ => 4_000,
        };
        let within = fixture.ticks(start, start + days * DAY_SECONDS);
        let filters = fixture.filters(&sql);
        let ranges = fixture.narrow(&filters, within);
        #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "a share")]
        let tick = |share: &f64| {
            Tick(within.start.0 + ((within.end.0 - within.start.0) as f64 * share) as i64)
        };
        let mut ticks: Vec<Tick> = shares.iter().map(tick).collect();
        for range in ranges.as_slice().iter().take(300) {
            let edges = [range.start.0 - 1, range.start.0, range.end.0 - 1, range.end.0];
            ticks.extend(edges.map(Tick).into_iter().filter(|tick| within.contains(*tick)));
        }
        let truth = fixture.is_true(&filters, &ticks);
        for (tick, is_true) in ticks.into_iter().zip(truth) {
            let ns = fixture.definition.scale.time_ns_of(tick);
            prop_assert_eq!(
                ranges.contains(tick),
                is_true,
                "{:?} at {:?} ns: {:?}",
                sql,
                ns,
                filters
            );
        }
        Ok(())
    });
    outcome.unwrap();
}
