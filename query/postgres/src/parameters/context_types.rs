//! Derives the types of parameters from their context: in `coalesce(v, $1)`, a parameter has the
//! type of the other values. As the argument of a function, a parameter has a type that the
//! function accepts.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::{
    common::{DFSchema, tree_node::TreeNodeRecursion},
    logical_expr::{
        Distinct, Expr, ExprSchemable as _, Join, LogicalPlan, Operator, ScalarUDF, Union, Values,
        expr::{Placeholder, ScalarFunction},
        type_coercion::functions::fields_with_udf,
    },
};
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};
use stratalog_model::{ColumnType, Result};

use super::arrays::input_schema;
use crate::{
    errors::from_datafusion,
    rules::{
        functions::calls::wanted_types,
        types::{
            array_calls, cases,
            common_types::{
                ValueType, columns_of, common_type, gives_an_argument, is_set_operation, sides,
                unaliased, uncast,
            },
        },
    },
};

/// The types to try for a parameter as the argument of a function, in order of preference.
const CANDIDATES: [ColumnType; 4] =
    [ColumnType::Text, ColumnType::Double, ColumnType::BigInt, ColumnType::Interval];

/// The types of parameters, by name.
#[derive(Debug, Default)]
pub struct ParameterTypes {
    types: HashMap<String, ColumnType>,
    /// The parameters whose type is only a guess: arguments of functions that accept several types.
    guesses: HashSet<String>,
    /// For each parameter to which the planner gives the type bigint: the number of its uses, and
    /// the number of uses in which all other values are constants of type integer.
    bigints: HashMap<String, (usize, usize)>,
}

impl ParameterTypes {
    /// The type of a parameter; `None` if the context does not determine the type.
    pub fn get(&self, name: &str) -> Option<&ColumnType> {
        self.types.get(name)
    }

    /// True if the type of the parameter is a guess, from a function that accepts several types.
    pub fn is_guess(&self, name: &str) -> bool {
        self.guesses.contains(name)
    }

    /// True if the planner gives a parameter the type bigint, but all values used together with the
    /// parameter are constants of type integer.
    pub fn is_integer(&self, name: &str) -> bool {
        self.bigints.get(name).is_some_and(|(uses, beside_integers)| uses == beside_integers)
    }

    /// Stores a type, unless the parameter already has a type that is not a guess.
    fn insert(&mut self, name: &str, found: &ColumnType) {
        if self.guesses.remove(name) || !self.types.contains_key(name) {
            self.types.insert(name.to_string(), found.clone());
        }
    }

    fn guess(&mut self, name: &str, guess: &ColumnType) {
        if !self.types.contains_key(name) {
            self.types.insert(name.to_string(), guess.clone());
            self.guesses.insert(name.to_string());
        }
    }
}

