//! Rewrites the SQL of PostgreSQL's clients to SQL that DataFusion can plan.
//!
//! Each rule rewrites one construct of SQL wherever it occurs; no rule recognizes a whole
//! statement. A walk from the top of the syntax tree applies the rules in this order:
//!
//! | written | becomes |
//! |---|---|
//! | a SELECT over a table that is always empty (`pg_policy` …) | no rows of NULLs |
//! | `x OPERATOR(pg_catalog.~) y`, `x COLLATE "default"` | `x ~ y`, `x` |
//! | `pg_catalog.f()`, `CURRENT_USER`, `transaction_timestamp()` | `f()`, `current_user()`, `now()` |
//! | `x::regclass`, `::regtype`, `::oid`, `::name`, `::"char"` | calls of catalog functions, casts |
//! | `ARRAY(SELECT …)`, a correlated scalar subquery over the catalog | an aggregate subquery |
//! | `x = ANY (SELECT …)`, `x = ANY ('{…}')` | `x IN (SELECT …)`, `x = ANY (array)` |
//! | `t AT TIME ZONE z`, `first(v, t)`, `last(v, t)` | `timezone(z, t)`, `first_value(v ORDER BY t)` … |

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, ObjectName, Query, Select, SetExpr, Statement, TableFactor, Value,
};
use stratalog_functions::walk::{self, Change, Flow};

use self::expression::{is_function_column, oid_of, replace};
pub use self::relations::is_table_function;

mod build;
mod cast;
mod correlation;
mod empty_tables;
mod expression;
mod flattening;
mod function;
mod relations;
mod row_json;
mod subquery;
mod system_columns;

/// Rewrites a statement in place. A statement without PostgreSQL's catalogs and types stays
/// unchanged.
pub fn rewrite(statement: &mut Statement) {
    let _ = walk::change(statement, &mut SchemaQualifiers);
    let mut rewriter = Rewriter::default();
    let _ = walk::change(statement, &mut rewriter);
}

/// True if a common table expression (CTE) of the query has the name of a system table.
fn shadows(query: &Query) -> bool {
    let mut ctes = query.with.iter().flat_map(|with| &with.cte_tables);
    ctes.any(|cte| {
        let name = cte.alias.name.value.to_ascii_lowercase();
        crate::spec::system_table("pg_catalog", &name).is_some()
    })
}

/// Removes the schema from column names: `pg_catalog.pg_class.relname` becomes `pg_class.relname`.
struct SchemaQualifiers;

impl Change for SchemaQualifiers {
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> Flow {
        if let Expr::CompoundIdentifier(parts) = expr
            && parts.len() == 3
            && parts.first().is_some_and(|first| first.value.eq_ignore_ascii_case("pg_catalog"))
        {
            parts.remove(0);
        }
        Flow::Continue(())
    }
}

#[derive(Debug, Default)]
struct Rewriter {
    /// True if a CTE visited up to now has the name of a system table. An unqualified name may then
    /// refer to the CTE, which may have rows.
    shadowed: bool,
    /// The memory addresses of the subqueries of `ANY` and `ALL`. These subqueries are not scalar
    /// subqueries.
    sets: Vec<usize>,
}

impl Change for Rewriter {
    fn pre_visit_query(&mut self, query: &mut Query) -> Flow {
        self.shadowed |= shadows(query);
        if !self.shadowed {
            empty_tables::fold(query);
        }
        if let SetExpr::Select(select) = query.body.as_mut() {
            cast::name_projected(select);
        }
        subquery::outside_of_conditions(query);
        Flow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> Flow {
        row_json::of_rows(select);
        system_columns::rewrite(select);
        Flow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> Flow {
        relations::of_function(table);
        match table {
            TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => {
                without_system_schema(name);
            }
            _ => {}
        }
        Flow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> Flow {
        operator(expr);
        cast::rewrite(expr);
        function::rewrite(expr);
        subquery::of_domains(expr);
        subquery::array(expr, self.shadowed);
        subquery::membership(expr);
        if let Expr::InSubquery { subquery, .. } = expr {
            flattening::without_cte(subquery);
        }
        row_json::rewrite(expr);
        match expr {
            Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => {
                if let Expr::Subquery(query) = right.as_ref() {
                    self.sets.push(std::ptr::from_ref(query.as_ref()).addr());
                }
            }
            Expr::Subquery(query)
                if !self.sets.contains(&std::ptr::from_ref(query.as_ref()).addr()) =>
            {
                subquery::scalar(expr, self.shadowed);
            }
            _ => {}
        }
        Flow::Continue(())
    }
}

/// Removes the schema `pg_catalog` or `information_schema` from a name.
fn without_system_schema(name: &mut ObjectName) {
    let system = name.0.first().and_then(|part| part.as_ident()).is_some_and(|first| {
        matches!(first.value.to_ascii_lowercase().as_str(), "pg_catalog" | "information_schema")
    });
    if system && name.0.len() > 1 {
        name.0.remove(0);
    }
}

/// Rewrites operators with a schema, collations, and comparisons with the oids of functions; see
/// the table of the module.
fn operator(expr: &mut Expr) {
    match expr {
        Expr::BinaryOp { left, op, right } => {
            if let BinaryOperator::PGCustomBinaryOperator(name) = op
                && let Some(plain) = name.last().and_then(|name| plain_operator(name))
            {
                *op = plain;
            }
            if matches!(op, BinaryOperator::Eq | BinaryOperator::NotEq) {
                function_oid(left, right);
                function_oid(right, left);
            }
        }
        Expr::Collate { .. } => replace(expr, |old| match old {
            Expr::Collate { expr, .. } => *expr,
            other => other,
        }),
        _ => {}
    }
}

fn plain_operator(name: &str) -> Option<BinaryOperator> {
    Some(match name {
        "=" => BinaryOperator::Eq,
        "<>" | "!=" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        "<=" => BinaryOperator::LtEq,
        ">" => BinaryOperator::Gt,
        ">=" => BinaryOperator::GtEq,
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "~~" => BinaryOperator::PGLikeMatch,
        "~~*" => BinaryOperator::PGILikeMatch,
        "!~~" => BinaryOperator::PGNotLikeMatch,
        "!~~*" => BinaryOperator::PGNotILikeMatch,
        "||" => BinaryOperator::StringConcat,
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        "*" => BinaryOperator::Multiply,
        "/" => BinaryOperator::Divide,
        _ => return None,
    })
}

/// Rewrites a comparison of a function column with an oid. `typreceive <> 0` becomes a comparison
/// with `-`, the name for no function. In `p.oid = typinput`, the column `typinput` becomes the oid
/// of its function.
fn function_oid(column: &mut Expr, number: &mut Expr) {
    if !is_function_column(column) || is_function_column(number) {
        return;
    }
    match number {
        Expr::Value(value) if matches!(&value.value, Value::Number(digits, _) if *digits == "0") => {
            *number = build::string("-");
        }
        Expr::Value(value) if matches!(value.value, Value::Number(_, _)) => oid_of(column),
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => oid_of(column),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
