//! Declares scalar SQL functions: names, parameters, result type, description, and the Rust
//! function that computes the results.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, AsArray, StringViewArray, StringViewBuilder},
    buffer::Buffer,
    datatypes::{DataType, Field, FieldRef},
};
use datafusion::{
    common::{Result, ScalarValue, plan_err},
    config::ConfigOptions,
    logical_expr::{
        ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        Volatility,
    },
};
use stratalog_model::{ColumnType, Error, types::PG_TYPE_METADATA};

use crate::{
    governor::{self, VALUE_BYTES_MAX},
    metered::expanded,
};

mod parameter;

pub use parameter::Parameter;
use parameter::fit;

/// The maximum number of bytes that one call may return for a batch, for functions whose results
/// may have any size (CL-10).
pub const RESULT_BYTES_MAX: usize = 256 << 20;

/// A text with at least this many bytes becomes a buffer of the result array, without a copy.
const BLOCK_BYTES_MIN: usize = 1 << 20;

/// While a value of at least this many bytes grows, twice its size is charged, because growing
/// copies the value.
const GROWING_BYTES_MIN: usize = 16 << 20;

/// The SQL name of an Arrow type; the Arrow name if SQL has no such type.
pub fn sql_name(data_type: &DataType) -> String {
    if matches!(data_type, DataType::Struct(_)) {
        return "record".to_string();
    }
    ColumnType::from_arrow_field(&Field::new("", data_type.clone(), true))
        .map_or_else(|| data_type.to_string(), |column_type| column_type.to_string())
}

/// How the result type of a function is determined.
#[derive(Debug, Clone)]
pub enum Returns {
    /// The result always has this type.
    Type(ColumnType),
    /// The result always has this column type, but represents a PostgreSQL type with this other
    /// name, for example `name` or `oid`.
    Known(ColumnType, &'static str),
    /// The result has the type of the argument at this index.
    Same(usize),
    /// A function computes the result type from the fields of the arguments.
    Rule(fn(&[FieldRef]) -> Result<DataType>),
    /// A function computes the result type from the fields of the arguments, and from the values of
    /// constant arguments.
    Constants(fn(&[FieldRef], &[Option<&ScalarValue>]) -> DataType),
}

impl From<ColumnType> for Returns {
    fn from(column_type: ColumnType) -> Self {
        Self::Type(column_type)
    }
}

/// The arguments of a call, as arrays with equal lengths.
#[derive(Debug)]
pub struct Arguments<'a> {
    /// One array per argument; the array of a constant repeats its value.
    pub arrays: Vec<ArrayRef>,
    /// The field of each argument.
    pub fields: &'a [FieldRef],
    /// The length of every array, and of the result.
    pub rows: usize,
    /// The type of the result.
    pub result: &'a DataType,
    /// The session's settings.
    pub config: &'a Arc<ConfigOptions>,
}

impl Arguments<'_> {
    /// Argument `at` as text.
    ///
    /// # Errors
    /// `Internal` if the argument is not text, because the declaration of the function is wrong.
    pub fn text(&self, at: usize) -> Result<&StringViewArray> {
        self.arrays
            .get(at)
            .and_then(|array| array.as_string_view_opt())
            .ok_or_else(|| failed(Error::internal(format!("argument {at} is not text"))))
    }

    /// Argument `at` as integers.
    ///
    /// # Errors
    /// The errors of [`Arguments::text`].
    pub fn integers(&self, at: usize) -> Result<&arrow::array::Int64Array> {
        self.arrays
            .get(at)
            .and_then(|array| array.as_primitive_opt())
            .ok_or_else(|| failed(Error::internal(format!("argument {at} is not bigint"))))
    }

    /// Argument `at` as floating-point numbers.
    ///
    /// # Errors
    /// The errors of [`Arguments::text`].
    pub fn doubles(&self, at: usize) -> Result<&arrow::array::Float64Array> {
        self.arrays.get(at).and_then(|array| array.as_primitive_opt()).ok_or_else(|| {
            failed(Error::internal(format!("argument {at} is not double precision")))
        })
    }

    /// The array of argument `at`.
    ///
    /// # Errors
    /// `Internal` if there are fewer arguments.
    pub fn array(&self, at: usize) -> Result<&ArrayRef> {
        self.arrays
            .get(at)
            .ok_or_else(|| failed(Error::internal(format!("argument {at} is missing"))))
    }

    /// True if the call has an argument at index `at`.
    pub fn has(&self, at: usize) -> bool {
        at < self.arrays.len()
    }
}

