//! Function calls: chooses between the functions that PostgreSQL has under one name, and thus
//! determines the types of the arguments and of the result.
//!
//! A constant in quotes, NULL and a parameter have no type of their own: `sqrt('4')`,
//! `repeat('a', $1)`. The argument then takes the type of the function's parameter (PostgreSQL's
//! manual, 10.3). A rewrite replaces the planned function before execution, except in arguments of
//! functions in FROM.

use std::{collections::HashMap, sync::Arc};

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::{
    common::{
        DFSchema, Result, config::ConfigOptions, metadata::FieldMetadata, tree_node::Transformed,
    },
    logical_expr::{
        Cast, ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
        Signature, TypeSignature, expr_rewriter::FunctionRewrite,
    },
};
use stratalog_functions::{literal::style_of, metered};
use stratalog_model::ColumnType;
use stratalog_text::TextStyle;

use crate::rules::{
    layers::{self, ScalarLayer},
    types::common_types::{ValueType, in_type},
};

mod choice;
mod signatures;

use choice::OverloadChoice;

/// Wraps `function` to resolve calls like PostgreSQL, if the list of signatures contains the name
/// of the function. A signature may name another function of `registered` to call.
pub fn with_signatures(
    function: Arc<ScalarUDF>,
    registered: &HashMap<String, Arc<ScalarUDF>>,
) -> Arc<ScalarUDF> {
    if signatures::of(function.name()).is_empty()
        || layers::below::<OverloadedFunction>(&function).is_some()
    {
        return function;
    }
    let inner = function.signature();
    let anything = TypeSignature::OneOf(vec![TypeSignature::VariadicAny, TypeSignature::Nullary]);
    let signature = Signature {
        parameter_names: inner.parameter_names.clone(),
        ..Signature::new(anything, inner.volatility)
    };
    let others = signatures::of(function.name())
        .iter()
        .filter_map(|overload| registered.get(overload.calls?).map(Arc::clone))
        .collect();
    layers::scalar(function, OverloadedFunction { signature, others })
}

/// The types to which the arguments of a call are cast; `None` for an argument that keeps its type.
/// The whole result is `None` if no signature fits, and the function itself chooses the types.
pub fn wanted_types(name: &str, given: &[ValueType]) -> Option<Vec<Option<ColumnType>>> {
    choice::choose(signatures::of(name), given).map(|choice| choice.wanted)
}

/// The call of the function that the signatures choose, with the arguments cast to its types.
fn chosen_call(
    function: &Arc<ScalarUDF>,
    others: &[Arc<ScalarUDF>],
    mut arguments: Vec<Expr>,
    schema: &DFSchema,
    style: &TextStyle,
) -> Result<Expr> {
    let given: Vec<ValueType> =
        arguments.iter().map(|argument| ValueType::of(argument, schema)).collect();
    let Some(OverloadChoice { wanted, gives, calls }) =
        choice::choose(signatures::of(function.name()), &given)
    else {
        return Ok(function.call(arguments));
    };
    for ((argument, given), wanted) in arguments.iter_mut().zip(&given).zip(&wanted) {
        if let Some(wanted) = wanted {
            *argument = in_type(std::mem::take(argument), given, wanted, schema, style)?;
        }
    }
    let other = others.iter().find(|other| Some(other.name()) == calls);
    let called = other.unwrap_or(function);
    settle_texts(called, &mut arguments, schema)?;
    let call = called.call(arguments);
    let Some(gives) = gives else { return Ok(call) };
    let field = Arc::new(gives.arrow_field("", true));
    Ok(match call.get_type(schema)? == *field.data_type() {
        true => call,
        false => Expr::Cast(Cast::new_from_field(Box::new(call), field)),
    })
}

