//! ANY and ALL with arrays. A literal array becomes a list. For an array column, the rewrite adds
//! the unknown result (NULL): the planner would return false.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, CaseWhen, CastKind, DataType, Expr, FunctionArguments, Ident,
    TypedString, UnaryOperator, Value, ValueWithSpan, helpers::attached_token::AttachedToken,
};
use stratalog_model::Result;
use stratalog_text::parse_array;

use crate::{names::fold, parse, walk};

/// `x = ANY (SELECT …)` becomes `x IN (SELECT …)`, and `x <> ALL (SELECT …)` becomes NOT IN. With
/// `ARRAY[…]`, or a quoted array, the elements become the list of the IN. For other operators, the
/// result combines one comparison for each element.
///
/// # Errors
/// An error in the quoted array.
pub fn membership(expr: &mut Expr) -> Result<()> {
    let (left, op, right, all) = match expr {
        Expr::AnyOp { left, compare_op, right, .. } => (left, compare_op, right, false),
        Expr::AllOp { left, compare_op, right } => (left, compare_op, right, true),
        _ => return Ok(()),
    };
    let is_list = match all {
        false => *op == BinaryOperator::Eq,
        true => *op == BinaryOperator::NotEq,
    };
    if let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) =
        right.as_ref()
    {
        let list = elements(text)?;
        let left = std::mem::replace(left, Box::new(null()));
        *expr = match (list.is_empty(), is_list) {
            (false, true) => Expr::InList { expr: left, list, negated: all },
            (false, false) => comparison_with_each(&left, op, &list, all),
            // Membership in an empty list is false, even for NULL.
            (true, _) => Expr::Nested(Box::new(Expr::BinaryOp {
                left: Box::new(Expr::IsNull(left)),
                op: if all { BinaryOperator::Or } else { BinaryOperator::And },
                right: Box::new(Expr::Value(Value::Boolean(all).into())),
            })),
        };
        return Ok(());
    }
    if !is_list {
        if let Expr::Array(array) = right.as_ref()
            && !array.elem.is_empty()
        {
            let list = in_array_type(array.elem.clone());
            *expr = comparison_with_each(left, op, &list, all);
        }
        return Ok(());
    }
    // An `ARRAY(SELECT …)` has the rows of its subquery as elements.
    if let Expr::Function(function) = right.as_ref()
        && let FunctionArguments::Subquery(query) = &function.args
        && function.name.to_string().eq_ignore_ascii_case("array")
    {
        **right = Expr::Subquery(query.clone());
    }
    if let Expr::Subquery(query) = right.as_mut() {
        let subquery = query.clone();
        let expr_of = std::mem::replace(left, Box::new(null()));
        *expr = Expr::InSubquery { expr: expr_of, subquery, negated: all };
    } else if let Expr::Array(array) = right.as_mut()
        && !array.elem.is_empty()
    {
        let list = std::mem::take(&mut array.elem);
        if list.len() > 1 && list.iter().any(differs_in_real) && list.iter().all(is_number) {
            *expr = comparison_with_each(left, op, &list, all);
            return Ok(());
        }
        let expr_of = std::mem::replace(left, Box::new(null()));
        *expr = Expr::InList { expr: expr_of, list: in_array_type(list), negated: all };
    }
    Ok(())
}

/// Maximum number of different types among the elements of an array that gets a common type.
const TYPES_MAX: usize = 64;

/// Maximum number of CASE branches that give an array a common type. The elements of a larger array
/// keep their own types.
const BRANCHES_MAX: usize = 20_000;