/// Tracks the memory of a result that grows row by row: charges it to the statement, and checks the
/// limits.
#[derive(Debug)]
pub struct Room {
    rows: usize,
    charge: Option<governor::Charge>,
    bytes: usize,
    charged: usize,
}

impl Room {
    /// The memory is charged in steps of this many bytes.
    const STEP_BYTES: usize = 1 << 20;

    /// Starts with an empty result, for a batch of `rows` rows.
    pub fn of(rows: usize) -> Self {
        Self { rows, charge: None, bytes: 0, charged: 0 }
    }

    /// Adds a value of `bytes` bytes to the result.
    ///
    /// # Errors
    /// The errors of [`Self::reach`].
    pub fn take(&mut self, bytes: usize) -> Result<()> {
        self.reach(bytes)?;
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Makes sure that the next value may have `bytes` bytes, and charges them in advance. Does not
    /// add the value.
    ///
    /// # Errors
    /// `LimitExceeded` for a value beyond the maximum length, `OutOfMemory`, `QueryCanceled`.
    pub fn reach(&mut self, bytes: usize) -> Result<()> {
        if bytes > VALUE_BYTES_MAX {
            return Err(failed(governor::too_long("the function", bytes)));
        }
        let bytes = self.bytes.saturating_add(bytes);
        if bytes.saturating_sub(self.charged) < Self::STEP_BYTES {
            return Ok(());
        }
        governor::check()?;
        governor::check_batch(bytes, self.rows).map_err(failed)?;
        // A growing value is copied to a new buffer, which may be twice as large as the old buffer.
        let taken = if bytes >= GROWING_BYTES_MIN { bytes.saturating_mul(2) } else { bytes };
        match &mut self.charge {
            Some(charge) => charge.resize(taken).map_err(failed)?,
            None => self.charge = Some(governor::charge(taken).map_err(failed)?),
        }
        self.charged = bytes;
        Ok(())
    }
}

/// Builds a text array by calling `value` for each row; `None` becomes NULL.
///
/// # Errors
/// The first error of `value`.
pub fn text_rows(
    rows: usize,
    mut value: impl FnMut(usize) -> Result<Option<String>>,
) -> Result<ArrayRef> {
    let mut builder = StringViewBuilder::with_capacity(rows);
    let mut room = Room::of(rows);
    for row in 0..rows {
        let value = value(row)?;
        room.take(value.as_ref().map_or(0, String::len))?;
        match value {
            // The buffer of a long text becomes a part of the array without a copy.
            Some(long) if long.len() >= BLOCK_BYTES_MIN => {
                let length = u32::try_from(long.len())
                    .map_err(|_| failed(governor::too_long("the function", long.len())))?;
                let block = builder.append_block(Buffer::from_vec(long.into_bytes()));
                builder.try_append_view(block, 0, length)?;
            }
            value => builder.append_option(value),
        }
    }
    Ok(Arc::new(builder.finish()))
}

/// The text in a row of the array; `None` for NULL.
pub fn text_at(array: &StringViewArray, row: usize) -> Option<&str> {
    use arrow::array::Array;
    (!array.is_null(row)).then(|| array.value(row))
}

/// Wraps an error in an error of DataFusion; the kind and the SQLSTATE remain.
pub fn failed(error: Error) -> datafusion::error::DataFusionError {
    datafusion::error::DataFusionError::External(Box::new(error))
}

/// A Rust function that computes the results for all rows of a batch.
pub type Run = Arc<dyn Fn(&Arguments<'_>) -> Result<ArrayRef> + Send + Sync>;

/// The declaration of a scalar function.
#[derive(Clone)]
pub struct Function {
    /// The name of the function.
    pub name: &'static str,
    /// Further names of the function.
    pub aliases: &'static [&'static str],
    /// The parameter lists that the function accepts. The first list that fits the arguments is
    /// used.
    pub parameters: &'static [&'static [Parameter]],
    /// How the result type is determined.
    pub returns: Returns,
    /// The volatility of the function: whether equal arguments always give equal results.
    pub volatility: Volatility,
    /// A description in one line, for the documentation.
    pub description: &'static str,
    /// The Rust function that computes the results for a batch.
    pub run: Run,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Function {
    /// Declares an immutable function: its result depends only on its arguments.
    pub fn immutable(
        name: &'static str,
        parameters: &'static [&'static [Parameter]],
        returns: impl Into<Returns>,
        description: &'static str,
        run: fn(&Arguments<'_>) -> Result<ArrayRef>,
    ) -> Self {
        Self {
            name,
            aliases: &[],
            parameters,
            returns: returns.into(),
            volatility: Volatility::Immutable,
            description,
            run: Arc::new(run),
        }
    }

    /// The parameter lists as text, for the documentation and for messages.
    pub fn signatures(&self) -> Vec<String> {
        self.parameters
            .iter()
            .map(|parameters| {
                let names: Vec<&str> =
                    parameters.iter().map(|parameter| parameter.name()).collect();
                format!("{}({})", self.name, names.join(", "))
            })
            .collect()
    }

    /// Converts the declaration to a DataFusion function.
    pub fn into_udf(self) -> ScalarUDF {
        let signature = if self.parameters.iter().all(|parameters| parameters.is_empty()) {
            Signature::nullary(self.volatility)
        } else if self
            .parameters
            .iter()
            .any(|parameters| matches!(parameters, [] | [Parameter::Rest]))
        {
            Signature::one_of(
                vec![
                    datafusion::logical_expr::TypeSignature::UserDefined,
                    datafusion::logical_expr::TypeSignature::Nullary,
                ],
                self.volatility,
            )
        } else {
            Signature::user_defined(self.volatility)
        };
        let aliases = self.aliases.iter().map(|alias| (*alias).to_string()).collect();
        ScalarUDF::new_from_impl(DeclaredFunction { function: self, signature, aliases })
    }
}

/// True if the function was declared with [`Function`]. A function of this kind never copies a
/// constant argument for each row.
pub fn is_declared(function: &ScalarUDF) -> bool {
    function.inner().is::<DeclaredFunction>()
}

#[derive(Debug)]
struct DeclaredFunction {
    function: Function,
    signature: Signature,
    aliases: Vec<String>,
}

impl PartialEq for DeclaredFunction {
    fn eq(&self, other: &Self) -> bool {
        self.function.name == other.function.name
    }
}

impl Eq for DeclaredFunction {}

impl Hash for DeclaredFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.name.hash(state);
    }
}

