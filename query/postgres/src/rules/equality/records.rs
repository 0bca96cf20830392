//! Makes `count(DISTINCT (a, b))` compare an encoding of each record. An encoding needs far less
//! memory than separate values for the fields.

use std::sync::Arc;

use arrow::{
    array::ArrayRef,
    datatypes::DataType,
    row::{RowConverter, SortField},
};
use datafusion::{
    common::{DFSchema, Result, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{
        ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
        Signature, Volatility, expr_rewriter::FunctionRewrite,
    },
};

use stratalog_model::{Error, ErrorKind};

use super::float_keys::keys;
use crate::{
    errors::to_datafusion,
    rules::calendar::lengths::{has_length, length},
};

/// Replaces the records in `count(DISTINCT …)` by their encodings.
#[derive(Debug)]
pub struct CountedRecords;

impl FunctionRewrite for CountedRecords {
    fn name(&self) -> &str {
        "counted_records"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        check_one_argument(&expr)?;
        let Expr::AggregateFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
        let encoded = match call.params.args.as_slice() {
            [argument] if call.func.name() == "count" && call.params.distinct => {
                encoded(argument, schema)
            }
            _ => None,
        };
        Ok(match encoded {
            Some(encoded) => {
                call.params.args = vec![encoded];
                Transformed::yes(Expr::AggregateFunction(call))
            }
            None => Transformed::no(Expr::AggregateFunction(call)),
        })
    }
}

/// Refuses `count(a, b)`, which DataFusion accepts and PostgreSQL does not.
fn check_one_argument(expr: &Expr) -> Result<()> {
    let (name, arguments) = match expr {
        Expr::AggregateFunction(call) => (call.func.name(), call.params.args.len()),
        Expr::WindowFunction(call) => (call.fun.name(), call.params.args.len()),
        _ => return Ok(()),
    };
    if name != "count" || arguments < 2 {
        return Ok(());
    }
    let error = Error::new(
        ErrorKind::UndefinedFunction,
        format!("function count with {arguments} arguments does not exist"),
    )
    .with_hint(
        "count(*) counts rows, count(x) values, count((x, y)) or count(DISTINCT (x, y)) pairs",
    );
    Err(to_datafusion(error))
}

/// The encoding of a record that is written field by field, and therefore never NULL; `None` for
/// other arguments.
fn encoded(argument: &Expr, schema: &DFSchema) -> Option<Expr> {
    let fields = match argument {
        Expr::Alias(alias) => return encoded(&alias.expr, schema),
        Expr::ScalarFunction(call) if call.name() == "struct" => &call.args,
        _ => return None,
    };
    let sortable = |field: &Expr| {
        let data_type = field.get_type(schema).ok()?;
        RowConverter::supports_fields(&[SortField::new(data_type)]).then_some(())
    };
    fields.iter().try_for_each(sortable)?;
    let fields = fields
        .iter()
        .map(|field| match has_length(field, schema) {
            true => length().call(vec![field.clone()]),
            false => field.clone(),
        })
        .collect();
    let signature = Signature::variadic_any(Volatility::Immutable);
    Some(Arc::new(ScalarUDF::new_from_impl(Encoding { signature })).call(fields))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Encoding {
    signature: Signature,
}

impl ScalarUDFImpl for Encoding {
    fn name(&self) -> &str {
        "record_encoding"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let columns = arguments
            .args
            .iter()
            .map(|value| Ok(keys(&value.to_array(rows)?)))
            .collect::<Result<Vec<ArrayRef>>>()?;
        let fields = columns.iter().map(|array| SortField::new(array.data_type().clone()));
        let converter = RowConverter::new(fields.collect())?;
        let encodings = converter.convert_columns(&columns)?.try_into_binary()?;
        Ok(ColumnarValue::Array(Arc::new(encodings)))
    }
}
