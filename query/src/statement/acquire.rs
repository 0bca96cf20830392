//! ACQUIRE and RELEASE of chronicles (F8–F11).
//!
//! ```text
//!   RANGE FROM e TO e ─► planned as SELECT e, e ─► compared like the tick column ─► range of ticks
//!   FOR interval ────────────────────────────────► nanoseconds of the lease              │
//!                          Acquisitions::ask ─► wait in the queue ─► acquired ◄──────────┘
//! ```

use std::{sync::Arc, time::Duration};

use arrow::datatypes::{DataType, IntervalUnit};
use datafusion::{
    logical_expr::{Expr as Planned, Operator},
    scalar::ScalarValue,
    sql::sqlparser::ast::{
        CastKind, DataType as Written, Expr, ObjectName, Query as Tree, SelectItem, SetExpr,
        Statement, TimezoneInfo, Value, ValueWithSpan,
    },
};
use stratalog_model::{ChronicleDefinition, ColumnType, Error, ErrorKind, Result, Tick, TickRange};
use stratalog_pg_catalog::table_of_regclass;
use stratalog_postgres::{errors::from_datafusion, parse::AcquireSyntax};
use stratalog_visor_core::{
    access::Privilege,
    acquisition::{Claim, Mode, QueuePlace},
};
use tokio::time::{Instant, sleep_until};

use super::{
    insert::compute::{ComputeContext, ComputedValues},
    query,
};
use crate::{
    Outcome, Parsed, Session,
    session::{
        acquisitions::{Wait, wait_out},
        work::Work,
    },
    table::pushdown::time::axis_of_tick,
};

/// Nanoseconds of a day, and of a month of 30 days, to convert an interval to a duration.
const DAY_NS: i128 = 86_400_000_000_000;
const MONTH_NS: i128 = 30 * DAY_NS;

/// A planned ACQUIRE.
#[derive(Debug)]
pub struct Acquire {
    chronicle: Arc<ChronicleDefinition>,
    syntax: AcquireSyntax,
    /// A query with one column for each expression of the statement; `None` without expressions.
    expressions: Option<query::Query>,
}

/// Plans an ACQUIRE.
///
/// # Errors
/// `UndefinedTable`; `WrongObjectType` for a system table; an error in an expression.
pub async fn plan(
    session: &Session,
    parsed: &Arc<Parsed>,
    syntax: &AcquireSyntax,
    declared_types: &[Option<ColumnType>],
) -> Result<(Acquire, Vec<Option<ColumnType>>)> {
    let chronicle = chronicle(session, &syntax.name)?;
    let planned = |expressions| Acquire {
        chronicle: Arc::clone(&chronicle),
        syntax: syntax.clone(),
        expressions,
    };
    let wanted = operand_types(&chronicle, syntax)?;
    if wanted.is_empty() {
        return Ok((planned(None), Vec::new()));
    }
    let Statement::Query(tree) = parsed.statement() else {
        return Err(Error::internal("the expressions of an ACQUIRE are no query"));
    };
    let mut tree = tree.as_ref().clone();
    let untyped = |expr: &Expr, _: usize| is_untyped(expr, declared_types);
    cast(&mut tree, &wanted, untyped);
    let planner = session.enter_planner(parsed.system_columns()).await?;
    let mut known = query::plan(&planner, &tree, declared_types, parsed.system_columns()).await?;
    let fields = Arc::clone(&known.0.schema);
    let is_other = |at: usize| {
        fields.fields().get(at).zip(wanted.get(at)).is_some_and(|(field, wanted)| {
            !(wanted.takes_ticks && field.data_type().is_integer()
                || is_like(field.data_type(), &wanted.data_type))
        })
    };
    if (0..wanted.len()).any(is_other) {
        cast(&mut tree, &wanted, |_, at| is_other(at));
        known = query::plan(&planner, &tree, declared_types, parsed.system_columns()).await?;
    }
    let (query, types) = known;
    if !query.reads.chronicles().is_empty() {
        return Err(Error::new(
            ErrorKind::FeatureNotSupported,
            "cannot use a query of a table in ACQUIRE",
        )
        .with_hint("SELECT the time first, and send the time as a parameter"));
    }
    Ok((planned(Some(query)), types))
}

/// The chronicle with a name; an error for a system table.
fn chronicle(session: &Session, name: &ObjectName) -> Result<Arc<ChronicleDefinition>> {
    session.chronicle(name).map_err(|missing| {
        let state = session.catalog();
        let path = session.variables().parsed().search_path;
        match table_of_regclass(&state, session.database(), &path, &name.to_string()) {
            Err(other) if other.kind() == ErrorKind::WrongObjectType => other,
            _ => missing,
        }
    })
}

/// The required type of an expression in ACQUIRE.
#[derive(Debug)]
struct OperandType {
    written: Written,
    data_type: DataType,
    takes_ticks: bool,
}