/// Gives the elements of an array PostgreSQL's common type. Each element becomes a CASE that
/// returns the element; branches that never apply name one element of every type in the array, and
/// thus determine the type of the CASE. Elements without a type, and casts to one type, stay
/// unchanged.
fn in_array_type(list: Vec<Expr>) -> Vec<Expr> {
    if list.iter().all(is_untyped)
        || list.windows(2).all(|pair| matches!(pair, [one, other] if same_cast(one, other)))
    {
        return list;
    }
    // One element of each type is enough, if the syntax shows the types.
    let mut others: Vec<Expr> = Vec::new();
    for element in &list {
        let is_known = |other: &Expr| *other == *element || same_type(other, element);
        if others.len() <= TYPES_MAX && !others.iter().any(is_known) {
            others.push(element.clone());
        }
    }
    if others.len() > TYPES_MAX || list.len() * others.len() > BRANCHES_MAX {
        return list;
    }
    let constant = |value| Expr::Value(Value::Boolean(value).into());
    let when = |condition, result| CaseWhen { condition: constant(condition), result };
    let typed = |element: Expr| {
        let mut conditions = vec![when(true, element)];
        conditions.extend(others.iter().map(|other| when(false, other.clone())));
        Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: None,
            conditions,
            else_result: None,
        }
    };
    list.into_iter().map(typed).collect()
}

/// Whether two elements certainly have the same type: casts to one type, numbers of the same
/// integer or numeric type, quoted constants, or NULL.
fn same_type(one: &Expr, other: &Expr) -> bool {
    let kind = |expr: &Expr| match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. }) => Some("text"),
        Expr::Value(ValueWithSpan { value: Value::Null, .. }) => Some("null"),
        expr => match number(expr)? {
            text if text.parse::<i32>().is_ok() => Some("integer"),
            text if text.parse::<i64>().is_ok() => Some("bigint"),
            _ => Some("numeric"),
        },
    };
    let kinds = (kind(one), kind(other));
    kinds.0.is_some() && kinds.0 == kinds.1 || same_cast(one, other)
}

/// Whether an expression is a constant without a cast, or a parameter.
fn is_untyped(expr: &Expr) -> bool {
    match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => is_untyped(expr),
        Expr::Value(_) => true,
        _ => false,
    }
}

/// Whether two expressions are casts to the same type.
fn same_cast(one: &Expr, other: &Expr) -> bool {
    let target = cast_target(one);
    target.is_some() && target == cast_target(other)
}

/// The target type of a cast; `None` for other expressions.
fn cast_target(expr: &Expr) -> Option<&DataType> {
    match expr {
        Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) => {
            Some(data_type)
        }
        _ => None,
    }
}

/// Casts each element of `ARRAY[…]::type[]` directly to the type, like PostgreSQL: a cast to the
/// common type of the elements first could lose digits. An array of constants stays unchanged,
/// because the cast of the array gives the same result.
pub fn cast_elements(expr: &mut Expr) {
    let Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr: inner, data_type, .. } =
        expr
    else {
        return;
    };
    let DataType::Array(
        ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::AngleBracket(element),
    ) = data_type
    else {
        return;
    };
    let Expr::Array(array) = inner.as_mut() else { return };
    let is_constant = |expr: &Expr| match expr {
        Expr::Value(_) => true,
        Expr::UnaryOp { expr, .. } => matches!(expr.as_ref(), Expr::Value(_)),
        _ => false,
    };
    let has_array = array.elem.iter().any(|expr| matches!(expr, Expr::Array(_)));
    if has_array || array.elem.iter().all(is_constant) {
        return;
    }
    for expr in &mut array.elem {
        let inner = std::mem::replace(expr, null());
        *expr = Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(inner),
            data_type: element.as_ref().clone(),
            array: false,
            format: None,
        };
    }
}

fn number(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => number(expr),
        Expr::Value(ValueWithSpan { value: Value::Number(text, _), .. }) => Some(text),
        _ => None,
    }
}

fn is_number(expr: &Expr) -> bool {
    number(expr).is_some()
}

/// True for a number with decimal places or an exponent, and for a whole number that the type real
/// rounds. ANY compares a real with an array of such numbers in double precision; IN compares in
/// real.
fn differs_in_real(expr: &Expr) -> bool {
    number(expr).is_some_and(|text| {
        let exact = text.parse::<f64>().is_ok_and(|value| f64::from(value as f32) == value);
        text.contains(['.', 'e', 'E']) || !exact
    })
}

fn elements(text: &str) -> Result<Vec<Expr>> {
    let mut list = Vec::new();
    parse_array(text, |element| {
        let value = match element {
            Some(element) => Value::SingleQuotedString(element.to_string()),
            None => Value::Null,
        };
        list.push(Expr::Value(value.into()));
        Ok(())
    })?;
    Ok(list)
}

