//! Builds small SQL expressions as syntax trees.

use datafusion::sql::sqlparser::ast::{
    CaseWhen, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
    OrderByExpr, Value, helpers::attached_token::AttachedToken,
};

/// The expression `NULL`.
pub(super) fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

/// The expression `false`.
pub(super) fn no() -> Expr {
    Expr::Value(Value::Boolean(false).into())
}

/// The expression `1`.
pub(super) fn one() -> Expr {
    Expr::Value(Value::Number("1".to_string(), false).into())
}

/// The expression `'text'`.
pub(super) fn string(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_string()).into())
}

/// The expression `CAST(expr AS data_type)`.
pub(super) fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

/// The expression `name(arguments)`.
pub(super) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    call_ordered(name, arguments, Vec::new())
}

/// The expression `name(arguments ORDER BY order)`.
pub(super) fn call_ordered(name: &str, arguments: Vec<Expr>, order: Vec<OrderByExpr>) -> Expr {
    let args = arguments
        .into_iter()
        .map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)))
        .collect();
    let clauses =
        if order.is_empty() { Vec::new() } else { vec![FunctionArgumentClause::OrderBy(order)] };
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses,
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// The expression `CASE WHEN condition THEN result END`.
pub(super) fn when(condition: Expr, result: Expr) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result }],
        else_result: None,
    }
}

/// The text of a string literal; `None` for any other expression.
pub(super) fn string_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text),
            _ => None,
        },
        Expr::Nested(inner) => string_of(inner),
        _ => None,
    }
}
