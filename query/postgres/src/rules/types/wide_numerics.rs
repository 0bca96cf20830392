//! Compares numerics whose common type needs more than 38 digits: `n > 1e-38`, where `n` is a
//! `numeric(10,2)`. DataFusion's common type would have 38 decimal places and no digit in front of
//! the decimal point, and the cast of most values would fail.
//!
//! This rule rounds a constant to the scale of the other side (`n > 0.015` means `n > 0.01` if `n`
//! has two decimal places). If no value can reach the constant, the rule replaces the comparison by
//! its result. In all other cases, it casts both sides to a type with 76 digits.

use std::sync::Arc;

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, i256};
use datafusion::{
    common::{DFSchema, Result, ScalarValue, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{
        Between, BinaryExpr, Case, Expr, ExprSchemable, LogicalPlanBuilder, Operator, Subquery,
        cast, expr::InList, expr_rewriter::FunctionRewrite, lit,
    },
};
use stratalog_functions::literal::compares;

/// Rule: rewrites comparisons of numerics whose common type needs more than 38 digits. Runs before
/// type coercion.
#[derive(Debug)]
pub struct WideNumerics;

impl FunctionRewrite for WideNumerics {
    fn name(&self) -> &str {
        "wide_numerics"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(op) => {
                match compared(&left, op, &right, schema) {
                    Some(compared) => Transformed::yes(compared),
                    None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
                }
            }
            Expr::Between(Between { expr, negated, low, high }) if !expr.is_volatile() => {
                let from = compared(&expr, Operator::GtEq, &low, schema);
                let to = compared(&expr, Operator::LtEq, &high, schema);
                if from.is_none() && to.is_none() {
                    let between = Between { expr, negated, low, high };
                    return Ok(Transformed::no(Expr::Between(between)));
                }
                let from = from.unwrap_or_else(|| binary(*expr.clone(), Operator::GtEq, *low));
                let to = to.unwrap_or_else(|| binary(*expr, Operator::LtEq, *high));
                let inside = from.and(to);
                Transformed::yes(if negated { !inside } else { inside })
            }
            Expr::InList(list) if !list.expr.is_volatile() => in_list(list, schema),
            Expr::Case(Case { expr: Some(base), when_then_expr, else_expr })
                if !base.is_volatile() =>
            {
                of_case(base, when_then_expr, else_expr, schema)
            }
            Expr::InSubquery(mut set) => match wide_beside(&set.expr, &set.subquery, schema) {
                Some(wide) => {
                    *set.expr = cast(std::mem::take(&mut *set.expr), wide.clone());
                    set.subquery = in_type(set.subquery, wide)?;
                    Transformed::yes(Expr::InSubquery(set))
                }
                None => Transformed::no(Expr::InSubquery(set)),
            },
            Expr::SetComparison(mut set) => match wide_beside(&set.expr, &set.subquery, schema) {
                Some(wide) => {
                    *set.expr = cast(std::mem::take(&mut *set.expr), wide.clone());
                    set.subquery = in_type(set.subquery, wide)?;
                    Transformed::yes(Expr::SetComparison(set))
                }
                None => Transformed::no(Expr::SetComparison(set)),
            },
            other => Transformed::no(other),
        })
    }
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) })
}

/// Rewrites `n IN (…)`. A constant with at most the decimal places of `n` stays in the list; each
/// other numeric value that needs more than 38 digits becomes a separate comparison.
fn in_list(list: InList, schema: &DFSchema) -> Transformed<Expr> {
    let InList { expr, list, negated } = list;
    let (mut kept, mut apart) = (Vec::new(), Vec::new());
    let mut changed = false;
    for value in list {
        match compared(&expr, Operator::Eq, &value, schema) {
            None => kept.push(value),
            Some(comparison) => {
                changed = true;
                match comparison {
                    Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right })
                        if left == expr && matches!(*right, Expr::Literal(_, _)) =>
                    {
                        kept.push(*right);
                    }
                    // Constants that no value can reach all become the same comparison; one is
                    // enough.
                    comparison if apart.contains(&comparison) => {}
                    comparison => apart.push(comparison),
                }
            }
        }
    }
    if !changed {
        return Transformed::no(Expr::InList(InList { expr, list: kept, negated }));
    }
    let kept =
        (!kept.is_empty()).then(|| Expr::InList(InList { expr, list: kept, negated: false }));
    let any = kept.into_iter().chain(apart).reduce(Expr::or).unwrap_or_else(|| lit(false));
    Transformed::yes(if negated { !any } else { any })
}

