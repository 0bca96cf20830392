//! PostgreSQL's order of arrays: element by element, with NULL greater than all values, and then by
//! length. DataFusion puts NULL below all values.

use std::{cmp::Ordering, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, make_comparator},
    compute::{SortOptions, interleave},
    datatypes::DataType,
};
use datafusion::{
    common::{DFSchema, Result, tree_node::Transformed},
    logical_expr::{
        Between, BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs,
        ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    },
};
use stratalog_model::Error;

use super::float_keys::keys;
use crate::errors::to_datafusion;

/// Makes comparisons of arrays, and `greatest` and `least` of arrays, use PostgreSQL's order. All
/// types must be final.
///
/// # Errors
/// No known errors.
pub fn ordered(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_list = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::List(_)));
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if ListTest::of(op).is_some() && is_list(&left) && is_list(&right) =>
        {
            match ListTest::of(op) {
                Some(test) => {
                    Transformed::yes(call(ListComparison::Test(test), vec![*left, *right]))
                }
                None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            }
        }
        Expr::Between(Between { expr, negated, low, high })
            if is_list(&expr) && is_list(&low) && is_list(&high) =>
        {
            let from = call(ListComparison::Test(ListTest::GtEq), vec![(*expr).clone(), *low]);
            let to = call(ListComparison::Test(ListTest::LtEq), vec![*expr, *high]);
            let inside = from.and(to);
            Transformed::yes(if negated { !inside } else { inside })
        }
        Expr::ScalarFunction(function)
            if matches!(function.name(), "greatest" | "least")
                && function.args.iter().all(is_list) =>
        {
            let take =
                if function.name() == "greatest" { Ordering::Greater } else { Ordering::Less };
            Transformed::yes(call(ListComparison::Choice(take), function.args))
        }
        other => Transformed::no(other),
    })
}

/// A function that compares two arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ListTest {
    Lt,
    LtEq,
    Gt,
    GtEq,
}

impl ListTest {
    fn of(op: Operator) -> Option<Self> {
        Some(match op {
            Operator::Lt => ListTest::Lt,
            Operator::LtEq => ListTest::LtEq,
            Operator::Gt => ListTest::Gt,
            Operator::GtEq => ListTest::GtEq,
            _ => return None,
        })
    }