/// The types of parameters that a plan uses together with other values.
///
/// # Errors
/// Errors of the plan traversal, and an error if values that must have one type have types of
/// different kinds.
pub fn found(plan: &LogicalPlan) -> Result<ParameterTypes> {
    let mut found = ParameterTypes::default();
    plan.each_with_subqueries(|node| {
        match node {
            LogicalPlan::Union(union) => of_union(union, &mut found)?,
            LogicalPlan::Values(values) => of_rows(values, &mut found)?,
            LogicalPlan::Join(join) if is_set_operation(join) => of_sides(join, &mut found)?,
            _ => {}
        }
        let schema = input_schema(node);
        node.apply_expressions(|expr| {
            expr.each(|inner| {
                of_expression(inner, schema.as_ref(), &mut found)?;
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })
    .map_err(from_datafusion)?;
    Ok(found)
}

fn of_expression(
    expr: &Expr,
    schema: &DFSchema,
    found: &mut ParameterTypes,
) -> datafusion::error::Result<()> {
    match expr {
        Expr::Placeholder(_) => {
            if let Some(name) = bigint(expr) {
                found.bigints.entry(name.to_string()).or_default().0 += 1;
            }
            Ok(())
        }
        Expr::Not(condition) => {
            of_condition(condition, found);
            Ok(())
        }
        Expr::BinaryExpr(pair)
            if matches!(pair.op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom) =>
        {
            beside_integers(&[pair.left.as_ref(), pair.right.as_ref()], found);
            Ok(())
        }
        Expr::InList(list) => {
            let values = std::iter::once(list.expr.as_ref()).chain(&list.list);
            beside_integers(&values.clone().collect::<Vec<_>>(), found);
            of_values(&values.map(|value| (value, schema)).collect::<Vec<_>>(), found)
        }
        Expr::Between(between) => {
            // BETWEEN is two comparisons; the first comparison determines the type.
            of_values(&[(&between.expr, schema), (&between.low, schema)], found)?;
            of_values(&[(&between.expr, schema), (&between.high, schema)], found)
        }
        Expr::Case(case) => {
            let choices = case.when_then_expr.iter();
            let choices: Vec<(&Expr, &Expr)> =
                choices.map(|(when, then)| (when.as_ref(), then.as_ref())).collect();
            of_case(case.expr.as_deref(), &choices, case.else_expr.as_deref(), schema, found)
        }
        Expr::ScalarFunction(call) if let Some(parts) = cases::parts(call) => {
            let choices: Vec<(&Expr, &Expr)> =
                parts.choices.iter().map(|[when, then]| (when, then)).collect();
            of_case(parts.base, &choices, Some(parts.otherwise), schema, found)
        }
        Expr::ScalarFunction(call)
            if gives_an_argument(call.name()) || array_calls::is_array(call) =>
        {
            let arguments: Vec<_> = call.args.iter().map(|argument| (argument, schema)).collect();
            of_values(&arguments, found)
        }
        Expr::ScalarFunction(call) => {
            of_function(call, schema, found);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn of_case(
    base: Option<&Expr>,
    choices: &[(&Expr, &Expr)],
    otherwise: Option<&Expr>,
    schema: &DFSchema,
    found: &mut ParameterTypes,
) -> datafusion::error::Result<()> {
    if base.is_none() {
        choices.iter().for_each(|(when, _)| of_condition(when, found));
    }
    let results: Vec<(&Expr, &DFSchema)> = otherwise
        .into_iter()
        .chain(choices.iter().map(|(_, then)| *then))
        .map(|result| (result, schema))
        .collect();
    of_values(&results, found)?;
    if let Some(base) = base {
        for (when, _) in choices {
            of_values(&[(base, schema), (when, schema)], found)?;
        }
    }
    Ok(())
}

fn of_union(union: &Union, found: &mut ParameterTypes) -> datafusion::error::Result<()> {
    let branches: Vec<Branch> = union.inputs.iter().flat_map(branches_of).collect();
    of_branches(&branches, union.schema.fields().len(), found)
}

/// One branch of a set operation: the expressions of its columns, and their input.
type Branch = (Vec<Expr>, Arc<LogicalPlan>);

fn of_branches(
    branches: &[Branch],
    columns: usize,
    found: &mut ParameterTypes,
) -> datafusion::error::Result<()> {
    for at in 0..columns {
        let values: Vec<(&Expr, &DFSchema)> = branches
            .iter()
            .filter_map(|(exprs, input)| Some((unaliased(exprs.get(at)?), input.schema().as_ref())))
            .collect();
        of_values(&values, found)?;
    }
    Ok(())
}

/// The branches of nested set operations at the top of a plan.
fn branches_of(plan: &Arc<LogicalPlan>) -> Vec<Branch> {
    match plan.as_ref() {
        LogicalPlan::Union(union) => union.inputs.iter().flat_map(branches_of).collect(),
        LogicalPlan::Distinct(Distinct::All(below)) => branches_of(below),
        LogicalPlan::Join(join) if is_set_operation(join) => branches_of_sides(join),
        _ => vec![columns_of(plan)],
    }
}

fn branches_of_sides(join: &Join) -> Vec<Branch> {
    let of_side = |(exprs, input): Branch| {
        let is_operation = match input.as_ref() {
            LogicalPlan::Union(_) | LogicalPlan::Distinct(_) => true,
            LogicalPlan::Join(join) => is_set_operation(join),
            _ => false,
        };
        let is_whole = exprs.iter().all(|expr| matches!(expr, Expr::Column(_)));
        match is_operation && is_whole {
            true => branches_of(&input),
            false => vec![(exprs, input)],
        }
    };
    sides(join).into_iter().flat_map(of_side).collect()
}

fn of_sides(join: &Join, found: &mut ParameterTypes) -> datafusion::error::Result<()> {
    of_branches(&branches_of_sides(join), join.schema.fields().len(), found)
}

fn of_rows(values: &Values, found: &mut ParameterTypes) -> datafusion::error::Result<()> {
    for at in 0..values.schema.fields().len() {
        let cells = values.values.iter().filter_map(|row| row.get(at));
        // The planner gives a NULL in a column of whole numbers the type bigint.
        let cells = cells.map(|cell| uncast(unaliased(cell))).filter(|cell| !is_null(cell));
        let cells: Vec<(&Expr, &DFSchema)> =
            cells.map(|cell| (cell, values.schema.as_ref())).collect();
        of_values(&cells, found)?;
    }
    Ok(())
}

fn is_null(cell: &Expr) -> bool {
    matches!(cell, Expr::Literal(value, None) if value.is_null())
}

fn open(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Placeholder(Placeholder { id, field: None }) => Some(id),
        _ => None,
    }
}

/// The name of a parameter to which the planner gave the type bigint because of a whole number;
/// `None` for other expressions.
fn bigint(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Placeholder(Placeholder { id, field: Some(field) })
            if *field.data_type() == DataType::Int64 =>
        {
            Some(id)
        }
        _ => None,
    }
}

/// Counts a use of each parameter with the planner's type bigint, if all other values are constants
/// of type integer.
fn beside_integers(values: &[&Expr], found: &mut ParameterTypes) {
    let integer = ValueType::Typed(ColumnType::Integer, true);
    let is_integer = |value: &Expr| match value {
        Expr::Literal(value, None) => ValueType::of_constant(value).as_ref() == Some(&integer),
        _ => false,
    };
    if values.iter().all(|value| bigint(value).is_some() || is_integer(value)) {
        for name in values.iter().filter_map(|value| bigint(value)) {
            found.bigints.entry(name.to_string()).or_default().1 += 1;
        }
    }
}

fn of_values(
    values: &[(&Expr, &DFSchema)],
    found: &mut ParameterTypes,
) -> datafusion::error::Result<()> {
    if !values.iter().any(|(value, _)| open(value).is_some()) {
        return Ok(());
    }
    let given: Vec<ValueType> =
        values.iter().map(|(value, schema)| ValueType::of(value, schema)).collect();
    if let Some(common) = common_type("parameter", &given)? {
        for name in values.iter().filter_map(|(value, _)| open(value)) {
            found.insert(name, &common);
        }
    }
    Ok(())
}

fn of_condition(condition: &Expr, found: &mut ParameterTypes) {
    if let Some(name) = open(condition) {
        found.insert(name, &ColumnType::Boolean);
    }
}

fn of_function(call: &ScalarFunction, schema: &DFSchema, found: &mut ParameterTypes) {
    let Some(name) = call.args.iter().find_map(open) else { return };
    let given: Vec<ValueType> =
        call.args.iter().map(|argument| ValueType::of(argument, schema)).collect();
    if let ("array_has", [ValueType::Typed(ColumnType::Array(element), _), _]) =
        (call.name(), given.as_slice())
    {
        found.insert(name, element);
        return;
    }
    if let Some(wanted) = wanted_types(call.name(), &given) {
        for (argument, wanted) in call.args.iter().zip(wanted) {
            let (Some(name), Some(wanted)) = (open(argument), wanted) else { continue };
            // Like in PostgreSQL, an untyped parameter is a double precision if the function
            // accepts one.
            let is_double = wanted == ColumnType::Double;
            match is_double && takes(&call.func, &call.args, &ColumnType::NUMERIC, schema) {
                true => found.guess(name, &wanted),
                false => found.insert(name, &wanted),
            }
        }
        return;
    }
    let accepted =
        CANDIDATES.iter().find(|candidate| takes(&call.func, &call.args, candidate, schema));
    if let Some(accepted) = accepted {
        found.guess(name, accepted);
    }
}

/// True if a function accepts a parameter of type `candidate` together with its other arguments.
fn takes(
    function: &ScalarUDF,
    arguments: &[Expr],
    candidate: &ColumnType,
    schema: &DFSchema,
) -> bool {
    let fields: Option<Vec<FieldRef>> = arguments
        .iter()
        .map(|argument| match open(argument) {
            Some(_) => Some(Arc::new(candidate.arrow_field("parameter", true))),
            None => {
                let (_, field) = argument.to_field(schema).ok()?;
                Some(Arc::new(Field::clone(&field)))
            }
        })
        .collect();
    fields.is_some_and(|fields| fields_with_udf(&fields, function).is_ok())
}
