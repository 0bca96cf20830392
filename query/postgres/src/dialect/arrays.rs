//! ANY and ALL of arrays: rewrites a literal array as a list. A membership test in an array column
//! can be unknown, where the planner says false.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, CaseWhen, CastKind, DataType, Expr, FunctionArguments, Ident,
    TypedString, UnaryOperator, Value, ValueWithSpan, helpers::attached_token::AttachedToken,
};
use stratalog_model::Result;
use stratalog_text::parse_array;

use crate::{names::fold, parse, walk};

/// `x = ANY (SELECT …)` means `x IN (SELECT …)`, `x <> ALL (SELECT …)` means NOT IN. `ARRAY[…]`, or
/// the text of an array, becomes a list in the same way. Other operators compare with each element
/// of the array.
///
/// # Errors
/// An error in the text.
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
            // No value is in an empty list, not even NULL.
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
    // `ARRAY(SELECT …)` has the rows of the subquery as elements.
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

/// Maximum number of types among the elements of a typed array.
const TYPES_MAX: usize = 64;

/// Maximum number of branches of the CASEs of a typed array. Elements of a larger array keep their
/// own types.
const BRANCHES_MAX: usize = 20_000;

/// The elements of an array in the type of the array, PostgreSQL's common type of the elements.
/// Each element becomes a CASE with the element as result; branches that never apply name the
/// other elements. Elements without a type of their own, and elements of one type, stay as they
/// are.
fn in_array_type(list: Vec<Expr>) -> Vec<Expr> {
    if list.iter().all(is_untyped)
        || list.windows(2).all(|pair| matches!(pair, [one, other] if same_cast(one, other)))
    {
        return list;
    }
    // One element of each type is enough, as far as the syntax shows the type.
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

/// Whether two elements have one type for certain: casts to one type, whole numbers within the
/// range of integer, texts, or NULL.
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

/// A constant without a cast, or a parameter.
fn is_untyped(expr: &Expr) -> bool {
    match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => is_untyped(expr),
        Expr::Value(_) => true,
        _ => false,
    }
}

/// Whether two expressions are casts to one type.
fn same_cast(one: &Expr, other: &Expr) -> bool {
    let target = cast_target(one);
    target.is_some() && target == cast_target(other)
}

/// The type of a cast.
fn cast_target(expr: &Expr) -> Option<&DataType> {
    match expr {
        Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) => {
            Some(data_type)
        }
        _ => None,
    }
}

/// `ARRAY[…]::type[]` casts each element directly to the type, as PostgreSQL does, without a cast
/// to the common type of the elements. An array of constants needs no cast: constants lose no type.
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

/// True for a numeric, and for a whole number that real rounds. ANY compares a real with an array of such numbers
/// in double precision, IN in real.
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

/// Compares a value with each element of a list. The tree of comparisons is as flat as possible.
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

/// `x = ANY (a)` for a column of arrays, without an equal element: the result is unknown if `x` or
/// an element of the array is NULL, unless the array is empty.
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

/// The operator with the opposite truth value.
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

/// An expression with other expressions in place of the quoted names.
fn fill_placeholders(sql: &str, parts: &[(&str, Expr)]) -> Option<Expr> {
    let mut expr = parse::expression(sql).ok()?;
    // On the way out: the walk does not visit the inserted expressions.
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