/// Rewrites `CASE n WHEN … THEN …` as a CASE of comparisons.
fn of_case(
    base: Box<Expr>,
    when_then_expr: Vec<(Box<Expr>, Box<Expr>)>,
    else_expr: Option<Box<Expr>>,
    schema: &DFSchema,
) -> Transformed<Expr> {
    let comparison = |when: &Expr| compared(&base, Operator::Eq, when, schema);
    if !when_then_expr.iter().any(|(when, _)| comparison(when).is_some()) {
        return Transformed::no(Expr::Case(Case { expr: Some(base), when_then_expr, else_expr }));
    }
    let when_then_expr = when_then_expr.into_iter().map(|(when, then)| {
        let condition =
            comparison(&when).unwrap_or_else(|| binary(base.as_ref().clone(), Operator::Eq, *when));
        (Box::new(condition), then)
    });
    let when_then_expr = when_then_expr.collect();
    Transformed::yes(Expr::Case(Case { expr: None, when_then_expr, else_expr }))
}

/// The rewritten comparison; `None` if DataFusion's common type has enough digits.
fn compared(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema) -> Option<Expr> {
    let left_type = left.get_type(schema).ok()?;
    let right_type = right.get_type(schema).ok()?;
    let digits = too_many_digits(&left_type, &right_type)?;
    let settled = Bound::of(right)
        .and_then(|bound| bound.compare(left, &left_type, op))
        .or_else(|| Bound::of(left)?.compare(right, &right_type, op.swap()?));
    settled.or_else(|| {
        let wide = wide(digits)?;
        Some(binary(cast(left.clone(), wide.clone()), op, cast(right.clone(), wide)))
    })
}

/// The number of digits in front of and after the decimal point of the numeric type that DataFusion
/// uses for a type; `None` if not an exact number.
fn digits(data_type: &DataType) -> Option<(i16, i16)> {
    Some(match data_type {
        DataType::Int16 => (5, 0),
        DataType::Int32 => (10, 0),
        DataType::Int64 => (20, 0),
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            (i16::from(*precision) - i16::from(*scale), i16::from(*scale))
        }
        _ => return None,
    })
}

/// The digits of the common type in front of and after the decimal point; `None` if a numeric with
/// 38 digits has enough.
fn too_many_digits(left: &DataType, right: &DataType) -> Option<(i16, i16)> {
    let (left_digits, right_digits) = (digits(left)?, digits(right)?);
    let whole = left_digits.0.max(right_digits.0);
    let scale = left_digits.1.max(right_digits.1);
    (left != right && whole + scale > i16::from(DECIMAL128_MAX_PRECISION)).then_some((whole, scale))
}

/// A numeric type with 76 digits; `None` if 76 digits are not enough.
fn wide((whole, scale): (i16, i16)) -> Option<DataType> {
    let fits = whole + scale <= i16::from(DECIMAL256_MAX_PRECISION);
    let scale = i8::try_from(scale).ok().filter(|_| fits)?;
    Some(DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale))
}

/// The type with 76 digits for a value and the subquery column that it is compared with; `None` if
/// 38 digits are enough.
fn wide_beside(value: &Expr, subquery: &Subquery, schema: &DFSchema) -> Option<DataType> {
    let column = subquery.subquery.schema().fields().first()?;
    wide(too_many_digits(&value.get_type(schema).ok()?, column.data_type())?)
}

/// Casts the first column of a subquery.
fn in_type(subquery: Subquery, wanted: DataType) -> Result<Subquery> {
    let Some(column) = subquery.subquery.schema().columns().into_iter().next() else {
        return Ok(subquery);
    };
    let plan = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone())
        .project(vec![cast(Expr::Column(column), wanted)])?
        .build()?;
    Ok(subquery.with_plan(Arc::new(plan)))
}

/// The constant of a comparison, as an integer number of units of its last decimal place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    units: i256,
    scale: i16,
}

