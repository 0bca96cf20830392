//! Limits the memory of function calls: predicts the size of each result, charges the memory to the
//! statement, and refuses results beyond the limits (CL-10).
//!
//! ```text
//!   arguments ─► prediction ─► value too long? ─► 54000
//!                     └─► batch too large? ─► 53200: the caller splits, or the statement fails
//!                               └─► charge ─► function ─► result, with the charge tied to its memory
//! ```

use std::{hash::Hash, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, ListArray, UInt32Array},
    compute::{cast, take},
    datatypes::{DataType, FieldRef},
};
use datafusion::{
    common::{DFSchema, ExprSchema, Result, ScalarValue, tree_node::Transformed},
    config::ConfigOptions,
    logical_expr::{
        BinaryExpr, ColumnarValue, Documentation, Expr, ExprSchemable, Operator, ReturnFieldArgs,
        ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        expr_rewriter::FunctionRewrite,
        interval_arithmetic::Interval,
        simplify::{ExprSimplifyResult, SimplifyContext},
        sort_properties::{ExprProperties, SortProperties},
    },
};
use stratalog_model::{Error, ErrorKind};

use crate::{
    failed,
    function::is_declared,
    governor::{self, CHARGED_BYTES_MIN, VALUE_BYTES_MAX},
    growth::{self, Growth},
};

mod text_concat;

use text_concat::TextConcat;

/// Converts a value to an array of `rows` rows. The array of a constant text or bytea contains the
/// bytes only once.
///
/// # Errors
/// The errors of `ScalarValue::to_array_of_size`.
pub fn expanded(value: &ColumnarValue, rows: usize) -> Result<ArrayRef> {
    match value {
        ColumnarValue::Scalar(
            value @ (ScalarValue::Utf8View(Some(_)) | ScalarValue::BinaryView(Some(_))),
        ) if rows != 1 => {
            let once = value.to_array()?;
            Ok(take(&once, &UInt32Array::from_value(0, rows), None)?)
        }
        other => other.to_array(rows),
    }
}

/// Calls a function, and enforces the limits of the current statement.
///
/// # Errors
/// `LimitExceeded` for a value beyond the maximum length, `OutOfMemory` for a batch beyond the
/// maximum size or an exhausted budget, `QueryCanceled`, and the errors of the function.
pub fn invoke(function: &ScalarUDF, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
    governor::check()?;
    let name = function.name();
    let constants = arguments.args.iter().filter(|value| is_constant(value)).count();
    let rows = match constants == arguments.args.len() && constants > 0 {
        true => 1,
        false => arguments.number_rows,
    };
    let mut growth = match growth::predict(name, &arguments.args, rows)? {
        Some(growth) => growth,
        None => {
            let total = growth::copies_of_lists(&arguments.args, rows);
            Growth { total, largest: 0 }
        }
    };
    if growth.largest > VALUE_BYTES_MAX {
        return Err(failed(governor::too_long(&format!("{name}()"), growth.largest)));
    }
    if rows > 1 && !is_declared(function) {
        let repeated = arguments.args.iter().map(constant_bytes).sum::<usize>();
        growth.total = growth.total.saturating_add(repeated.saturating_mul(rows));
    }
    refuse(growth, rows, arguments.return_field.data_type())?;
    let mut charge = match growth.total >= CHARGED_BYTES_MIN {
        true => Some(governor::charge(growth.total).map_err(failed)?),
        false => None,
    };
    let taken: Vec<_> = arguments.args.iter().filter_map(take_charge).collect();
    let known = addresses(&arguments.args);
    let promised = Arc::clone(&arguments.return_field);
    // Calls the inner function, because DataFusion's wrapper refuses a list whose element field
    // lacks its metadata.
    let result = function.inner().invoke_with_args(arguments)?;
    let result = with_elements_of(promised.data_type(), result)?;
    drop(taken);
    match result {
        ColumnarValue::Array(array) => settle_array(name, array, &mut charge, &known),
        ColumnarValue::Scalar(value) => settle_constant(name, value, &mut charge),
    }
}

/// Gives a list the element field of the declared result type `promised`. DataFusion's functions on
/// arrays drop the metadata of this field, which marks bytes as uuid and text as jsonb.
///
/// # Errors
/// Fails if the value has another type than `promised`, which means a defect of the function.
fn with_elements_of(promised: &DataType, value: ColumnarValue) -> Result<ColumnarValue> {
    let DataType::List(element) = promised else { return Ok(value) };
    if value.data_type() == *promised {
        return Ok(value);
    }
    let (array, constant) = match value {
        ColumnarValue::Array(array) => (array, false),
        ColumnarValue::Scalar(value) => (value.to_array()?, true),
    };
    let list = match array.as_list_opt::<i32>() {
        Some(list) => {
            let (_, offsets, values, nulls) = list.clone().into_parts();
            ListArray::try_new(Arc::clone(element), offsets, values, nulls)?
        }
        None => cast(&array, promised)?.as_list::<i32>().clone(),
    };
    Ok(match constant {
        true => ColumnarValue::Scalar(ScalarValue::List(Arc::new(list))),
        false => ColumnarValue::Array(Arc::new(list)),
    })
}

