//! Rewrites calls of functions: PostgreSQL's names, and forms that DataFusion does not have.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments,
    Ident, ObjectName, OrderByExpr, OrderByOptions, Subscript,
};

use super::{
    build,
    expression::{called, is_function_column, is_name_column, oid_of, replace},
    without_system_schema,
};

/// SQL functions that are called without parentheses.
const WORDS: &[&str] =
    &["current_catalog", "current_role", "current_schema", "current_user", "session_user", "user"];

/// PostgreSQL's names of functions, and the names of the same functions here.
const ALIASES: &[(&str, &str)] = &[
    ("transaction_timestamp", "now"),
    ("statement_timestamp", "now"),
    ("pg_get_partition_constraintdef", "pg_get_partkeydef"),
];

/// SQL functions whose argument is the oid of a function.
const OF_FUNCTIONS: [&str; 6] = [
    "obj_description",
    "pg_function_is_visible",
    "pg_get_function_arguments",
    "pg_get_function_identity_arguments",
    "pg_get_function_result",
    "pg_get_functiondef",
];

/// The names of types that PostgreSQL also accepts as functions: `oid(x)` is a cast.
const TYPES: [&str; 7] =
    ["bpchar", "name", "oid", "regclass", "regnamespace", "regrole", "regtype"];

/// Rewrites a call such as `oid(x)` to the cast `x::oid`.
fn as_cast(expr: &mut Expr, data_type: &str) {
    let Expr::Function(function) = expr else { return };
    let FunctionArguments::List(list) = &mut function.args else { return };
    if let [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))] = list.args.as_mut_slice() {
        let value = std::mem::replace(value, build::null());
        let data_type = match data_type {
            "regclass" => DataType::Regclass,
            name => DataType::Custom(ObjectName::from(vec![Ident::new(name)]), Vec::new()),
        };
        *expr = build::cast(value, data_type);
        super::cast::rewrite(expr);
    }
}

/// The columns with vector types. PostgreSQL counts the subscripts of vectors from 0.
const VECTORS: &[&str] =
    &["indkey", "indclass", "indcollation", "indoption", "partattrs", "proargtypes"];

fn is_vector(expr: &Expr) -> bool {
    let name = match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(parts) => parts.last(),
        _ => None,
    };
    name.is_some_and(|name| VECTORS.contains(&name.value.to_ascii_lowercase().as_str()))
}

/// Rewrites the subscript of a vector, which counts from 0, to the subscript of an array, which
/// counts from 1.
fn from_one(access: &mut [AccessExpr]) {
    if let Some(AccessExpr::Subscript(Subscript::Index { index })) = access.first_mut() {
        replace(index, |index| Expr::BinaryOp {
            left: Box::new(Expr::Nested(Box::new(index))),
            op: BinaryOperator::Plus,
            right: Box::new(build::one()),
        });
    }
}

/// Rewrites one expression, without arguments; the walk visits the arguments later.
pub(super) fn rewrite(expr: &mut Expr) {
    match expr {
        // A value of the type `name` has subscripts, like an array of characters that counts from
        // 0.
        Expr::CompoundFieldAccess { root, access_chain } if is_name_column(root) => {
            if let [AccessExpr::Subscript(Subscript::Index { .. })] = access_chain.as_slice() {
                from_one(access_chain);
                if let Some(AccessExpr::Subscript(Subscript::Index { index })) = access_chain.pop()
                {
                    replace(expr, |name| match name {
                        Expr::CompoundFieldAccess { root, .. } => {
                            build::call("substr", vec![*root, index, build::one()])
                        }
                        other => other,
                    });
                }
            }
        }
        Expr::CompoundFieldAccess { root, access_chain } if is_vector(root) => {
            from_one(access_chain);
        }
        Expr::CompoundFieldAccess { root, access_chain } => {
            // A column in parentheses with a subscript, for example `(i.indkey)[0]`.
            if matches!(root.as_ref(), Expr::Nested(inner) if is_vector(inner)) {
                from_one(access_chain);
            }
            // A qualified column with a subscript, for example `i.indkey[0]`, in the form of the
            // parser.
            if let [AccessExpr::Dot(column), subscript @ ..] = access_chain.as_mut_slice()
                && is_vector(column)
            {
                from_one(subscript);
            }
        }
        Expr::Identifier(name)
            if name.quote_style.is_none()
                && WORDS.contains(&name.value.to_ascii_lowercase().as_str()) =>
        {
            let function = name.value.to_ascii_lowercase();
            *expr = build::call(&function, Vec::new());
        }
        Expr::AtTimeZone { .. } => replace(expr, |old| match old {
            Expr::AtTimeZone { timestamp, time_zone } => {
                build::call("timezone", vec![*time_zone, *timestamp])
            }
            other => other,
        }),
        Expr::Function(function) => {
            without_system_schema(&mut function.name);
            let name = match function.name.0.as_slice() {
                [only] => only.as_ident().map(|name| name.value.to_ascii_lowercase()),
                _ => None,
            };
            let alias = ALIASES
                .iter()
                .find(|(known, _)| name.as_deref() == Some(*known))
                .map(|(_, to)| *to);
            if name.as_deref() == Some("subscripts_list") && first_is_vector(&function.args) {
                function.name = ObjectName::from(vec![Ident::new("vector_subscripts_list")]);
            }
            if let Some(alias) = alias {
                function.name = ObjectName::from(vec![Ident::new(alias)]);
            }
            if name.as_deref().is_some_and(|name| OF_FUNCTIONS.contains(&name))
                && let FunctionArguments::List(list) = &mut function.args
                && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(first))) =
                    list.args.first_mut()
                && is_function_column(first)
            {
                oid_of(first);
            }
            match name {
                Some(name) if TYPES.contains(&name.as_str()) => as_cast(expr, &name),
                _ => at_time(expr),
            }
        }
        _ => {}
    }
}

fn first_is_vector(arguments: &FunctionArguments) -> bool {
    let FunctionArguments::List(list) = arguments else { return false };
    matches!(list.args.first(), Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(first))) if is_vector(first))
}

/// Rewrites `first(value, time)` to `first_value(value ORDER BY time)`, and `last(value, time)` to
/// `last_value(value ORDER BY time)`.
fn at_time(expr: &mut Expr) {
    // A row without a time must be neither the first nor the last. NULL times therefore sort last
    // for `first`, and first for `last`.
    let (name, nulls_first) = match called(expr).as_deref() {
        Some("first") => ("first_value", false),
        Some("last") => ("last_value", true),
        _ => return,
    };
    let Expr::Function(function) = expr else { return };
    if function.over.is_some() {
        return;
    }
    let FunctionArguments::List(list) = &mut function.args else { return };
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(_)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(_)),
    ] = list.args.as_slice()
    else {
        return;
    };
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(time))) = list.args.pop() else { return };
    function.name = ObjectName::from(vec![Ident::new(name)]);
    list.clauses.push(datafusion::sql::sqlparser::ast::FunctionArgumentClause::OrderBy(vec![
        OrderByExpr {
            expr: time,
            options: OrderByOptions { asc: Some(true), nulls_first: Some(nulls_first) },
            with_fill: None,
        },
    ]));
}
