//! The ordered-set aggregates `mode()` and `percentile_disc(fraction)`, which are called with
//! `WITHIN GROUP (ORDER BY value)`.

use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array},
    compute::SortOptions,
    datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type},
    row::{OwnedRow, RowConverter, SortField},
};
use datafusion::{
    common::{Result, ScalarValue, plan_err, utils::SingleRowListArrayBuilder},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::format_state_name,
    },
};
use stratalog_model::{Error, ErrorKind};

use crate::{failed, function::sql_name};

/// The aggregate functions, each with its description for the documentation.
pub fn functions() -> Vec<(AggregateUDF, &'static str)> {
    let declare = |name, description, takes| {
        (AggregateUDF::new_from_impl(OrderedSet::new(name, takes)), description)
    };
    vec![
        declare(
            "mode",
            "The most frequent value, WITHIN GROUP (ORDER BY value); of equally frequent values, the first in the order.",
            OrderedSetResult::Mode,
        ),
        declare(
            "percentile_disc",
            "The first value, WITHIN GROUP (ORDER BY value), at or after a fraction of all values.",
            OrderedSetResult::Percentile,
        ),
    ]
}

/// Selects the value that an aggregate returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum OrderedSetResult {
    /// The most frequent value.
    Mode,
    /// The value at the position that the argument `fraction` gives, in the order of the values.
    Percentile,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OrderedSet {
    name: &'static str,
    takes: OrderedSetResult,
    signature: Signature,
}

