//! PostgreSQL's equality of floats: 0.0 equals -0.0, and all NaN are one value above all other
//! values. DataFusion's comparisons, groups and joins treat the zeros correctly. Its sorts, windows
//! and sets of distinct values compare bits; the rule therefore gives them a *key* in place of the
//! value: the same value with only one zero and one NaN. DataFusion compares arrays and rows of
//! floats by their bits everywhere; comparisons, groups and joins of these therefore also use keys.

use std::sync::Arc;

use arrow::{
    array::{Array as _, ArrayRef, AsArray, ListArray, PrimitiveArray, RecordBatch, StructArray},
    datatypes::{ArrowPrimitiveType, DataType, Field, FieldRef, Float32Type, Float64Type},
};
use datafusion::{
    common::{DFSchema, Result, ScalarValue, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{
        Case, ColumnarValue, Distinct, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs,
        ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, expr::ScalarFunction,
        expr_rewriter::NamePreserver, utils::merge_schema,
    },
    optimizer::AnalyzerRule,
};
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};
use stratalog_model::Error;

use super::key_rewrite::KeyRewrite;
use crate::errors::{from_arrow, to_datafusion};

mod nested;

/// Replaces floats by their keys wherever DataFusion would compare bits. Runs last, when all types
/// are final.
#[derive(Debug)]
pub struct FloatKeys {
    key: Arc<ScalarUDF>,
}

impl Default for FloatKeys {
    fn default() -> Self {
        Self { key: Arc::new(ScalarUDF::new_from_impl(FloatKey::default())) }
    }
}

impl AnalyzerRule for FloatKeys {
    fn name(&self) -> &str {
        "float_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.change_with_subqueries(|node| self.of_node(node)).map(|plan| plan.data)
    }
}

impl KeyRewrite for FloatKeys {
    fn replace_by_key(&self, expr: &mut Expr, schema: &DFSchema) -> bool {
        if self.is_key(expr, schema) {
            return false;
        }
        *expr = self.key(std::mem::take(expr));
        true
    }
}

impl FloatKeys {
    /// The expression that computes the key of a float.
    pub fn key(&self, expr: Expr) -> Expr {
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&self.key), vec![expr]))
    }

    /// Whether an expression needs no key: it is not a float, or already a key.
    pub fn is_key(&self, expr: &Expr, schema: &DFSchema) -> bool {
        match expr {
            Expr::ScalarFunction(call) if call.func == self.key => true,
            Expr::Literal(ScalarValue::Float64(value), _) => {
                value.is_none_or(|value| value.to_bits() == one_double(value).to_bits())
            }
            other => !other.get_type(schema).is_ok_and(|known| holds_floats(&known)),
        }
    }

    fn of_node(&self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        let compared = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let compared = expr.change_up(|expr| {
                of_choice(expr, &schema)?
                    .transform_data(|expr| nested::of_expression(self, expr, &schema))
            })?;
            Ok(compared.update_data(|expr| name.restore(expr)))
        })?;
        let keyed = self.node_with_keys(compared.data)?;
        Ok(Transformed::new_transformed(keyed.data, compared.transformed || keyed.transformed))
    }

    fn node_with_keys(&self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        match node {
            node @ (LogicalPlan::Sort(_) | LogicalPlan::Distinct(Distinct::On(_))) => {
                Ok(self.order_by_keys(node))
            }
            LogicalPlan::Distinct(Distinct::All(input)) => nested::of_distinct(self, input),
            LogicalPlan::Join(join) => Ok(nested::of_join(self, join)),
            node @ (LogicalPlan::Window(_) | LogicalPlan::Aggregate(_)) => {
                let node = nested::of_groups(self, node)?;
                let changed = node.transformed;
                let node = node.data;
                let schema = merge_schema(&node.inputs());
                let names = NamePreserver::new(&node);
                let calls = node.map_expressions(|expr| {
                    let name = names.save(&expr);
                    let changed = expr.change_up(|expr| Ok(self.of_call(expr, &schema)))?;
                    Ok(changed.update_data(|expr| name.restore(expr)))
                })?;
                let changed = changed || calls.transformed;
                Ok(Transformed::new_transformed(calls.data, changed))
            }
            other => Ok(Transformed::no(other)),
        }
    }

    fn of_call(&self, expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
        let mut changed = false;
        match expr {
            Expr::WindowFunction(mut call) => {
                for by in &mut call.params.partition_by {
                    changed |= self.replace_by_key(by, schema);
                }
                changed |= self.sort_by_keys(&mut call.params.order_by, schema);
                if call.params.distinct {
                    for argument in &mut call.params.args {
                        changed |= self.replace_by_key(argument, schema);
                    }
                }
                Transformed::new_transformed(Expr::WindowFunction(call), changed)
            }
            Expr::AggregateFunction(mut call) => {
                // The argument of percentile_cont is also its order.
                let is_ordered_set = call.func.supports_within_group_clause();
                let counts_values = call.func.name() == "mode";
                let of_arrays = matches!(call.func.name(), "min" | "max")
                    && call.params.args.iter().any(|value| nested::is_nested(value, schema));
                if call.params.distinct || counts_values || of_arrays {
                    for argument in &mut call.params.args {
                        changed |= self.replace_by_key(argument, schema);
                    }
                }
                if !is_ordered_set || counts_values {
                    changed |= self.sort_by_keys(&mut call.params.order_by, schema);
                }
                Transformed::new_transformed(Expr::AggregateFunction(call), changed)
            }
            other => Transformed::no(other),
        }
    }
}

