//! Recognizes DataFusion's errors by their text, because most errors have no other identification.

use datafusion::common::utils::datafusion_strsim::levenshtein;
use stratalog_model::{Error, ErrorKind};

use super::names::sql_type;
use crate::SEARCH_PATH_SCHEMA;

/// Removes DataFusion's additions from an error text: backtrace, advice about the issue tracker,
/// and prefixes.
pub fn without_decoration(text: &str) -> String {
    let text = text.split("\n\nbacktrace:").next().unwrap_or(text);
    let text = text.split("\nThis issue was likely caused by a bug").next().unwrap_or(text);
    let text = text.split(".\nThis issue was likely caused").next().unwrap_or(text);
    let mut text = text.trim();
    for prefix in [
        "Error during planning: ",
        "Execution error: ",
        "Arrow error: ",
        "External error: ",
        "Optimizer rule 'simplify_expressions' failed\ncaused by\n",
        "This feature is not implemented: ",
        "Internal error: ",
        "type_coercion\ncaused by\n",
    ] {
        text = text.strip_prefix(prefix).unwrap_or(text);
    }
    text.to_string()
}

/// Maps the text of a planning error to this project's error.
pub fn from_plan(text: &str) -> Error {
    let text = without_decoration(text);
    let known = [no_such_overload, ordered_set, open_series, super::plan::planner_error];
    if let Some(error) = known.iter().find_map(|known| known(&text)) {
        return error;
    }
    if let Some(name) = quoted_after(&text, "table '").filter(|_| text.contains("not found")) {
        return undefined_table(name);
    }
    if let Some(name) =
        text.strip_prefix("table function '").and_then(|rest| rest.split('\'').next())
    {
        return undefined_function(name, &text);
    }
    if text.starts_with("failed to resolve catalog") || text.starts_with("failed to resolve schema")
    {
        let name = text.rsplit(": ").next().unwrap_or(&text);
        return Error::new(ErrorKind::UndefinedSchema, format!("schema \"{name}\" does not exist"));
    }
    if text.starts_with("LIMIT must be >= 0") {
        return Error::new(ErrorKind::InvalidLimit, "LIMIT must not be negative");
    }
    if text.starts_with("OFFSET must be >=0") {
        return Error::new(ErrorKind::InvalidOffset, "OFFSET must not be negative");
    }
    if let Some(name) = quoted_after(&text, "Invalid function '") {
        return undefined_function(name, &text);
    }
    if text.contains("Physical plan does not support logical expression")
        || text.contains("does not support logical expression")
    {
        return unplannable(&text);
    }
    if let Some(position) = text
        .strip_prefix("Order by column out of bounds, specified: ")
        .and_then(|rest| rest.split(',').next())
    {
        return Error::new(
            ErrorKind::InvalidColumnReference,
            format!("ORDER BY position {position} is not in select list"),
        );
    }
    if let Some(position) = text
        .strip_prefix("Cannot find column with position ")
        .and_then(|rest| rest.split(' ').next())
    {
        return Error::new(
            ErrorKind::InvalidColumnReference,
            format!("GROUP BY position {position} is not in select list"),
        );
    }
    if text.starts_with("For SELECT DISTINCT, ORDER BY expressions") {
        return Error::new(
            ErrorKind::InvalidColumnReference,
            "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
        );
    }
    let kind = if text.contains("must appear in the GROUP BY")
        || text.contains("ggregate functions are not allowed")
        || text.contains("Aggregate function calls cannot be nested")
        || text.contains("must be in the GROUP BY")
        || text.contains("could not be resolved from available columns")
    {
        ErrorKind::GroupingError
    } else if text.contains("No function matches")
        || text.contains("does not support zero arguments")
        || text.contains("Function '") && text.contains("expects")
        || text.contains("Failed to coerce arguments")
        || text.contains("call to function")
        || text.contains("failed to match any signature")
    {
        ErrorKind::UndefinedFunction
    } else if text.contains("Cannot infer common argument type")
        || text.contains("Cannot coerce arithmetic expression")
        || text.contains("Cannot get result type")
        || text.contains("There isn't a common type")
        || text.contains("can't be evaluated because there isn't")
    {
        return operator_mismatch(&text);
    } else if text.contains("boolean predicate")
        || text.contains("predicate with non-boolean")
        || text.contains("non-boolean type")
        || text.contains("Inconsistent data type")
        || text.contains("types cannot be matched")
        || text.contains("not compatible")
        || text.contains("Cannot automatically convert")
        || text.contains("type mismatch")
        || text.starts_with("Incompatible inputs for Union")
    {
        ErrorKind::DatatypeMismatch
    } else if text.contains("ambiguous") {
        ErrorKind::AmbiguousColumn
    } else if text.contains("specified more than once") || text.contains("unique expression names")
    {
        ErrorKind::DuplicateColumn
    } else if text.contains("DISTINCT ON expressions must match") {
        ErrorKind::InvalidColumnReference
    } else if text.contains("No value found for placeholder") || text.contains("placeholder") {
        ErrorKind::UndefinedParameter
    } else if text.contains("not supported") || text.contains("Unsupported") {
        ErrorKind::FeatureNotSupported
    } else {
        ErrorKind::SyntaxError
    };
    match shows_syntax_tree(&text) {
        true => Error::new(kind, "this form of the statement is not supported"),
        false => Error::new(kind, text),
    }
}

