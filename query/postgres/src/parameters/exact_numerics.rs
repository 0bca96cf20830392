//! Chooses parameter types that keep all digits of numeric values: `n + $1` must not round a value
//! to the ten decimal places of the default numeric. A comparison accepts a value with more digits
//! than its type, and a parameter that is only compared therefore keeps its type.

use std::collections::{BTreeMap, BTreeSet};

use arrow::{array::Array as _, datatypes::DataType};
use datafusion::{
    common::{
        Result as PlanResult,
        tree_node::{TreeNode as _, TreeNodeRecursion},
    },
    logical_expr::{Expr, LogicalPlan, Operator, expr::Placeholder},
    scalar::ScalarValue,
};
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};
use stratalog_model::{ColumnType, Result, types::NUMERIC_PRECISION_MAX};

use crate::{errors::from_datafusion, rules::types::cases};

/// Maximum number of decimal places of a parameter in arithmetic, so that products and sums with
/// columns fit in 38 digits.
const COMPUTED_SCALE_MAX: u8 = 18;

const COMPARISONS: [Operator; 8] = [
    Operator::Eq,
    Operator::NotEq,
    Operator::Lt,
    Operator::LtEq,
    Operator::Gt,
    Operator::GtEq,
    Operator::IsDistinctFrom,
    Operator::IsNotDistinctFrom,
];

/// The uses of the parameters in a plan. Parameters are counted from 0.
#[derive(Debug)]
struct ParameterPlaces<'a> {
    /// The types from the client. In the plan, a parameter with such a type is the operand of a
    /// cast.
    declared_types: &'a [Option<ColumnType>],
    compared: BTreeSet<usize>,
    /// The compared parameters that are operands of a cast, which may round.
    cast: BTreeSet<usize>,
    computed: BTreeSet<usize>,
}

/// The parameter types with which `plan` keeps all digits of the values: new types for numerics
/// that a cast or arithmetic would round, and `declared_types` for the other parameters. `None` if
/// no type has to change.
///
/// # Errors
/// Errors of the plan traversal.
pub fn exact(
    plan: &LogicalPlan,
    types: &[ColumnType],
    values: &[ScalarValue],
    declared_types: &[Option<ColumnType>],
) -> Result<Option<Vec<Option<ColumnType>>>> {
    let unfit: BTreeMap<usize, ColumnType> = types
        .iter()
        .zip(values)
        .enumerate()
        .filter_map(|(at, (known, value))| Some((at, own_type(known, value)?)))
        .collect();
    if unfit.is_empty() {
        return Ok(None);
    }
    let places = ParameterPlaces::of(plan, declared_types).map_err(from_datafusion)?;
    let mut exact: Vec<Option<ColumnType>> = declared_types.to_vec();
    exact.resize(types.len(), None);
    let mut changed = false;
    for (at, own) in unfit {
        let loses = places.computed.contains(&at) || places.cast.contains(&at);
        if let Some(slot) = exact.get_mut(at).filter(|_| loses) {
            let rounds = !places.compared.contains(&at);
            *slot = Some(if rounds { with_room(own) } else { own });
            changed = true;
        }
    }
    Ok(changed.then_some(exact))
}

/// True if a type can hold numerics of `digits` digits, of which `scale` are decimal places.
pub fn holds(known: &ColumnType, digits: u8, scale: u8) -> bool {
    match known {
        ColumnType::Numeric { precision, scale: known } => {
            let whole = digits.saturating_sub(scale);
            scale <= *known && whole <= precision.saturating_sub(*known)
        }
        _ => true,
    }
}

/// The numeric type, or the array type, that holds the value; `None` if the known type already
/// holds the value.
fn own_type(known: &ColumnType, value: &ScalarValue) -> Option<ColumnType> {
    match (known, value) {
        (known, ScalarValue::Decimal128(Some(value), _, scale)) => {
            let digits = value.unsigned_abs().checked_ilog10().map_or(1, |log| log + 1);
            let (digits, scale) = (u8::try_from(digits).ok()?, u8::try_from(*scale).ok()?);
            (!holds(known, digits, scale)).then(|| of_digits(digits.saturating_sub(scale), scale))
        }
        (ColumnType::Array(element), ScalarValue::List(list)) => {
            let DataType::Decimal128(digits, scale) = list.value_type() else { return None };
            let scale = u8::try_from(scale).ok()?;
            let own = of_digits(digits.saturating_sub(scale), scale);
            (!list.is_empty() && !holds(element, digits, scale))
                .then(|| ColumnType::Array(Box::new(own)))
        }
        _ => None,
    }
}

