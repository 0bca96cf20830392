//! Names the columns of a LATERAL subquery that come from earlier tables. The planner names such a
//! column after the whole reference (`t.v`), and PostgreSQL after the column (`v`).

use datafusion::sql::sqlparser::ast::{
    Expr, Select, SelectItem, SetExpr, TableFactor, TableWithJoins,
};

use crate::names::fold;

/// Gives an alias to each column of another table in a LATERAL subquery: `LATERAL (SELECT t.v)`
/// becomes `LATERAL (SELECT t.v AS v)`.
pub fn name_columns(factor: &mut TableFactor) {
    if let TableFactor::Derived { lateral: true, subquery, .. } = factor
        && let SetExpr::Select(select) = subquery.body.as_mut()
    {
        let own = own_tables(select);
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) = item else { continue };
            if let [.., table, column] = parts.as_slice()
                && !own.contains(&fold(table))
            {
                let alias = column.clone();
                let expr = Expr::CompoundIdentifier(std::mem::take(parts));
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
        }
    }
}

fn own_tables(select: &Select) -> Vec<String> {
    let mut own = Vec::new();
    let mut left: Vec<&TableWithJoins> = select.from.iter().collect();
    while let Some(tables) = left.pop() {
        let joined = tables.joins.iter().map(|join| &join.relation);
        for factor in std::iter::once(&tables.relation).chain(joined) {
            match factor {
                TableFactor::Table { alias: Some(alias), .. }
                | TableFactor::Derived { alias: Some(alias), .. }
                | TableFactor::Function { alias: Some(alias), .. }
                | TableFactor::UNNEST { alias: Some(alias), .. }
                | TableFactor::NestedJoin { alias: Some(alias), .. } => {
                    own.push(fold(&alias.name));
                }
                TableFactor::Table { name, .. } => {
                    own.extend(name.0.last().and_then(|part| part.as_ident()).map(fold));
                }
                TableFactor::NestedJoin { table_with_joins, .. } => left.push(table_with_joins),
                _ => {}
            }
        }
    }
    own
}
