//! An aggregate over the collected rows of a group, in the order of its keys.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, StringArray, UInt32Array, new_empty_array},
    compute::{SortOptions, cast, take},
    datatypes::{DataType, FieldRef, Schema},
    row::{RowConverter, Rows, SortField},
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{
        Accumulator, AggregateUDF, ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs,
        ScalarUDFImpl, Signature, Volatility, function::AccumulatorArgs,
    },
    physical_expr::{
        PhysicalExpr,
        expressions::{Column, Literal},
    },
};
use stratalog_functions::governor;
use stratalog_model::Error;

use crate::errors::{from_arrow, to_datafusion};

/// A function that aggregates an array of rows. Each row consists of sort keys and arguments.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct OrderedAggregate {
    function: Arc<AggregateUDF>,
    /// For each key, whether the order is ascending, and whether NULL comes first.
    keys: Vec<(bool, bool)>,
    arguments: Vec<FieldRef>,
    result: FieldRef,
    is_distinct: bool,
    ignores_nulls: bool,
    signature: Signature,
}

impl OrderedAggregate {
    pub(super) fn new(
        function: Arc<AggregateUDF>,
        keys: Vec<(bool, bool)>,
        arguments: Vec<FieldRef>,
        result: FieldRef,
        is_distinct: bool,
        ignores_nulls: bool,
    ) -> Self {
        let signature = Signature::any(1, Volatility::Immutable);
        Self { function, keys, arguments, result, is_distinct, ignores_nulls, signature }
    }

    /// Sorts the rows of `columns`. The first columns are the sort keys.
    fn rows(&self, columns: &[ArrayRef]) -> Result<Option<Rows>> {
        let compared = match self.is_distinct {
            true => columns,
            false => columns.get(..self.keys.len()).unwrap_or_default(),
        };
        rows_of(compared, &self.keys)
    }

    fn accumulator(&self, has_delimiters: bool) -> Result<Box<dyn Accumulator>> {
        let schema = Schema::new(self.arguments.clone());
        let expr = |(at, field): (usize, &FieldRef)| -> Result<Arc<dyn PhysicalExpr>> {
            if has_delimiters && at == 1 {
                let none = ScalarValue::from("").cast_to(field.data_type())?;
                return Ok(Arc::new(Literal::new(none)));
            }
            Ok(Arc::new(Column::new(field.name(), at)))
        };
        let exprs = self.arguments.iter().enumerate().map(expr).collect::<Result<Vec<_>>>()?;
        self.function.accumulator(AccumulatorArgs {
            return_field: Arc::clone(&self.result),
            schema: &schema,
            ignore_nulls: self.ignores_nulls,
            order_bys: &[],
            is_reversed: false,
            name: self.function.name(),
            is_distinct: false,
            exprs: &exprs,
            expr_fields: &self.arguments,
        })
    }
}

/// Converts columns to rows that compare in PostgreSQL's order; `None` without columns. Columns
/// after the sort keys are in ascending order.
fn rows_of(columns: &[ArrayRef], keys: &[(bool, bool)]) -> Result<Option<Rows>> {
    if columns.is_empty() {
        return Ok(None);
    }
    let fields = columns.iter().enumerate().map(|(at, column)| {
        let (ascends, nulls_first) = keys.get(at).copied().unwrap_or((true, false));
        let options = SortOptions { descending: !ascends, nulls_first };
        SortField::new_with_options(column.data_type().clone(), options)
    });
    let converter = RowConverter::new(fields.collect()).map_err(to_error)?;
    converter.convert_columns(columns).map(Some).map_err(to_error)
}

fn to_error(error: arrow::error::ArrowError) -> datafusion::error::DataFusionError {
    to_datafusion(from_arrow(error))
}

/// Puts each delimiter in front of its value, except for the first value. A `string_agg` with an
/// empty delimiter then joins the results.
fn pieces(values: &ArrayRef, delimiters: &ArrayRef) -> Result<ArrayRef> {
    let values = cast(values, &DataType::Utf8)?;
    let delimiters = cast(delimiters, &DataType::Utf8)?;
    let (values, delimiters) = (values.as_string::<i32>(), delimiters.as_string::<i32>());
    let mut is_first = true;
    let pieces = values.iter().zip(delimiters.iter()).map(|(value, delimiter)| {
        let value = value?;
        let delimiter = if is_first { "" } else { delimiter.unwrap_or("") };
        is_first = false;
        Some(format!("{delimiter}{value}"))
    });
    Ok(Arc::new(pieces.collect::<StringArray>()))
}

impl ScalarUDFImpl for OrderedAggregate {
    fn name(&self) -> &str {
        "\u{1}ordered"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.result.data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(self.result.as_ref().clone().with_name(self.name()).with_nullable(true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let lists = match arguments.args.into_iter().next() {
            Some(lists) => lists.into_array(rows)?,
            None => return Err(no_rows()),
        };
        let lists = lists.as_list_opt::<i32>().ok_or_else(no_rows)?;
        let all = lists.values().as_struct_opt().ok_or_else(no_rows)?;
        let columns = all.columns();
        let values = columns.get(self.keys.len()..).unwrap_or_default();
        let sorted = self.rows(columns)?;
        let told_apart = if self.is_distinct { rows_of(values, &[])? } else { None };
        let has_delimiters = self.function.name() == "string_agg" && self.arguments.len() == 2;
        let mut results = Vec::with_capacity(lists.len());
        for list in 0..lists.len() {
            governor::check()?;
            let mut accumulator = self.accumulator(has_delimiters)?;
            if !lists.is_null(list) {
                let offsets = lists.value_offsets();
                let bound = |at: usize| offsets.get(at).and_then(|end| u32::try_from(*end).ok());
                let (start, end) = bound(list).zip(bound(list + 1)).ok_or_else(no_rows)?;
                let mut order: Vec<u32> = (start..end).collect();
                if let Some(sorted) = &sorted {
                    order.sort_by(|left, right| {
                        sorted.row(*left as usize).cmp(&sorted.row(*right as usize))
                    });
                }
                if let Some(rows) = &told_apart {
                    order.dedup_by(|next, last| {
                        rows.row(*next as usize) == rows.row(*last as usize)
                    });
                }
                let order = UInt32Array::from(order);
                let mut taken = values
                    .iter()
                    .map(|column| take(column, &order, None))
                    .collect::<std::result::Result<Vec<ArrayRef>, _>>()?;
                if has_delimiters && let [text, delimiter] = taken.as_mut_slice() {
                    let joined = pieces(text, delimiter)?;
                    *text = cast(&joined, text.data_type())?;
                }
                if !order.is_empty() {
                    accumulator.update_batch(&taken)?;
                }
            }
            results.push(accumulator.evaluate()?);
        }
        let results = match results.is_empty() {
            true => new_empty_array(self.result.data_type()),
            false => ScalarValue::iter_to_array(results)?,
        };
        Ok(ColumnarValue::Array(results))
    }
}

fn no_rows() -> datafusion::error::DataFusionError {
    to_datafusion(Error::internal("an ordered aggregate is of collected rows"))
}
