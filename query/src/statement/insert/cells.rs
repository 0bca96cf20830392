//! Single values (cells) of a VALUES clause. Constants go directly into column builders, without a
//! query plan.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, TimestampNanosecondArray},
    datatypes::Field,
};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArguments, Ident, ObjectNamePart, UnaryOperator, Value, ValueWithSpan,
};
use stratalog_model::{ColumnType, Error, ErrorKind, Result};
use stratalog_postgres::errors::{from_arrow, from_datafusion};
use stratalog_text::ColumnBuilder;

use super::{
    compute::{ComputeContext, ComputedValues},
    parameters,
};
use crate::assign::{self, Assignment};

/// One value of a VALUES clause.
#[derive(Debug, Clone)]
pub enum Cell {
    /// NULL
    Null,
    /// DEFAULT
    Default,
    /// A text constant, converted to the type of the column.
    Text(String),
    /// A numeric constant, including its sign.
    Number(String),
    /// TRUE or FALSE
    Boolean(bool),
    /// `now()`: the start of the statement.
    Now,
    /// `$n`, counted from 0.
    Parameter(usize),
    /// Any other expression.
    Expression(Box<Expr>),
    /// The computed value of an expression.
    Computed(ComputedValues),
}

impl Cell {
    /// Converts an expression to a cell of a column with type `column_type`. A parameter without a
    /// type from the client takes the type of the column.
    ///
    /// # Errors
    /// `UndefinedParameter` for a name other than `$n`.
    pub fn of(
        expr: &Expr,
        column_type: Option<&ColumnType>,
        types: &mut Vec<Option<ColumnType>>,
    ) -> Result<Self> {
        Ok(match expr {
            Expr::Nested(inner) => return Self::of(inner, column_type, types),
            Expr::Identifier(ident)
                if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default") =>
            {
                Cell::Default
            }
            Expr::Value(ValueWithSpan { value, .. }) => match value {
                Value::Null => Cell::Null,
                Value::Boolean(value) => Cell::Boolean(*value),
                Value::Number(number, _) => Cell::Number(number.clone()),
                Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => {
                    Cell::Text(text.clone())
                }
                Value::DollarQuotedString(text) => Cell::Text(text.value.clone()),
                Value::Placeholder(name) => {
                    let number = parameters::number(name).ok_or_else(|| {
                        Error::new(
                            ErrorKind::UndefinedParameter,
                            format!("there is no parameter {name}"),
                        )
                    })?;
                    if types.len() < number {
                        types.resize(number, None);
                    }
                    if let (Some(slot), Some(column_type)) =
                        (types.get_mut(number - 1), column_type)
                    {
                        slot.get_or_insert_with(|| column_type.clone());
                    }
                    Cell::Parameter(number - 1)
                }
                _ => Cell::Expression(Box::new(expr.clone())),
            },
            Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } => match inner.as_ref() {
                Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) => {
                    // A numeric zero has no sign.
                    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
                    match mantissa.bytes().any(|digit| matches!(digit, b'1'..=b'9')) {
                        true => Cell::Number(format!("-{number}")),
                        false => Cell::Number(number.clone()),
                    }
                }
                _ => Cell::Expression(Box::new(expr.clone())),
            },
            _ if is_now(expr) => Cell::Now,
            _ => {
                let mut inner = expr.clone();
                parameters::cast_to_declared(&mut inner, types);
                Cell::Expression(Box::new(inner))
            }
        })
    }
}