/// True if a text contains Rust debug output of the syntax tree.
pub fn shows_syntax_tree(text: &str) -> bool {
    ["Span(", "Ident {", "ValueWithSpan", "ObjectName("].iter().any(|node| text.contains(node))
}

/// The error for an expression that the planner cannot execute in its place in the statement, for
/// example an aggregate in WHERE.
pub fn unplannable(text: &str) -> Error {
    let what = if text.contains("WindowFunction") || text.contains("row_number") {
        return Error::new(ErrorKind::WindowingError, "window functions are not allowed here")
            .with_hint("compute the window function in a subquery, or use QUALIFY");
    } else if text.contains("AggregateFunction") {
        return Error::new(ErrorKind::GroupingError, "aggregate functions are not allowed here")
            .with_hint("use HAVING, or compute the aggregate in a subquery");
    } else if text.contains("Exists") || text.contains("InSubquery") || text.contains("Subquery") {
        "a subquery in this place"
    } else {
        "an expression of this statement"
    };
    Error::new(ErrorKind::FeatureNotSupported, format!("{what} is not supported"))
        .with_hint("write a condition of WHERE, or a join")
}

/// Maps an execution error by its text, because no other information is available.
pub fn from_execution(text: &str) -> Error {
    let text = without_decoration(text);
    if text.contains("Cannot access field at argument") {
        return super::plan::not_composite();
    }
    let lower = text.to_ascii_lowercase();
    let kind = if let Some(error) = regular_expression(&text) {
        return error;
    } else if lower.contains("divide by zero") || lower.contains("division by zero") {
        return Error::new(ErrorKind::DivisionByZero, "division by zero");
    } else if lower.contains("scalar subquery") && lower.contains("more than one") {
        return super::too_many_rows();
    } else if text.starts_with("negative count not allowed") {
        return Error::new(ErrorKind::Substring, "negative substring length not allowed");
    } else if let Some(date) = text.strip_prefix("Unable to parse date from ") {
        return Error::new(
            ErrorKind::DatetimeOverflow,
            format!("date field value out of range: {}", date.replace(", ", "-")),
        );
    } else if ["hour value", "minute value", "second value"].iter().any(|at| lower.starts_with(at))
    {
        return Error::new(ErrorKind::DatetimeOverflow, "time field value out of range")
            .with_detail(text);
    } else if is_time_out_of_range(&lower) {
        return Error::new(ErrorKind::DatetimeOverflow, "timestamp out of range").with_detail(text);
    } else if let Some(error) = arithmetic_overflow(&text) {
        return error;
    } else if lower.contains("overflow") || lower.contains("out of range") {
        ErrorKind::NumericOutOfRange
    } else if lower.contains("timestamp") || lower.contains("interval") && lower.contains("pars") {
        ErrorKind::InvalidDatetimeFormat
    } else if lower.contains("cast") || lower.contains("parse") {
        ErrorKind::InvalidTextRepresentation
    } else if lower.contains("not supported") || lower.contains("unsupported") {
        ErrorKind::FeatureNotSupported
    } else {
        ErrorKind::InvalidParameterValue
    };
    Error::new(kind, text)
}

