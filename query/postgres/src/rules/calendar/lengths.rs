//! Makes intervals compare by their length, with 30 days in a month and 24 hours in a day: `1 day`
//! equals `24:00:00`. DataFusion would compare months first, then days, then the time.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, IntervalMonthDayNanoArray,
        ListArray,
    },
    compute::{cast, kernels::zip::zip},
    datatypes::{
        DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
        Time64MicrosecondType, TimeUnit,
    },
};
use datafusion::{
    common::{
        DFSchema, DataFusionError, Result, ScalarValue, config::ConfigOptions,
        tree_node::Transformed,
    },
    logical_expr::{
        Between, BinaryExpr, Case, ColumnarValue, Expr, ExprSchemable, LogicalPlanBuilder,
        ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Subquery, Volatility, WindowFrame,
        WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
        expr::{InList, InSubquery},
        expr_rewriter::FunctionRewrite,
    },
};
use stratalog_functions::literal::compares;
use stratalog_model::Error;

use super::times::days_and_time;
use crate::{errors::to_datafusion, rules::aggregates::interval_aggregates};

const DAY_NS: i64 = 86_400_000_000_000;
const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const LENGTH: DataType = DataType::Decimal128(38, 0);

/// The function that computes the length of an interval in nanoseconds.
pub fn length() -> Arc<ScalarUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(IntervalLength { signature }))
}

/// Whether `expr` is an interval, or a difference of times.
pub fn is_interval(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Interval(_) | DataType::Duration(_)))
}

/// Whether the values of `expr` have a length: intervals, differences of times, or arrays of these.
pub fn has_length(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| is_measured(&data_type))
}

fn is_measured(data_type: &DataType) -> bool {
    match data_type {
        DataType::Interval(_) | DataType::Duration(_) => true,
        DataType::List(element) => is_measured(element.data_type()),
        _ => false,
    }
}

/// Replaces intervals by their lengths in expressions that compare intervals.
#[derive(Debug)]
pub struct IntervalComparisons {
    length: Arc<ScalarUDF>,
}

impl Default for IntervalComparisons {
    fn default() -> Self {
        Self { length: length() }
    }
}

impl IntervalComparisons {
    fn of(&self, expr: Expr) -> Expr {
        self.length.call(vec![expr])
    }

    fn of_boxed(&self, expr: &mut Box<Expr>) {
        let inner = std::mem::take(expr.as_mut());
        **expr = self.of(inner);
    }
}

