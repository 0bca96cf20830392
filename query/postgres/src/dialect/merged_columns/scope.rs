//! Replaces the names of merged columns, and `*`, in a select whose joins are rewritten.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Ident, OrderBy, OrderByKind, Select, SelectItem, Value,
};
use stratalog_model::{Error, ErrorKind, Result};

use super::{Columns, columns::Column};
use crate::{
    names::{fold, is_wildcard, name_of_item},
    walk::{self, Tree},
};

/// The error for a name that denotes several columns.
pub fn ambiguous(message: String) -> Error {
    Error::new(ErrorKind::AmbiguousColumn, message)
}

/// Replaces the names of merged columns with expressions, except in subqueries.
pub struct MergedNames<'a> {
    columns: &'a [Column],
    replaced: usize,
    error: Option<Error>,
}

impl<'a> MergedNames<'a> {
    /// Creates a replacer for the names of `columns`.
    pub fn new(columns: &'a [Column]) -> Self {
        Self { columns, replaced: 0, error: None }
    }

    /// Returns the error of the replaced names, if any.
    ///
    /// # Errors
    /// `AmbiguousColumn` for the first name that denotes several columns.
    pub fn checked(self) -> Result<()> {
        self.error.map_or(Ok(()), Err)
    }

    /// The expression of the merged column with this name; `None` for another name, and for an
    /// ambiguous name, whose error the replacer keeps.
    fn meaning(&mut self, ident: &Ident) -> Option<Expr> {
        let name = fold(ident);
        let mut named = self.columns.iter().filter(|column| column.name == name);
        let first = named.next()?;
        let others: Vec<&Column> = named.collect();
        if !first.merged && !others.iter().any(|column| column.merged) {
            return None;
        }
        if !others.is_empty() {
            let message = format!("column reference \"{name}\" is ambiguous");
            self.error.get_or_insert_with(|| ambiguous(message));
            return None;
        }
        Some(first.expr.clone())
    }

    /// Replaces the names in `tree`, except in its subqueries.
    pub fn replace_in(&mut self, tree: &mut impl Tree) {
        let _ = walk::own_expressions_mut(tree, |expr| {
            if let Expr::Identifier(ident) = expr
                && let Some(meaning) = self.meaning(&ident.clone())
            {
                *expr = meaning;
                self.replaced += 1;
            }
            ControlFlow::Continue(())
        });
    }
}

/// Replaces the names of merged columns in all clauses of a select, and in its ORDER BY.
///
/// # Errors
/// `AmbiguousColumn` for a name that denotes several columns; an error for a `*` if FROM has a
/// table with unknown columns.
pub fn replace(
    select: &mut Select,
    order_by: Option<&mut OrderBy>,
    items: Vec<Option<Columns>>,
) -> Result<()> {
    if select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_))) {
        let known: Option<Vec<Columns>> = items.iter().cloned().collect();
        let known = known.ok_or_else(|| {
            Error::not_yet("* of LATERAL beside a join with USING or NATURAL")
                .with_hint("name the columns")
        })?;
        write_stars(select, &known.concat());
    }
    let columns: Columns = items.into_iter().flatten().flatten().collect();
    let names_before: Vec<String> = select.projection.iter().map(name_of_item).collect();
    let mut names = MergedNames::new(&columns);
    for item in &mut select.projection {
        let name = name_of_item(item);
        let before = names.replaced;
        names.replace_in(item);
        if names.replaced > before
            && let SelectItem::UnnamedExpr(expr) = item
        {
            let alias = Ident::with_quote('"', name);
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
    names.replace_in(&mut select.selection);
    names.replace_in(&mut select.group_by);
    names.replace_in(&mut select.having);
    names.replace_in(&mut select.named_window);
    let first_of_each = matches!(select.distinct, Some(Distinct::On(_)));
    names.replace_in(&mut select.distinct);
    if let Some(order_by) = order_by
        && let OrderByKind::Expressions(orders) = &mut order_by.kind
    {
        let hidden = select.projection.iter().position(is_wildcard).unwrap_or(usize::MAX);
        for order in orders {
            // In ORDER BY, a name denotes a result column first, and only then a column of the
            // tables.
            if let Expr::Identifier(ident) = &order.expr
                && let Some(at) = names_before.iter().position(|name| *name == fold(ident))
            {
                let first = select.projection.get(at).map(item_expression);
                let other = names_before.iter().zip(&select.projection).any(|(name, item)| {
                    *name == fold(ident) && first != Some(item_expression(item))
                });
                if other {
                    let message = format!("ORDER BY \"{}\" is ambiguous", fold(ident));
                    return Err(ambiguous(message));
                }
                if at < hidden && !first_of_each {
                    order.expr = Expr::value(Value::Number((at + 1).to_string(), false));
                    continue;
                }
                if let Some(SelectItem::ExprWithAlias { expr, .. }) = select.projection.get(at) {
                    order.expr = expr.clone();
                    continue;
                }
            }
            names.replace_in(order);
        }
    }
    names.checked()
}

/// The expression of a select-list item; `None` for a wildcard.
fn item_expression(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// Replaces each `*` with the list of columns.
fn write_stars(select: &mut Select, columns: &[Column]) {
    let items = std::mem::take(&mut select.projection);
    for item in items {
        match item {
            SelectItem::Wildcard(_) => {
                select.projection.extend(columns.iter().enumerate().map(|(at, column)| {
                    let alone = columns.iter().filter(|other| other.name == column.name).count();
                    let expr = column.expr.clone();
                    let name = match alone {
                        1 => column.name.clone(),
                        // The suffix makes the names of equal columns distinct, as in other
                        // expanded wildcards.
                        _ => format!("{}\u{1}{at}", column.name),
                    };
                    match column.merged || alone > 1 {
                        true => {
                            let alias = Ident::with_quote('"', name);
                            SelectItem::ExprWithAlias { expr, alias }
                        }
                        false => SelectItem::UnnamedExpr(expr),
                    }
                }));
            }
            other => select.projection.push(other),
        }
    }
}