impl Bound {
    fn of(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Literal(value, _) => Self::of_value(value),
            _ => None,
        }
    }

    /// The constant for an integer or numeric value; `None` for other values.
    pub fn of_value(value: &ScalarValue) -> Option<Self> {
        let whole = |value: i128| Self { units: i256::from_i128(value), scale: 0 };
        Some(match value {
            ScalarValue::Int16(Some(value)) => whole(i128::from(*value)),
            ScalarValue::Int32(Some(value)) => whole(i128::from(*value)),
            ScalarValue::Int64(Some(value)) => whole(i128::from(*value)),
            ScalarValue::Decimal128(Some(value), _, scale) => {
                Self { scale: i16::from(*scale), ..whole(*value) }
            }
            ScalarValue::Decimal256(Some(value), _, scale) => {
                Self { units: *value, scale: i16::from(*scale) }
            }
            _ => return None,
        })
    }

    /// The largest value with `scale` decimal places that is not greater than the constant. The
    /// flag is true if both are equal. `None` for values far out of range.
    pub fn floor(self, scale: i16) -> Option<(i256, bool)> {
        let power = |digits: i16| i256::from_i128(10).checked_pow(u32::try_from(digits).ok()?);
        if scale >= self.scale {
            return Some((self.units.checked_mul(power(scale - self.scale)?)?, true));
        }
        let unit = power(self.scale - scale)?;
        let (whole, rest) = (self.units.checked_div(unit)?, self.units.checked_rem(unit)?);
        let floor = if rest.is_negative() { whole.checked_sub(i256::ONE)? } else { whole };
        Some((floor, rest == i256::ZERO))
    }

    /// Whether the constant is less than zero.
    pub fn is_negative(self) -> bool {
        self.units.is_negative()
    }

    /// The comparison `value op constant`, for a value of type `given`, without a wider type;
    /// `None` if this is not possible.
    fn compare(self, value: &Expr, given: &DataType, op: Operator) -> Option<Expr> {
        let (_, scale) = digits(given).filter(|_| !matches!(given, DataType::Decimal256(..)))?;
        let floor = self.floor(scale);
        let floor = floor.and_then(|(floor, is_exact)| Some((in_units(floor, given)?, is_exact)));
        let with = |op, floor| binary(value.clone(), op, Expr::Literal(floor, None));
        Some(match (op, floor) {
            (op, Some((floor, true))) => with(op, floor),
            (Operator::Gt | Operator::GtEq, Some((floor, false))) => with(Operator::Gt, floor),
            (Operator::Lt | Operator::LtEq, Some((floor, false))) => with(Operator::LtEq, floor),
            (Operator::Gt | Operator::GtEq, None) => known(value, self.is_negative()),
            (Operator::Lt | Operator::LtEq, None) => known(value, !self.is_negative()),
            (Operator::Eq, _) => known(value, false),
            (Operator::NotEq, _) => known(value, true),
            (Operator::IsDistinctFrom, _) => lit(true),
            (Operator::IsNotDistinctFrom, _) => lit(false),
            _ => return None,
        })
    }
}

/// A constant of the type `data_type` from a number of units of the last decimal place; `None` if
/// out of range.
fn in_units(units: i256, data_type: &DataType) -> Option<ScalarValue> {
    let units = units.to_i128()?;
    let fits = |precision: u8| {
        10_u128.checked_pow(u32::from(precision)).is_some_and(|end| units.unsigned_abs() < end)
    };
    Some(match data_type {
        DataType::Int16 => ScalarValue::Int16(Some(i16::try_from(units).ok()?)),
        DataType::Int32 => ScalarValue::Int32(Some(i32::try_from(units).ok()?)),
        DataType::Int64 => ScalarValue::Int64(Some(i64::try_from(units).ok()?)),
        DataType::Decimal128(precision, scale) if fits(*precision) => {
            ScalarValue::Decimal128(Some(units), *precision, *scale)
        }
        DataType::Decimal128(_, scale) if fits(DECIMAL128_MAX_PRECISION) => {
            ScalarValue::Decimal128(Some(units), DECIMAL128_MAX_PRECISION, *scale)
        }
        _ => return None,
    })
}

/// The expression for a comparison that has the same `result` for every value except NULL.
fn known(value: &Expr, result: bool) -> Expr {
    let null = Expr::Literal(ScalarValue::Boolean(None), None);
    match result {
        true => value.clone().is_not_null().or(null),
        false => value.clone().is_null().and(null),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_round_to_the_digits_of_the_value() {
        let decimal = |units, scale| Bound { units: i256::from_i128(units), scale };
        for (bound, scale, wanted) in [
            (decimal(15, 3), 2, Some((1, false))),
            (decimal(-15, 3), 2, Some((-2, false))),
            (decimal(-20, 3), 2, Some((-2, true))),
            (decimal(1, 38), 2, Some((0, false))),
            (decimal(7, 0), 2, Some((700, true))),
            (decimal(i128::MAX, 0), 38, None),
        ] {
            let floor = bound.floor(scale);
            let floor = floor.and_then(|(floor, exact)| Some((floor.to_i128()?, exact)));
            assert_eq!(floor, wanted, "{bound:?}");
        }
    }

    #[test]
    fn types_with_too_many_digits_meet_in_76_digits() {
        use DataType::{Decimal128, Decimal256, Int64};
        let common = |left: &DataType, right: &DataType| too_many_digits(left, right).map(wide);
        assert_eq!(common(&Decimal128(10, 2), &Decimal128(38, 30)), None);
        assert_eq!(common(&Decimal128(38, 38), &Decimal128(38, 38)), None);
        assert_eq!(common(&Int64, &Decimal128(38, 38)), Some(Some(Decimal256(76, 38))));
        let sides = (Decimal128(38, 0), Decimal128(38, 38));
        assert_eq!(common(&sides.0, &sides.1), Some(Some(Decimal256(76, 38))));
        assert_eq!(common(&Decimal128(38, 0), &Decimal256(50, 50)), Some(None));
        assert_eq!(common(&DataType::Utf8, &Int64), None);
    }
}
