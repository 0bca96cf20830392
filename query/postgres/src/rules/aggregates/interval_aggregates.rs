//! `sum`, `avg`, `min` and `max` of intervals and of differences of times.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::format_state_name,
    },
};

use crate::rules::layers::{self, AggregateLayer, types_fitted};

mod extremes;
mod totals;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// The version of an aggregate that accepts intervals; `None` for other aggregates.
pub fn of(function: &AggregateUDF) -> Option<Arc<AggregateUDF>> {
    let kind = match function.name() {
        "sum" => IntervalAggregate::Sum,
        "avg" => IntervalAggregate::Average,
        "min" => IntervalAggregate::Smallest,
        "max" => IntervalAggregate::Largest,
        _ => return None,
    };
    let signature = Signature::any(1, Volatility::Immutable);
    Some(Arc::new(AggregateUDF::new_from_impl(IntervalAggregateFunction { kind, signature })))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum IntervalAggregate {
    Sum,
    Average,
    Smallest,
    Largest,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct IntervalAggregateFunction {
    kind: IntervalAggregate,
    signature: Signature,
}

impl AggregateUDFImpl for IntervalAggregateFunction {
    fn name(&self) -> &str {
        match self.kind {
            IntervalAggregate::Sum => "interval_sum",
            IntervalAggregate::Average => "interval_avg",
            IntervalAggregate::Smallest => "interval_min",
            IntervalAggregate::Largest => "interval_max",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let types = match self.kind {
            IntervalAggregate::Smallest | IntervalAggregate::Largest => vec![INTERVAL],
            _ if arguments.is_distinct => {
                vec![DataType::List(Arc::new(Field::new_list_field(INTERVAL, true)))]
            }
            IntervalAggregate::Sum | IntervalAggregate::Average => totals::STATE.to_vec(),
        };
        Ok(types
            .into_iter()
            .enumerate()
            .map(|(at, data_type)| {
                let name = format_state_name(arguments.name, &format!("interval{at}"));
                Arc::new(Field::new(name, data_type, true))
            })
            .collect())
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let averages = self.kind == IntervalAggregate::Average;
        Ok(match self.kind {
            IntervalAggregate::Smallest => Box::new(extremes::IntervalExtreme::new(false)),
            IntervalAggregate::Largest => Box::new(extremes::IntervalExtreme::new(true)),
            _ if arguments.is_distinct => Box::new(totals::DistinctIntervalSum::new(averages)),
            IntervalAggregate::Sum | IntervalAggregate::Average => {
                Box::new(totals::IntervalTotal::new(averages))
            }
        })
    }

    fn create_sliding_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        Ok(match self.kind {
            IntervalAggregate::Smallest => Box::new(extremes::IntervalExtreme::moving(false)),
            IntervalAggregate::Largest => Box::new(extremes::IntervalExtreme::moving(true)),
            IntervalAggregate::Sum | IntervalAggregate::Average => {
                return self.accumulator(arguments);
            }
        })
    }
}

/// Wraps `avg` to accept intervals during planning: DataFusion's `avg` accepts only numbers. Before
/// execution, a rewrite replaces the call. Other functions stay unchanged.
pub fn averages(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    if function.name() != "avg" {
        return function;
    }
    let signature = Signature::user_defined(Volatility::Immutable);
    layers::aggregate(function, IntervalAverage { signature })
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct IntervalAverage {
    signature: Signature,
}

impl AggregateLayer for IntervalAverage {
    fn signature<'a>(&'a self, _: &'a AggregateUDF) -> &'a Signature {
        &self.signature
    }

    fn coerce_types(&self, inner: &AggregateUDF, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [DataType::Interval(_)] => Ok(vec![INTERVAL]),
            _ => types_fitted(inner, arguments),
        }
    }

    fn return_type(&self, inner: &AggregateUDF, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [DataType::Interval(_)] => Ok(INTERVAL),
            _ => inner.return_type(arguments),
        }
    }
}

fn null() -> ScalarValue {
    ScalarValue::IntervalMonthDayNano(None)
}
