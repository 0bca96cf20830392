//! Single values of VALUES: straight into column builders where they are constants.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, TimestampNanosecondArray},
    datatypes::Field,
};
use datafusion::{
    scalar::ScalarValue,
    sql::sqlparser::ast::{
        Expr, Function, FunctionArguments, Ident, ObjectNamePart, UnaryOperator, Value,
        ValueWithSpan,
    },
};
use futures::TryStreamExt;
use stratalog_model::{ColumnType, Error, ErrorKind, Result};
use stratalog_text::ColumnBuilder;

use super::{columns::Targets, parameters};
use crate::{
    RowsTag, Session,
    assign::{self, Assignment},
    errors::{from_arrow, from_datafusion},
    session::work::Work,
    statement::query,
};

/// Expressions that are planned together at a time.
const EXPRESSIONS_MAX: usize = 256;

/// One value of VALUES.
#[derive(Debug, Clone)]
pub enum Cell {
    /// NULL
    Null,
    /// DEFAULT
    Default,
    /// A string: takes the type of its column.
    Text(String),
    /// A number, sign included.
    Number(String),
    /// TRUE or FALSE
    Boolean(bool),
    /// `now()`: when the statement began.
    Now,
    /// `$n`, counted from 0.
    Parameter(usize),
    /// Anything else.
    Expression(Box<Expr>),
}

impl Cell {
    /// The cell of an expression that goes into a column of `column_type`; parameters take
    /// that type where the client told none.
    ///
    /// # Errors
    /// `DatatypeMismatch` when one parameter goes into columns of two types.
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
                    Cell::Number(format!("-{number}"))
                }
                _ => Cell::Expression(Box::new(expr.clone())),
            },
            _ if is_now(expr) => Cell::Now,
            _ => {
                let mut inner = expr.clone();
                parameters::cast_told(&mut inner, types);
                Cell::Expression(Box::new(inner))
            }
        })
    }
}

/// Settles the types of parameters that stand within expressions, `$1 * 2`, as the planner
/// finds them there.
///
/// # Errors
/// What is wrong with an expression.
pub async fn settle(
    session: &Session,
    rows: &[Vec<Cell>],
    types: &mut [Option<ColumnType>],
) -> Result<()> {
    let mut open = Vec::new();
    for cell in rows.iter().flatten() {
        if let Cell::Expression(expr) = cell
            && !types.iter().all(Option::is_some)
        {
            let within = parameters::numbers(expr.as_ref())?;
            let unsettled = |number: &usize| types.get(number - 1).is_some_and(Option::is_none);
            if within.iter().any(unsettled) {
                open.push((within, expr.as_ref().clone()));
            }
        }
    }
    for chunk in open.chunks(EXPRESSIONS_MAX) {
        let trees: Vec<Expr> = chunk.iter().map(|(_, expr)| expr.clone()).collect();
        let plan = super::plan_expressions(session, &trees).await?;
        let found = parameters::types(&plan, types, types.len())?;
        for at in chunk.iter().flat_map(|(within, _)| within).map(|number| number - 1) {
            if let Some(slot) = types.get_mut(at) {
                *slot = found.get(at).cloned();
            }
        }
    }
    Ok(())
}

/// The columns of some rows, in the order of the statement's column list; a column is
/// `None` where every row says DEFAULT.
///
/// # Errors
/// What is wrong with a value.
pub async fn arrays(
    session: &Session,
    rows: &[Vec<Cell>],
    targets: &Targets,
    types: &[ColumnType],
    values: &[ScalarValue],
) -> Result<Vec<ArrayRef>> {
    let mut arrays = Vec::with_capacity(targets.listed.len());
    for at in 0..targets.listed.len() {
        let cells: Vec<&Cell> = rows.iter().filter_map(|row| row.get(at)).collect();
        let Some(column) = targets.column(at) else { continue };
        if cells.iter().any(|cell| matches!(cell, Cell::Default)) {
            arrays.push(with_defaults(session, &cells, targets, at, types, values).await?);
        } else {
            let array =
                one_column(session, &cells, &column.column_type, &column.name, types, values)
                    .await?;
            arrays.push(array);
        }
    }
    Ok(arrays)
}

/// A column in which some rows say DEFAULT.
async fn with_defaults(
    session: &Session,
    cells: &[&Cell],
    targets: &Targets,
    at: usize,
    types: &[ColumnType],
    values: &[ScalarValue],
) -> Result<ArrayRef> {
    let Some(position) = targets.listed.get(at).copied() else {
        return Err(Error::internal("a column beyond the list"));
    };
    let Some(column) = targets.column(at) else {
        return Err(Error::internal("a column beyond the table"));
    };
    let defaults = targets.default_of(session, position, cells.len()).await?;
    let given: Vec<&Cell> = cells
        .iter()
        .map(|cell| if matches!(cell, Cell::Default) { &Cell::Null } else { *cell })
        .collect();
    let given =
        one_column(session, &given, &column.column_type, &column.name, types, values).await?;
    let mask: arrow::array::BooleanArray =
        cells.iter().map(|cell| Some(matches!(cell, Cell::Default))).collect();
    arrow::compute::kernels::zip::zip(&mask, &defaults, &given).map_err(from_arrow)
}