/// Maps the text of an error about an exhausted memory or disk budget.
pub fn from_resources(text: &str) -> Error {
    let text = without_decoration(text);
    if is_spill_limit(&text) {
        return Error::new(ErrorKind::DiskFull, "spilled intermediate results reached their limit")
            .with_detail(text)
            .with_hint("raise spill_bytes_max, or process fewer rows in one statement");
    }
    Error::new(ErrorKind::OutOfMemory, "the memory budget of running statements is used up")
        .with_detail(text)
        .with_hint("raise query_memory_bytes_max, or process fewer rows in one statement")
}

/// True if the error text says that the spilled bytes exceed their limit.
pub fn is_spill_limit(text: &str) -> bool {
    text.contains("disk space during the spilling")
}

/// Maps the text of an error of an Arrow kernel.
pub fn from_arrow_text(text: &str) -> Error {
    let lower = text.to_ascii_lowercase();
    let plain = strip_arrow_prefix(text);
    if let Some(error) = regular_expression(text) {
        return error;
    }
    if lower.contains("divide by zero") {
        return Error::new(ErrorKind::DivisionByZero, "division by zero");
    }
    if lower.starts_with("offset overflow") {
        return Error::new(
            ErrorKind::LimitExceeded,
            "a batch of rows has more than 2 GB in one column",
        )
        .with_detail(plain)
        .with_hint("make shorter values, or process fewer rows at once");
    }
    if is_time_out_of_range(&lower) {
        return Error::new(ErrorKind::DatetimeOverflow, "timestamp out of range")
            .with_detail(plain);
    }
    if let Some((value, wanted)) =
        plain.strip_prefix("Can't cast value ").and_then(|rest| rest.split_once(" to type "))
    {
        let message = format!("{} out of range", sql_type(wanted));
        return Error::new(ErrorKind::NumericOutOfRange, message)
            .with_detail(format!("the value is {value}"));
    }
    if plain.starts_with("Output scale of ") && lower.contains("exceed max scale") {
        return Error::new(ErrorKind::NumericOutOfRange, "numeric field overflow")
            .with_detail("The product has more than 38 digits behind the point.")
            .with_hint("cast a factor to a numeric with fewer digits behind the point");
    }
    if let Some((value, limit)) = plain.split_once(" to store in a Decimal") {
        let value = value.trim_end_matches(" is too large").trim_end_matches(" is too small");
        let limit = limit.rsplit(' ').next().unwrap_or(limit);
        return Error::new(ErrorKind::NumericOutOfRange, "numeric field overflow")
            .with_detail(format!("the value is {value}, the limit is {limit}"));
    }
    if let Some((wanted, _)) =
        plain.strip_prefix("Cannot cast to ").and_then(|rest| rest.split_once(". Overflowing on"))
    {
        let message = format!("{} out of range", sql_type(wanted));
        return Error::new(ErrorKind::NumericOutOfRange, message);
    }
    if let Some(error) = arithmetic_overflow(&plain) {
        return error;
    }
    if lower.contains("overflow")
        || lower.contains("can't cast value") && !lower.contains("string")
        || lower.contains("out of range")
        || lower.contains("is too large")
        || lower.contains("is too small")
    {
        return Error::new(ErrorKind::NumericOutOfRange, plain);
    }
    if lower.contains("timestamp") || lower.contains("date") || lower.contains("interval") {
        return Error::new(ErrorKind::InvalidDatetimeFormat, plain);
    }
    if let Some(rest) =
        plain.strip_prefix("Cannot cast string '").or(plain.strip_prefix("Cannot cast value '"))
        && let Some((value, wanted)) = rest.split_once("' to value of ")
    {
        let wanted = sql_type(wanted.trim_end_matches(" type"));
        return Error::new(
            ErrorKind::InvalidTextRepresentation,
            format!("invalid input syntax for type {wanted}: \"{value}\""),
        );
    }
    if lower.contains("cast") || lower.contains("parse") {
        return Error::new(ErrorKind::InvalidTextRepresentation, plain);
    }
    if lower.starts_with("compute error") || lower.starts_with("invalid argument") {
        return Error::new(ErrorKind::InvalidParameterValue, plain);
    }
    Error::internal(plain)
}

