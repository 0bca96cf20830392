//! `generate_series` by days or months from one `timestamptz` to another: the steps are those
//! of the session's calendar, whose days are not all equally long. The planner's are of UTC,
//! so the series is one of local times.

use arrow::{array::AsArray, datatypes::IntervalMonthDayNanoType};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Interval, SetExpr, Statement, TableFactor, Value,
    ValueWithSpan,
};
use stratalog_model::{ColumnType, Result};
use stratalog_text::{TextStyle, TimeZone, parse_value, write_value};

use super::time_of;
use crate::statement::{names::fold, parse};

/// Rewrites such a series in FROM.
///
/// # Errors
/// What is wrong with its times.
pub fn series(factor: &mut TableFactor, style: &TextStyle) -> Result<()> {
    let TableFactor::Table { name, alias, args: Some(arguments), .. } = factor else {
        return Ok(());
    };
    let named = name.0.last().and_then(|part| part.as_ident()).map(fold);
    if named.as_deref() != Some("generate_series") || style.time_zone == TimeZone::UTC {
        return Ok(());
    }
    super::like_the_first(&mut arguments.args);
    let [first, last, step] = arguments.args.as_slice() else { return Ok(()) };
    let (Some(first), Some(last), Some(step)) = (expr_of(first), expr_of(last), expr_of(step))
    else {
        return Ok(());
    };
    let Some((_, ColumnType::TimestampTz { .. })) = time_of(first) else { return Ok(()) };
    let (Some(first), Some(last)) = (local(first, style)?, local(last, style)?) else {
        return Ok(());
    };
    let Some(step) = civil_step(step, style)? else { return Ok(()) };
    let sql = format!(
        "SELECT \"$step\"::timestamptz AS \"$step\" FROM generate_series(\
         timestamp '{first}', timestamp '{last}', interval '{step}') AS \"$step\" (\"$step\")"
    );
    let Some(tree) = parse::statements(&sql, usize::MAX)?.pop() else { return Ok(()) };
    let Statement::Query(subquery) = tree.statement else { return Ok(()) };
    if matches!(subquery.body.as_ref(), SetExpr::Select(_)) {
        let alias = alias.take();
        *factor = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
    }
    Ok(())
}

fn expr_of(argument: &FunctionArg) -> Option<&Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

/// What the session's clock shows at a constant time.
fn local(time: &Expr, style: &TextStyle) -> Result<Option<String>> {
    let Some((text, _)) = time_of(time) else { return Ok(None) };
    let column_type = ColumnType::TimestampTz { precision: 6 };
    let array = parse_value(Some(&text), &column_type, style)?;
    let here = TextStyle { time_zone: style.time_zone, ..TextStyle::default() };
    let shown = write_value(&array, 0, &column_type.arrow_field("", true), &here)?;
    // Behind the time is the offset.
    Ok(shown.and_then(|shown| {
        let colon = shown.find(':')?;
        let offset = shown.rfind(['+', '-']).filter(|offset| *offset > colon)?;
        let behind = shown.get(offset..)?;
        (!behind.ends_with("BC")).then(|| shown.get(..offset).map(str::to_string))?
    }))
}

/// A step of days and months alone.
fn civil_step(step: &Expr, style: &TextStyle) -> Result<Option<String>> {
    let (value, unit) = match step {
        Expr::Interval(Interval { value, leading_field, last_field: None, .. }) => {
            (value.as_ref(), leading_field.as_ref())
        }
        Expr::Cast { expr, .. } => (expr.as_ref(), None),
        other => (other, None),
    };
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = value else {
        return Ok(None);
    };
    let text = unit.map_or_else(|| text.clone(), |unit| format!("{text} {unit}"));
    let Ok(array) = parse_value(Some(&text), &ColumnType::Interval, style) else { return Ok(None) };
    let intervals = array.as_primitive_opt::<IntervalMonthDayNanoType>();
    let step = intervals.and_then(|intervals| intervals.iter().next().flatten());
    Ok(step
        .filter(|step| step.nanoseconds == 0 && (step.months != 0 || step.days != 0))
        .map(|step| format!("{} months {} days", step.months, step.days)))
}
