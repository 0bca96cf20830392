//! Rewrites casts to types that exist only in PostgreSQL's catalogs.

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, DataType, Expr, Ident, ObjectName, Select, SelectItem, Value,
};

use super::{
    build,
    expression::{called, is_function_column, oid_of, replace},
};

/// The rewrite of a cast to a type of PostgreSQL's catalogs.
enum Target {
    /// A type like `regclass`, with oids as values and names as output. The text is the stem of the
    /// names of the conversion functions: `regclass_oid`, `regclass_name`.
    Named(&'static str),
    /// A cast to this type, which DataFusion's planner knows.
    Plain(DataType),
}

/// The name of a type in lower case, without its schema.
fn type_word(data_type: &DataType) -> Option<String> {
    match data_type {
        DataType::Regclass => Some("regclass".to_string()),
        DataType::Custom(name, modifiers) if modifiers.is_empty() => {
            let last = name.0.last()?.as_ident()?;
            // In quotes, "char" is another type than char.
            let word = if last.quote_style.is_some() && last.value == "char" {
                "\"char\"".to_string()
            } else {
                last.value.to_ascii_lowercase()
            };
            let known = name.0.len() == 1
                || name.0.first()?.as_ident()?.value.eq_ignore_ascii_case("pg_catalog");
            known.then_some(word)
        }
        _ => None,
    }
}

fn target(data_type: &DataType) -> Option<Target> {
    if let DataType::Array(ArrayElemTypeDef::SquareBracket(element, size)) = data_type {
        let element = match target(element)? {
            Target::Plain(plain) => plain,
            Target::Named(_) => DataType::Text,
        };
        let element = Box::new(element);
        return Some(Target::Plain(DataType::Array(ArrayElemTypeDef::SquareBracket(
            element, *size,
        ))));
    }
    Some(match type_word(data_type)?.as_str() {
        "regclass" => Target::Named("regclass"),
        "regtype" => Target::Named("regtype"),
        "regnamespace" => Target::Named("regnamespace"),
        "regrole" => Target::Named("regrole"),
        "regproc" => Target::Named("regproc"),
        "int8" => Target::Plain(DataType::BigInt(None)),
        "int4" => Target::Plain(DataType::Integer(None)),
        "int2" => Target::Plain(DataType::SmallInt(None)),
        "bool" => Target::Plain(DataType::Boolean),
        "float4" => Target::Plain(DataType::Real),
        "float8" => Target::Plain(DataType::DoublePrecision),
        "text" => Target::Plain(DataType::Text),
        "varchar" => Target::Plain(DataType::Varchar(None)),
        // From any other type name, only the schema is removed.
        word => match data_type {
            DataType::Custom(name, _) if name.0.len() > 1 => {
                let ident = match word.strip_prefix('"') {
                    Some(quoted) => Ident::with_quote('"', quoted.trim_end_matches('"')),
                    None => Ident::new(word),
                };
                Target::Plain(DataType::Custom(ObjectName::from(vec![ident]), Vec::new()))
            }
            _ => return None,
        },
    })
}

/// True for `oid` and for integer types. In a cast of a function column, these types request the
/// oid of the function.
fn is_number(data_type: &DataType) -> bool {
    matches!(type_word(data_type).as_deref(), Some("oid" | "int8" | "int4"))
        || matches!(
            data_type,
            DataType::BigInt(_) | DataType::Int8(_) | DataType::Integer(_) | DataType::Int(_)
        )
}

/// Functions that find an oid by a name, and the type of the oid.
const LOOKUPS: [(&str, &str); 5] = [
    ("to_regclass", "regclass"),
    ("to_regtype", "regtype"),
    ("to_regnamespace", "regnamespace"),
    ("to_regrole", "regrole"),
    ("to_regproc", "regproc"),
];

/// The name of a type like `regclass`, if the expression is a cast to this type, or a call like
/// `to_regclass(x)`; otherwise `None`.
fn oid_stem(expr: &Expr) -> Option<&'static str> {
    match expr {
        Expr::Cast { data_type, .. } => match target(data_type)? {
            Target::Named(stem) => Some(stem),
            Target::Plain(_) => None,
        },
        Expr::Nested(inner) => oid_stem(inner),
        _ => {
            let name = called(expr)?;
            LOOKUPS.iter().find(|(lookup, _)| *lookup == name).map(|(_, stem)| *stem)
        }
    }
}

