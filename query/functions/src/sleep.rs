//! The function `pg_sleep`. It waits without blocking a thread. A cancelled statement therefore
//! stops immediately.

use std::{
    hash::{Hash, Hasher},
    time::Duration,
};

use arrow::{
    array::AsArray,
    datatypes::{DataType, Float64Type},
};
use datafusion::{
    common::{Result, ScalarValue, exec_err},
    logical_expr::{
        ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl},
    },
};
use std::sync::Arc;

/// The maximum duration of one call, in seconds.
const SECONDS_MAX: f64 = 3_600.0;

/// The function `pg_sleep(seconds)`.
pub(crate) fn pg_sleep() -> ScalarUDF {
    AsyncScalarUDF::new(Arc::new(Sleep {
        signature: Signature::exact(vec![DataType::Float64], Volatility::Volatile),
    }))
    .into_scalar_udf()
}

#[derive(Debug)]
struct Sleep {
    signature: Signature,
}

impl PartialEq for Sleep {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Sleep {}

impl Hash for Sleep {
    fn hash<H: Hasher>(&self, state: &mut H) {
        "pg_sleep".hash(state);
    }
}

impl ScalarUDFImpl for Sleep {
    fn name(&self) -> &str {
        "pg_sleep"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("pg_sleep runs asynchronously only")
    }
}

#[async_trait::async_trait]
impl AsyncScalarUDFImpl for Sleep {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let seconds: f64 = match args.args.first() {
            Some(ColumnarValue::Scalar(ScalarValue::Float64(Some(seconds)))) => *seconds,
            Some(ColumnarValue::Array(array)) => {
                array.as_primitive::<Float64Type>().iter().flatten().sum()
            }
            _ => 0.0,
        };
        // NaN does not wait, because the comparison is false.
        if seconds > 0.0 {
            tokio::time::sleep(Duration::from_secs_f64(seconds.min(SECONDS_MAX))).await;
        }
        let text = ScalarValue::Utf8View(Some(String::new()));
        Ok(ColumnarValue::Array(text.to_array_of_size(args.number_rows)?))
    }
}