impl OrderedSet {
    fn new(name: &'static str, takes: OrderedSetResult) -> Self {
        Self { name, takes, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for OrderedSet {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments.first() {
            Some(value) => Ok(value.clone()),
            None => plan_err!("function {}() does not exist", self.name),
        }
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        match arguments.first() {
            Some(value) => {
                Ok(Arc::new(value.as_ref().clone().with_name(self.name).with_nullable(true)))
            }
            None => plan_err!("function {}() does not exist", self.name),
        }
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match (self.takes, given) {
            (OrderedSetResult::Mode, [value]) => Ok(vec![value.clone()]),
            (OrderedSetResult::Percentile, [value, fraction])
                if fraction.is_numeric() || fraction.is_null() =>
            {
                Ok(vec![value.clone(), DataType::Float64])
            }
            (OrderedSetResult::Percentile, [_, DataType::List(_) | DataType::LargeList(_)]) => {
                Err(failed(
                    Error::not_yet("percentile_disc() of an array of fractions")
                        .with_hint("call the function once for each fraction"),
                ))
            }
            _ => plan_err!(
                "function {}({}) does not exist; there is {} WITHIN GROUP (ORDER BY value)",
                self.name,
                given.iter().map(sql_name).collect::<Vec<_>>().join(", "),
                match self.takes {
                    OrderedSetResult::Mode => "mode()",
                    OrderedSetResult::Percentile => "percentile_disc(fraction)",
                }
            ),
        }
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let Some(value) = arguments.input_fields.first() else {
            return plan_err!("{} needs a value", self.name);
        };
        let list = |item: DataType| DataType::List(Arc::new(Field::new_list_field(item, true)));
        let field = |suffix: &str, data_type| {
            Arc::new(Field::new(format_state_name(arguments.name, suffix), data_type, true))
        };
        Ok(vec![
            field("values", list(value.data_type().clone())),
            field("counts", list(DataType::Int64)),
            field("fraction", DataType::Float64),
        ])
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let Some(value) = arguments.expr_fields.first() else {
            return plan_err!("{} needs a value", self.name);
        };
        let options = match arguments.order_bys.first() {
            Some(order) => order.options,
            None => SortOptions::default(),
        };
        Ok(Box::new(Counts::new(self.takes, value.data_type().clone(), options)?))
    }
}

/// The estimated size in bytes of an entry in the tree of counts, without the bytes of the value.
const ENTRY_BYTES: usize = size_of::<(OwnedRow, i64)>() * 3 / 2 + 16;

/// The state of an aggregate: how often each value occurs. The values are sorted.
#[derive(Debug)]
struct Counts {
    takes: OrderedSetResult,
    data_type: DataType,
    converter: RowConverter,
    counts: BTreeMap<OwnedRow, i64>,
    /// The number of all values, including repeated values.
    total: i64,
    fraction: Option<f64>,
    bytes: usize,
}

impl Counts {
    fn new(takes: OrderedSetResult, data_type: DataType, options: SortOptions) -> Result<Self> {
        let field = SortField::new_with_options(data_type.clone(), options);
        Ok(Self {
            takes,
            data_type,
            converter: RowConverter::new(vec![field])?,
            counts: BTreeMap::new(),
            total: 0,
            fraction: None,
            bytes: 0,
        })
    }

    /// Counts the values, without NULLs. `counts` has the number of occurrences of each value;
    /// without `counts`, each value occurs once.
    fn add(&mut self, values: &ArrayRef, counts: Option<&Int64Array>) -> Result<()> {
        let rows = self.converter.convert_columns(&[Arc::clone(values)])?;
        for (at, row) in rows.iter().enumerate() {
            if values.is_null(at) {
                continue;
            }
            let count = counts.map_or(1, |counts| counts.value(at));
            self.total = self.total.saturating_add(count);
            let row = row.owned();
            match self.counts.get_mut(&row) {
                Some(known) => *known = known.saturating_add(count),
                None => {
                    self.bytes =
                        self.bytes.saturating_add(row.as_ref().len()).saturating_add(ENTRY_BYTES);
                    self.counts.insert(row, count);
                }
            }
        }
        Ok(())
    }

    fn set_fraction(&mut self, fractions: Option<&ArrayRef>) -> Result<()> {
        let Some(fractions) = fractions else { return Ok(()) };
        let Some(fraction) = fractions.as_primitive::<Float64Type>().iter().flatten().next() else {
            return Ok(());
        };
        if !(0.0..=1.0).contains(&fraction) {
            return Err(failed(Error::new(
                ErrorKind::NumericOutOfRange,
                format!("percentile value {fraction} is not between 0 and 1"),
            )));
        }
        self.fraction = Some(fraction);
        Ok(())
    }

    fn result_row(&self) -> Option<&OwnedRow> {
        match self.takes {
            OrderedSetResult::Mode => {
                let mut best: Option<(&OwnedRow, i64)> = None;
                for (row, count) in &self.counts {
                    if best.is_none_or(|(_, most)| *count > most) {
                        best = Some((row, *count));
                    }
                }
                best.map(|(row, _)| row)
            }
            OrderedSetResult::Percentile => {
                #[expect(clippy::cast_precision_loss, reason = "as in PostgreSQL")]
                let wanted = (self.fraction? * self.total as f64).ceil().max(1.0);
                let mut passed = 0_i64;
                self.counts
                    .iter()
                    .find(|(_, count)| {
                        passed = passed.saturating_add(**count);
                        #[expect(clippy::cast_precision_loss, reason = "as in PostgreSQL")]
                        let reached = passed as f64 >= wanted;
                        reached
                    })
                    .map(|(row, _)| row)
            }
        }
    }
}

impl Accumulator for Counts {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        // The call passes the sorted value first, and then the argument `fraction`.
        if self.takes == OrderedSetResult::Percentile {
            self.set_fraction(values.get(1))?;
        }
        match values.first() {
            Some(values) => self.add(values, None),
            None => Ok(()),
        }
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [values, counts, fractions] = states else {
            return Err(failed(Error::internal("the state of an ordered set has three parts")));
        };
        self.set_fraction(Some(fractions))?;
        let (values, counts) = (values.as_list::<i32>(), counts.as_list::<i32>());
        for (values, counts) in values.iter().zip(counts.iter()) {
            if let (Some(values), Some(counts)) = (values, counts) {
                self.add(&values, Some(counts.as_primitive::<Int64Type>()))?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let mut values = self.converter.convert_rows(self.counts.keys().map(OwnedRow::row))?;
        let values = match values.pop() {
            Some(values) => values,
            None => arrow::array::new_empty_array(&self.data_type),
        };
        let counts: ArrayRef = Arc::new(self.counts.values().copied().collect::<Int64Array>());
        let list = |items| SingleRowListArrayBuilder::new(items).build_list_scalar();
        Ok(vec![list(values), list(counts), ScalarValue::Float64(self.fraction)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let Some(row) = self.result_row() else {
            return ScalarValue::try_new_null(&self.data_type);
        };
        let values = self.converter.convert_rows([row.row()])?;
        match values.first() {
            Some(values) => ScalarValue::try_from_array(values, 0),
            None => ScalarValue::try_new_null(&self.data_type),
        }
    }

    fn size(&self) -> usize {
        size_of::<Self>().saturating_add(self.converter.size()).saturating_add(self.bytes)
    }
}

#[cfg(test)]
mod tests;