/// One column of values.
///
/// # Errors
/// What is wrong with a value.
pub async fn one_column(
    session: &Session,
    cells: &[&Cell],
    column_type: &ColumnType,
    name: &str,
    types: &[ColumnType],
    values: &[ScalarValue],
) -> Result<ArrayRef> {
    let style = assign::style(session);
    if cells.iter().all(|cell| is_constant(cell)) {
        let mut builder = ColumnBuilder::new(column_type, cells.len());
        for cell in cells {
            append(&mut builder, cell, column_type, name, &style)?;
        }
        return Ok(builder.finish());
    }
    let mut pieces: Vec<ArrayRef> =
        vec![arrow::array::new_empty_array(&column_type.arrow_type()); cells.len()];
    let mut open: Vec<(usize, &Expr)> = Vec::new();
    for (at, cell) in cells.iter().enumerate() {
        let piece = match cell {
            Cell::Parameter(parameter) => {
                let value = values.get(*parameter).ok_or_else(|| {
                    Error::new(
                        ErrorKind::UndefinedParameter,
                        format!("there is no parameter ${}", parameter + 1),
                    )
                })?;
                let array = value.to_array().map_err(from_datafusion)?;
                let from = types.get(*parameter).unwrap_or(&ColumnType::Text);
                if from == column_type {
                    array
                } else {
                    let assignment = Assignment { column_type, name, style: &style };
                    assignment.convert(&array, &from.arrow_field("", true))?
                }
            }
            Cell::Now => {
                let now = TimestampNanosecondArray::from(vec![session.started_ns()]);
                let now: ArrayRef = Arc::new(now.with_timezone("UTC"));
                let field = Field::new("now", now.data_type().clone(), true);
                let assignment = Assignment { column_type, name, style: &style };
                match column_type.is_timestamp() {
                    true => assignment.truncate_time(&now, &field)?,
                    false => assignment.convert(&now, &field)?,
                }
            }
            Cell::Expression(expr) => {
                open.push((at, expr));
                continue;
            }
            constant => {
                let mut builder = ColumnBuilder::new(column_type, 1);
                append(&mut builder, constant, column_type, name, &style)?;
                builder.finish()
            }
        };
        if let Some(slot) = pieces.get_mut(at) {
            *slot = piece;
        }
    }
    for chunk in open.chunks(EXPRESSIONS_MAX) {
        let assignment = Assignment { column_type, name, style: &style };
        let found = evaluate(session, chunk, &assignment, types, values).await?;
        for ((at, _), piece) in chunk.iter().zip(found) {
            if let Some(slot) = pieces.get_mut(*at) {
                *slot = piece;
            }
        }
    }
    match pieces.as_slice() {
        [one] => Ok(Arc::clone(one)),
        many => {
            let parts: Vec<&dyn arrow::array::Array> = many.iter().map(AsRef::as_ref).collect();
            arrow::compute::concat(&parts).map_err(from_arrow)
        }
    }
}

/// Whether an expression is `now()` or a synonym, which need no plan.
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

fn append(
    builder: &mut ColumnBuilder,
    cell: &Cell,
    column_type: &ColumnType,
    name: &str,
    style: &stratalog_text::TextStyle,
) -> Result<()> {
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
        Cell::Number(number) => append_number(builder, number, column_type, name, style),
        Cell::Default | Cell::Now | Cell::Parameter(_) | Cell::Expression(_) => {
            Err(Error::internal("not a constant"))
        }
    }
}

fn append_number(
    builder: &mut ColumnBuilder,
    number: &str,
    column_type: &ColumnType,
    name: &str,
    style: &stratalog_text::TextStyle,
) -> Result<()> {
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

/// The values of expressions without columns, each as an array of one value.
async fn evaluate(
    session: &Session,
    expressions: &[(usize, &Expr)],
    assignment: &Assignment<'_>,
    types: &[ColumnType],
    values: &[ScalarValue],
) -> Result<Vec<ArrayRef>> {
    let trees: Vec<Expr> = expressions.iter().map(|(_, expr)| (*expr).clone()).collect();
    let plan = super::plan_expressions(session, &trees).await?;
    let plan = if types.is_empty() {
        plan
    } else {
        plan.with_param_values(parameters::for_plan(types, values)).map_err(from_datafusion)?
    };
    let schema = Arc::new(plan.schema().as_arrow().clone());
    for chronicle in query::chronicles(&plan)? {
        session.transaction.check_read(chronicle)?;
    }
    let snapshot = session.transaction.snapshot(session.store().as_ref());
    let work = Work::start(0);
    let rows = query::run_plan(
        session,
        &plan,
        Arc::new(arrow::datatypes::Schema::new(
            schema
                .fields()
                .iter()
                .map(|field| field.as_ref().clone().with_nullable(true))
                .collect::<Vec<_>>(),
        )),
        snapshot,
        &work,
        RowsTag::Select,
    )
    .await?;
    let schema = Arc::clone(rows.schema());
    let batches: Vec<_> = rows.try_collect().await?;
    let batch = arrow::compute::concat_batches(&schema, &batches).map_err(from_arrow)?;
    batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| assignment.convert(column, field))
        .collect()
}