impl FunctionRewrite for IntervalComparisons {
    fn name(&self) -> &str {
        "interval_comparisons"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let interval = |expr: &Expr| is_interval(expr, schema);
        let has_length = |expr: &Expr| has_length(expr, schema);
        let array = |expr: &Expr| has_length(expr) && !interval(expr);
        // Compared with an interval, a time of day counts as the interval since midnight.
        let measured = |exprs: &[&Expr]| {
            let time = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Time64(_)));
            let intervals = exprs.iter().any(|expr| interval(expr))
                && exprs.iter().all(|expr| interval(expr) || time(expr));
            intervals || exprs.iter().all(|expr| array(expr))
        };
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if compares(op) && measured(&[&left, &right]) =>
            {
                let (left, right) = (Box::new(self.of(*left)), Box::new(self.of(*right)));
                Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
            }
            Expr::Between(Between { mut expr, negated, mut low, mut high })
                if measured(&[&expr, &low, &high]) =>
            {
                for part in [&mut expr, &mut low, &mut high] {
                    self.of_boxed(part);
                }
                Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
            }
            Expr::InList(InList { mut expr, list, negated })
                if measured(&list.iter().chain([expr.as_ref()]).collect::<Vec<_>>()) =>
            {
                self.of_boxed(&mut expr);
                let list = list.into_iter().map(|item| self.of(item)).collect();
                Transformed::yes(Expr::InList(InList { expr, list, negated }))
            }
            Expr::InSubquery(mut membership) if has_length(&membership.expr) => {
                self.of_boxed(&mut membership.expr);
                membership.subquery = self.lengths_of(membership.subquery)?;
                Transformed::yes(Expr::InSubquery(InSubquery { ..membership }))
            }
            Expr::SetComparison(mut comparison) if has_length(&comparison.expr) => {
                self.of_boxed(&mut comparison.expr);
                comparison.subquery = self.lengths_of(comparison.subquery)?;
                Transformed::yes(Expr::SetComparison(comparison))
            }
            Expr::Case(Case { expr: Some(mut base), mut when_then_expr, else_expr })
                if has_length(&base) && when_then_expr.iter().all(|(when, _)| has_length(when)) =>
            {
                self.of_boxed(&mut base);
                for (when, _) in &mut when_then_expr {
                    self.of_boxed(when);
                }
                Transformed::yes(Expr::Case(Case { expr: Some(base), when_then_expr, else_expr }))
            }
            Expr::ScalarFunction(mut call)
                if matches!(call.name(), "greatest" | "least" | "nullif")
                    && call.args.iter().all(interval) =>
            {
                call.func = extreme(call.name());
                Transformed::yes(Expr::ScalarFunction(call))
            }
            Expr::ScalarFunction(mut call)
                if call.name().starts_with("array") && call.args.iter().any(array) =>
            {
                match call.name() {
                    "array_position" | "array_positions" | "array_has" | "array_has_all"
                    | "array_has_any" | "arraycontains" | "arrayoverlap" => {
                        for argument in call.args.iter_mut().filter(|argument| has_length(argument))
                        {
                            *argument = self.of(std::mem::take(argument));
                        }
                        Transformed::yes(Expr::ScalarFunction(call))
                    }
                    // Unsupported, because the result would contain lengths in place of intervals.
                    name if name.starts_with("array_remove")
                        || name.starts_with("array_replace")
                        || matches!(
                            name,
                            "array_distinct"
                                | "array_except"
                                | "array_intersect"
                                | "array_max"
                                | "array_min"
                                | "array_sort"
                                | "array_union"
                        ) =>
                    {
                        return Err(no_intervals(&format!("{name}() of")));
                    }
                    _ => Transformed::no(Expr::ScalarFunction(call)),
                }
            }
            Expr::ScalarFunction(call)
                if matches!(call.name(), "greatest" | "least" | "nullif")
                    && call.args.iter().any(array) =>
            {
                return Err(no_intervals(&format!("{}() of arrays of", call.name())));
            }
            Expr::AggregateFunction(mut call) => {
                if let Some(what) = unmeasured(
                    call.func.name(),
                    call.params.distinct,
                    call.params.args.iter().any(has_length),
                    call.params.args.iter().any(array),
                ) {
                    return Err(no_intervals(&what));
                }
                let mut changed = false;
                for order in &mut call.params.order_by {
                    if has_length(&order.expr) {
                        order.expr = self.of(std::mem::take(&mut order.expr));
                        changed = true;
                    }
                }
                if let [argument] = call.params.args.as_mut_slice()
                    && has_length(argument)
                {
                    if call.func.name() == "count" && call.params.distinct {
                        *argument = self.of(std::mem::take(argument));
                        changed = true;
                    } else if let Some(ours) = interval_aggregates::of(&call.func) {
                        call.func = ours;
                        changed = true;
                    }
                }
                match changed {
                    true => Transformed::yes(Expr::AggregateFunction(call)),
                    false => Transformed::no(Expr::AggregateFunction(call)),
                }
            }
            Expr::WindowFunction(mut call) => {
                if let Some(what) =
                    unmeasured(call.fun.name(), false, false, call.params.args.iter().any(array))
                {
                    return Err(no_intervals(&what));
                }
                let mut changed = false;
                let params = &mut call.params;
                if params.window_frame.units == WindowFrameUnits::Range
                    && params.order_by.first().is_some_and(|order| interval(&order.expr))
                {
                    let WindowFrame { start_bound, end_bound, .. } = &mut params.window_frame;
                    in_nanoseconds(start_bound)?;
                    in_nanoseconds(end_bound)?;
                }
                let orders = params.order_by.iter_mut().map(|order| &mut order.expr);
                for expr in orders.chain(&mut params.partition_by) {
                    if has_length(expr) {
                        *expr = self.of(std::mem::take(expr));
                        changed = true;
                    }
                }
                if let WindowFunctionDefinition::AggregateUDF(function) = &call.fun
                    && let [argument] = call.params.args.as_slice()
                    && interval(argument)
                    && let Some(ours) = interval_aggregates::of(function)
                {
                    call.fun = WindowFunctionDefinition::AggregateUDF(ours);
                    changed = true;
                }
                match changed {
                    true => Transformed::yes(Expr::WindowFunction(call)),
                    false => Transformed::no(Expr::WindowFunction(call)),
                }
            }
            other => Transformed::no(other),
        })
    }
}