/// Compares a value with each element of a list. Joins the comparisons by OR, or by AND if `all`,
/// in a tree with the least possible depth.
fn comparison_with_each(left: &Expr, op: &BinaryOperator, list: &[Expr], all: bool) -> Expr {
    let binary = |left: Expr, op: BinaryOperator, right: Expr| {
        let (left, right) = (Box::new(left), Box::new(right));
        Expr::Nested(Box::new(Expr::BinaryOp { left, op, right }))
    };
    match list {
        [] => Expr::Value(Value::Boolean(all).into()),
        [one] => binary(left.clone(), op.clone(), one.clone()),
        many => {
            let (before, after) = many.split_at(many.len() / 2);
            let joint = if all { BinaryOperator::And } else { BinaryOperator::Or };
            let (before, after) = (
                comparison_with_each(left, op, before, all),
                comparison_with_each(left, op, after, all),
            );
            binary(before, joint, after)
        }
    }
}

fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

/// Gives `x = ANY (a)`, for an expression `a` with a column, PostgreSQL's result if no element
/// equals `x`: NULL if `x` or an element of the array is NULL and the array is not empty, else
/// false.
pub fn in_array(expr: &mut Expr) {
    let (left, op, right, all) = match expr {
        Expr::AnyOp { left, compare_op, right, .. } => (left, compare_op.clone(), right, false),
        Expr::AllOp { left, compare_op, right } => match opposite(compare_op) {
            Some(op) => (left, op, right, true),
            None => return,
        },
        _ => return,
    };
    if matches!(right.as_ref(), Expr::Subquery(_)) || !names_column(right) {
        return;
    }
    let any =
        Expr::AnyOp { left: left.clone(), compare_op: op, right: right.clone(), is_some: false };
    let sql = "CASE WHEN \"$any\" THEN true WHEN \"$right\" IS NULL THEN NULL \
               WHEN cardinality(\"$right\") = 0 THEN false \
               WHEN \"$left\" IS NULL OR array_position(\"$right\", NULL) IS NOT NULL THEN NULL \
               ELSE false END";
    let parts = [("$any", any), ("$right", *right.clone()), ("$left", *left.clone())];
    if let Some(spelled) = fill_placeholders(sql, &parts) {
        *expr = not_if(all, spelled);
    }
}

/// The operator that is true where `op` is false; `None` without an opposite operator.
fn opposite(op: &BinaryOperator) -> Option<BinaryOperator> {
    Some(match op {
        BinaryOperator::Eq => BinaryOperator::NotEq,
        BinaryOperator::NotEq => BinaryOperator::Eq,
        BinaryOperator::Lt => BinaryOperator::GtEq,
        BinaryOperator::GtEq => BinaryOperator::Lt,
        BinaryOperator::Gt => BinaryOperator::LtEq,
        BinaryOperator::LtEq => BinaryOperator::Gt,
        _ => return None,
    })
}

fn names_column(expr: &Expr) -> bool {
    let found = walk::expressions(expr, |expr| match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

fn not_if(negated: bool, expr: Expr) -> Expr {
    let nested = Box::new(Expr::Nested(Box::new(expr)));
    if negated { Expr::UnaryOp { op: UnaryOperator::Not, expr: nested } } else { *nested }
}

/// Parses `sql`, and replaces each quoted name in `parts` with its expression.
fn fill_placeholders(sql: &str, parts: &[(&str, Expr)]) -> Option<Expr> {
    let mut expr = parse::expression(sql).ok()?;
    // After the visit of an expression: the walk does not visit the inserted expressions.
    let _ = walk::expressions_mut(&mut expr, |expr| {
        if let Expr::Identifier(ident @ Ident { quote_style: Some(_), .. }) = expr
            && let Some((_, part)) = parts.iter().find(|(name, _)| *name == fold(ident))
        {
            *expr = Expr::Nested(Box::new(part.clone()));
        }
        ControlFlow::Continue(())
    });
    Some(expr)
}
