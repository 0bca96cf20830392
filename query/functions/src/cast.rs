//! Casts for which Arrow and PostgreSQL have different results: casts to text, from text, from
//! numbers to integers, and from floats to numerics.

use std::sync::Arc;

use arrow::{
    array::{Array as _, AsArray},
    compute::cast,
    datatypes::{DataType, FieldRef, TimeUnit},
};
use datafusion::{
    common::{DFSchema, Result, tree_node::Transformed},
    config::ConfigOptions,
    logical_expr::{
        Cast, ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
        ScalarUDFImpl, Signature, Volatility, expr_rewriter::FunctionRewrite,
    },
};
use stratalog_model::{ColumnType, Error, ErrorKind, types::PG_TYPE_METADATA};
use stratalog_text::ColumnBuilder;

use crate::{
    function::sql_name,
    literal::{scalar_of, style_of},
};

pub mod decimal;
mod elements;
mod rounding;

/// A rewrite that replaces casts by calls of this crate's functions where Arrow's result differs
/// from PostgreSQL's.
#[derive(Debug)]
pub struct Casts {
    functions: Vec<Arc<ScalarUDF>>,
}

impl Casts {
    /// Creates the rewrite. `functions` contains the functions for the calls of the rewrite.
    pub fn new(functions: Vec<Arc<ScalarUDF>>) -> Self {
        Self { functions }
    }

    /// The function that replaces a cast of `from` to `to`; `None` if Arrow's cast is right.
    fn function(&self, from: &ColumnType, to: &ColumnType) -> Option<Arc<ScalarUDF>> {
        if let Some(name) = function_of(from, to) {
            return self.functions.iter().find(|function| function.name() == name).cloned();
        }
        match (from, to) {
            (ColumnType::Text, ColumnType::Text) => None,
            (ColumnType::Text, to) => Some(TextInput::function(to.clone())),
            (ColumnType::Real | ColumnType::Double, ColumnType::Numeric { precision, scale }) => {
                Some(decimal::of_floats(*precision, *scale))
            }
            (ColumnType::Numeric { .. }, ColumnType::Real | ColumnType::Double) => {
                Some(decimal::to_floats(*to == ColumnType::Real))
            }
            (ColumnType::Array(from), ColumnType::Array(to)) => {
                let of_elements = self.function(from, to)?;
                Some(elements::function(of_elements, to.as_ref().clone()))
            }
            _ => None,
        }
    }
}

/// The name of the function that replaces a cast of `from` to `to`; `None` if Arrow's cast is
/// right.
fn function_of(from: &ColumnType, to: &ColumnType) -> Option<&'static str> {
    use ColumnType as T;
    match (from, to) {
        (T::Text, T::Uuid) => Some("uuid_in"),
        (T::Text, T::Jsonb) => Some("jsonb_in"),
        (T::Text, T::Bytea) => Some("bytea_in"),
        (T::Text, T::Interval) => Some("interval_in"),
        (T::Double, T::Real) => Some("float4"),
        (T::Time, T::Interval) => Some("interval_of_time"),
        (T::Interval, T::Time) => Some("time_of_interval"),
        (T::Real | T::Double | T::Numeric { .. }, T::SmallInt) => Some("int2"),
        (T::Real | T::Double | T::Numeric { .. }, T::Integer) => Some("int4"),
        (T::Real | T::Double | T::Numeric { .. }, T::BigInt) => Some("int8"),
        (
            T::Uuid
            | T::Bytea
            | T::Real
            | T::Double
            | T::Date
            | T::Timestamp { .. }
            | T::TimestampTz { .. }
            | T::Time
            | T::Interval
            | T::Array(_),
            T::Text,
        ) => Some("text"),
        _ => None,
    }
}

/// True for casts that Arrow has, but PostgreSQL refuses: casts that reinterpret the bytes, the
/// text or the stored number of a value, or that make a list of one element.
fn is_refused(from: &ColumnType, to: &ColumnType) -> bool {
    use ColumnType as T;
    match (from, to) {
        (T::Text, _) => false,
        (_, T::Jsonb | T::Bytea) => from != to,
        (T::Bytea, T::Uuid) => true,
        (T::Array(from), T::Array(to)) => is_refused(from, to),
        (_, T::Array(_)) => true,
        // DataFusion uses this cast to add a time of day to an interval.
        (T::Time, T::Integer | T::BigInt) => false,
        (
            T::Date
            | T::Time
            | T::Timestamp { .. }
            | T::TimestampTz { .. }
            | T::Interval
            | T::Uuid
            | T::Bytea
            | T::Array(_),
            T::Boolean
            | T::SmallInt
            | T::Integer
            | T::BigInt
            | T::Real
            | T::Double
            | T::Numeric { .. },
        ) => true,
        _ => false,
    }
}

/// True for further casts that PostgreSQL refuses. They are refused only if the statement contains
/// the cast, because the planner itself inserts some of these casts.
fn is_refused_in_statement(from: &ColumnType, to: &ColumnType) -> bool {
    use ColumnType as T;
    match (from, to) {
        (T::Array(from), T::Array(to)) => is_refused_in_statement(from, to),
        // The types of integer literals are not final yet: the literal in `5::boolean` is a bigint.
        (T::SmallInt | T::Real | T::Double, T::Boolean)
        | (T::Boolean, T::SmallInt | T::BigInt | T::Real | T::Double | T::Numeric { .. })
        | (T::Time, T::Integer | T::BigInt)
        | (
            T::Jsonb,
            T::Date | T::Time | T::Timestamp { .. } | T::TimestampTz { .. } | T::Interval | T::Uuid,
        ) => true,
        _ => false,
    }
}

fn is_time(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Timestamp(_, _)
            | DataType::Date32
            | DataType::Date64
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Interval(_)
    )
}

