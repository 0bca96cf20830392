//! `generate_series` in FROM with constant arguments. A series of integers returns integers
//! (DataFusion's series returns bigints), and a series of times follows the calendar of the
//! session's time zone.

use std::{any::Any, fmt, sync::Arc};

use arrow::{
    array::{Int64Array, RecordBatch},
    compute::cast as cast_array,
    datatypes::{DataType, Field, IntervalMonthDayNano, Schema, SchemaRef, TimeUnit},
};
use async_trait::async_trait;
use datafusion::{
    catalog::{Session, TableFunction, TableFunctionArgs, TableFunctionImpl, TableProvider},
    common::Result,
    datasource::{TableType, ViewTable, provider_as_source},
    logical_expr::{Expr, LogicalPlanBuilder, cast, col},
    physical_plan::{
        ExecutionPlan,
        memory::{LazyBatchGenerator, LazyMemoryExec},
    },
    scalar::ScalarValue,
};
use parking_lot::RwLock;
use stratalog_functions::TimeSeries;
use stratalog_model::{Error, ErrorKind};
use stratalog_text::TimeZone;

use crate::errors::to_datafusion;

/// The name of the function for a series between constant bigints.
pub const OF_BIGINTS: &str = "generate_series_of_bigints";

/// The name of the function for a series between constant times. Its arguments are strings: the
/// bounds in units since 1970; the months, days and nanoseconds of the step; the length of a unit
/// in nanoseconds; and the time zone, empty for `timestamp`.
pub const OF_TIMES: &str = "generate_series_of_times";

/// The functions that replace DataFusion's `generate_series`. Other functions stay unchanged.
pub fn of_each_type(function: Arc<TableFunction>) -> Vec<Arc<TableFunction>> {
    let named = |name: &str, function: Arc<dyn TableFunctionImpl>| {
        Arc::new(TableFunction::new(name.to_string(), function))
    };
    match function.name() {
        "generate_series" => vec![
            named(OF_BIGINTS, Arc::new(Series { function: Arc::clone(&function), narrows: false })),
            named(OF_TIMES, Arc::new(TimeSeriesFunction)),
            named("generate_series", Arc::new(Series { function, narrows: true })),
        ],
        _ => vec![function],
    }
}

#[derive(Debug)]
struct Series {
    /// DataFusion's function `generate_series`.
    function: Arc<TableFunction>,
    /// Whether a series of integers returns integers, and not bigints.
    narrows: bool,
}

impl TableFunctionImpl for Series {
    fn call_with_args(
        &self,
        arguments: TableFunctionArgs<'_, '_>,
    ) -> Result<Arc<dyn TableProvider>> {
        let given = arguments.exprs();
        let integers = self.narrows && given.iter().all(is_integer);
        let given: Vec<Expr> = given.iter().cloned().map(wide).collect();
        let given = TableFunctionArgs::new(&given, arguments.session());
        let wide = self.function.function().call_with_args(given)?;
        if !integers {
            return Ok(wide);
        }
        let plan = LogicalPlanBuilder::scan("series", provider_as_source(wide), None)?
            .project(vec![cast(col("value"), DataType::Int32).alias("value")])?
            .build()?;
        Ok(Arc::new(ViewTable::new(plan, None)))
    }
}

/// Whether `expr` is a constant of PostgreSQL's type integer.
fn is_integer(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(value)), _) => i32::try_from(*value).is_ok(),
        Expr::Literal(ScalarValue::Int32(Some(_)), _) => true,
        _ => false,
    }
}

/// An integer constant as a bigint, the type that DataFusion's function accepts.
fn wide(expr: Expr) -> Expr {
    match expr {
        Expr::Literal(ScalarValue::Int32(value), metadata) => {
            Expr::Literal(ScalarValue::Int64(value.map(i64::from)), metadata)
        }
        other => other,
    }
}

#[derive(Debug)]
struct TimeSeriesFunction;

