//! Rewrites aggregates that combine many rows into one JSON document. The rewritten aggregate
//! builds the document as text.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments,
    Ident, ObjectName, Value,
};

use crate::names::fold;
use crate::parse::call;

/// Rewrites `jsonb_agg(v)` to `('[' || string_agg(to_jsonb(v)::text, ', ') || ']')::jsonb`, with
/// `null` for a NULL. `jsonb_object_agg(k, v)` is rewritten in the same way, with the member text
/// of `jsonb_build_object(k, v)`. DISTINCT, ORDER BY, FILTER and OVER stay with the aggregate.
pub fn respell(expr: &mut Expr) {
    let Expr::Function(function) = &mut *expr else { return };
    let Some(name) = function.name.0.last().and_then(|part| part.as_ident()).map(fold) else {
        return;
    };
    let FunctionArguments::List(list) = &mut function.args else { return };
    let mut arguments = list.args.iter().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    let given = (list.args.len(), arguments.next(), arguments.next());
    let (item, open, close) = match (name.as_str(), given) {
        ("jsonb_agg" | "json_agg", (1, Some(value), None)) => (element(value), "[", "]"),
        ("jsonb_object_agg" | "json_object_agg", (2, Some(key), Some(value))) => {
            (member(key, value), "{", "}")
        }
        _ => return,
    };
    let Some(item) = item else { return };
    let argument = |expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr));
    list.args = vec![argument(item), argument(string(", "))];
    function.name = ObjectName::from(vec![Ident::new("string_agg")]);
    let aggregate = std::mem::replace(expr, Expr::Value(Value::Null.into()));
    let document = joined(joined(string(open), aggregate), string(close));
    *expr = cast(Expr::Nested(Box::new(document)), DataType::JSONB);
}

fn element(value: Expr) -> Option<Expr> {
    let json = cast(call("to_jsonb", vec![value])?, DataType::Text);
    call("coalesce", vec![json, string("null")])
}

/// The text of one member of a JSON object: the text of `jsonb_build_object(key, value)` without
/// the braces.
fn member(key: Expr, value: Expr) -> Option<Expr> {
    let object = cast(call("jsonb_build_object", vec![key, value])?, DataType::Text);
    let number = |number: &str| Expr::Value(Value::Number(number.to_string(), false).into());
    let length = Expr::BinaryOp {
        left: Box::new(call("length", vec![object.clone()])?),
        op: BinaryOperator::Minus,
        right: Box::new(number("2")),
    };
    call("substr", vec![object, number("2"), length])
}

fn string(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_string()).into())
}

fn joined(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::StringConcat,
        right: Box::new(right),
    }
}

fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}
