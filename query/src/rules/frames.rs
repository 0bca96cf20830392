//! Frames of windows with the bounds that PostgreSQL takes: a negative offset is an error
//! (22013), and a frame that ends before it begins has no rows. DataFusion counts with the
//! former, and refuses the latter.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::{
    common::{
        Column, DFSchema, Result, ScalarValue,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode},
    },
    logical_expr::{
        Expr, ExprSchemable, LogicalPlan, Projection, Window, WindowFrame, WindowFrameBound,
        WindowFrameUnits, WindowFunctionDefinition, expr::WindowFunction,
        expr_rewriter::NamePreserver, lit, utils::merge_schema,
    },
    optimizer::AnalyzerRule,
};
use stratalog_model::{Error, ErrorKind};

use super::{lengths::length_of, unnested::any_expression};
use crate::errors::to_datafusion;

/// Checks offsets, and gives functions over frames without rows no rows. Runs after type
/// coercion, when offsets have the type of what they are compared with.
#[derive(Debug)]
pub struct Frames;

impl AnalyzerRule for Frames {
    fn name(&self) -> &str {
        "frames"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| {
            if !matches!(node, LogicalPlan::Window(_)) {
                return Ok(Transformed::no(node));
            }
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            // The calls of a node share their sort keys, so all of them get the wide key.
            let widens = any_expression(&node, |expr| {
                expr.exists(|part| Ok(matches!(part, Expr::WindowFunction(call) if adds(call))))
            })?;
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let checked = expr.transform_up(|expr| match expr {
                    Expr::WindowFunction(call) => of_call(*call, &schema, widens),
                    other => Ok(Transformed::no(other)),
                })?;
                Ok(checked.update_data(|expr| name.restore(expr)))
            })?
            .transform_data(each_once)
        })
        .map(|plan| plan.data)
    }
}

/// Calls over different frames without rows are one call, which the node computes once: the
/// elimination of common subexpressions would take a repeated call out of the node.
fn each_once(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Window(window) = node else { return Ok(Transformed::no(node)) };
    let mut seen: Vec<(Expr, Expr)> = Vec::new();
    let mut columns: Vec<Expr> =
        window.input.schema().columns().into_iter().map(Expr::Column).collect();
    let mut computed = Vec::new();
    for expr in &window.window_expr {
        let column = Expr::Column(Column::from_name(expr.schema_name().to_string()));
        let call = expr.clone().unalias();
        if let Some((_, same)) = seen.iter().find(|(other, _)| *other == call) {
            columns.push(same.clone().alias(expr.schema_name().to_string()));
        } else {
            seen.push((call, column.clone()));
            columns.push(column);
            computed.push(expr.clone());
        }
    }
    if computed.len() == window.window_expr.len() {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let calls = Window::try_new(computed, window.input)?;
    let all = Projection::try_new(columns, Arc::new(LogicalPlan::Window(calls)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(all)))
}

fn of_call(mut call: WindowFunction, schema: &DFSchema, widens: bool) -> Result<Transformed<Expr>> {
    let frame = &call.params.window_frame;
    for bound in [&frame.start_bound, &frame.end_bound] {
        if let WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) = bound
            && is_negative(offset)?
        {
            return Err(negative_offset());
        }
    }
    let is_empty = is_empty(frame);
    let widened = widens && widen(&mut call, schema)?;
    if !is_empty {
        let call = Expr::WindowFunction(Box::new(call));
        return Ok(Transformed::new_transformed(call, widened));
    }
    match &call.fun {
        WindowFunctionDefinition::AggregateUDF(_) => {
            call.params.filter = Some(Box::new(lit(false)));
        }
        WindowFunctionDefinition::WindowUDF(function) => {
            if matches!(function.name(), "first_value" | "last_value" | "nth_value")
                && let Some(value) = call.params.args.first_mut()
            {
                *value = Expr::Literal(ScalarValue::try_new_null(&value.get_type(schema)?)?, None);
            }
        }
    }
    // A frame of rows that the filter leaves out, or whose value is NULL. It only grows: not every
    // aggregate can take rows out again.
    call.params.window_frame = WindowFrame::new_bounds(
        WindowFrameUnits::Rows,
        WindowFrameBound::Preceding(ScalarValue::UInt64(None)),
        WindowFrameBound::CurrentRow,
    );
    Ok(Transformed::yes(Expr::WindowFunction(Box::new(call))))
}

/// Whether the frame of a call adds an offset to its key.
fn adds(call: &WindowFunction) -> bool {
    let frame = &call.params.window_frame;
    let is_offset = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => false,
        WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) => {
            !offset.is_null()
        }
    };
    frame.units == WindowFrameUnits::Range
        && (is_offset(&frame.start_bound) || is_offset(&frame.end_bound))
}

