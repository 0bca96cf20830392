//! Rewrites the system columns `tableoid`, `xmin`, `xmax`, `cmin` and `cmax` of system tables.
//! `tableoid` becomes a constant, and `xmin` a number that changes with the catalog.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Ident, ObjectName, Select, SelectItem, TableFactor, Value,
};
use stratalog_functions::walk::{self, Change};

use super::{build, empty_tables::system_name, expression::replace};
use crate::spec::system_table;

/// Replaces `alias.tableoid` by the oid of the system table with this alias, and `alias.xmin` by
/// the version of the catalog.
pub(super) fn rewrite(select: &mut Select) {
    let tables: Vec<(String, i64)> = select
        .from
        .iter()
        .flat_map(|from| {
            std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
        })
        .filter_map(|factor| {
            let TableFactor::Table { name, alias, args: None, .. } = factor else { return None };
            let (schema, table) = system_name(name)?;
            let called = alias.as_ref().map_or(table, |alias| alias.name.value.as_str());
            Some((called.to_string(), system_table(schema, table)?.oid))
        })
        .collect();
    if tables.is_empty() {
        return;
    }
    for item in &mut select.projection {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        if let Some((_, column)) = column_of(expr)
            && value_of(&column.value, 0).is_some()
        {
            let alias = column.clone();
            let expr = std::mem::replace(expr, build::null());
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
    let _ = walk::change(select, &mut SystemColumns { tables });
}

/// Splits a column `table.column` or `column` into table and column name; `None` for any other
/// expression.
fn column_of(expr: &Expr) -> Option<(Option<&Ident>, &Ident)> {
    match expr {
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [table, column] => Some((Some(table), column)),
            _ => None,
        },
        Expr::Identifier(column) => Some((None, column)),
        _ => None,
    }
}

/// The value of a system column in the table with this oid; `None` if the column is not a system
/// column.
fn value_of(column: &str, oid: i64) -> Option<Expr> {
    let typed = |value, name: &str| {
        let name = ObjectName::from(vec![Ident::new(name)]);
        build::cast(value, DataType::Custom(name, Vec::new()))
    };
    let number = |number: i64| Expr::Value(Value::Number(number.to_string(), false).into());
    Some(match column {
        "tableoid" => typed(number(oid), "oid"),
        "xmin" => build::call("catalog_version", Vec::new()),
        "xmax" => typed(number(0), "xid"),
        "cmin" | "cmax" => typed(number(0), "cid"),
        _ => return None,
    })
}

struct SystemColumns {
    tables: Vec<(String, i64)>,
}

impl Change for SystemColumns {
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Some((table, column)) = column_of(expr) else { return ControlFlow::Continue(()) };
        let oid = match (table, self.tables.as_slice()) {
            (Some(table), tables) => {
                tables.iter().find(|(called, _)| *called == table.value).map(|(_, oid)| *oid)
            }
            (None, [(_, only)]) => Some(*only),
            (None, _) => None,
        };
        if let Some(value) = oid.and_then(|oid| value_of(&column.value, oid)) {
            replace(expr, |_| value);
        }
        ControlFlow::Continue(())
    }
}
