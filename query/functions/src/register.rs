//! Registers the functions and rewrites of this crate in a session, and lists the functions for the
//! documentation.

use std::sync::Arc;

use datafusion::{common::Result, execution::FunctionRegistry, logical_expr::ScalarUDF};

use crate::{
    array_containment, arrays, bytes, cases, date_part, format, function::Function,
    integer_rounding, json, lists, literal::TypedLiterals, make_time, misc, number, number_pattern,
    numbers, operator::JsonOperators, ordered_set, overlap, regex, similar, texts,
    time_bucket::TimeBucket, time_pattern, zone,
};

/// The documentation of an SQL function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionPage {
    /// The name of the function.
    pub name: String,
    /// The signatures: `name(parameter, …)` for each parameter list.
    pub signatures: Vec<String>,
    /// The description of the function in one line.
    pub description: String,
}

fn declared() -> Vec<Function> {
    let mut functions = json::functions();
    functions.extend(lists::functions());
    functions.extend(misc::functions());
    functions.extend(zone::functions());
    functions.extend(time_pattern::functions());
    functions.extend(number_pattern::functions());
    functions.extend(regex::functions());
    functions.extend(bytes::functions());
    functions.extend(arrays::functions());
    functions.extend(numbers::functions());
    functions.extend(texts::functions());
    functions.extend(integer_rounding::functions());
    functions.extend(similar::functions());
    functions.extend(format::functions());
    functions.extend(number::functions());
    functions.extend(make_time::functions());
    functions.extend(overlap::functions());
    functions.extend(array_containment::functions());
    functions.extend(cases::functions());
    functions
}

fn all() -> Vec<Arc<ScalarUDF>> {
    let mut functions: Vec<Arc<ScalarUDF>> =
        declared().into_iter().map(|function| Arc::new(function.into_udf())).collect();
    functions.push(Arc::new(ScalarUDF::new_from_impl(TimeBucket::default())));
    functions.push(Arc::new(crate::sleep::pg_sleep()));
    functions.extend(date_part::functions());
    functions
}

/// Registers all functions and rewrites of this crate. The planner for operators is separate; see
/// [`operators`].
///
/// # Errors
/// Fails if the registry accepts no functions.
pub fn register(registry: &mut dyn FunctionRegistry) -> Result<()> {
    let functions = all();
    for function in &functions {
        registry.register_udf(Arc::clone(function))?;
    }
    for (aggregate, _) in ordered_set::functions() {
        registry.register_udaf(Arc::new(aggregate))?;
    }
    registry.register_function_rewrite(Arc::new(zone::SessionZone::new(&functions)))?;
    registry.register_function_rewrite(Arc::new(json::JsonComparisons::new(&functions)))?;
    registry.register_function_rewrite(Arc::new(crate::cast::Casts::new(functions)))?;
    registry.register_function_rewrite(Arc::new(TypedLiterals))
}

/// Creates the planner for operators. It must come before DataFusion's planner, whose functions for
/// `@>`, `<@` and `||` of arrays treat NULL like an ordinary element.
pub fn operators() -> JsonOperators {
    JsonOperators::new(all())
}

/// The documentation of all functions of this crate, ordered by name.
pub fn documentation() -> Vec<FunctionPage> {
    let mut pages: Vec<FunctionPage> = declared()
        .into_iter()
        .map(|function| FunctionPage {
            name: function.name.to_string(),
            signatures: function.signatures(),
            description: function.description.to_string(),
        })
        .collect();
    pages.push(FunctionPage {
        name: "time_bucket".to_string(),
        signatures: vec![
            "time_bucket(width interval, time timestamp | timestamptz | date)".to_string(),
            "time_bucket(width interval, time, origin timestamp | offset interval)".to_string(),
            "time_bucket(width integer, value integer [, offset integer])".to_string(),
        ],
        description: "The start of the aligned window of a time: days and shorter count from Monday 2000-01-03, months from 2000-01-01, in UTC.".to_string(),
    });
    pages.push(FunctionPage {
        name: "pg_sleep".to_string(),
        signatures: vec!["pg_sleep(double precision)".to_string()],
        description:
            "Waits a given number of seconds, an hour at most; a cancelled statement stops waiting."
                .to_string(),
    });
    let parts = [
        (
            "date_part",
            "date_part(text, timestamp)",
            "A part of a time, date or interval, such as 'hour', as double precision.",
        ),
        (
            "extract",
            "extract(part FROM timestamp)",
            "A part of a time, date or interval, such as hour, as numeric.",
        ),
    ];
    pages.extend(parts.into_iter().map(|(name, signature, description)| FunctionPage {
        name: name.to_string(),
        signatures: vec![signature.to_string()],
        description: description.to_string(),
    }));
    pages.extend(ordered_set::functions().into_iter().map(|(aggregate, description)| {
        let argument = if aggregate.name() == "mode" { "" } else { "fraction" };
        FunctionPage {
            name: aggregate.name().to_string(),
            signatures: vec![format!(
                "{}({argument}) WITHIN GROUP (ORDER BY value)",
                aggregate.name()
            )],
            description: description.to_string(),
        }
    }));
    pages.sort_by(|left, right| left.name.cmp(&right.name));
    pages
}