/// The error for an overflow in an arithmetic kernel; `None` for other texts. The kernel's text
/// contains the operands in their stored form, or the whole array.
fn arithmetic_overflow(text: &str) -> Option<Error> {
    let (data_type, operation) = match text.strip_prefix("Overflow happened on: ") {
        Some(operation) => {
            let words = operation.split(' ').filter_map(|word| word.parse::<i128>().ok());
            let operands: Vec<i128> = words.collect();
            let fit = |least: i64, most: i64| {
                operands.iter().all(|value| (least.into()..=most.into()).contains(value))
            };
            if fit(i32::MIN.into(), i32::MAX.into()) {
                ("integer".to_string(), operation)
            } else if fit(i64::MIN, i64::MAX) {
                ("bigint".to_string(), operation)
            } else {
                return Some(too_many_digits());
            }
        }
        None if text == "Arithmetic Overflow in AvgAccumulator" => return Some(too_many_digits()),
        None => {
            let (array, operation) = text.split_once("Array overflow on ")?;
            (sql_type(array), operation)
        }
    };
    let error = Error::new(ErrorKind::NumericOutOfRange, format!("{data_type} out of range"));
    Some(error.with_detail(format!("The operation is {operation}.")))
}

fn too_many_digits() -> Error {
    Error::new(ErrorKind::NumericOutOfRange, "numeric out of range")
        .with_detail("The operation needs more than 38 digits.")
        .with_hint("cast an operand to a numeric with fewer digits, or to double precision")
}

/// The error for a function call with unsupported argument types, from the text of the function
/// itself; `None` for other texts.
fn no_such_overload(text: &str) -> Option<Error> {
    // In nested messages, the last message describes the fault.
    let (_, said) = text.rsplit_once("user-defined coercion failed with: ")?;
    let said = without_decoration(said.split(". No function matches the given").next()?);
    if let Some(known) = super::plan::planner_error(&said) {
        return Some(known);
    }
    if said.contains("failed to match any signature") || said.contains("not supported for") {
        return None;
    }
    let (message, hint) = match said.split_once("; there is ") {
        Some((message, others)) => {
            // DataFusion appends a signature that the statement does not contain.
            let others = others.split(",Error during planning").next().unwrap_or(others);
            (message, Some(format!("There is {others}.")))
        }
        None => match said.split_once("\n  hint: ") {
            Some((message, hint)) => (message, Some(hint.to_string())),
            None => (said.as_str(), None),
        },
    };
    let kind = match message.contains("not yet supported") {
        true => ErrorKind::FeatureNotSupported,
        false => ErrorKind::UndefinedFunction,
    };
    let error = Error::new(kind, message);
    Some(match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    })
}

/// The error for a wrong call of an aggregate with WITHIN GROUP; `None` for other texts.
fn ordered_set(text: &str) -> Option<Error> {
    if text.starts_with("OVER and WITHIN GROUP clause cannot be used together") {
        let message = "OVER is not supported for ordered-set aggregates";
        return Some(Error::new(ErrorKind::FeatureNotSupported, message).with_hint(
            "compute the aggregate with GROUP BY in a subquery, and join the subquery",
        ));
    }
    if text.starts_with("Function 'percentile_cont' requires") && text.contains("received List") {
        return Some(
            Error::not_yet("percentile_cont() of an array of fractions")
                .with_hint("call the function once for each fraction"),
        );
    }
    let rest = text.strip_prefix("Percentile value must be between 0.0 and 1.0 inclusive, ")?;
    let value = rest.strip_suffix(" is invalid")?;
    let message = format!("percentile value {value} is not between 0 and 1");
    Some(Error::new(ErrorKind::NumericOutOfRange, message))
}