fn is_constant(value: &ColumnarValue) -> bool {
    matches!(value, ColumnarValue::Scalar(_))
}

/// The size of a constant in bytes if it is more than 256 bytes; otherwise, and for arrays, 0.
fn constant_bytes(value: &ColumnarValue) -> usize {
    match value {
        ColumnarValue::Scalar(value) => Some(scalar_bytes(value)).filter(|bytes| *bytes > 256),
        ColumnarValue::Array(_) => None,
    }
    .unwrap_or(0)
}

/// The size in bytes of a text, bytea or list; 0 for NULL and for values of fixed size.
pub fn scalar_bytes(value: &ScalarValue) -> usize {
    match value {
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text)) => text.len(),
        ScalarValue::Binary(Some(bytes))
        | ScalarValue::LargeBinary(Some(bytes))
        | ScalarValue::BinaryView(Some(bytes)) => bytes.len(),
        ScalarValue::List(list) => governor::value_bytes(&(Arc::clone(list) as ArrayRef)),
        ScalarValue::LargeList(list) => governor::value_bytes(&(Arc::clone(list) as ArrayRef)),
        _ => 0,
    }
}

/// The address of a constant's data in memory; 0 for NULL and for values of fixed size.
fn address(value: &ScalarValue) -> usize {
    match value {
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text)) => text.as_ptr() as usize,
        ScalarValue::Binary(Some(bytes))
        | ScalarValue::LargeBinary(Some(bytes))
        | ScalarValue::BinaryView(Some(bytes)) => bytes.as_ptr() as usize,
        ScalarValue::List(list) => Arc::as_ptr(list) as usize,
        ScalarValue::LargeList(list) => Arc::as_ptr(list) as usize,
        _ => 0,
    }
}

fn take_charge(value: &ColumnarValue) -> Option<governor::Charge> {
    match value {
        ColumnarValue::Scalar(value) if scalar_bytes(value) >= CHARGED_BYTES_MIN => {
            governor::take_constant(address(value))
        }
        _ => None,
    }
}

/// The addresses of the buffers of large arguments. The result may share these buffers.
fn addresses(arguments: &[ColumnarValue]) -> Vec<usize> {
    fn collect(data: &arrow::array::ArrayData, into: &mut Vec<usize>) {
        into.extend(data.buffers().iter().map(|buffer| buffer.as_ptr() as usize));
        data.child_data().iter().for_each(|child| collect(child, into));
    }
    let mut found = Vec::new();
    for argument in arguments {
        if let ColumnarValue::Array(array) = argument
            && array.get_array_memory_size() >= CHARGED_BYTES_MIN
        {
            collect(&array.to_data(), &mut found);
        }
    }
    found
}

/// Refuses a result that is too large: a batch that the caller must split, or a batch that is too
/// large for 32-bit offsets.
fn refuse(growth: Growth, rows: usize, result: &DataType) -> Result<()> {
    governor::check_batch(growth.total, rows).map_err(failed)?;
    let narrow = matches!(result, DataType::Utf8 | DataType::Binary | DataType::List(_));
    if narrow && i32::try_from(growth.total).is_err() {
        let error = Error::new(ErrorKind::OutOfMemory, "out of memory")
            .with_detail(format!("a batch of {rows} rows would have {} bytes", growth.total))
            .with_hint("make shorter values, or process fewer rows at once");
        return Err(failed(error));
    }
    Ok(())
}

