//! Types for comparisons of one value with several values: BETWEEN, IN, ANY, `CASE v WHEN …`.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::{
    common::{
        DFSchema, Result, ScalarValue,
        tree_node::{Transformed, TreeNode},
    },
    logical_expr::{
        Between, Case, Expr, ExprSchemable, LogicalPlanBuilder, Subquery, cast, expr::InList,
    },
};

use super::{comparison_in_doubles, in_double, in_doubles, in_real, is_exact, is_float};

fn type_of(expr: &Expr, schema: &DFSchema) -> DataType {
    expr.get_type(schema).unwrap_or(DataType::Null)
}

/// Casts a float and the values that it is compared with to real if real holds all values,
/// otherwise to double precision. Two reals compare the same in both types.
fn beside_float(value: &mut Expr, others: &mut [&mut Expr], schema: &DFSchema) {
    let given = type_of(value, schema);
    let kept = |other: &Expr| match type_of(other, schema) {
        DataType::Float32 | DataType::Null => Some(other.clone()),
        _ => in_real(other),
    };
    if given == DataType::Float32
        && let Some(reals) = others.iter().map(|other| kept(other)).collect::<Option<Vec<_>>>()
    {
        for (other, real) in others.iter_mut().zip(reals) {
            **other = real;
        }
        return;
    }
    *value = in_double(std::mem::take(value), &given);
    for other in others {
        let given = type_of(other, schema);
        **other = in_double(std::mem::take(*other), &given);
    }
}

/// Casts the operands of BETWEEN, which is two comparisons.
pub(super) fn of_between(mut between: Between, schema: &DFSchema) -> Transformed<Expr> {
    let value = type_of(&between.expr, schema);
    let (low, high) = (type_of(&between.low, schema), type_of(&between.high, schema));
    if !in_doubles(&value, &low) && !in_doubles(&value, &high) {
        return Transformed::no(Expr::Between(between));
    }
    if is_float(&value) {
        let Between { expr, low, high, .. } = &mut between;
        beside_float(expr, &mut [low, high], schema);
        return Transformed::yes(Expr::Between(between));
    }
    let side = |bound: Expr, given: &DataType| match in_doubles(&value, given) {
        true => comparison_in_doubles((between.expr.as_ref().clone(), &value), (bound, given)),
        false => (between.expr.as_ref().clone(), bound),
    };
    let (above, low) = side(*between.low, &low);
    let (below, high) = side(*between.high, &high);
    Transformed::yes(match between.negated {
        false => above.gt_eq(low).and(below.lt_eq(high)),
        true => above.lt(low).or(below.gt(high)),
    })
}

/// Casts the values of an IN list. Like in PostgreSQL, several values without columns form an
/// array, whose type is the common type of these values and the left side; each other value is
/// compared separately.
pub(super) fn of_list(list: InList, schema: &DFSchema) -> Transformed<Expr> {
    let value = type_of(&list.expr, schema);
    let types: Vec<DataType> = list.list.iter().map(|other| type_of(other, schema)).collect();
    let known = || std::iter::once(&value).chain(&types).filter(|given| !given.is_null());
    let is_number = |given: &DataType| is_exact(given) || is_float(given);
    let is_settled = known().all(|given| *given == value) || !known().any(is_float);
    if is_settled || value.is_null() || !known().all(is_number) {
        return Transformed::no(Expr::InList(list));
    }
    let InList { expr, list, negated } = list;
    let (mut alone, mut array): (Vec<Expr>, Vec<Expr>) = list.into_iter().partition(reads_row);
    if array.len() < 2 {
        alone.append(&mut array);
    }
    let mut parts = Vec::new();
    if !array.is_empty() {
        parts.push(of_array_of_constants(*expr.clone(), &value, array, schema));
    }
    if is_float(&value) {
        let mut value = *expr;
        beside_float(&mut value, &mut alone.iter_mut().collect::<Vec<_>>(), schema);
        parts.push((value, alone));
    } else {
        let is_of_float = |other: &Expr| is_float(&type_of(other, schema));
        let (mut floats, others): (Vec<Expr>, Vec<Expr>) = alone.into_iter().partition(is_of_float);
        for other in &mut floats {
            let given = type_of(other, schema);
            *other = in_double(std::mem::take(other), &given);
        }
        parts.push((in_double(*expr.clone(), &value), floats));
        parts.push((*expr, others));
    }
    let lists = parts
        .into_iter()
        .filter(|(_, list)| !list.is_empty())
        .map(|(value, list)| Expr::InList(InList::new(Box::new(value), list, negated)));
    let whole = lists.reduce(|all, list| if negated { all.and(list) } else { all.or(list) });
    Transformed::yes(whole.unwrap_or(Expr::Literal(ScalarValue::Boolean(Some(negated)), None)))
}