/// A numeric type with `scale` decimal places and at least `whole` digits before them. The type
/// always has 38 digits: the plan cache uses the type as a key, and one type should serve many
/// values.
fn of_digits(whole: u8, scale: u8) -> ColumnType {
    let scale = scale.min(NUMERIC_PRECISION_MAX.saturating_sub(whole));
    ColumnType::Numeric { precision: NUMERIC_PRECISION_MAX, scale }
}

fn with_room(own: ColumnType) -> ColumnType {
    match own {
        ColumnType::Numeric { precision, scale } => {
            ColumnType::Numeric { precision, scale: scale.min(COMPUTED_SCALE_MAX) }
        }
        ColumnType::Array(element) => ColumnType::Array(Box::new(with_room(*element))),
        other => other,
    }
}

impl<'a> ParameterPlaces<'a> {
    fn of(plan: &LogicalPlan, declared_types: &'a [Option<ColumnType>]) -> PlanResult<Self> {
        let mut places = ParameterPlaces {
            declared_types,
            compared: BTreeSet::new(),
            cast: BTreeSet::new(),
            computed: BTreeSet::new(),
        };
        plan.each_with_subqueries(|node| {
            node.apply_expressions(|expr| {
                places.compute(expr);
                expr.each(|inner| {
                    places.look(inner);
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        Ok(places)
    }

    /// Records the parameters among the operands of an expression, by their use.
    fn look(&mut self, expr: &Expr) {
        match expr {
            Expr::BinaryExpr(both) if COMPARISONS.contains(&both.op) => {
                self.compare([both.left.as_ref(), both.right.as_ref()]);
            }
            Expr::InList(list) => {
                self.compare(std::iter::once(list.expr.as_ref()).chain(&list.list))
            }
            Expr::Between(between) => {
                self.compare([&between.expr, &between.low, &between.high].map(AsRef::as_ref));
            }
            Expr::InSubquery(members) => self.compare([members.expr.as_ref()]),
            Expr::SetComparison(members) => self.compare([members.expr.as_ref()]),
            Expr::ScalarFunction(call) if call.name() == "array_has" => self.compare(&call.args),
            Expr::ScalarFunction(call) if call.name() == "nullif" => {
                self.compare(&call.args);
                call.args.iter().take(1).for_each(|value| self.compute(value));
            }
            Expr::ScalarFunction(call) if let Some(parts) = cases::parts(call) => {
                self.compare(parts.base);
                for [when, then] in parts.choices {
                    if parts.base.is_some() {
                        self.compare([when])
                    } else {
                        self.compute(when)
                    }
                    self.compute(then);
                }
                self.compute(parts.otherwise);
            }
            // A cast in the statement rounds on purpose, like the cast of a constant.
            Expr::Cast(_) | Expr::TryCast(_) => {}
            other => {
                let _ = other.apply_children(|child| {
                    self.compute(child);
                    Ok(TreeNodeRecursion::Continue)
                });
            }
        }
    }

    fn compare<'e>(&mut self, operands: impl IntoIterator<Item = &'e Expr>) {
        for operand in operands {
            let Some(at) = self.parameter(operand) else { continue };
            self.compared.insert(at);
            if matches!(operand, Expr::Cast(_)) {
                self.cast.insert(at);
            }
        }
    }

    fn compute(&mut self, expr: &Expr) {
        self.computed.extend(self.parameter(expr));
    }

    /// The number of a parameter, counted from 0, also inside of the cast to the client's type;
    /// `None` for other expressions.
    fn parameter(&self, expr: &Expr) -> Option<usize> {
        match expr {
            Expr::Placeholder(Placeholder { id, .. }) => Some(super::number(id)? - 1),
            Expr::Cast(cast) => {
                let Expr::Placeholder(Placeholder { id, .. }) = cast.expr.as_ref() else {
                    return None;
                };
                let at = super::number(id)? - 1;
                self.declared_types.get(at)?.is_some().then_some(at)
            }
            _ => None,
        }
    }
}