impl IntervalComparisons {
    fn lengths_of(&self, subquery: Subquery) -> Result<Subquery> {
        let Some(column) = subquery.subquery.schema().columns().into_iter().next() else {
            return Ok(subquery);
        };
        let plan = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone())
            .project(vec![self.of(Expr::Column(column))])?
            .build()?;
        Ok(subquery.with_plan(Arc::new(plan)))
    }
}

/// The name of an unsupported aggregate over intervals, for the error message. Such an aggregate
/// would compare the fields of intervals, and not their lengths. `None` for other aggregates.
fn unmeasured(name: &str, distinct: bool, has_length: bool, array: bool) -> Option<String> {
    match name {
        "min" | "max" if array => Some(format!("{name}() of arrays of")),
        "array_agg" | "jsonb_agg" | "json_agg" | "string_agg" if distinct && has_length => {
            Some(format!("{name}(DISTINCT) of"))
        }
        _ => None,
    }
}

fn no_intervals(what: &str) -> DataFusionError {
    to_datafusion(Error::not_yet(format!("{what} intervals")))
}

/// Replaces the offset of a frame bound, an interval as text, by the length of the interval in
/// nanoseconds.
fn in_nanoseconds(bound: &mut WindowFrameBound) -> Result<()> {
    if let WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) = bound
        && let Some(text) = offset.try_as_str().flatten()
    {
        let interval = ScalarValue::from(text).cast_to(&INTERVAL)?;
        let length = lengths(&interval.to_array()?)?;
        *offset = ScalarValue::from(length.value(0).to_string());
    }
    Ok(())
}

/// Whether an expression is the length of an interval.
pub fn is_length(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_length(&alias.expr),
        Expr::Cast(cast) => is_length(&cast.expr),
        Expr::ScalarFunction(call) => call.func.inner().is::<IntervalLength>(),
        _ => false,
    }
}

/// A function that returns the length of an interval in nanoseconds. A month counts as 30 days.
#[derive(Debug, PartialEq, Eq, Hash)]
struct IntervalLength {
    signature: Signature,
}

impl ScalarUDFImpl for IntervalLength {
    fn name(&self) -> &str {
        "interval_length"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments.first().map_or(LENGTH, type_of_length))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match arguments.args.first() {
            Some(ColumnarValue::Array(array)) => Ok(ColumnarValue::Array(measured(array)?)),
            Some(ColumnarValue::Scalar(value)) => {
                let length = measured(&value.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&length, 0)?))
            }
            None => Err(to_datafusion(Error::internal("interval_length needs an argument"))),
        }
    }
}

/// Converts intervals and differences of times to intervals of months, days and nanoseconds.
///
/// # Errors
/// Fails if a difference of times has more days than an interval can hold.
pub fn as_intervals(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Duration(_) => days_and_time(array),
        DataType::Time64(TimeUnit::Microsecond) => {
            let times = array.as_primitive::<Time64MicrosecondType>();
            let since_midnight = |time: i64| IntervalMonthDayNano::new(0, 0, time * 1_000);
            let intervals: IntervalMonthDayNanoArray = times.unary(since_midnight);
            Ok(Arc::new(intervals))
        }
        _ => Ok(cast(array, &INTERVAL)?),
    }
}

/// The length of an interval in nanoseconds. A month counts as 30 days.
pub fn length_of(interval: IntervalMonthDayNano) -> i128 {
    let days = i128::from(interval.months) * 30 + i128::from(interval.days);
    days * i128::from(DAY_NS) + i128::from(interval.nanoseconds)
}