/// Gives the key of a RANGE frame over whole numbers a type whose sums with an offset do not overflow:
/// DataFusion's sums wrap, so the frame of the largest number would begin with the smallest. Returns
/// whether the call changed.
fn widen(call: &mut WindowFunction, schema: &DFSchema) -> Result<bool> {
    let params = &mut call.params;
    let frame = &params.window_frame;
    let [key] = params.order_by.as_mut_slice() else { return Ok(false) };
    let wide = match key.expr.get_type(schema)? {
        DataType::Int8 | DataType::Int16 | DataType::Int32 => DataType::Int64,
        // A sum of two has 20 digits.
        DataType::Int64 => DataType::Decimal128(20, 0),
        _ => return Ok(false),
    };
    let bound = |bound: &WindowFrameBound| {
        Ok(match bound {
            WindowFrameBound::CurrentRow => WindowFrameBound::CurrentRow,
            WindowFrameBound::Preceding(offset) => {
                WindowFrameBound::Preceding(offset.cast_to(&wide)?)
            }
            WindowFrameBound::Following(offset) => {
                WindowFrameBound::Following(offset.cast_to(&wide)?)
            }
        })
    };
    if frame.units == WindowFrameUnits::Range {
        let bounds: Result<(WindowFrameBound, WindowFrameBound)> =
            bound(&frame.start_bound).and_then(|start| Ok((start, bound(&frame.end_bound)?)));
        let (start, end) = bounds?;
        params.window_frame = WindowFrame::new_bounds(WindowFrameUnits::Range, start, end);
    }
    key.expr = datafusion::logical_expr::cast(std::mem::take(&mut key.expr), wide);
    Ok(true)
}

/// The error of a negative offset.
pub fn negative_offset() -> datafusion::error::DataFusionError {
    to_datafusion(Error::new(
        ErrorKind::InvalidFrameOffset,
        "invalid preceding or following size in window function",
    ))
}

fn is_negative(offset: &ScalarValue) -> Result<bool> {
    Ok(match offset {
        offset if offset.is_null() => false,
        ScalarValue::Float64(Some(offset)) => offset.is_nan() || *offset < 0.0,
        ScalarValue::IntervalMonthDayNano(Some(interval)) => length_of(*interval) < 0,
        offset if offset.data_type().is_numeric() => {
            *offset < ScalarValue::new_zero(&offset.data_type())?
        }
        _ => false,
    })
}

/// Whether a frame ends before it begins, whatever the row.
fn is_empty(frame: &WindowFrame) -> bool {
    match (&frame.start_bound, &frame.end_bound) {
        (WindowFrameBound::Preceding(start), WindowFrameBound::Preceding(end)) => {
            !start.is_null() && is_less(start, end)
        }
        (WindowFrameBound::Following(start), WindowFrameBound::Following(end)) => {
            !end.is_null() && is_less(end, start)
        }
        _ => false,
    }
}

fn is_less(left: &ScalarValue, right: &ScalarValue) -> bool {
    match (left, right) {
        (
            ScalarValue::IntervalMonthDayNano(Some(left)),
            ScalarValue::IntervalMonthDayNano(Some(right)),
        ) => length_of(*left) < length_of(*right),
        (left, right) => left < right,
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::IntervalMonthDayNano;

    use super::*;

    fn frame(start: WindowFrameBound, end: WindowFrameBound) -> WindowFrame {
        WindowFrame::new_bounds(WindowFrameUnits::Rows, start, end)
    }

    #[test]
    fn frames_that_end_before_they_begin_are_empty() {
        use WindowFrameBound::{CurrentRow, Following, Preceding};
        let rows = |rows: u64| ScalarValue::UInt64(Some(rows));
        let unbounded = ScalarValue::UInt64(None);
        for (start, end, empty) in [
            (Preceding(rows(1)), Preceding(rows(3)), true),
            (Preceding(rows(3)), Preceding(rows(1)), false),
            (Preceding(unbounded.clone()), Preceding(rows(3)), false),
            (Following(rows(3)), Following(rows(1)), true),
            (Following(rows(3)), Following(unbounded), false),
            (Preceding(rows(0)), CurrentRow, false),
        ] {
            assert_eq!(is_empty(&frame(start.clone(), end.clone())), empty, "{start} {end}");
        }
    }

    #[test]
    fn intervals_are_negative_by_their_length() {
        let interval = |months, days| {
            ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(months, days, 0)))
        };
        assert!(is_negative(&interval(-1, 29)).unwrap());
        assert!(!is_negative(&interval(1, -30)).unwrap());
        assert!(is_negative(&ScalarValue::Float64(Some(-0.5))).unwrap());
        assert!(!is_negative(&ScalarValue::UInt64(Some(7))).unwrap());
    }
}