/// Rewrites `CASE f WHEN …` and `nullif(f, …)` of floats as comparisons, because the originals
/// compare bits.
fn of_choice(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_float = |expr: &Expr| {
        expr.get_type(schema).is_ok_and(|known| holds_floats(&known)) && !expr.is_volatile()
    };
    Ok(match expr {
        Expr::Case(Case { expr: Some(base), when_then_expr, else_expr }) if is_float(&base) => {
            let compared = when_then_expr.into_iter().map(|(when, then)| {
                let equal = base.as_ref().clone().eq(*when);
                (Box::new(equal), then)
            });
            let compared = compared.collect();
            Transformed::yes(Expr::Case(Case { expr: None, when_then_expr: compared, else_expr }))
        }
        Expr::ScalarFunction(call) if call.name() == "nullif" => match call.args.as_slice() {
            [value, other] if is_float(value) && is_float(other) => {
                let null = ScalarValue::try_new_null(&value.get_type(schema)?)?;
                let equal = value.clone().eq(other.clone());
                let choices = vec![(Box::new(equal), Box::new(Expr::Literal(null, None)))];
                let value = Some(Box::new(value.clone()));
                Transformed::yes(Expr::Case(Case::new(None, choices, value)))
            }
            _ => Transformed::no(Expr::ScalarFunction(call)),
        },
        other => Transformed::no(other),
    })
}

/// Replaces -0.0 by 0.0, and every NaN by the same NaN.
pub fn one_double(value: f64) -> f64 {
    // Adding 0.0 turns -0.0 into 0.0, and changes no other value.
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}

fn one_real(value: f32) -> f32 {
    if value.is_nan() { f32::NAN } else { value + 0.0 }
}

fn mapped<T: ArrowPrimitiveType>(array: &ArrayRef, one: fn(T::Native) -> T::Native) -> ArrayRef {
    let values: PrimitiveArray<T> = array.as_primitive::<T>().unary(one);
    Arc::new(values)
}

/// Whether values of a type are floats, or arrays or rows of floats.
pub fn holds_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::Float32 | DataType::Float64 => true,
        DataType::List(item) => holds_floats(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| holds_floats(field.data_type())),
        _ => false,
    }
}

/// The keys of floats, and of arrays and rows of floats. Other values stay unchanged.
pub fn keys(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float64 => mapped::<Float64Type>(array, one_double),
        DataType::Float32 => mapped::<Float32Type>(array, one_real),
        DataType::List(item) if holds_floats(item.data_type()) => {
            let list = array.as_list::<i32>();
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            Arc::new(ListArray::new(Arc::clone(item), offsets, keys(list.values()), nulls))
        }
        DataType::Struct(fields) if holds_floats(array.data_type()) => {
            let rows = array.as_struct();
            let columns = rows.columns().iter().map(keys).collect();
            Arc::new(StructArray::new(fields.clone(), columns, rows.nulls().cloned()))
        }
        _ => Arc::clone(array),
    }
}

