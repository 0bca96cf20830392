//! Layers that wrap functions of DataFusion. A layer overrides some properties of the wrapped
//! function; the wrapped function (`inner`) provides all other properties.

use std::{fmt::Debug, hash::Hash, sync::Arc};

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Documentation, Expr,
        GroupsAccumulator, ReturnFieldArgs, ReversedUDAF, ScalarFunctionArgs, ScalarUDF,
        ScalarUDFImpl, SetMonotonicity, Signature, StatisticsArgs,
        function::{AccumulatorArgs, StateFieldsArgs},
        interval_arithmetic::Interval,
        sort_properties::{ExprProperties, SortProperties},
        type_coercion::functions::{UDFCoercionExt, fields_with_udf},
        utils::AggregateOrderSensitivity,
    },
};
use stratalog_functions::governor;

mod converted;
mod window;

pub use converted::Converted;
pub use window::{WindowLayer, window};

/// A layer around a scalar function, with the overridable properties.
pub trait ScalarLayer: Debug + Eq + Hash + Send + Sync + 'static {
    /// The number and types of the accepted arguments.
    fn signature<'a>(&'a self, inner: &'a ScalarUDF) -> &'a Signature {
        inner.signature()
    }

    /// The types to which arguments are cast, if the signature does not determine the types.
    fn coerce_types(&self, inner: &ScalarUDF, arguments: &[DataType]) -> Result<Vec<DataType>> {
        inner.coerce_types(arguments)
    }

    /// The type of the result.
    fn return_type(&self, inner: &ScalarUDF, arguments: &[DataType]) -> Result<DataType> {
        inner.return_type(arguments)
    }

    /// The Arrow field of the result: its type, nullability and metadata.
    fn return_field(&self, inner: &ScalarUDF, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        inner.return_field_from_args(arguments)
    }

    /// Computes the results for the rows of a batch.
    fn invoke(&self, inner: &ScalarUDF, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        inner.invoke_with_args(arguments)
    }
}

/// A layer that overrides nothing. Like every layer, it reports an unknown order of the results if
/// the wrapped function fails to compute the bounds of its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UnchangedLayer;

impl ScalarLayer for UnchangedLayer {}

/// Wraps `function` in `layer`.
pub fn scalar(function: Arc<ScalarUDF>, layer: impl ScalarLayer) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(LayeredScalar { inner: function, layer }))
}

/// The function that a layer of type `L` wraps; `None` without such a layer.
pub fn below<L: ScalarLayer>(function: &ScalarUDF) -> Option<Arc<ScalarUDF>> {
    function.inner().downcast_ref::<LayeredScalar<L>>().map(|scalar| Arc::clone(&scalar.inner))
}

/// The function that a layer of type `L` wraps, and the layer; `None` without such a layer.
pub fn layer<L: ScalarLayer>(function: &ScalarUDF) -> Option<(&Arc<ScalarUDF>, &L)> {
    let scalar = function.inner().downcast_ref::<LayeredScalar<L>>()?;
    Some((&scalar.inner, &scalar.layer))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct LayeredScalar<L> {
    inner: Arc<ScalarUDF>,
    layer: L,
}

impl<L: ScalarLayer> ScalarUDFImpl for LayeredScalar<L> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.layer.signature(&self.inner)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.layer.coerce_types(&self.inner, arguments)
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.layer.return_type(&self.inner, arguments)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        // The planner calls this method repeatedly for each level of a deep expression, and the
        // statement must remain stoppable.
        governor::check()?;
        self.layer.return_field(&self.inner, arguments)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.layer.invoke(&self.inner, arguments)
    }

    fn conditional_arguments<'a>(
        &self,
        arguments: &'a [Expr],
    ) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.inner().conditional_arguments(arguments)
    }

    fn short_circuits(&self) -> bool {
        self.inner.inner().short_circuits()
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        // Some functions fail for a type that only the layer accepts.
        self.inner.evaluate_bounds(inputs).or_else(|_| {
            let types: Vec<DataType> = inputs.iter().map(|input| input.data_type()).collect();
            let given = types.first().cloned().unwrap_or(DataType::Null);
            Interval::make_unbounded(&self.return_type(&types).unwrap_or(given))
        })
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        // Some functions fail for arguments outside of their domain. Because of the error, a
        // correct sort by the function would seem unsorted.
        Ok(self.inner.inner().output_ordering(input).unwrap_or(SortProperties::Unordered))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// A layer around an aggregate, with the overridable properties.
pub trait AggregateLayer: Debug + Clone + Eq + Hash + Send + Sync + 'static {
    /// The number and types of the accepted arguments.
    fn signature<'a>(&'a self, inner: &'a AggregateUDF) -> &'a Signature {
        inner.signature()
    }

    /// The types to which arguments are cast, if the signature does not determine the types.
    fn coerce_types(&self, inner: &AggregateUDF, arguments: &[DataType]) -> Result<Vec<DataType>> {
        inner.coerce_types(arguments)
    }

    /// The type of the result.
    fn return_type(&self, inner: &AggregateUDF, arguments: &[DataType]) -> Result<DataType> {
        inner.return_type(arguments)
    }

    /// The fields of a partial result, the state of an accumulator.
    fn state_fields(
        &self,
        inner: &AggregateUDF,
        arguments: StateFieldsArgs<'_>,
    ) -> Result<Vec<FieldRef>> {
        inner.state_fields(arguments)
    }

    /// Creates an accumulator for one group.
    fn accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        inner.accumulator(arguments)
    }

    /// Creates an accumulator for a sliding window.
    fn sliding_accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        inner.create_sliding_accumulator(arguments)
    }

    /// Whether the aggregate can process many groups at once.
    fn groups_accumulator_supported(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> bool {
        inner.groups_accumulator_supported(arguments)
    }

    /// Creates an accumulator for many groups.
    fn groups_accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        inner.create_groups_accumulator(arguments)
    }

    /// Whether the optimizer may replace the aggregate to process the rows in reverse order.
    fn is_reversible(&self) -> bool {
        true
    }

    /// The result for an input without rows.
    fn default_value(&self, inner: &AggregateUDF, data_type: &DataType) -> Result<ScalarValue> {
        inner.default_value(data_type)
    }

    /// The result, if the statistics of the input determine it without reading rows.
    fn value_from_stats(
        &self,
        inner: &AggregateUDF,
        arguments: &StatisticsArgs<'_>,
    ) -> Option<ScalarValue> {
        inner.value_from_stats(arguments)
    }
}