/// The operand of a cast, without parentheses around it. Any other expression stays unchanged.
fn inside(expr: Expr) -> Expr {
    match expr {
        Expr::Cast { expr, .. } => *expr,
        Expr::Nested(inner) => inside(*inner),
        other => other,
    }
}

fn as_oid(expr: &mut Expr, stem: &str) {
    replace(expr, |old| build::call(&format!("{stem}_oid"), vec![inside(old)]));
}

fn as_name(expr: &mut Expr, stem: &str) {
    replace(expr, |old| build::call(&format!("{stem}_name"), vec![inside(old)]));
}

fn is_placeholder(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::Placeholder(_)))
}

/// Rewrites one expression, without operands; the walk visits the operands later.
pub(super) fn rewrite(expr: &mut Expr) {
    match expr {
        Expr::BinaryOp { left, op, right } if compares(op) => {
            let stem = oid_stem(left).or_else(|| oid_stem(right));
            if let Some(stem) = stem {
                // A column that refers to a function contains the function's name, and not its oid.
                let by_name = is_function_column(left) || is_function_column(right);
                for side in [left, right] {
                    if oid_stem(side).is_some() || build::string_of(side).is_some() {
                        if by_name { as_name(side, stem) } else { as_oid(side, stem) }
                    }
                }
            }
        }
        Expr::Cast { expr: inner, data_type, .. } => {
            if is_function_column(inner) && is_number(data_type) {
                oid_of(inner);
            }
            let Some(stem) = oid_stem(inner) else {
                match target(data_type) {
                    Some(Target::Plain(plain)) => *data_type = plain,
                    Some(Target::Named(stem)) => {
                        // If the operand is a constant, it is a name, and the cast requests the
                        // oid. Otherwise the operand is an oid, and the cast requests the name.
                        let constant = build::string_of(inner).is_some() || is_placeholder(inner);
                        if constant && stem != "regproc" {
                            as_oid(expr, stem);
                        } else {
                            as_name(expr, stem);
                        }
                    }
                    None => {}
                }
                return;
            };
            if is_number(data_type) {
                as_oid(inner, stem);
                // The function already returns this type.
                if type_word(data_type).as_deref() == Some("oid") {
                    let call = std::mem::replace(inner.as_mut(), build::null());
                    *expr = call;
                    return;
                }
            } else {
                as_name(inner, stem);
            }
            if let Some(Target::Plain(plain)) = target(data_type) {
                *data_type = plain;
            }
        }
        Expr::TypedString(typed) => {
            if let (Some(Target::Named(stem)), Some(text)) =
                (target(&typed.data_type), typed.value.clone().into_string())
            {
                *expr = build::call(&format!("{stem}_oid"), vec![build::string(&text)]);
            }
        }
        _ => {}
    }
}

fn compares(operator: &BinaryOperator) -> bool {
    matches!(operator, BinaryOperator::Eq | BinaryOperator::NotEq)
}

/// In the select list, makes a constant of a type like `regclass` print as a name.
pub(super) fn name_projected(select: &mut Select) {
    for item in &mut select.projection {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
            continue;
        };
        if let Some(stem) = oid_stem(expr) {
            let name = called(expr).unwrap_or_else(|| stem.to_string());
            as_name(expr, stem);
            if let SelectItem::UnnamedExpr(unnamed) = item {
                let expr = std::mem::replace(unnamed, build::null());
                *item = SelectItem::ExprWithAlias { expr, alias: Ident::new(name) };
            }
        }
    }
}