/// The type of the lengths of values: a number, or for arrays an array of numbers.
fn type_of_length(measured: &DataType) -> DataType {
    match measured {
        DataType::List(element) => {
            let length = type_of_length(element.data_type());
            DataType::List(Arc::new(element.as_ref().clone().with_data_type(length)))
        }
        _ => LENGTH,
    }
}

/// The lengths of intervals, or for arrays the lengths of their elements, in nanoseconds.
fn measured(array: &ArrayRef) -> Result<ArrayRef> {
    let DataType::List(_) = array.data_type() else { return Ok(Arc::new(lengths(array)?)) };
    let lists = array.as_list::<i32>();
    let DataType::List(element) = type_of_length(array.data_type()) else {
        return Err(to_datafusion(Error::internal("an array has an array of lengths")));
    };
    let elements = measured(lists.values())?;
    let lengths =
        ListArray::try_new(element, lists.offsets().clone(), elements, lists.nulls().cloned())?;
    Ok(Arc::new(lengths))
}

fn lengths(intervals: &ArrayRef) -> Result<Decimal128Array> {
    let intervals = as_intervals(intervals)?;
    let lengths: Decimal128Array =
        intervals.as_primitive::<IntervalMonthDayNanoType>().unary(length_of);
    Ok(lengths.with_precision_and_scale(38, 0)?)
}

/// The function `greatest`, `least` or `nullif` for intervals.
fn extreme(name: &str) -> Arc<ScalarUDF> {
    let choice = match name {
        "greatest" => IntervalChoice::Greatest,
        "least" => IntervalChoice::Least,
        _ => IntervalChoice::Unequal,
    };
    let signature = Signature::variadic_any(Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(ChosenInterval { choice, signature }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum IntervalChoice {
    Greatest,
    Least,
    /// `nullif`: the first value, or NULL if both values are equal.
    Unequal,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ChosenInterval {
    choice: IntervalChoice,
    signature: Signature,
}

impl ScalarUDFImpl for ChosenInterval {
    fn name(&self) -> &str {
        match self.choice {
            IntervalChoice::Greatest => "interval_greatest",
            IntervalChoice::Least => "interval_least",
            IntervalChoice::Unequal => "interval_nullif",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let mut arrays = arrays.iter();
        let Some(first) = arrays.next() else {
            return Err(to_datafusion(Error::internal("a choice needs an argument")));
        };
        let mut chosen = as_intervals(first)?;
        for other in arrays {
            let other = as_intervals(other)?;
            let (mine, theirs) = (lengths(&chosen)?, lengths(&other)?);
            let keeps: BooleanArray = (0..chosen.len())
                .map(|row| {
                    let mine = mine.is_valid(row).then(|| mine.value(row));
                    let theirs = theirs.is_valid(row).then(|| theirs.value(row));
                    Some(match (self.choice, mine, theirs) {
                        (IntervalChoice::Unequal, mine, theirs) => mine.is_none() || mine != theirs,
                        (_, None, _) => false,
                        (_, _, None) => true,
                        (IntervalChoice::Greatest, Some(mine), Some(theirs)) => mine >= theirs,
                        (IntervalChoice::Least, Some(mine), Some(theirs)) => mine <= theirs,
                    })
                })
                .collect();
            let other = match self.choice {
                IntervalChoice::Unequal => arrow::array::new_null_array(&INTERVAL, chosen.len()),
                _ => other,
            };
            chosen = zip(&keeps, &chosen, &other)?;
        }
        if arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_))) {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&chosen, 0)?));
        }
        Ok(ColumnarValue::Array(chosen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_count_thirty_days() {
        let of = |months, days, nanoseconds| {
            let array: ArrayRef =
                Arc::new(IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(
                    months,
                    days,
                    nanoseconds,
                )]));
            lengths(&array).unwrap().value(0)
        };
        assert_eq!(of(0, 1, 0), of(0, 0, DAY_NS));
        assert_eq!(of(1, 0, 0), of(0, 30, 0));
        assert!(of(i32::MAX, i32::MAX, i64::MAX) > 0 && of(i32::MIN, 0, i64::MIN) < 0);
    }
}