/// Makes a cast of `inner` that rounds, where Arrow's cast would truncate. For example, a timestamp
/// is first rounded to microseconds, and then cast to a time of day. `None` if Arrow's cast is
/// right.
fn rounding(inner: &Expr, from: &FieldRef, to: &FieldRef) -> Option<Expr> {
    let cast_to = |value| Expr::Cast(Cast::new_from_field(Box::new(value), Arc::clone(to)));
    match (from.data_type(), to.data_type()) {
        (DataType::Timestamp(from, zone), DataType::Timestamp(unit, wanted))
            if rounding::loses_digits(*from, *unit) =>
        {
            let value = rounding::in_unit(*unit, inner.clone());
            Some(if zone == wanted {
                with_type_name(value, Arc::clone(to))
            } else {
                cast_to(value)
            })
        }
        (DataType::Timestamp(TimeUnit::Nanosecond, _), DataType::Time64(_)) => {
            Some(cast_to(rounding::in_unit(TimeUnit::Microsecond, inner.clone())))
        }
        _ => match (ColumnType::from_arrow_field(from)?, ColumnType::from_arrow_field(to)?) {
            (ColumnType::Array(given), ColumnType::Array(element))
                if rounding::rounds_elements(&given, &element) =>
            {
                Some(rounding::elements(*element, inner.clone()))
            }
            _ => None,
        },
    }
}

impl FunctionRewrite for Casts {
    fn name(&self) -> &str {
        "postgres_casts"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let Expr::Cast(Cast { expr: inner, field }) = expr else {
            return Ok(Transformed::no(expr));
        };
        // The type is computed once, because each computation walks through the whole expression.
        let from = inner.to_field(schema).map(|(_, from)| from).ok();
        let is_jsonb = |from: &FieldRef| {
            ColumnType::from_arrow_field(from).is_some_and(|from| from == ColumnType::Jsonb)
        };
        // `TypedLiterals` converts literals during planning.
        let literal = match inner.as_ref() {
            Expr::Literal(value, _) => {
                value.try_as_str().is_some() && !from.as_ref().is_some_and(is_jsonb)
            }
            _ => false,
        };
        let given = from.as_ref().map(|from| from.data_type());
        if let Some(given) = given
            && given.is_numeric()
            && is_time(field.data_type())
        {
            return Err(crate::failed(
                Error::new(
                    ErrorKind::CannotCoerce,
                    format!(
                        "cannot cast type {} to {}",
                        sql_name(given),
                        sql_name(field.data_type())
                    ),
                )
                .with_hint("to_timestamp() makes a timestamp of seconds since 1970, make_interval() an interval"),
            ));
        }
        let types = from.as_ref().filter(|from| !literal && !from.data_type().is_null());
        let types = types
            .and_then(|from| ColumnType::from_arrow_field(from))
            .zip(ColumnType::from_arrow_field(&field));
        // Only the casts that a statement contains have a field name.
        let is_written = !field.name().is_empty();
        if let Some((from, to)) = &types
            && (is_refused(from, to) || is_written && is_refused_in_statement(from, to))
        {
            return Err(crate::failed(Error::new(
                ErrorKind::CannotCoerce,
                format!("cannot cast type {from} to {to}"),
            )));
        }
        // Without this branch, constant folding of the cast would drop the metadata of the element
        // field.
        if given.is_some_and(|given| given.is_list() && given == field.data_type()) {
            return Ok(Transformed::yes(with_type_name(*inner, field)));
        }
        if let Some(from) = from.filter(|_| !literal)
            && let Some(rounding) = rounding(&inner, &from, &field)
        {
            return Ok(Transformed::yes(rounding));
        }
        let function = types.and_then(|(from, to)| self.function(&from, &to));
        Ok(match function {
            Some(function) => Transformed::yes(with_type_name(function.call(vec![*inner]), field)),
            None => Transformed::no(Expr::Cast(Cast { expr: inner, field })),
        })
    }
}

/// Gives a value the field of a cast if this field names a PostgreSQL type that is represented by
/// another type.
fn with_type_name(value: Expr, field: FieldRef) -> Expr {
    match field.metadata().contains_key(PG_TYPE_METADATA) {
        true => Expr::Cast(Cast::new_from_field(Box::new(value), field)),
        false => value,
    }
}

/// A function that parses text as values of the type `to`, with PostgreSQL's syntax and the
/// session's time zone.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TextInput {
    name: String,
    to: ColumnType,
    signature: Signature,
}

impl TextInput {
    fn function(to: ColumnType) -> Arc<ScalarUDF> {
        let name = format!("text_to_{to}");
        let signature = Signature::uniform(1, vec![DataType::Utf8View], Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Self { name, to, signature }))
    }
}

impl ScalarUDFImpl for TextInput {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.arrow_type())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(self.to.arrow_field(&self.name, true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let style = style_of(&arguments.config_options);
        let texts = arguments
            .args
            .first()
            .ok_or_else(|| crate::failed(Error::internal("a cast needs an argument")))?;
        let (texts, constant) = match texts {
            ColumnarValue::Array(texts) => (Arc::clone(texts), false),
            ColumnarValue::Scalar(text) => (text.to_array()?, true),
        };
        let texts = cast(&texts, &DataType::Utf8View)?;
        let texts = texts.as_string_view();
        let mut values = ColumnBuilder::new(&self.to, texts.len());
        for text in texts {
            match text {
                Some(text) => values.append_text(text, &style).map_err(crate::failed)?,
                None => values.append_null(),
            }
        }
        let values = values.finish();
        Ok(match constant {
            true => ColumnarValue::Scalar(scalar_of(&values)?),
            false => ColumnarValue::Array(values),
        })
    }
}