impl TableFunctionImpl for TimeSeriesFunction {
    fn call_with_args(
        &self,
        arguments: TableFunctionArgs<'_, '_>,
    ) -> Result<Arc<dyn TableProvider>> {
        TimeSeriesTable::of(arguments.exprs())?.map(|times| Arc::new(times) as _).ok_or_else(|| {
            let message = format!("{OF_TIMES}() cannot be called");
            to_datafusion(
                Error::new(ErrorKind::UndefinedFunction, message)
                    .with_hint("call generate_series(timestamptz, timestamptz, interval)"),
            )
        })
    }
}

/// The table that a series of times returns.
#[derive(Debug, Clone)]
struct TimeSeriesTable {
    series: TimeSeries,
    unit_ns: i128,
    schema: SchemaRef,
}

impl TimeSeriesTable {
    /// Parses the arguments of [`OF_TIMES`]; `None` if they do not have the form that the rewrite
    /// gives them.
    fn of(arguments: &[Expr]) -> Result<Option<Self>> {
        let texts: Option<Vec<&str>> = arguments
            .iter()
            .map(|argument| match argument {
                Expr::Literal(value, _) => value.try_as_str().flatten(),
                _ => None,
            })
            .collect();
        let Some([first, last, months, days, nanoseconds, unit_ns, zone]) = texts.as_deref() else {
            return Ok(None);
        };
        let unit = match *unit_ns {
            "1" => TimeUnit::Nanosecond,
            "1000" => TimeUnit::Microsecond,
            _ => return Ok(None),
        };
        let (clock, marked) = match *zone {
            "" => (TimeZone::UTC, None),
            zone => match TimeZone::parse_setting(zone) {
                Ok(zone) => (zone, Some(Arc::from("UTC"))),
                Err(_) => return Ok(None),
            },
        };
        let (Ok(first), Ok(last), Ok(months), Ok(days), Ok(nanoseconds), Ok(unit_ns)) = (
            first.parse::<i64>(),
            last.parse::<i64>(),
            months.parse(),
            days.parse(),
            nanoseconds.parse(),
            unit_ns.parse::<i128>(),
        ) else {
            return Ok(None);
        };
        let series = TimeSeries::new(
            i128::from(first) * unit_ns,
            i128::from(last) * unit_ns,
            IntervalMonthDayNano::new(months, days, nanoseconds),
            clock,
        )?;
        let field = Field::new("value", DataType::Timestamp(unit, marked), false);
        Ok(Some(Self { series, unit_ns, schema: Arc::new(Schema::new(vec![field])) }))
    }
}

#[async_trait]
impl TableProvider for TimeSeriesTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let batch_rows = session.config_options().execution.batch_size.get();
        let batches =
            TimeSeriesBatches { rest: self.series.clone(), times: self.clone(), batch_rows };
        let batches: Arc<RwLock<dyn LazyBatchGenerator>> = Arc::new(RwLock::new(batches));
        let plan = LazyMemoryExec::try_new(Arc::clone(&self.schema), vec![batches])?;
        Ok(Arc::new(plan.with_projection(projection.cloned())))
    }
}

/// Produces the remaining times of a series, batch by batch.
#[derive(Debug)]
struct TimeSeriesBatches {
    rest: TimeSeries,
    times: TimeSeriesTable,
    batch_rows: usize,
}

impl fmt::Display for TimeSeriesBatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("generate_series")
    }
}

impl LazyBatchGenerator for TimeSeriesBatches {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn generate_next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let unit_ns = self.times.unit_ns;
        let counts: Int64Array = self
            .rest
            .by_ref()
            .take(self.batch_rows)
            .map(|time_ns| i64::try_from(time_ns.div_euclid(unit_ns)).map(Some))
            .collect::<std::result::Result<_, _>>()
            .map_err(|_| {
                let message = "timestamp out of range";
                to_datafusion(Error::new(ErrorKind::DatetimeOverflow, message))
            })?;
        if counts.is_empty() {
            return Ok(None);
        }
        let schema = Arc::clone(&self.times.schema);
        let times = cast_array(&counts, schema.field(0).data_type())?;
        Ok(Some(RecordBatch::try_new(schema, vec![times])?))
    }

    fn reset_state(&self) -> Arc<RwLock<dyn LazyBatchGenerator>> {
        let rest = self.times.series.clone();
        let (times, batch_rows) = (self.times.clone(), self.batch_rows);
        Arc::new(RwLock::new(Self { rest, times, batch_rows }))
    }
}