/// Replaces every NaN in an array of floats by the same NaN, and keeps -0.0. Other values stay
/// unchanged.
pub fn with_one_nan(array: &ArrayRef) -> ArrayRef {
    let double = |value: f64| if value.is_nan() { f64::NAN } else { value };
    let real = |value: f32| if value.is_nan() { f32::NAN } else { value };
    match array.data_type() {
        DataType::Float64 => mapped::<Float64Type>(array, double),
        DataType::Float32 => mapped::<Float32Type>(array, real),
        _ => Arc::clone(array),
    }
}

/// Replaces every NaN in rows before storage by the same NaN. Columns of tables therefore need no
/// key for NaN.
///
/// # Errors
/// Fails if the columns do not fit the schema. The columns of `rows` always fit.
pub fn stored(rows: RecordBatch) -> stratalog_model::Result<RecordBatch> {
    let is_other = |array: &ArrayRef| match array.data_type() {
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>().values();
            values.iter().any(|value| value.to_bits() > f64::NEG_INFINITY.to_bits())
        }
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>().values();
            values.iter().any(|value| value.to_bits() > f32::NEG_INFINITY.to_bits())
        }
        _ => false,
    };
    if !rows.columns().iter().any(is_other) {
        return Ok(rows);
    }
    let columns = rows.columns().iter().map(with_one_nan).collect();
    RecordBatch::try_new(rows.schema(), columns).map_err(from_arrow)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FloatKey {
    signature: Signature,
}

impl Default for FloatKey {
    fn default() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for FloatKey {
    fn name(&self) -> &str {
        "float_key"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        arguments.first().cloned().ok_or_else(no_argument)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = arguments.arg_fields.first().ok_or_else(no_argument)?;
        Ok(Arc::new(Field::clone(field).with_name(self.name())))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match arguments.args.into_iter().next().ok_or_else(no_argument)? {
            ColumnarValue::Array(array) => Ok(ColumnarValue::Array(keys(&array))),
            ColumnarValue::Scalar(value) => {
                let keys = keys(&value.to_array()?);
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&keys, 0)?))
            }
        }
    }
}

fn no_argument() -> datafusion::error::DataFusionError {
    to_datafusion(Error::internal("a key is of one value"))
}

#[cfg(test)]
mod tests {
    use arrow::array::Float64Array;

    use super::*;

    #[test]
    fn zeros_and_nans_have_one_key() {
        let keys = |values: Vec<f64>| values.into_iter().map(|v| one_double(v).to_bits());
        assert!(keys(vec![0.0, -0.0]).all(|bits| bits == 0));
        assert!(keys(vec![f64::NAN, -f64::NAN]).all(|bits| bits == f64::NAN.to_bits()));
        assert_eq!(one_double(-1.5), -1.5);
        assert_eq!(one_real(-0.0).to_bits(), 0);
    }

    #[test]
    fn arrays_and_rows_have_keys() {
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, 1.0]));
        let item = Arc::new(Field::new("item", DataType::Float64, true));
        let offsets = arrow::buffer::OffsetBuffer::from_lengths([2, 0, 1]);
        let nulls = Some(arrow::buffer::NullBuffer::from(vec![true, false, true]));
        let list: ArrayRef = Arc::new(ListArray::new(item, offsets, floats, nulls));
        let field = Arc::new(Field::new("a", list.data_type().clone(), true));
        let rows: ArrayRef = Arc::new(StructArray::from(vec![(field, Arc::clone(&list))]));
        let keyed = keys(&rows);
        let keyed = keyed.as_struct().column(0).as_list::<i32>();
        assert_eq!(keyed.offsets(), list.as_list::<i32>().offsets());
        assert!(keyed.is_null(1));
        let bits = keyed.values().as_primitive::<Float64Type>().values().iter();
        let bits: Vec<u64> = bits.map(|value| value.to_bits()).collect();
        assert_eq!(bits, [0.0, 0.0, 1.0].map(f64::to_bits));
    }

    #[test]
    fn stored_rows_have_one_nan_and_both_zeros() {
        let values: ArrayRef = Arc::new(Float64Array::from(vec![-f64::NAN, -0.0, -1.0]));
        let rows = RecordBatch::try_from_iter([("f", values)]).unwrap();
        let rows = stored(rows).unwrap();
        let values = rows.column(0).as_primitive::<Float64Type>().values().iter();
        let bits: Vec<u64> = values.map(|value| value.to_bits()).collect();
        let wanted = [f64::NAN, -0.0, -1.0].map(f64::to_bits);
        assert_eq!(bits, wanted);
    }
}