/// Casts a value and the constants of a list to the type in which PostgreSQL compares them.
fn of_array_of_constants(
    value: Expr,
    of_value: &DataType,
    mut array: Vec<Expr>,
    schema: &DFSchema,
) -> (Expr, Vec<Expr>) {
    let types: Vec<DataType> = array.iter().map(|other| type_of(other, schema)).collect();
    let is_among = |wanted| of_value == wanted || types.contains(wanted);
    let value = match (is_among(&DataType::Float64), is_among(&DataType::Float32)) {
        (true, _) => {
            for (other, given) in array.iter_mut().zip(&types) {
                *other = in_double(std::mem::take(other), given);
            }
            in_double(value, of_value)
        }
        (false, true) => {
            let is_real = *of_value == DataType::Float32;
            for (other, given) in array.iter_mut().zip(&types) {
                let real = single(std::mem::take(other), given);
                *other = if is_real { real } else { in_double(real, &DataType::Float32) };
            }
            if is_real { value } else { in_double(value, of_value) }
        }
        (false, false) => value,
    };
    (value, array)
}

/// Casts a number to real. A constant is rounded only once, from its decimal digits.
fn single(expr: Expr, given: &DataType) -> Expr {
    if let Expr::Literal(value, metadata) = &expr
        && is_exact(given)
        && let Ok(text) = value.cast_to(&DataType::Utf8)
        && let Some(real) = text.try_as_str().flatten().and_then(|text| text.parse::<f32>().ok())
        && real.is_finite()
    {
        return Expr::Literal(ScalarValue::Float32(Some(real)), metadata.clone());
    }
    match given {
        DataType::Float32 => expr,
        _ => cast(expr, DataType::Float32),
    }
}

/// Whether a value in a list may differ from row to row of the query that contains the list.
fn reads_row(value: &Expr) -> bool {
    let reads = value.exists(|part| {
        Ok(match part {
            Expr::Column(_) => true,
            Expr::ScalarSubquery(query) => !query.outer_ref_columns.is_empty(),
            Expr::Exists(exists) => !exists.subquery.outer_ref_columns.is_empty(),
            Expr::InSubquery(set) => !set.subquery.outer_ref_columns.is_empty(),
            _ => false,
        })
    });
    reads.unwrap_or(true)
}

/// Casts a value and the subquery column that it is compared with to a common type. Returns whether
/// a type changed.
pub(super) fn of_subquery(
    value: &mut Expr,
    subquery: &mut Subquery,
    schema: &DFSchema,
) -> Result<bool> {
    let given = type_of(value, schema);
    let plan = &subquery.subquery;
    let Some((column, field)) =
        plan.schema().columns().into_iter().zip(plan.schema().fields()).next()
    else {
        return Ok(false);
    };
    let found = field.data_type().clone();
    if !in_doubles(&given, &found) {
        return Ok(false);
    }
    *value = in_double(std::mem::take(value), &given);
    if found != DataType::Float64 {
        let name = column.name.clone();
        let wide = in_double(Expr::Column(column), &found).alias(name);
        let plan = LogicalPlanBuilder::from(plan.as_ref().clone()).project([wide])?.build()?;
        *subquery = subquery.with_plan(Arc::new(plan));
    }
    Ok(true)
}

/// Casts the arguments of `array_has`, an array and a value, to a common type. Returns whether a
/// type changed.
pub(super) fn of_array(arguments: &mut [Expr], schema: &DFSchema) -> bool {
    let [array, value] = arguments else { return false };
    let DataType::List(item) = type_of(array, schema) else { return false };
    let given = type_of(value, schema);
    if !in_doubles(item.data_type(), &given) {
        return false;
    }
    *value = in_double(std::mem::take(value), &given);
    match array {
        Expr::ScalarFunction(call) if call.name() == "make_array" => {
            for element in &mut call.args {
                let given = type_of(element, schema);
                *element = in_double(std::mem::take(element), &given);
            }
        }
        other => {
            let item = Field::new(item.name(), DataType::Float64, true);
            *other = cast(std::mem::take(other), DataType::List(Arc::new(item)));
        }
    }
    true
}

/// Casts the operands of `CASE v WHEN …`, which compares the value with each condition separately.
pub(super) fn of_case(mut case: Case, schema: &DFSchema) -> Transformed<Case> {
    let Some(base) = &mut case.expr else { return Transformed::no(case) };
    let value = type_of(base, schema);
    let types: Vec<DataType> =
        case.when_then_expr.iter().map(|(when, _)| type_of(when, schema)).collect();
    if !types.iter().any(|given| in_doubles(&value, given)) {
        return Transformed::no(case);
    }
    if is_float(&value) {
        let mut conditions: Vec<&mut Expr> =
            case.when_then_expr.iter_mut().map(|(when, _)| when.as_mut()).collect();
        beside_float(base, &mut conditions, schema);
    } else if types.iter().all(is_float) || base.is_volatile() {
        **base = in_double(std::mem::take(base), &value);
        for ((when, _), given) in case.when_then_expr.iter_mut().zip(&types) {
            **when = in_double(std::mem::take(when), given);
        }
    } else {
        for ((when, _), given) in case.when_then_expr.iter_mut().zip(&types) {
            let (left, right) = (base.as_ref().clone(), std::mem::take(when.as_mut()));
            let (left, right) = match in_doubles(&value, given) {
                true => comparison_in_doubles((left, &value), (right, given)),
                false => (left, right),
            };
            **when = left.eq(right);
        }
        case.expr = None;
    }
    Transformed::yes(case)
}
