//! `tableoid` of the system tables: a constant.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Select, TableFactor, Value, VisitMut, VisitorMut};

use super::empty::system_name;
use crate::spec::system_table;

/// Replaces `alias.tableoid` by the oid of the system table that a SELECT calls `alias`.
pub(super) fn rewrite(select: &mut Select) {
    let tables: Vec<(String, i64)> = select
        .from
        .iter()
        .flat_map(|from| {
            std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
        })
        .filter_map(|factor| {
            let TableFactor::Table { name, alias, .. } = factor else { return None };
            let (schema, table) = system_name(name)?;
            let called = alias.as_ref().map_or(table, |alias| alias.name.value.as_str());
            Some((called.to_string(), system_table(schema, table)?.oid))
        })
        .collect();
    if !tables.is_empty() {
        let _ = select.visit(&mut TableOids { tables });
    }
}

struct TableOids {
    tables: Vec<(String, i64)>,
}

impl VisitorMut for TableOids {
    type Break = ();
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let (table, column) = match &*expr {
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, column] => (Some(table.value.as_str()), column),
                _ => return ControlFlow::Continue(()),
            },
            Expr::Identifier(column) => (None, column),
            _ => return ControlFlow::Continue(()),
        };
        if column.value != "tableoid" {
            return ControlFlow::Continue(());
        }
        let oid = match (table, self.tables.as_slice()) {
            (Some(table), tables) => {
                tables.iter().find(|(called, _)| called == table).map(|(_, oid)| *oid)
            }
            (None, [(_, only)]) => Some(*only),
            (None, _) => None,
        };
        if let Some(oid) = oid {
            *expr = Expr::Value(Value::Number(oid.to_string(), false).into());
        }
        ControlFlow::Continue(())
    }
}