    fn holds(self, order: Ordering) -> bool {
        match self {
            ListTest::Lt => order.is_lt(),
            ListTest::LtEq => order.is_le(),
            ListTest::Gt => order.is_gt(),
            ListTest::GtEq => order.is_ge(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ListComparison {
    Test(ListTest),
    /// Returns the greatest or the least array.
    Choice(Ordering),
}

fn call(call: ListComparison, arguments: Vec<Expr>) -> Expr {
    let name = match call {
        ListComparison::Test(ListTest::Lt) => "array_lt",
        ListComparison::Test(ListTest::LtEq) => "array_le",
        ListComparison::Test(ListTest::Gt) => "array_gt",
        ListComparison::Test(ListTest::GtEq) => "array_ge",
        ListComparison::Choice(Ordering::Less) => "array_least",
        ListComparison::Choice(_) => "array_greatest",
    };
    let signature = Signature::variadic_any(Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(ListComparisonFunction { name, call, signature }))
        .call(arguments)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ListComparisonFunction {
    name: &'static str,
    call: ListComparison,
    signature: Signature,
}

impl ScalarUDFImpl for ListComparisonFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match self.call {
            ListComparison::Test(_) => Ok(DataType::Boolean),
            ListComparison::Choice(_) => arguments.first().cloned().ok_or_else(no_argument),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let lists: Vec<ArrayRef> =
            arguments.args.iter().map(|list| list.to_array(rows)).collect::<Result<_>>()?;
        let result = match self.call {
            ListComparison::Test(test) => test_lists(&lists, test)?,
            ListComparison::Choice(take) => extreme_lists(&lists, take, rows)?,
        };
        Ok(ColumnarValue::Array(result))
    }
}

fn no_argument() -> datafusion::error::DataFusionError {
    to_datafusion(Error::internal("arrays that are compared are two or more"))
}

/// Returns a function that compares the lists in a row of `left` and a row of `right`. The lists
/// must not be NULL.
fn order(left: &ArrayRef, right: &ArrayRef) -> Result<impl Fn(usize, usize) -> Ordering> {
    let options = SortOptions { descending: false, nulls_first: false };
    let (left, right) = (keys(left), keys(right));
    // Both sides must have the same type, and text elements may have different Arrow types.
    let right = match left.data_type() == right.data_type() {
        true => right,
        false => arrow::compute::cast(&right, left.data_type())?,
    };
    let elements = |list: &ArrayRef| list.as_list::<i32>().clone();
    let (left, right) = (elements(&left), elements(&right));
    let of_elements = make_comparator(left.values(), right.values(), options)?;
    Ok(move |at: usize, other: usize| {
        let range = |offsets: &[i32], row: usize| {
            let offset = |at: usize| {
                offsets.get(at).and_then(|offset| usize::try_from(*offset).ok()).unwrap_or(0)
            };
            offset(row)..offset(row + 1)
        };
        let (left, right) = (range(left.value_offsets(), at), range(right.value_offsets(), other));
        let by_length = left.len().cmp(&right.len());
        let first = left.zip(right).map(|(left, right)| of_elements(left, right));
        first.into_iter().find(|order| order.is_ne()).unwrap_or(by_length)
    })
}

fn test_lists(lists: &[ArrayRef], test: ListTest) -> Result<ArrayRef> {
    let [left, right] = lists else { return Err(no_argument()) };
    let order = order(left, right)?;
    let tested: BooleanArray = (0..left.len())
        .map(|row| (left.is_valid(row) && right.is_valid(row)).then(|| test.holds(order(row, row))))
        .collect();
    Ok(Arc::new(tested))
}

/// For each row, the greatest or least of several lists, by `take`. The result is NULL only if all
/// lists are NULL.
fn extreme_lists(lists: &[ArrayRef], take: Ordering, rows: usize) -> Result<ArrayRef> {
    let (first, others) = lists.split_first().ok_or_else(no_argument)?;
    let mut places: Vec<(usize, usize)> = (0..rows).map(|row| (0, row)).collect();
    for (at, other) in others.iter().enumerate() {
        let orders: Vec<_> =
            lists.iter().take(at + 1).map(|list| order(other, list)).collect::<Result<_>>()?;
        for (row, place) in places.iter_mut().enumerate() {
            let Some(before) = lists.get(place.0) else { continue };
            let is_better = other.is_valid(row)
                && (before.is_null(row)
                    || orders.get(place.0).is_some_and(|order| order(row, row) == take));
            if is_better {
                *place = (at + 1, row);
            }
        }
    }
    let mut same: Vec<ArrayRef> = vec![Arc::clone(first)];
    for other in others {
        same.push(arrow::compute::cast(other, first.data_type())?);
    }
    Ok(interleave(&same.iter().map(AsRef::as_ref).collect::<Vec<_>>(), &places)?)
}

#[cfg(test)]
mod tests {
    use arrow::{array::ListArray, datatypes::Int32Type};

    use super::*;

    type Lists = Vec<Option<Vec<Option<i32>>>>;

    fn lists(lists: Lists) -> ArrayRef {
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))
    }

    #[test]
    fn null_elements_are_above_others_and_shorter_arrays_below() {
        let left = lists(vec![
            Some(vec![Some(1), None]),
            Some(vec![Some(1), Some(2)]),
            Some(vec![Some(1)]),
            Some(vec![None]),
            None,
        ]);
        let right = lists(vec![
            Some(vec![Some(1), Some(2)]),
            Some(vec![Some(1), Some(2)]),
            Some(vec![Some(1), None]),
            Some(vec![None]),
            Some(vec![]),
        ]);
        let both = [left, right];
        let greater = test_lists(&both, ListTest::Gt).unwrap();
        let wanted = [Some(true), Some(false), Some(false), Some(false), None];
        assert_eq!(greater.as_boolean().iter().collect::<Vec<_>>(), wanted);
        let greatest = extreme_lists(&both, Ordering::Greater, 5).unwrap();
        let wanted = lists(vec![
            Some(vec![Some(1), None]),
            Some(vec![Some(1), Some(2)]),
            Some(vec![Some(1), None]),
            Some(vec![None]),
            Some(vec![]),
        ]);
        assert_eq!(&greatest, &wanted);
    }
}
