//! Computes IN, ANY and ALL of a subquery as a query with one row and one value. The value says, in
//! three-valued logic, whether the comparison is true for any row of the subquery, or for all rows.

use std::sync::Arc;

use datafusion::{
    common::{Column, DFSchema, ExprSchema, Result, tree_node::Transformed},
    functions_aggregate::count::count_udaf,
    logical_expr::{
        Aggregate, Expr, ExprFunctionExt, LogicalPlan, Operator, Projection, Subquery, binary_expr,
        expr::{InSubquery, SetComparison, SetQuantifier},
        lit, when,
    },
    scalar::ScalarValue,
};
use stratalog_functions::plan_walk::TreeWalk;

/// A plan with one row, which contains the result of a comparison with a subquery.
pub struct QuantifiedComparison {
    pub plan: LogicalPlan,
    negated: bool,
}

impl QuantifiedComparison {
    /// Creates the plan for `value IN (rows)` or NOT IN. `schema` has the columns of the outer
    /// rows.
    ///
    /// # Errors
    /// An error if a column does not exist.
    pub fn is_member(membership: InSubquery, schema: &DFSchema) -> Result<Self> {
        let InSubquery { expr, subquery, negated } = membership;
        let plan = comparison_plan(*expr, Operator::Eq, &subquery, SetQuantifier::Any, schema)?;
        Ok(Self { plan, negated })
    }

    /// Creates the plan for `value < ANY (rows)` and similar comparisons. `schema` has the columns
    /// of the outer rows.
    ///
    /// # Errors
    /// An error if a column does not exist.
    pub fn compares(comparison: SetComparison, schema: &DFSchema) -> Result<Self> {
        let SetComparison { expr, subquery, op, quantifier } = comparison;
        let plan = comparison_plan(*expr, op, &subquery, quantifier, schema)?;
        Ok(Self { plan, negated: false })
    }

    /// The result of the comparison as a scalar subquery.
    pub fn into_scalar(self) -> Expr {
        let outer_ref_columns = self.plan.all_out_ref_exprs();
        let subquery = Arc::new(self.plan);
        let answer = Subquery { subquery, outer_ref_columns, spans: Default::default() };
        negated_if(self.negated, Expr::ScalarSubquery(answer))
    }

    /// The result of the comparison, given the value in the row of the plan.
    pub fn of(&self, value: Expr) -> Expr {
        negated_if(self.negated, value)
    }
}

fn negated_if(negated: bool, answer: Expr) -> Expr {
    if negated { !answer } else { answer }
}

const COMPARED: &str = "compared";
const DECIDING: &str = "deciding";
const UNKNOWN: &str = "unknown";

fn comparison_plan(
    value: Expr,
    operator: Operator,
    subquery: &Subquery,
    quantifier: SetQuantifier,
    schema: &DFSchema,
) -> Result<LogicalPlan> {
    let rows = Arc::clone(&subquery.subquery);
    let (table, field) = rows.schema().qualified_field(0);
    let of_row = Expr::Column(Column::from((table, field)));
    let compares =
        binary_expr(with_outer_references(value, schema)?, operator, of_row).alias(COMPARED);
    let column = |name: &str| Expr::Column(Column::new_unqualified(name));
    // A single row for which the comparison is true (ANY) or false (ALL) decides the result.
    let (deciding, decided) = match quantifier {
        SetQuantifier::Any => (column(COMPARED), true),
        SetQuantifier::All => (!column(COMPARED), false),
    };
    let count = |which: Expr| count_udaf().call(vec![lit(1_i64)]).filter(which).build();
    let counts =
        vec![count(deciding)?.alias(DECIDING), count(column(COMPARED).is_null())?.alias(UNKNOWN)];
    let answer = when(column(DECIDING).gt(lit(0_i64)), lit(decided))
        .when(column(UNKNOWN).gt(lit(0_i64)), lit(ScalarValue::Boolean(None)))
        .otherwise(lit(!decided))?;
    let rows = LogicalPlan::Projection(Projection::try_new(vec![compares], rows)?);
    let counted = Aggregate::try_new(Arc::new(rows), Vec::new(), counts)?;
    let counted = Arc::new(LogicalPlan::Aggregate(counted));
    Projection::try_new(vec![answer.alias(COMPARED)], counted).map(LogicalPlan::Projection)
}

/// An expression over the outer rows, with outer references, for use inside of the subquery.
fn with_outer_references(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    expr.change_up(|expr| match expr {
        Expr::Column(column) => {
            let field = Arc::clone(schema.field_from_column(&column)?);
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        other => Ok(Transformed::no(other)),
    })
    .map(|expr| expr.data)
}
