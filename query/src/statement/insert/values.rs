//! The rows of a VALUES clause in INSERT.

use arrow::array::ArrayRef;
use datafusion::{logical_expr::LogicalPlan, sql::sqlparser::ast::Expr};
use stratalog_model::{ColumnType, Error, Result};
use stratalog_postgres::{errors::from_arrow, parameters};

use super::{
    cells::{Cell, one_column},
    columns::Targets,
    compute::{self, ComputeContext},
};
use crate::Session;

/// Maximum number of expressions that one plan evaluates.
const EXPRESSIONS_MAX: usize = 256;

/// Maximum number of rows that are converted to columns at once.
const ROWS_MAX: usize = 8_192;

/// A planned VALUES clause; DEFAULT VALUES has one row without cells.
#[derive(Debug)]
pub struct ValuesClause {
    rows: Vec<Vec<Cell>>,
    /// One plan of all expressions, in the order of the rows; `None` without expressions, and if
    /// there are too many expressions.
    plan: Option<LogicalPlan>,
    guesses: Vec<usize>,
}

impl ValuesClause {
    /// Plans the rows. The plan also determines the types of parameters within expressions, for
    /// example `$1 * 2`.
    ///
    /// # Errors
    /// An error in an expression.
    pub async fn plan(
        session: &Session,
        rows: Vec<Vec<Cell>>,
        types: &mut [Option<ColumnType>],
        targets: &Targets,
    ) -> Result<Self> {
        let open: Vec<&Expr> = expressions(&rows).collect();
        let integers = in_integers(&rows, targets);
        let (mut kept, mut guesses) = (None, Vec::new());
        for (chunk, integers) in chunks(&open, &integers) {
            let within: Vec<usize> = chunk
                .iter()
                .map(|expr| parameters::numbers(*expr))
                .collect::<Result<Vec<_>>>()?
                .into_iter()
                .flatten()
                .map(|number| number - 1)
                .collect();
            let unsettled = |at: &usize| types.get(*at).is_some_and(Option::is_none);
            let all = chunk.len() == open.len();
            if !all && !within.iter().any(unsettled) {
                continue;
            }
            let plan = compute::plan(session, chunk, "VALUES", is_true(integers)).await?;
            let found = parameters::types(&plan, types, types.len())?;
            for at in within {
                if let Some(slot) = types.get_mut(at) {
                    *slot = found.types.get(at).cloned().flatten();
                }
            }
            guesses.extend(found.guesses);
            kept = all.then_some(plan);
        }
        Ok(Self { rows, plan: kept, guesses })
    }

    /// The parameters whose types are guesses, counted from 0. See [`parameters::Types::guesses`].
    pub fn guesses(&self) -> &[usize] {
        &self.guesses
    }

    /// The plan of all expressions; `None` as for the field `plan`.
    pub fn plan_of_expressions(&self) -> Option<&LogicalPlan> {
        self.plan.as_ref()
    }

    /// True if the statement stores earlier chunks of rows before it computes the expressions of
    /// later chunks.
    pub fn is_computed_in_pieces(&self) -> bool {
        self.rows.len() > ROWS_MAX && expressions(&self.rows).next().is_some()
    }

    /// The rows in chunks of at most 8,192 rows, for [`Self::arrays`].
    pub fn pieces(&self) -> impl Iterator<Item = &[Vec<Cell>]> {
        self.rows.chunks(ROWS_MAX)
    }

    /// Converts a chunk of rows to columns, in the order of the statement's column list.
    ///
    /// # Errors
    /// An error in a value.
    pub async fn arrays(
        &self,
        computing: &ComputeContext<'_>,
        piece: &[Vec<Cell>],
        targets: &Targets,
    ) -> Result<Vec<ArrayRef>> {
        let computed = self.computed(computing, piece, targets).await?;
        let mut next = computed.iter();
        let mut rows: Vec<Vec<&Cell>> = Vec::with_capacity(piece.len());
        for row in piece {
            rows.push(
                row.iter()
                    .map(|cell| match cell {
                        Cell::Expression(_) => next.next().unwrap_or(cell),
                        other => other,
                    })
                    .collect(),
            );
        }
        let mut arrays = Vec::with_capacity(targets.listed.len());
        for at in 0..targets.listed.len() {
            let cells: Vec<&Cell> = rows.iter().filter_map(|row| row.get(at).copied()).collect();
            let Some(column) = targets.column(at) else { continue };
            arrays.push(if cells.iter().any(|cell| matches!(cell, Cell::Default)) {
                with_defaults(computing, &cells, targets, at).await?
            } else {
                one_column(computing, &cells, &column.column_type, &column.name)?
            });
        }
        Ok(arrays)
    }