fn settle_array(
    name: &str,
    array: ArrayRef,
    charge: &mut Option<governor::Charge>,
    known: &[usize],
) -> Result<ColumnarValue> {
    let is_list = matches!(array.data_type(), DataType::List(_) | DataType::LargeList(_));
    if array.get_array_memory_size() < CHARGED_BYTES_MIN && !is_list {
        return Ok(ColumnarValue::Array(array));
    }
    let mut bytes = governor::array_bytes(&array.to_data(), known);
    if is_list {
        // The elements of a list may share one text, and a function that copies the list copies the
        // text for each element.
        bytes = bytes.max(governor::value_bytes(&array));
        if bytes > VALUE_BYTES_MAX {
            let largest = governor::largest_list_bytes(&array);
            if largest > VALUE_BYTES_MAX {
                return Err(failed(governor::too_long(&format!("{name}()"), largest)));
            }
        }
    }
    if bytes < CHARGED_BYTES_MIN {
        return Ok(ColumnarValue::Array(array));
    }
    if bytes > VALUE_BYTES_MAX
        && let Some(texts) = array.as_string_view_opt()
        && let Some(long) = texts.iter().flatten().map(str::len).find(|len| *len > VALUE_BYTES_MAX)
    {
        return Err(failed(governor::too_long(&format!("{name}()"), long)));
    }
    let charge = resized(charge, bytes)?;
    governor::with_charge(&array, charge, known).map(ColumnarValue::Array)
}

fn settle_constant(
    name: &str,
    value: ScalarValue,
    charge: &mut Option<governor::Charge>,
) -> Result<ColumnarValue> {
    let bytes = scalar_bytes(&value);
    if bytes > VALUE_BYTES_MAX {
        return Err(failed(governor::too_long(&format!("{name}()"), bytes)));
    }
    if bytes >= CHARGED_BYTES_MIN {
        let charge = resized(charge, bytes)?;
        governor::keep_constant(address(&value), charge);
    }
    Ok(ColumnarValue::Scalar(value))
}

fn resized(charge: &mut Option<governor::Charge>, bytes: usize) -> Result<governor::Charge> {
    match charge.take() {
        Some(mut charge) => {
            charge.resize(bytes).map_err(failed)?;
            Ok(charge)
        }
        None => governor::charge(bytes).map_err(failed),
    }
}

/// A rewrite that replaces each function with results of any length by its metered version. It must
/// be the last rewrite.
#[derive(Debug)]
pub struct Metering {
    concat: Arc<ScalarUDF>,
}

impl Default for Metering {
    fn default() -> Self {
        let concat = TextConcat::new();
        Self { concat: metered(Arc::new(ScalarUDF::new_from_impl(concat))) }
    }
}

fn has_any_length(data_type: &DataType) -> bool {
    data_type.is_string() || data_type.is_binary() || data_type.is_list()
}

impl FunctionRewrite for Metering {
    fn name(&self) -> &str {
        "metering"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        match expr {
            Expr::ScalarFunction(call)
                if call.func.inner().is::<MeteredFunction>()
                    || call.func.short_circuits()
                    || call.func.as_async().is_some() =>
            {
                Ok(Transformed::no(Expr::ScalarFunction(call)))
            }
            expr @ Expr::ScalarFunction(_) => {
                let given = expr.get_type(schema);
                let Expr::ScalarFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
                if !given.is_ok_and(|given| has_any_length(&given)) {
                    return Ok(Transformed::no(Expr::ScalarFunction(call)));
                }
                call.func = metered(call.func);
                Ok(Transformed::yes(Expr::ScalarFunction(call)))
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right })
                if joins_texts(&left, &right, schema) =>
            {
                Ok(Transformed::yes(self.concat.call(vec![*left, *right])))
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

fn joins_texts(left: &Expr, right: &Expr, schema: &dyn ExprSchema) -> bool {
    match (left.get_type(schema), right.get_type(schema)) {
        (Ok(left), Ok(right)) => {
            left == right && matches!(left, DataType::Utf8 | DataType::Utf8View)
        }
        _ => false,
    }
}

/// Wraps a function. Calls of the wrapper go through [`invoke`].
pub fn metered(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(MeteredFunction { inner: function }))
}

/// A wrapper around a function. Each call goes through [`invoke`]; all other methods call the inner
/// function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct MeteredFunction {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for MeteredFunction {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        self.inner.schema_name(arguments)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        // The planner calls this method for each level of an expression, and an expression can be
        // deep.
        governor::check()?;
        self.inner.return_field_from_args(arguments)
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let updated = self.inner.inner().with_updated_config(config)?;
        Some(ScalarUDF::new_from_impl(Self { inner: Arc::new(updated) }))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&self.inner, arguments)
    }

    fn simplify(&self, arguments: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        // DataFusion would simplify these functions to unmetered expressions.
        if growth::is_predicted(self.name()) {
            return Ok(ExprSimplifyResult::Original(arguments));
        }
        self.inner.simplify(arguments, info)
    }

    fn conditional_arguments<'a>(
        &self,
        arguments: &'a [Expr],
    ) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.inner().conditional_arguments(arguments)
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        self.inner.evaluate_bounds(inputs)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.preserves_lex_ordering(inputs)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

#[cfg(test)]
mod tests;
