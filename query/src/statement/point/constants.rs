//! The constants in the filters of a query that runs without a new plan: expressions without
//! columns, over parameters and `now()`.

use std::sync::Arc;

use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::{FieldRef, Schema, SchemaRef},
};
use datafusion::{
    common::{
        Column, DFSchema,
        tree_node::{Transformed, TreeNodeRecursion},
    },
    logical_expr::{
        ColumnarValue, Expr, ExprSchemable, LogicalPlan, Volatility, expr::Placeholder,
    },
    physical_plan::PhysicalExpr,
    scalar::ScalarValue,
};
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};
use stratalog_model::ColumnType;
use stratalog_postgres::parameters;

use crate::session::planner::Planner;

/// The name of the parameter that replaces `now()`, which has a new value in each execution.
const NOW: &str = "$now";

/// The prefix of the names of placeholders for computed constants.
const COMPUTED: &str = "$computed_";

/// Gives the parameters of a plan types, and replaces `now()` with a parameter. `None` if the plan
/// calls another function whose value changes.
pub fn open(plan: LogicalPlan, types: &[ColumnType]) -> Option<LogicalPlan> {
    let mut fixed = true;
    let opened = plan.change_with_subqueries(|node| {
        node.map_expressions(|expr| {
            expr.change_up(|expr| match expr {
                Expr::Placeholder(Placeholder { id, field }) => {
                    let declared_type =
                        parameters::number(&id).and_then(|number| types.get(number - 1));
                    let field = declared_type
                        .map(|declared_type| Arc::new(declared_type.arrow_field("", true)))
                        .or(field);
                    Ok(Transformed::yes(Expr::Placeholder(Placeholder { id, field })))
                }
                Expr::ScalarFunction(ref call) if call.name() == "now" => {
                    let field = expr.to_field(&DFSchema::empty())?.1;
                    let id = NOW.to_string();
                    Ok(Transformed::yes(Expr::Placeholder(Placeholder { id, field: Some(field) })))
                }
                Expr::ScalarFunction(ref call) => {
                    fixed &= call.func.signature().volatility == Volatility::Immutable;
                    Ok(Transformed::no(expr))
                }
                other => Ok(Transformed::no(other)),
            })
        })
    });
    opened.ok().filter(|_| fixed).map(|opened| opened.data)
}

/// The constants of filters, which are planned once and computed in each execution.
#[derive(Debug)]
pub struct Constants {
    /// The input of the constants: a column for each used parameter, and for `now()`.
    schema: SchemaRef,
    each: Vec<Arc<dyn PhysicalExpr>>,
}

impl Constants {
    /// Replaces each constant in `filters` with a placeholder, and returns the constants. `None` if
    /// a constant cannot be planned.
    pub fn take(planner: &Planner, filters: &mut [&mut Expr]) -> Option<Self> {
        let mut fields: Vec<FieldRef> = Vec::new();
        let mut taken: Vec<Expr> = Vec::new();
        for filter in filters.iter_mut() {
            let replaced = std::mem::take(*filter).change_down(|expr| {
                if matches!(expr, Expr::Literal(..)) || expr.any_column_refs() {
                    return Ok(Transformed::no(expr));
                }
                note_parameters(&expr, &mut fields)?;
                let field = expr.to_field(&DFSchema::empty())?.1;
                let id = format!("{COMPUTED}{}", taken.len());
                taken.push(expr);
                let computed = Expr::Placeholder(Placeholder { id, field: Some(field) });
                Ok(Transformed::new(computed, true, TreeNodeRecursion::Jump))
            });
            **filter = replaced.ok()?.data;
        }
        let schema = Arc::new(Schema::new(fields));
        let columns = DFSchema::try_from(Arc::clone(&schema)).ok()?;
        let each = taken.into_iter().map(|expr| planner.compile(as_columns(expr)?, &columns));
        Some(Self { each: each.collect::<Option<_>>()?, schema })
    }

    /// Computes the constants. `None` if a constant has no value, for example a sum out of range:
    /// the caller then plans the query with the parameters, and the plan reports the error.
    pub fn compute(&self, values: &[ScalarValue], now_ns: i64) -> Option<Vec<ScalarValue>> {
        if self.each.is_empty() {
            return Some(Vec::new());
        }
        let columns = self.schema.fields().iter().map(|field| match field.name().as_str() {
            NOW => ScalarValue::TimestampNanosecond(Some(now_ns), None)
                .cast_to(field.data_type())
                .ok()?
                .to_array()
                .ok(),
            name => values.get(parameters::number(name)? - 1)?.to_array().ok(),
        });
        let columns = columns.collect::<Option<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let row = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options);
        let row = row.ok()?;
        let computed = self.each.iter().map(|expr| {
            Some(match expr.evaluate(&row).ok()? {
                ColumnarValue::Scalar(value) => value,
                ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0).ok()?,
            })
        });
        computed.collect()
    }
}

/// Replaces the placeholders in a filter with the computed constants; `None` if a constant is
/// missing.
pub fn fill(filter: &Expr, computed: &[ScalarValue]) -> Option<Expr> {
    let filled = filter.clone().change_up(|expr| match &expr {
        Expr::Placeholder(placeholder) => {
            let at = placeholder.id.strip_prefix(COMPUTED).and_then(|at| at.parse::<usize>().ok());
            Ok(match at.and_then(|at| computed.get(at)) {
                Some(value) => Transformed::yes(Expr::Literal(value.clone(), None)),
                None => Transformed::no(expr),
            })
        }
        _ => Ok(Transformed::no(expr)),
    });
    filled.ok().map(|filled| filled.data)
}

/// Adds the parameters of a constant to `fields`.
fn note_parameters(expr: &Expr, fields: &mut Vec<FieldRef>) -> datafusion::error::Result<()> {
    expr.each(|expr| {
        if let Expr::Placeholder(Placeholder { id, field: Some(field) }) = expr
            && fields.iter().all(|noted| noted.name() != id)
        {
            let field = field.as_ref().clone().with_name(id).with_nullable(true);
            fields.push(Arc::new(field));
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map(|_| ())
}

/// Rewrites a constant so that its parameters become columns of [`Constants::schema`].
fn as_columns(expr: Expr) -> Option<Expr> {
    let columns = expr.change_up(|expr| match expr {
        Expr::Placeholder(Placeholder { id, .. }) => {
            Ok(Transformed::yes(Expr::Column(Column::new_unqualified(id))))
        }
        other => Ok(Transformed::no(other)),
    });
    columns.ok().map(|columns| columns.data)
}
