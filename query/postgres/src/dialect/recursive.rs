//! Determines the column types of recursive queries. The first term determines the types: an
//! integer constant in the first term has the type integer, although the planner would choose
//! bigint.

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Ident, Query, Select, SelectItem, SetExpr, UnaryOperator, Value,
    ValueWithSpan,
};

/// Casts the integer constants in the first term of each recursive query.
pub fn type_constants(query: &mut Query) {
    let Some(with) = query.with.as_mut().filter(|with| with.recursive) else { return };
    for cte in &mut with.cte_tables {
        let has_names = !cte.alias.columns.is_empty();
        if let SetExpr::SetOperation { left, .. } = cte.query.body.as_mut() {
            in_term(left, has_names);
        }
    }
}

fn in_term(term: &mut SetExpr, has_names: bool) {
    // Recursion is safe here, because the parser limits the depth of a statement.
    match term {
        SetExpr::Select(select) => in_select(select, has_names),
        SetExpr::Query(query) => in_term(query.body.as_mut(), has_names),
        SetExpr::SetOperation { left, right, .. } => {
            in_term(left, has_names);
            in_term(right, has_names);
        }
        SetExpr::Values(values) => {
            values.rows.iter_mut().flat_map(|row| &mut row.content).for_each(as_integer);
        }
        _ => {}
    }
}

fn in_select(select: &mut Select, has_names: bool) {
    for item in &mut select.projection {
        match item {
            SelectItem::ExprWithAlias { expr, .. } => as_integer(expr),
            // The cast would rename a column without an alias.
            SelectItem::UnnamedExpr(expr) if is_integer(expr) => {
                as_integer(expr);
                if !has_names {
                    let alias = Ident::with_quote('"', "?column?");
                    let expr = std::mem::replace(expr, Expr::Value(Value::Null.into()));
                    *item = SelectItem::ExprWithAlias { expr, alias };
                }
            }
            _ => {}
        }
    }
}

fn as_integer(expr: &mut Expr) {
    if !is_integer(expr) {
        return;
    }
    let inner = std::mem::replace(expr, Expr::Value(Value::Null.into()));
    *expr = Expr::Cast {
        kind: CastKind::DoubleColon,
        expr: Box::new(inner),
        data_type: DataType::Integer(None),
        array: false,
        format: None,
    };
}

/// True if an expression is a constant of type integer.
fn is_integer(expr: &Expr) -> bool {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => {
            digits.parse::<i32>().is_ok()
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => is_integer(expr),
        Expr::Nested(inner) => is_integer(inner),
        _ => false,
    }
}