/// Converts constant strings to the Arrow type that `function` accepts. A cast would hide the
/// constant from a function whose result type depends on the constant.
fn settle_texts(function: &ScalarUDF, arguments: &mut [Expr], schema: &DFSchema) -> Result<()> {
    let given: Result<Vec<DataType>> =
        arguments.iter().map(|argument| argument.get_type(schema)).collect();
    let Ok(given) = given else { return Ok(()) };
    let Ok(wanted) = function.coerce_types(&given) else { return Ok(()) };
    for (argument, wanted) in arguments.iter_mut().zip(&wanted) {
        if let Expr::Literal(value, _) = argument
            && value.data_type().is_string()
            && wanted.is_string()
            && value.data_type() != *wanted
        {
            *value = value.cast_to(wanted)?;
        }
    }
    Ok(())
}

/// Whether the choice of the function could change if bigint arguments became integers. Constants
/// have the type bigint until `IntegerLiterals` has run.
fn depends_on_width(function: &ScalarUDF, arguments: &[Expr], schema: &DFSchema) -> bool {
    let given: Vec<ValueType> =
        arguments.iter().map(|argument| ValueType::of(argument, schema)).collect();
    let narrowed: Vec<ValueType> = given
        .iter()
        .map(|given| match given {
            ValueType::Typed(ColumnType::BigInt, exact) => {
                ValueType::Typed(ColumnType::Integer, *exact)
            }
            other => other.clone(),
        })
        .collect();
    let chosen = |given: &[ValueType]| {
        choice::choose(signatures::of(function.name()), given)
            .map(|choice| (choice.gives, choice.calls))
    };
    given != narrowed && chosen(&given) != chosen(&narrowed)
}

/// Replaces each call in a statement with a call of the chosen function.
#[derive(Debug)]
pub struct OverloadResolution {
    /// Whether integers have their final types. Until then, the rule skips a call whose choice
    /// depends on the width of integers.
    pub widths_are_known: bool,
}

impl FunctionRewrite for OverloadResolution {
    fn name(&self) -> &str {
        "meant_calls"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        config: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        match expr {
            Expr::ScalarFunction(call) => match layers::layer::<OverloadedFunction>(&call.func) {
                Some((inner, _))
                    if !self.widths_are_known && depends_on_width(inner, &call.args, schema) =>
                {
                    Ok(Transformed::no(Expr::ScalarFunction(call)))
                }
                Some((inner, layer)) => {
                    chosen_call(inner, &layer.others, call.args, schema, &style_of(config))
                        .map(Transformed::yes)
                }
                None => Ok(Transformed::no(Expr::ScalarFunction(call))),
            },
            other => Ok(Transformed::no(other)),
        }
    }
}

/// The wrapper around a function during planning. It accepts any arguments, and has the result type
/// of the chosen function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OverloadedFunction {
    signature: Signature,
    /// The other functions that a signature of this function may call.
    others: Vec<Arc<ScalarUDF>>,
}

impl ScalarLayer for OverloadedFunction {
    fn signature<'a>(&'a self, _: &'a ScalarUDF) -> &'a Signature {
        &self.signature
    }

    fn return_field(&self, inner: &ScalarUDF, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let fields: Vec<Field> = arguments
            .arg_fields
            .iter()
            .enumerate()
            .map(|(at, field)| field.as_ref().clone().with_name(at.to_string()))
            .collect();
        let schema = DFSchema::from_unqualified_fields(fields.into(), Default::default())?;
        let constants = arguments.scalar_arguments.iter().chain(std::iter::repeat(&None));
        let given = arguments.arg_fields.iter().zip(schema.columns()).zip(constants);
        let given = given.map(|((field, column), constant)| match constant {
            Some(value) => {
                let metadata = FieldMetadata::new_from_field(field);
                let metadata = (!metadata.is_empty()).then_some(metadata);
                Expr::Literal((*value).clone(), metadata)
            }
            None => Expr::Column(column),
        });
        let function = Arc::new(inner.clone());
        let call =
            chosen_call(&function, &self.others, given.collect(), &schema, &TextStyle::default())?;
        let (_, field) = call.to_field(&schema)?;
        Ok(Arc::new(field.as_ref().clone().with_name(inner.name())))
    }

    // Used only for arguments of functions in FROM, which are computed before the rewrite runs.
    fn invoke(&self, inner: &ScalarUDF, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let wanted = arguments.return_field.data_type().clone();
        metered::invoke(inner, arguments)?.cast_to(&wanted, None)
    }
}