/// The required types of the statement's expressions, in order: bounds of the range, and the lease.
fn operand_types(
    chronicle: &ChronicleDefinition,
    syntax: &AcquireSyntax,
) -> Result<Vec<OperandType>> {
    let tick = chronicle.tick().ok_or_else(|| Error::internal("a table without a tick column"))?;
    let zone = match tick.column_type {
        ColumnType::TimestampTz { .. } => TimezoneInfo::Tz,
        ColumnType::Timestamp { .. } => TimezoneInfo::None,
        ref other => return Err(Error::internal(format!("{other} is no type of a tick column"))),
    };
    // Keep all digits, as in WHERE: a bound rounded to the digits of the column is a different
    // time.
    let time = || OperandType {
        written: Written::Timestamp(None, zone),
        data_type: tick.column_type.arrow_field("time", false).data_type().clone(),
        takes_ticks: true,
    };
    let lease = || OperandType {
        written: Written::Interval { fields: None, precision: None },
        data_type: DataType::Interval(IntervalUnit::MonthDayNano),
        takes_ticks: false,
    };
    let mut wanted = Vec::new();
    wanted.extend(syntax.begins.then(time));
    wanted.extend(syntax.ends.then(time));
    wanted.extend(syntax.expires.then(lease));
    Ok(wanted)
}

/// True if values of the two types can be compared.
fn is_like(found: &DataType, wanted: &DataType) -> bool {
    match (found, wanted) {
        (DataType::Timestamp(_, found), DataType::Timestamp(_, wanted)) => {
            found.is_some() == wanted.is_some()
        }
        _ => found == wanted,
    }
}

/// True for a text constant, NULL, or a parameter without a declared type: the context determines
/// the type.
pub(super) fn is_untyped(expr: &Expr, declared_types: &[Option<ColumnType>]) -> bool {
    match expr {
        Expr::Value(ValueWithSpan { value, .. }) => match value {
            Value::SingleQuotedString(_) | Value::Null => true,
            Value::Placeholder(name) => {
                let number = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
                let declared_type =
                    number.and_then(|number| declared_types.get(number.checked_sub(1)?)?.as_ref());
                declared_type.is_none()
            }
            _ => false,
        },
        Expr::Nested(inner) => is_untyped(inner, declared_types),
        _ => false,
    }
}

/// Adds casts to the `wanted` types to the expressions for which `applies` is true.
fn cast(tree: &mut Tree, wanted: &[OperandType], applies: impl Fn(&Expr, usize) -> bool) {
    let SetExpr::Select(select) = tree.body.as_mut() else { return };
    for (at, (item, wanted)) in select.projection.iter_mut().zip(wanted).enumerate() {
        if let SelectItem::UnnamedExpr(expr) = item
            && applies(expr, at)
        {
            *expr = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(expr.clone()),
                data_type: wanted.written.clone(),
                array: false,
                format: None,
            };
        }
    }
}

/// Runs an ACQUIRE.
///
/// # Errors
/// `LockNotAvailable` with NOWAIT, or after `lock_timeout`; `DeadlockDetected`; `Shutdown`;
/// `ObjectNotInPrerequisiteState` while a DROP of the chronicle is running; `InvalidParameterValue`
/// for an empty range, or for a lease of at most 0 ns or at least 584 years.
pub async fn run(
    session: &Session,
    acquire: &Acquire,
    types: &[ColumnType],
    values: &[ScalarValue],
    work: &Arc<Work>,
) -> Result<Outcome> {
    let Acquire { chronicle, syntax, expressions } = acquire;
    session.authorize_on(Privilege::Acquire, chronicle.id)?;
    session.refuse_under_policies(chronicle, "ACQUIRE")?;
    if session.missing_error(chronicle).is_some() {
        return Err(Error::not_yet("ACQUIRE of a table created in the open block")
            .with_hint("COMMIT first"));
    }
    let mut found = match expressions {
        Some(query) => operand_values(session, query, types, values, work).await?,
        None => Vec::new(),
    }
    .into_iter();
    let mut next = |is_there: bool| if is_there { found.next() } else { None };
    let (begin, end, lease) = (next(syntax.begins), next(syntax.ends), next(syntax.expires));
    let begin = begin.map(|begin| bound(chronicle, &begin)).transpose()?;
    let end = end.map(|end| bound(chronicle, &end)).transpose()?;
    let ticks = TickRange::new(begin.unwrap_or(Tick::MIN), end.unwrap_or(Tick::END));
    if ticks.is_empty() {
        return Err(Error::new(ErrorKind::InvalidParameterValue, "the range has no event")
            .with_detail("The end of the range must be after the begin. The range contains the begin, not the end."));
    }
    let mode = if syntax.exclusive { Mode::Exclusive } else { Mode::Shared };
    let lease_ns = lease.as_ref().map(lease_ns).transpose()?;
    let claim = Claim { mode, ticks, lease_ns };
    let wait = if syntax.nowait { Wait::Not } else { Wait::InTurn };
    if let Some(waiting) = session.acquire(chronicle, claim, wait)? {
        session.waits().wait(wait_for(session, chronicle, waiting)).await?;
    }
    session.keep_acquired(chronicle)?;
    Ok(Outcome::Done("ACQUIRE CHRONICLE".to_string()))
}

