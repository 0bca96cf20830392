//! Comparisons with times that nanoseconds cannot hold: `time < '9999-12-31'` is true for every
//! stored time, and not an error.

use datafusion::{
    common::{DFSchema, Result, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{
        Between, BinaryExpr, Case, Expr, ExprSchemable, Operator, expr_rewriter::FunctionRewrite,
        lit,
    },
    scalar::ScalarValue,
};
use stratalog_functions::literal::style_of;
use stratalog_model::{ColumnType, ErrorKind};
use stratalog_text::{TextStyle, parse_value};

/// Replaces comparisons with far times by their result, before the literal is converted to the type
/// of the other side.
#[derive(Debug)]
pub struct FarTimes;

impl FunctionRewrite for FarTimes {
    fn name(&self) -> &str {
        "far_times"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        config: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let settled = match (text_of(&left), text_of(&right)) {
                    (None, Some(text)) => compare(&left, op, text, schema, config),
                    (Some(text), None) => {
                        op.swap().and_then(|op| compare(&right, op, text, schema, config))
                    }
                    _ => None,
                };
                Ok(match settled {
                    Some(settled) => Transformed::yes(settled),
                    None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
                })
            }
            Expr::Between(Between { expr, negated, low, high }) => {
                let far = |bound: &Expr| {
                    text_of(bound).is_some_and(|text| side(&expr, text, schema, config).is_some())
                };
                if !far(&low) && !far(&high) {
                    return Ok(Transformed::no(Expr::Between(Between {
                        expr,
                        negated,
                        low,
                        high,
                    })));
                }
                let bound = |op, bound: Box<Expr>| {
                    text_of(&bound)
                        .and_then(|text| compare(&expr, op, text, schema, config))
                        .unwrap_or_else(|| {
                            Expr::BinaryExpr(BinaryExpr {
                                left: expr.clone(),
                                op,
                                right: bound.clone(),
                            })
                        })
                };
                let inside = bound(Operator::GtEq, low).and(bound(Operator::LtEq, high));
                Ok(Transformed::yes(if negated { !inside } else { inside }))
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, None) => value.try_as_str().flatten(),
        _ => None,
    }
}

/// Whether a time literal lies before or after the range of the type that it is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RangeSide {
    Before,
    After,
}

fn side(beside: &Expr, text: &str, schema: &DFSchema, config: &ConfigOptions) -> Option<RangeSide> {
    let (_, field) = beside.to_field(schema).ok()?;
    let column_type = ColumnType::from_arrow_field(&field)?;
    let wide = match column_type {
        ColumnType::Timestamp { precision: 9 } => ColumnType::Timestamp { precision: 0 },
        ColumnType::TimestampTz { precision: 9 } => ColumnType::TimestampTz { precision: 0 },
        _ => return None,
    };
    let style: TextStyle = style_of(config);
    let narrow = parse_value(Some(text), &column_type, &style);
    if narrow.err()?.kind() != ErrorKind::DatetimeOverflow {
        return None;
    }
    let array = parse_value(Some(text), &wide, &style).ok()?;
    match ScalarValue::try_from_array(&array, 0).ok()? {
        ScalarValue::TimestampSecond(Some(seconds), _) if seconds < 0 => Some(RangeSide::Before),
        ScalarValue::TimestampSecond(Some(_), _) => Some(RangeSide::After),
        _ => None,
    }
}

/// The result of `beside op text`, if the time `text` is out of range of the type of `beside`: a
/// constant, or NULL for a NULL. `None` for other comparisons.
fn compare(
    beside: &Expr,
    op: Operator,
    text: &str,
    schema: &DFSchema,
    config: &ConfigOptions,
) -> Option<Expr> {
    let side = side(beside, text, schema, config)?;
    let value = match op {
        Operator::Eq => false,
        Operator::NotEq => true,
        Operator::Lt | Operator::LtEq => side == RangeSide::After,
        Operator::Gt | Operator::GtEq => side == RangeSide::Before,
        _ => return None,
    };
    if beside.nullable(schema).ok()? {
        return Some(Expr::Case(Case {
            expr: None,
            when_then_expr: vec![(
                Box::new(Expr::IsNotNull(Box::new(beside.clone()))),
                Box::new(lit(value)),
            )],
            else_expr: Some(Box::new(Expr::Literal(ScalarValue::Boolean(None), None))),
        }));
    }
    Some(lit(value))
}
