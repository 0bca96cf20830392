//! Refuses statements whose text is small but whose plan would be too large.

use std::{collections::HashMap, ops::ControlFlow};

use datafusion::sql::sqlparser::ast::{Array, Expr, ObjectNamePart, Query, Select};
use stratalog_model::{Error, ErrorKind, Result};

use crate::{
    names,
    walk::{self, Flow, Look},
};

/// Maximum number of columns of a select list, like in PostgreSQL.
const COLUMNS_MAX: usize = 1664;

/// Maximum number of table reads that a query causes through its WITH queries. The planner plans a
/// WITH query again for each mention.
const RELATIONS_MAX: usize = 10_000;

/// Maximum number of items in a FROM clause. Each item makes the plan one level deeper.
const ENTRIES_MAX: usize = 400;

/// Maximum nesting depth of queries that have a WITH clause. DataFusion visits a WITH query twice
/// for each enclosing query with WITH.
const WITH_DEPTH_MAX: usize = 14;

/// Maximum number of dimensions of an array, like in PostgreSQL.
const DIMENSIONS_MAX: usize = 6;

/// Checks that the plan of a tree does not grow too large.
///
/// # Errors
/// `TooManyColumns`, `StatementTooComplex`, `LimitExceeded`.
pub fn check(tree: &Query) -> Result<()> {
    let mut limits = ComplexityCheck { dimensions: 0, with_depth: 0, error: None };
    let _ = walk::look(tree, &mut limits);
    limits.error.map_or(Ok(()), Err)
}

struct ComplexityCheck {
    /// The number of ARRAY constructors around the visited expression.
    dimensions: usize,
    /// The number of queries with WITH around the visited query.
    with_depth: usize,
    error: Option<Error>,
}

impl ComplexityCheck {
    fn refuse(&mut self, error: Error) -> Flow {
        self.error = Some(error);
        ControlFlow::Break(())
    }
}

impl Look for ComplexityCheck {
    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        if query.with.is_some() {
            self.with_depth += 1;
            if self.with_depth > WITH_DEPTH_MAX {
                return self.refuse(
                    Error::new(
                        ErrorKind::StatementTooComplex,
                        format!("more than {WITH_DEPTH_MAX} WITH clauses are nested"),
                    )
                    .with_hint("list the queries in one WITH clause"),
                );
            }
        }
        let mut weights: HashMap<String, usize> = HashMap::new();
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            let weight = weigh(&cte.query, &weights);
            if weight > RELATIONS_MAX {
                return self.refuse(
                    Error::new(
                        ErrorKind::StatementTooComplex,
                        format!(
                            "WITH query \"{}\" would read more than {RELATIONS_MAX} tables",
                            names::fold(&cte.alias.name)
                        ),
                    )
                    .with_hint("each mention of a WITH query is planned separately"),
                );
            }
            weights.insert(names::fold(&cte.alias.name), weight);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> Flow {
        if query.with.is_some() {
            self.with_depth = self.with_depth.saturating_sub(1);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> Flow {
        let columns = select.projection.len();
        if columns > COLUMNS_MAX {
            return self.refuse(Error::new(
                ErrorKind::TooManyColumns,
                format!(
                    "select lists can have at most {COLUMNS_MAX} entries, this list has {columns}"
                ),
            ));
        }
        let entries: usize = select.from.iter().map(|item| 1 + item.joins.len()).sum();
        if entries > ENTRIES_MAX {
            return self.refuse(
                Error::new(
                    ErrorKind::StatementTooComplex,
                    format!("FROM can have at most {ENTRIES_MAX} entries, this FROM has {entries}"),
                )
                .with_hint("split the statement"),
            );
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> Flow {
        if let Expr::Array(Array { .. }) = expr {
            self.dimensions += 1;
            if self.dimensions > DIMENSIONS_MAX {
                return self.refuse(Error::new(
                    ErrorKind::LimitExceeded,
                    format!(
                        "number of array dimensions exceeds the maximum allowed ({DIMENSIONS_MAX})"
                    ),
                ));
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> Flow {
        if let Expr::Array(_) = expr {
            self.dimensions = self.dimensions.saturating_sub(1);
        }
        ControlFlow::Continue(())
    }
}

/// The number of table reads of a query. `weights` maps the name of each WITH query to the number
/// of its table reads.
fn weigh(query: &Query, weights: &HashMap<String, usize>) -> usize {
    let mut weight = 1_usize;
    let _ = walk::relations(query, |relation| {
        let one = match relation.0.as_slice() {
            [ObjectNamePart::Identifier(ident)] => weights.get(&names::fold(ident)),
            _ => None,
        };
        weight = weight.saturating_add(one.copied().unwrap_or(1));
        ControlFlow::Continue(())
    });
    weight
}