/// Evaluates the expressions of the statement.
async fn operand_values(
    session: &Session,
    query: &query::Query,
    types: &[ColumnType],
    values: &[ScalarValue],
    work: &Arc<Work>,
) -> Result<Vec<ScalarValue>> {
    // Do not use the snapshot of a block: reads after the wait must see new data.
    let columns = ComputeContext::new(session, work, types, values).run(&query.plan).await?;
    let value = |column: &ComputedValues| match column.array.len() {
        1 => ScalarValue::try_from_array(&column.array, 0).map_err(from_datafusion),
        _ => Err(Error::new(
            ErrorKind::FeatureNotSupported,
            "set-returning functions are not allowed in ACQUIRE",
        )),
    };
    columns.iter().map(value).collect()
}

/// The first tick at or after `value`. The value is a tick, or a time that is compared like the
/// tick column.
fn bound(chronicle: &ChronicleDefinition, value: &ScalarValue) -> Result<Tick> {
    if value.is_null() {
        return Err(no_null("a bound of the range"));
    }
    if value.data_type().is_integer() {
        return match value.cast_to(&DataType::Int64).map_err(from_datafusion)? {
            ScalarValue::Int64(Some(tick)) => Ok(Tick(tick)),
            _ => Err(Error::internal("a tick is not a number")),
        };
    }
    let axis = axis_of_tick(chronicle).ok_or_else(|| Error::internal("no tick column"))?;
    let from = axis.compare(Operator::GtEq, &Planned::Literal(value.clone(), None));
    let from = from.ok_or_else(|| Error::internal(format!("{value} is not a time")))?;
    // A time after all ticks: the end of the range of ticks.
    Ok(if from.is_empty() { Tick::END } else { from.hull().start })
}

/// Converts the interval of a lease to nanoseconds.
fn lease_ns(value: &ScalarValue) -> Result<u64> {
    let ScalarValue::IntervalMonthDayNano(Some(lease)) = value else {
        return Err(no_null("the duration of an acquisition"));
    };
    let whole = i128::from(lease.months) * MONTH_NS + i128::from(lease.days) * DAY_NS;
    match u64::try_from(whole + i128::from(lease.nanoseconds)) {
        Ok(lease_ns) if lease_ns > 0 => Ok(lease_ns),
        _ => Err(Error::new(
            ErrorKind::InvalidParameterValue,
            "the duration of an acquisition must be above 0 and below 584 years",
        )
        .with_hint("write FOR INTERVAL '30 s', or omit FOR to acquire until RELEASE")),
    }
}

fn no_null(what: &str) -> Error {
    Error::new(ErrorKind::NullNotAllowed, format!("{what} must not be NULL"))
}

/// Waits for the acquisition of the chronicle, for at most `lock_timeout`.
///
/// # Errors
/// `LockNotAvailable` after `lock_timeout`; `DeadlockDetected`; `ObjectNotInPrerequisiteState`
/// while a DROP of the chronicle is running; `UndefinedTable` after the DROP.
pub async fn wait_for(
    session: &Session,
    chronicle: &ChronicleDefinition,
    mut waiting: QueuePlace,
) -> Result<()> {
    let limit_ms = session.variables().parsed().lock_timeout_ms;
    let deadline = (limit_ms > 0).then(|| Instant::now() + Duration::from_millis(limit_ms));
    let timed_out = async {
        match deadline {
            Some(deadline) => sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(timed_out);
    loop {
        let look =
            waiting.check_request().map_err(|refusal| match session.missing_error(chronicle) {
                Some(gone) => gone,
                None => session.refusal_error(chronicle.id, refusal),
            });
        let Some(pause) = look? else { return Ok(()) };
        tokio::select! {
            () = wait_out(pause) => {}
            () = &mut timed_out => {
                return Err(session.timed_out(chronicle, &waiting.blockers()));
            }
        }
    }
}

/// Runs RELEASE of a chronicle.
///
/// # Errors
/// `UndefinedTable`; `WrongObjectType` for a system table; `ObjectNotInPrerequisiteState` if the
/// session has not acquired the chronicle.
pub fn release(session: &Session, name: &ObjectName) -> Result<Outcome> {
    let chronicle = chronicle(session, name)?;
    session.release(&chronicle)?;
    Ok(Outcome::Done("RELEASE CHRONICLE".to_string()))
}