/// The error for a series in FROM whose bounds are columns or untyped parameters: the planner needs
/// constants. `None` for other texts.
fn open_series(text: &str) -> Option<Error> {
    let (wanted, given) = text.split_once(" or NULL, got ")?;
    let open = ["Column(", "OuterReferenceColumn(", "Placeholder("];
    if !wanted.contains("rgument") || !open.iter().any(|open| given.contains(open)) {
        return None;
    }
    Some(Error::not_yet("a series between values of columns or untyped parameters").with_hint(
        "join a sufficiently long series: FROM t JOIN generate_series(1, 1000) AS n ON n <= t.v",
    ))
}

/// The error for a text that no rule recognizes.
pub fn from_unknown(text: &str) -> Error {
    regular_expression(text).unwrap_or_else(|| Error::internal(text))
}

/// The error for a syntax error in a regular expression; `None` for other texts. The last line of
/// the text has the reason.
fn regular_expression(text: &str) -> Option<Error> {
    if !text.contains("egular expression did not compile") && !text.contains("regex parse error") {
        return None;
    }
    let why = text.split("\nerror: ").nth(1).and_then(|rest| rest.lines().next());
    let message = match why {
        Some(why) => format!("invalid regular expression: {why}"),
        None => "invalid regular expression".to_string(),
    };
    Some(Error::new(ErrorKind::InvalidRegularExpression, message))
}

/// True if the error text of a cast or of arithmetic reports a time outside of the range of its
/// unit. `lower` is the text in lower case.
fn is_time_out_of_range(lower: &str) -> bool {
    lower.contains("timestamp out of range")
        || lower.contains("exceeds the representable")
            && (lower.contains("timestamp") || lower.contains("date"))
}

/// The candidate that `name` is probably a misspelling of: the one with the smallest edit distance,
/// if the distance is small enough.
pub fn closest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = name.chars().count().div_ceil(3).min(3);
    candidates
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The edit distance of two names. The time is quadratic in the length, which is acceptable for
/// short names.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (at, a) in from.chars().take(64).enumerate() {
        let mut diagonal = at;
        let mut left = at + 1;
        let mut next = vec![left];
        for (b, above) in to.iter().zip(row.iter().skip(1)) {
            let cost = usize::from(!a.eq_ignore_ascii_case(b));
            left = (diagonal + cost).min(left + 1).min(above + 1);
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

fn undefined_table(name: &str) -> Error {
    // The name of a table may contain periods.
    let parts: Vec<&str> = name.splitn(3, '.').collect();
    let shown = match parts.as_slice() {
        [_, SEARCH_PATH_SCHEMA, table] | [SEARCH_PATH_SCHEMA, table] => (*table).to_string(),
        [_, schema, table] => format!("{schema}.{table}"),
        _ => name.to_string(),
    };
    Error::new(ErrorKind::UndefinedTable, format!("relation \"{shown}\" does not exist"))
}

fn undefined_function(name: &str, text: &str) -> Error {
    if super::plan::is_window_function(name) {
        return Error::new(
            ErrorKind::WrongObjectType,
            format!("window function {name} requires an OVER clause"),
        );
    }
    let error = Error::new(ErrorKind::UndefinedFunction, format!("function {name} does not exist"));
    match text.split("Did you mean '").nth(1).and_then(|rest| rest.split('\'').next()) {
        Some(candidate) if is_near(name, candidate) => {
            error.with_hint(format!("Perhaps you meant {candidate}."))
        }
        _ => error,
    }
}

/// True if `name` may be a misspelling of `other`: the edit distance is at most a quarter of the
/// longer name's length.
fn is_near(name: &str, other: &str) -> bool {
    let letters = name.chars().count().max(other.chars().count());
    levenshtein(name, other) * 4 <= letters
}

fn operator_mismatch(text: &str) -> Error {
    Error::new(ErrorKind::UndefinedFunction, text.to_string())
        .with_hint("You might need to add explicit type casts.")
}

fn quoted_after<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    text.split(prefix).nth(1)?.split('\'').next()
}

fn strip_arrow_prefix(text: &str) -> String {
    let mut text = text;
    for prefix in [
        "Cast error: ",
        "Parser error: ",
        "Compute error: ",
        "Arithmetic overflow: ",
        "Invalid argument error: ",
    ] {
        text = text.strip_prefix(prefix).unwrap_or(text);
    }
    text.to_string()
}
