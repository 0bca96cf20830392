//! Functions whose result can be as long as an argument says: refused before they
//! allocate more than a batch may hold, for they ask no memory pool (CL-10).

use std::sync::Arc;

use arrow::{
    array::{Array, AsArray},
    compute::cast,
    datatypes::{DataType, FieldRef, Int64Type},
};
use datafusion::{
    common::Result,
    logical_expr::{
        ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
        ScalarUDFImpl, Signature,
    },
};
use stratalog_model::{Error, ErrorKind};

use crate::errors::to_datafusion;

/// Bytes (or elements, for arrays) that one call may make of one batch.
const RESULT_BYTES_MAX: i64 = 256 << 20;

/// How long a function's result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Growth {
    /// Bytes of the first argument, times the second.
    Times,
    /// The second argument.
    Second,
    /// The first argument.
    First,
}

fn growth_of(name: &str) -> Option<Growth> {
    match name {
        "repeat" => Some(Growth::Times),
        "lpad" | "rpad" | "array_repeat" | "array_resize" => Some(Growth::Second),
        "space" => Some(Growth::First),
        _ => None,
    }
}

/// `function` with a bound, if it is one that needs it.
pub fn bound(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    match growth_of(function.name()) {
        Some(growth) => Arc::new(ScalarUDF::new_from_impl(Bounded { inner: function, growth })),
        None => function,
    }
}

/// A function that checks how long its result will be.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    growth: Growth,
}

impl Bounded {
    fn check(&self, arguments: &[ColumnarValue], rows: usize) -> Result<()> {
        let array = |at: usize| -> Result<Option<arrow::array::ArrayRef>> {
            arguments.get(at).map(|value| value.to_array(rows)).transpose()
        };
        let count_at = match self.growth {
            Growth::First => 0,
            Growth::Times | Growth::Second => 1,
        };
        let (Some(count), first) = (array(count_at)?, array(0)?) else { return Ok(()) };
        let count = cast(&count, &DataType::Int64)?;
        let count = count.as_primitive::<Int64Type>();
        let first = match (self.growth, first) {
            (Growth::Times, Some(first)) => Some(cast(&first, &DataType::Utf8View)?),
            _ => None,
        };
        let mut total: i64 = 0;
        for (row, times) in count.iter().enumerate() {
            let times = times.unwrap_or(0).max(0);
            let unit = match &first {
                Some(first) if first.is_valid(row) => {
                    i64::try_from(first.as_string_view().value(row).len()).unwrap_or(i64::MAX)
                }
                Some(_) => 0,
                None => 1,
            };
            total = total.saturating_add(times.saturating_mul(unit));
        }
        if total > RESULT_BYTES_MAX {
            return Err(to_datafusion(
                Error::new(
                    ErrorKind::LimitExceeded,
                    format!(
                        "requested length too large: {}() would make {total} bytes",
                        self.name()
                    ),
                )
                .with_detail(format!("one call may make {RESULT_BYTES_MAX} bytes of one batch")),
            ));
        }
        Ok(())
    }
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(arguments)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.check(&arguments.args, arguments.number_rows)?;
        self.inner.invoke_with_args(arguments)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

#[cfg(test)]
mod tests;
