//! Functions whose result can be as long as an argument says: refused before they
//! allocate more than a batch may hold, for they ask no memory pool (CL-10).

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

use super::layers::{self, ScalarLayer};
use crate::errors::to_datafusion;

/// Bytes (or elements, for arrays) that one call may make of one batch.
const RESULT_BYTES_MAX: i64 = 256 << 20;

/// How long a function's result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Growth {
    /// The second argument.
    Second,
    /// The first argument.
    First,
}

fn growth_of(name: &str) -> Option<Growth> {
    match name {
        "array_repeat" | "array_resize" => Some(Growth::Second),
        "space" => Some(Growth::First),
        _ => None,
    }
}

/// `function` with a bound, if it is one that needs it.
pub fn bound(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    match growth_of(function.name()) {
        Some(growth) => layers::scalar(function, growth),
        None => function,
    }
}

impl Growth {
    /// Checks how long the result of the function `name` will be.
    fn check(self, name: &str, arguments: &[ColumnarValue], rows: usize) -> Result<()> {
        let count_at = match self {
            Growth::First => 0,
            Growth::Second => 1,
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
                .with_detail(format!("one call may make {RESULT_BYTES_MAX} bytes of one batch")),
            ));
        }
        Ok(())
    }
}

impl ScalarLayer for Growth {
    fn invoke(&self, inner: &ScalarUDF, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.check(inner.name(), &arguments.args, arguments.number_rows)?;
        inner.invoke_with_args(arguments)
    }
}

#[cfg(test)]
mod tests;
