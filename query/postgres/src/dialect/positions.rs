//! Replaces the function `read_record(gsn, table)` in FROM with a subquery. The function reads the
//! record at one position (gsn) of the log.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName,
    SelectItem, SetExpr, TableAlias, TableFactor, TableFunctionArgs,
};
use stratalog_model::{Error, ErrorKind, Result};

use crate::{names::fold, parse};

/// The planner's name for the table function that replaces `read_record`.
pub const RECORD_FUNCTION: &str = "$record";

/// The column of the replaced function that has the position of each record.
pub const RECORD_POSITION: &str = "$gsn";

/// True if the function with the name `name`, in lower case, reads a table.
pub fn reads_table(name: &str) -> bool {
    name == "read_record"
}

/// The subquery that replaces a call of `read_record`; `None` for other functions.
///
/// # Errors
/// `UndefinedFunction` for wrong arguments.
pub fn in_from(
    function: &Ident,
    arguments: &[Expr],
    alias: Option<&TableAlias>,
) -> Result<Option<TableFactor>> {
    match (fold(function).as_str(), arguments) {
        ("read_record", [gsn, table]) => {
            let compared = Expr::BinaryOp {
                left: Box::new(Expr::Identifier(Ident::with_quote('"', RECORD_POSITION))),
                op: BinaryOperator::Eq,
                right: Box::new(Expr::Nested(Box::new(gsn.clone()))),
            };
            let called = alias.cloned().unwrap_or_else(|| function_alias(function));
            record_of(table, compared, called).map(Some)
        }
        ("read_record", _) => Err(Error::new(
            ErrorKind::UndefinedFunction,
            "read_record needs a gsn and the name of a table",
        )
        .with_hint("SELECT * FROM read_record(42, 'cpu')")),
        _ => Ok(None),
    }
}

fn function_alias(function: &Ident) -> TableAlias {
    TableAlias { explicit: true, name: function.clone(), columns: Vec::new(), at: None }
}

/// Builds `(SELECT * EXCLUDE ("$gsn") FROM $record(table) WHERE compared) AS called`.
fn record_of(table: &Expr, compared: Expr, called: TableAlias) -> Result<TableFactor> {
    let parsed = parse::statements("SELECT * FROM records()", usize::MAX)?.into_iter().next();
    let Some(datafusion::sql::sqlparser::ast::Statement::Query(mut subquery)) =
        parsed.map(|tree| tree.statement)
    else {
        return Err(Error::internal("read_record is no query"));
    };
    if let SetExpr::Select(select) = subquery.body.as_mut() {
        select.selection = Some(compared);
        if let Some(SelectItem::Wildcard(options)) = select.projection.first_mut() {
            let position = Ident::with_quote('"', RECORD_POSITION);
            options.opt_exclude =
                Some(ExcludeSelectItem::Multiple(vec![ObjectName::from(vec![position])]));
        }
        if let Some(from) = select.from.first_mut()
            && let TableFactor::Table { name, args, .. } = &mut from.relation
        {
            // The planner finds a function by its name as written, with quotes: a quoted name would
            // be another function.
            *name = ObjectName::from(vec![Ident::new(RECORD_FUNCTION)]);
            let table = FunctionArg::Unnamed(FunctionArgExpr::Expr(table.clone()));
            *args = Some(TableFunctionArgs { args: vec![table], settings: None });
        }
    }
    Ok(TableFactor::Derived { lateral: false, subquery, alias: Some(called), sample: None })
}
