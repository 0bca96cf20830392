//! Limits functions whose result length depends on the value of an argument. A call whose results
//! would be too large for a batch fails before the allocation, because functions do not use the
//! memory pool (CL-10).

use std::sync::Arc;

use arrow::{
    array::AsArray,
    compute::cast,
    datatypes::{DataType, Int64Type},
};
use datafusion::{
    common::Result,
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF},
};
use stratalog_model::{Error, ErrorKind};

use crate::{
    errors::to_datafusion,
    rules::layers::{self, ScalarLayer},
};

/// Maximum size of the results of one call for a batch: bytes, or for arrays the number of
/// elements.
const RESULT_BYTES_MAX: i64 = 256 << 20;

/// The argument that determines the length of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ResultLength {
    /// The second argument is the length, or the number of repetitions.
    Second,
    /// The first argument is the length, or the number of repetitions.
    First,
}

fn growth_of(name: &str) -> Option<ResultLength> {
    match name {
        "array_repeat" | "array_resize" => Some(ResultLength::Second),
        "space" => Some(ResultLength::First),
        _ => None,
    }
}

/// Wraps `function` to limit the length of its results, if an argument determines the length. Other
/// functions stay unchanged.
pub fn bound(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    match growth_of(function.name()) {
        Some(growth) => layers::scalar(function, growth),
        None => function,
    }
}

impl ResultLength {
    /// Refuses a call of the function `name` whose results for a batch of `rows` rows would be too
    /// large.
    fn check(self, name: &str, arguments: &[ColumnarValue], rows: usize) -> Result<()> {
        let count_at = match self {
            ResultLength::First => 0,
            ResultLength::Second => 1,
        };
        let Some(count) = arguments.get(count_at) else { return Ok(()) };
        let count = cast(&count.to_array(rows)?, &DataType::Int64)?;
        let count = count.as_primitive::<Int64Type>();
        let total = count.iter().flatten().map(|count| count.max(0)).fold(0, i64::saturating_add);
        if total > RESULT_BYTES_MAX {
            return Err(to_datafusion(
                Error::new(
                    ErrorKind::LimitExceeded,
                    format!("requested length too large: {name}() would make {total} bytes"),
                )
                .with_detail(format!("one call may make {RESULT_BYTES_MAX} bytes for one batch")),
            ));
        }
        Ok(())
    }
}

impl ScalarLayer for ResultLength {
    fn invoke(&self, inner: &ScalarUDF, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.check(inner.name(), &arguments.args, arguments.number_rows)?;
        inner.invoke_with_args(arguments)
    }
}

#[cfg(test)]
mod tests;
