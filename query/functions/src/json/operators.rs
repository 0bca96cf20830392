//! Rewrites the comparison operators of jsonb. Without this rewrite, DataFusion would compare the
//! texts of the values.

use std::sync::Arc;

use datafusion::{
    common::{DFSchema, Result, tree_node::Transformed},
    config::ConfigOptions,
    logical_expr::{
        BinaryExpr, Expr, ExprSchemable, Operator, ScalarUDF, expr::InList,
        expr_rewriter::FunctionRewrite, when,
    },
};
use stratalog_model::ColumnType;

/// An expression rewrite that replaces `=`, `<` and the other comparisons, IN and BETWEEN of jsonb
/// values by function calls.
#[derive(Debug)]
pub struct JsonComparisons {
    functions: Vec<Arc<ScalarUDF>>,
}

impl JsonComparisons {
    /// Creates the rewrite. `functions` contains the functions for the calls of the rewrite.
    pub fn new(functions: &[Arc<ScalarUDF>]) -> Self {
        let ours = |function: &&Arc<ScalarUDF>| function_names().contains(&function.name());
        Self { functions: functions.iter().filter(ours).map(Arc::clone).collect() }
    }

    fn call(&self, operator: Operator, left: Expr, right: Expr) -> Option<Expr> {
        let name = name_of(operator)?;
        let function = self.functions.iter().find(|function| function.name() == name)?;
        Some(function.call(vec![left, right]))
    }

    fn binary(&self, binary: &BinaryExpr) -> Result<Option<Expr>> {
        let (left, right) = (binary.left.as_ref(), binary.right.as_ref());
        let distinct = match binary.op {
            Operator::IsDistinctFrom => Operator::NotEq,
            Operator::IsNotDistinctFrom => Operator::Eq,
            operator => return Ok(self.call(operator, left.clone(), right.clone())),
        };
        let Some(compared) = self.call(distinct, left.clone(), right.clone()) else {
            return Ok(None);
        };
        // Two NULLs are not distinct. NULL and any other value are distinct.
        let both = left.clone().is_null().and(right.clone().is_null());
        let nulls = if distinct == Operator::Eq { both } else { Expr::Not(Box::new(both)) };
        when(left.clone().is_null().or(right.clone().is_null()), nulls)
            .otherwise(compared)
            .map(Some)
    }
}

fn function_names() -> [&'static str; 6] {
    ["jsonb_eq", "jsonb_ne", "jsonb_lt", "jsonb_le", "jsonb_gt", "jsonb_ge"]
}

fn name_of(operator: Operator) -> Option<&'static str> {
    Some(match operator {
        Operator::Eq => "jsonb_eq",
        Operator::NotEq => "jsonb_ne",
        Operator::Lt => "jsonb_lt",
        Operator::LtEq => "jsonb_le",
        Operator::Gt => "jsonb_gt",
        Operator::GtEq => "jsonb_ge",
        _ => return None,
    })
}

fn is_jsonb(expr: &Expr, schema: &DFSchema) -> bool {
    expr.to_field(schema)
        .is_ok_and(|(_, field)| ColumnType::from_arrow_field(&field) == Some(ColumnType::Jsonb))
}

impl FunctionRewrite for JsonComparisons {
    fn name(&self) -> &str {
        "jsonb_comparisons"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let changed = match &expr {
            Expr::BinaryExpr(binary)
                if (name_of(binary.op).is_some()
                    || matches!(
                        binary.op,
                        Operator::IsDistinctFrom | Operator::IsNotDistinctFrom
                    ))
                    && is_jsonb(&binary.left, schema)
                    && is_jsonb(&binary.right, schema) =>
            {
                self.binary(binary)?
            }
            Expr::InList(InList { expr: value, list, negated }) if is_jsonb(value, schema) => {
                let equal = |item: &Expr| self.call(Operator::Eq, (**value).clone(), item.clone());
                let any = list.iter().filter_map(equal).reduce(Expr::or);
                any.map(|any| if *negated { Expr::Not(Box::new(any)) } else { any })
            }
            Expr::Between(between) if is_jsonb(&between.expr, schema) => {
                let value = || between.expr.as_ref().clone();
                let from = self.call(Operator::GtEq, value(), (*between.low).clone());
                let to = self.call(Operator::LtEq, value(), (*between.high).clone());
                let inside = from.zip(to).map(|(from, to)| from.and(to));
                match between.negated {
                    true => inside.map(|inside| Expr::Not(Box::new(inside))),
                    false => inside,
                }
            }
            _ => None,
        };
        Ok(match changed {
            Some(changed) => Transformed::yes(changed),
            None => Transformed::no(expr),
        })
    }
}