impl ScalarUDFImpl for DeclaredFunction {
    fn name(&self) -> &str {
        self.function.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("{} tells its type by return_field_from_args", self.function.name)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let name = self.function.name;
        Ok(Arc::new(match &self.function.returns {
            Returns::Type(column_type) => column_type.arrow_field(name, true),
            Returns::Known(column_type, pg_type) => {
                let field = column_type.arrow_field(name, true);
                let mut metadata = field.metadata().clone();
                metadata.insert(PG_TYPE_METADATA.to_string(), (*pg_type).to_string());
                field.with_metadata(metadata)
            }
            Returns::Same(at) => match args.arg_fields.get(*at) {
                Some(field) => field.as_ref().clone().with_name(name).with_nullable(true),
                None => return plan_err!("{name} has no argument {at}"),
            },
            Returns::Rule(rule) => Field::new(name, rule(args.arg_fields)?, true),
            Returns::Constants(rule) => {
                Field::new(name, rule(args.arg_fields, args.scalar_arguments), true)
            }
        }))
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let mut overloads = self.function.parameters.iter();
        match overloads.find_map(|parameters| fit(parameters, given)) {
            Some(types) => Ok(types),
            None => plan_err!(
                "function {}({}) does not exist; there is {}",
                self.function.name,
                given.iter().map(sql_name).collect::<Vec<_>>().join(", "),
                self.function.signatures().join(", ")
            ),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = self.function.volatility != Volatility::Volatile
            && args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let arrays =
            args.args.iter().map(|value| expanded(value, rows)).collect::<Result<Vec<_>>>()?;
        let result = (self.function.run)(&Arguments {
            arrays,
            fields: &args.arg_fields,
            rows,
            result: args.return_field.data_type(),
            config: &args.config_options,
        })?;
        if constant {
            return Ok(ColumnarValue::Scalar(crate::literal::scalar_of(&result)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}