/// Converts the values of one column of a VALUES clause to an array. The caller has computed all
/// expressions before: no cell is a [`Cell::Expression`].
///
/// # Errors
/// An error in a value.
pub fn one_column(
    computing: &ComputeContext<'_>,
    cells: &[&Cell],
    column_type: &ColumnType,
    name: &str,
) -> Result<ArrayRef> {
    let session = computing.session;
    let style = assign::style(session);
    let assignment = Assignment { column_type, name, style: &style };
    if cells.iter().all(|cell| is_constant(cell)) {
        let mut builder = ColumnBuilder::new(column_type, cells.len());
        for cell in cells {
            append(&mut builder, cell, &assignment)?;
        }
        return Ok(builder.finish());
    }
    let mut pieces: Vec<ArrayRef> = Vec::with_capacity(cells.len());
    for cell in cells {
        pieces.push(match cell {
            Cell::Parameter(parameter) => {
                let (value, from) = computing.parameter(*parameter)?;
                let array = value.to_array().map_err(from_datafusion)?;
                if from == column_type {
                    array
                } else {
                    assignment.convert(&array, &from.arrow_field("", true))?
                }
            }
            Cell::Now => {
                let now_ns = session.started_ns();
                let now_ns = now_ns - now_ns.rem_euclid(1_000);
                let now = TimestampNanosecondArray::from(vec![now_ns]);
                let now: ArrayRef = Arc::new(now.with_timezone("UTC"));
                let field = Field::new("now", now.data_type().clone(), true);
                match column_type.is_timestamp() {
                    true => assignment.truncate_time(&now, &field)?,
                    false => assignment.convert(&now, &field)?,
                }
            }
            Cell::Computed(value) => assignment.convert(&value.array, &value.field)?,
            constant => {
                let mut builder = ColumnBuilder::new(column_type, 1);
                append(&mut builder, constant, &assignment)?;
                builder.finish()
            }
        });
    }
    match pieces.as_slice() {
        [one] => Ok(Arc::clone(one)),
        many => {
            let parts: Vec<&dyn arrow::array::Array> = many.iter().map(AsRef::as_ref).collect();
            arrow::compute::concat(&parts).map_err(from_arrow)
        }
    }
}

/// True for `now()` and its synonyms, which need no query plan.
fn is_now(expr: &Expr) -> bool {
    let Expr::Function(Function {
        name,
        args,
        parameters,
        filter: None,
        null_treatment: None,
        over: None,
        within_group,
        ..
    }) = expr
    else {
        return false;
    };
    let bare = match args {
        FunctionArguments::None => true,
        FunctionArguments::List(list) => list.args.is_empty() && list.clauses.is_empty(),
        FunctionArguments::Subquery(_) => false,
    };
    if !bare || !matches!(parameters, FunctionArguments::None) || !within_group.is_empty() {
        return false;
    }
    let called = matches!(args, FunctionArguments::List(_));
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(Ident { value, quote_style: None, .. })] => {
            let is = |word: &str| value.eq_ignore_ascii_case(word);
            let function = is("now") || is("transaction_timestamp") || is("statement_timestamp");
            called && function || !called && is("current_timestamp")
        }
        _ => false,
    }
}

fn is_constant(cell: &Cell) -> bool {
    matches!(cell, Cell::Null | Cell::Text(_) | Cell::Number(_) | Cell::Boolean(_))
}

fn append(builder: &mut ColumnBuilder, cell: &Cell, assignment: &Assignment<'_>) -> Result<()> {
    let Assignment { column_type, name, style } = *assignment;
    match cell {
        Cell::Null => {
            builder.append_null();
            Ok(())
        }
        Cell::Text(text) => builder.append_text(text, style),
        Cell::Boolean(value) => match column_type {
            ColumnType::Boolean | ColumnType::Text => {
                builder.append_text(if *value { "true" } else { "false" }, style)
            }
            other => Err(assign::mismatch(name, other, "boolean")),
        },
        Cell::Number(number) => append_number(builder, number, assignment),
        Cell::Default
        | Cell::Now
        | Cell::Parameter(_)
        | Cell::Expression(_)
        | Cell::Computed(_) => Err(Error::internal("not a constant")),
    }
}

fn append_number(
    builder: &mut ColumnBuilder,
    number: &str,
    assignment: &Assignment<'_>,
) -> Result<()> {
    let Assignment { column_type, name, style } = *assignment;
    let whole = !number.contains(['.', 'e', 'E']);
    match column_type {
        ColumnType::SmallInt | ColumnType::Integer | ColumnType::BigInt => {
            let rounded = if whole { number.to_string() } else { assign::round_decimal(number)? };
            builder.append_text(&rounded, style).map_err(|error| match error.kind() {
                ErrorKind::NumericOutOfRange => {
                    Error::new(ErrorKind::NumericOutOfRange, format!("{column_type} out of range"))
                }
                _ => error,
            })
        }
        ColumnType::Real | ColumnType::Double | ColumnType::Numeric { .. } | ColumnType::Text => {
            builder.append_text(number, style)
        }
        other => Err(assign::mismatch(name, other, if whole { "integer" } else { "numeric" })),
    }
}