    /// Evaluates the expressions of a chunk of rows. The values come in the order of the rows.
    async fn computed(
        &self,
        computing: &ComputeContext<'_>,
        piece: &[Vec<Cell>],
        targets: &Targets,
    ) -> Result<Vec<Cell>> {
        let mut found = Vec::new();
        match &self.plan {
            Some(plan) => found = computing.run(plan).await?,
            None => {
                let open: Vec<&Expr> = expressions(piece).collect();
                let integers = in_integers(piece, targets);
                for (chunk, integers) in chunks(&open, &integers) {
                    let is_integer = is_true(integers);
                    let plan =
                        compute::plan(computing.session, chunk, "VALUES", is_integer).await?;
                    found.extend(computing.run(&plan).await?);
                }
            }
        }
        Ok(found.into_iter().map(Cell::Computed).collect())
    }
}

/// For each expression in the cells, whether its target is an integer.
fn in_integers(rows: &[Vec<Cell>], targets: &Targets) -> Vec<bool> {
    let cells = rows.iter().flat_map(|row| row.iter().enumerate());
    let open = cells.filter(|(_, cell)| matches!(cell, Cell::Expression(_)));
    open.map(|(at, _)| targets.is_integer(at)).collect()
}

/// The expressions of each plan, and whether their targets are integers.
fn chunks<'a>(
    open: &'a [&'a Expr],
    integers: &'a [bool],
) -> impl Iterator<Item = (&'a [&'a Expr], &'a [bool])> {
    debug_assert_eq!(open.len(), integers.len(), "an expression has no target");
    open.chunks(EXPRESSIONS_MAX).zip(integers.chunks(EXPRESSIONS_MAX))
}

fn is_true(flags: &[bool]) -> impl Fn(usize) -> bool {
    |at| flags.get(at).is_some_and(|flag| *flag)
}

/// The expressions in the cells, in the order of the rows.
fn expressions(rows: &[Vec<Cell>]) -> impl Iterator<Item = &Expr> {
    rows.iter().flatten().filter_map(|cell| match cell {
        Cell::Expression(expr) => Some(expr.as_ref()),
        _ => None,
    })
}

/// Computes a column that contains DEFAULT in some rows.
async fn with_defaults(
    computing: &ComputeContext<'_>,
    cells: &[&Cell],
    targets: &Targets,
    at: usize,
) -> Result<ArrayRef> {
    let Some(position) = targets.listed.get(at).copied() else {
        return Err(Error::internal("a column beyond the list"));
    };
    let Some(column) = targets.column(at) else {
        return Err(Error::internal("a column beyond the table"));
    };
    let defaults = targets.default_of(computing, position, cells.len()).await?;
    let given: Vec<&Cell> = cells
        .iter()
        .map(|cell| if matches!(cell, Cell::Default) { &Cell::Null } else { *cell })
        .collect();
    let given = one_column(computing, &given, &column.column_type, &column.name)?;
    let mask: arrow::array::BooleanArray =
        cells.iter().map(|cell| Some(matches!(cell, Cell::Default))).collect();
    arrow::compute::kernels::zip::zip(&mask, &defaults, &given).map_err(from_arrow)
}

/// Computes the value of one cell, as an array of length 1. `place` is the clause that contains the
/// cell, for error messages.
///
/// # Errors
/// An error in the value.
pub async fn one_value(
    computing: &ComputeContext<'_>,
    cell: Cell,
    column_type: &ColumnType,
    name: &str,
    place: &str,
) -> Result<ArrayRef> {
    let cell = match cell {
        Cell::Expression(expr) => {
            let is_integer = |_| column_type.arrow_type().is_integer();
            let plan = compute::plan(computing.session, [expr], place, is_integer).await?;
            let mut found = computing.run(&plan).await?;
            let value = found.pop().ok_or_else(|| Error::internal("no value"))?;
            Cell::Computed(value)
        }
        other => other,
    };
    one_column(computing, &[&cell], column_type, name)
}