/// Wraps `function` in `layer`.
pub fn aggregate(function: Arc<AggregateUDF>, layer: impl AggregateLayer) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(LayeredAggregate { inner: function, layer }))
}

/// Whether the outermost layer of `function` has the type `L`.
pub fn is_under<L: AggregateLayer>(function: &AggregateUDF) -> bool {
    function.inner().is::<LayeredAggregate<L>>()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct LayeredAggregate<L> {
    inner: Arc<AggregateUDF>,
    layer: L,
}

impl<L: AggregateLayer> AggregateUDFImpl for LayeredAggregate<L> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.layer.signature(&self.inner)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.layer.coerce_types(&self.inner, arguments)
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.layer.return_type(&self.inner, arguments)
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        let field = self.inner.return_field(arguments);
        let types: Vec<DataType> =
            arguments.iter().map(|field| field.data_type().clone()).collect();
        match (self.layer.return_type(&self.inner, &types), field) {
            (Ok(of), Ok(field)) if of == *field.data_type() => Ok(field),
            (Ok(of), _) => Ok(Arc::new(Field::new(self.name(), of, self.is_nullable()))),
            // Some functions define only the result field, and not the result type.
            (Err(_), field) => field,
        }
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.layer.state_fields(&self.inner, arguments)
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        is_ordered: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let ordered = Arc::clone(self.inner.inner()).with_beneficial_ordering(is_ordered)?;
        Ok(ordered.map(|ordered| {
            let inner = Arc::new(AggregateUDF::new_from_shared_impl(ordered));
            Arc::new(Self { inner, layer: self.layer.clone() }) as Arc<dyn AggregateUDFImpl>
        }))
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.inner().supports_null_handling_clause()
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.layer.accumulator(&self.inner, arguments)
    }

    fn create_sliding_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        self.layer.sliding_accumulator(&self.inner, arguments)
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        self.layer.groups_accumulator_supported(&self.inner, arguments)
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.layer.groups_accumulator(&self.inner, arguments)
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.layer.default_value(&self.inner, data_type)
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        if !self.layer.is_reversible() {
            return ReversedUDAF::NotSupported;
        }
        match self.inner.inner().reverse_expr() {
            ReversedUDAF::Reversed(reversed) => {
                ReversedUDAF::Reversed(aggregate(reversed, self.layer.clone()))
            }
            other => other,
        }
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.inner().order_sensitivity()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }

    fn value_from_stats(&self, arguments: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.layer.value_from_stats(&self.inner, arguments)
    }

    fn supports_within_group_clause(&self) -> bool {
        self.inner.inner().supports_within_group_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// The types to which `function` itself casts arguments of the given types.
///
/// # Errors
/// An error if `function` does not accept the arguments.
pub fn types_fitted(
    function: &impl UDFCoercionExt,
    arguments: &[DataType],
) -> Result<Vec<DataType>> {
    let fields: Vec<FieldRef> = arguments
        .iter()
        .map(|data_type| Arc::new(Field::new("argument", data_type.clone(), true)))
        .collect();
    let fitted = fields_with_udf(&fields, function)?;
    Ok(fitted.iter().map(|field| field.data_type().clone()).collect())
}
