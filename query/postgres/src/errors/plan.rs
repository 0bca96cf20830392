//! Translates messages of DataFusion's planner to PostgreSQL's messages.

use stratalog_model::{Error, ErrorKind};

use super::names::{split, sql_type};

const NO_FUNCTION: &str = "No function matches the given name and argument types. You might need to add explicit type casts.";
const NO_OPERATOR: &str = "No operator matches the given name and argument types. You might need to add explicit type casts.";

/// The error for a message of the planner; `None` for an unknown message.
pub fn planner_error(text: &str) -> Option<Error> {
    [
        grouping, intervals, coercions, functions, numerics, operators, booleans, casts, widths,
        limits, windows, clauses,
    ]
    .iter()
    .find_map(|known| known(text))
}

/// True if the name belongs to a function that works only as a window function.
pub fn is_window_function(name: &str) -> bool {
    let names = ["row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"];
    names.contains(&name) || ["lag", "lead", "nth_value"].contains(&name)
}

/// The error for an interval without quotes; `None` for other messages.
fn intervals(text: &str) -> Option<Error> {
    let starts = ["INTERVAL expression cannot be", "Unsupported interval argument"];
    starts.iter().any(|start| text.starts_with(start)).then(|| {
        Error::new(ErrorKind::SyntaxError, "INTERVAL needs a constant in quotes")
            .with_hint("write INTERVAL '2 hours', or for an expression x * INTERVAL '1 hour'")
    })
}

/// The error for columns and aggregates that a query cannot combine; `None` for other messages.
fn grouping(text: &str) -> Option<Error> {
    let error = |message: &str| Some(Error::new(ErrorKind::GroupingError, message));
    if let Some(column) = between(text, "column \"", "\" must appear in the GROUP BY clause") {
        return Some(ungrouped(&format!("column \"{column}\"")));
    }
    if let Some(condition) = between(text, "HAVING clause references: ", " must appear in") {
        if condition.contains(" ROWS BETWEEN ") || condition.contains(" RANGE BETWEEN ") {
            return Some(
                Error::new(ErrorKind::WindowingError, "window functions are not allowed in HAVING")
                    .with_hint("compute the window function in a subquery, or use QUALIFY"),
            );
        }
        return Some(ungrouped("a column in HAVING"));
    }
    if text.starts_with("Aggregate functions are not allowed in the WHERE clause") {
        return Some(
            Error::new(ErrorKind::GroupingError, "aggregate functions are not allowed in WHERE")
                .with_hint("use HAVING, or compute the aggregate in a subquery"),
        );
    }
    if text.starts_with("Aggregate function calls cannot be nested") {
        return error("aggregate function calls cannot be nested");
    }
    if text.starts_with("Aggregate function calls cannot contain window function calls") {
        return error("aggregate function calls cannot contain window function calls");
    }
    if text.starts_with("Argument ") && text.contains(" to grouping function is not in grouping") {
        return error(
            "arguments to GROUPING must be grouping expressions of the associated query level",
        );
    }
    None
}

fn ungrouped(what: &str) -> Error {
    let message =
        format!("{what} must appear in the GROUP BY clause or be used in an aggregate function");
    Error::new(ErrorKind::GroupingError, message)
}

/// The error for values that DataFusion cannot convert for a function, an operator or a set
/// operation; `None` for other messages.
fn coercions(text: &str) -> Option<Error> {
    if let Some(call) = text.split("to satisfy a call to '").nth(1)
        && let Some((name, rest)) = call.split_once("' function: coercion from ")
        && let Some((types, _)) = rest.split_once(" to the signature")
    {
        let types: Vec<String> = split(types, ',').into_iter().map(sql_type).collect();
        return Some(match (name, types.as_slice()) {
            ("array_has", [array, element]) => no_operator(&format!("{element} = ANY ({array})")),
            ("var", _) => no_function(&format!("var_samp({})", types.join(", "))),
            _ => no_function(&format!("{name}({})", types.join(", "))),
        });
    }
    if let Some((types, name)) = text
        .split_once("Unsupported argument types ")
        .and_then(|(_, rest)| rest.split_once(" for function "))
    {
        let types: Vec<String> = types.split(" and ").map(sql_type).collect();
        let name = name.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(name);
        return Some(no_function(&format!("{name}({})", types.join(", "))));
    }
    if let Some((left, right)) = between(text, "For function 'nullif' ", " is not comparable")
        .and_then(|types| types.split_once(" and "))
    {
        return Some(no_operator(&format!("{} = {}", sql_type(left), sql_type(right))));
    }
    if let Some((case, when)) = between(text, "Failed to coerce case (", ") to common types")
        .and_then(|types| types.split_once(") and when ("))
    {
        return Some(no_operator(&format!("{} = {}", sql_type(case), sql_type(when))));
    }
    if text.contains("Fail to find the coerced type") {
        let name = between(text, "Function '", "'").unwrap_or("coalesce").to_uppercase();
        let message = format!("{name} types cannot be matched");
        return Some(Error::new(ErrorKind::DatatypeMismatch, message));
    }
    if text.starts_with("Inconsistent metadata across values list") {
        return Some(
            Error::new(ErrorKind::DatatypeMismatch, "VALUES types cannot be matched")
                .with_hint("You might need to add explicit type casts."),
        );
    }
    if let Some(rest) = text.strip_prefix("Incompatible inputs for Union") {
        let message = match between(rest, "were of type ", ", but got incompatible type ")
            .zip(between(rest, "but got incompatible type ", " on column"))
        {
            Some((first, other)) => {
                format!("UNION types {} and {} cannot be matched", sql_type(first), sql_type(other))
            }
            None => "UNION types cannot be matched".to_string(),
        };
        return Some(Error::new(ErrorKind::DatatypeMismatch, message));
    }
    if let Some((from, to)) =
        text.strip_prefix("Cannot automatically convert ").and_then(|rest| rest.split_once(" to "))
    {
        let to = to.lines().next().unwrap_or(to);
        let message =
            format!("type {} does not convert to type {} implicitly", sql_type(from), sql_type(to));
        return Some(
            Error::new(ErrorKind::DatatypeMismatch, message)
                .with_hint("You might need to add explicit type casts."),
        );
    }
    if let Some(of) = text.strip_prefix("Invalid arithmetic operation: !") {
        return Some(no_operator(&format!("- {}", sql_type(of))));
    }
    if let Some(operation) = text.strip_prefix("There isn't a common type for ") {
        return Some(no_operator(operation));
    }
    if text.starts_with("Percentile value for '") {
        let message = "the fraction of percentile_cont must be a constant";
        return Some(Error::new(ErrorKind::FeatureNotSupported, message));
    }
    if text == "Expected an integer value" {
        let message = "the offset of lag and lead must be an integer";
        return Some(Error::new(ErrorKind::DatatypeMismatch, message));
    }
    if text.starts_with("No `ON` expressions provided") {
        let message = "DISTINCT ON needs at least one expression";
        return Some(Error::new(ErrorKind::SyntaxError, message));
    }
    None
}

/// The error for a function call with unsupported argument types; `None` for other messages.
fn functions(text: &str) -> Option<Error> {
    if let Some(types) = text.strip_prefix("Failed to unify argument types of make_array: ") {
        return Some(mismatch("ARRAY", &list(types)));
    }
    if text.starts_with("array_has does not support type ") {
        return Some(Error::new(
            ErrorKind::WrongObjectType,
            "op ANY/ALL (array) requires array on right side",
        ));
    }
    if let Some(call) = between(text, "given name and argument types '", "'. You might") {
        let (name, arguments) = call.strip_suffix(')')?.split_once('(')?;
        let types = list(arguments);
        let first = types.first().map_or("unknown", String::as_str);
        return Some(match name {
            "array_has" | "array_has_any" | "array_has_all" if !first.ends_with("[]") => {
                Error::new(
                    ErrorKind::WrongObjectType,
                    "op ANY/ALL (array) requires array on right side",
                )
            }
            "array_element" if types.len() == 2 && !first.ends_with("[]") => Error::new(
                ErrorKind::DatatypeMismatch,
                format!("cannot subscript type {first} because it does not support subscripting"),
            ),
            _ => no_function(&format!("{name}({})", types.join(", "))),
        });
    }
    if let Some(at) = between(text, "Argument #", " must be an INTEGER or NULL") {
        return Some(Error::new(
            ErrorKind::DatatypeMismatch,
            format!("argument {at} of generate_series() must be an integer"),
        ));
    }
    if text.starts_with("min/max was called with") {
        return Some(no_function("min or max with this number of arguments"));
    }
    if let Some((name, _)) = text.split_once(" does not support zero arguments") {
        return Some(no_function(&format!("{name}()")));
    }
    if text.starts_with("Expected a signed integer literal for the second argument of") {
        return Some(Error::new(
            ErrorKind::FeatureNotSupported,
            "the second argument of nth_value must be an integer constant",
        ));
    }
    // In nested calls, the text of the innermost function describes the fault.
    let marks = ["' failed to match any signature", "' user-defined coercion failed with"];
    let fault = marks.iter().filter_map(|mark| text.rfind(mark)).max()?;
    let (_, name) = text.get(..fault)?.rsplit_once("Function '")?;
    Some(match between(text, "(DataType: ", ").") {
        Some(given) => {
            let given = sql_type(given);
            Error::new(
                ErrorKind::UndefinedFunction,
                format!("function {name} does not exist for an argument of type {given}"),
            )
            .with_hint(NO_FUNCTION)
        }
        None => no_function(&format!("{name} with these arguments")),
    })
}

/// The error for a call that no function matches. `call` is the name with the argument types.
pub fn no_function(call: &str) -> Error {
    Error::new(ErrorKind::UndefinedFunction, format!("function {call} does not exist"))
        .with_hint(NO_FUNCTION)
}

/// The error for arithmetic of numerics whose result needs more digits than the 38 digits of a
/// numeric; `None` for other messages.
fn numerics(text: &str) -> Option<Error> {
    let (_, rest) = text.split_once("Cannot get result type for decimal operation ")?;
    let (operation, reason) = rest.split_once(": ")?;
    let words = split(operation, ' ');
    let [left, operator @ .., right] = words.as_slice() else { return None };
    let (left, right) = (with_digits(left), with_digits(right));
    let operation = format!("{left} {} {right}", operator.join(" "));
    if !reason.contains("exceed max scale") {
        return Some(no_operator(&operation));
    }
    Some(
        Error::new(ErrorKind::NumericOutOfRange, "numeric field overflow")
            .with_detail(format!(
                "The result of {operation} has more than 38 digits behind the point."
            ))
            .with_hint("cast an operand to fewer digits behind the point: x::numeric(20,10)"),
    )
}

/// The SQL name of a type, for a numeric with its precision and scale.
fn with_digits(arrow: &str) -> String {
    let name = sql_type(arrow);
    match between(arrow, "(", ")").filter(|_| name == "numeric") {
        Some(digits) => format!("numeric({})", digits.replace(' ', "")),
        None => name,
    }
}

/// The error for an operator that does not exist for the types of its operands; `None` for other
/// messages.
fn operators(text: &str) -> Option<Error> {
    let sides = [
        ("Cannot infer common argument type for comparison operation ", ""),
        ("Cannot infer common argument type for logical boolean operation ", ""),
        ("Cannot infer common string type for string concat operation ", ""),
        ("Cannot infer common type for bitwise operation ", ""),
        ("Cannot infer common argument type for regex operation ", ""),
        ("Cannot coerce arithmetic expression ", " to valid types"),
        ("Cannot get result type for temporal operation ", ": "),
        ("Cannot get result type for arithmetic operation ", ": "),
    ];
    for (before, after) in sides {
        let Some((_, rest)) = text.split_once(before) else { continue };
        let rest = rest.lines().next().unwrap_or(rest);
        let rest = if after.is_empty() { rest } else { before_outside(rest, after) };
        let words = split(rest, ' ');
        let [left, operator @ .., right] = words.as_slice() else { continue };
        let (left, right) = (sql_type(left), sql_type(right));
        let operator = operator.join(" ").replace("BIT_XOR", "#");
        if matches!(operator.as_str(), "AND" | "OR") {
            let wrong = if left == "boolean" { right } else { left };
            return Some(not_boolean(&operator, &wrong));
        }
        return Some(no_operator(&format!("{left} {operator} {right}")));
    }
    for (place, operator) in [(" in LIKE expression", "~~"), (" in ILIKE expression", "~~*")] {
        if let Some(types) = between(text, "There isn't a common type to coerce ", place) {
            let (left, right) = types.split_once(" and ")?;
            return Some(no_operator(&format!(
                "{} {operator} {}",
                sql_type(left),
                sql_type(right)
            )));
        }
    }
    if let Some(types) = text.strip_prefix("Can not find compatible types to compare ") {
        let (left, rest) = types.split_once(" with ")?;
        let left = sql_type(left);
        let others = list(rest);
        let other = others.iter().find(|other| is_number(other) != is_number(&left));
        let other = other.or(others.last()).map_or("unknown", String::as_str);
        return Some(no_operator(&format!("{left} = {other}")));
    }
    None
}

/// The error for an operator that does not exist for the types of its operands. `what` is the
/// operator with these types.
pub fn no_operator(what: &str) -> Error {
    Error::new(ErrorKind::UndefinedFunction, format!("operator does not exist: {what}"))
        .with_hint(NO_OPERATOR)
}

fn is_number(name: &str) -> bool {
    matches!(name, "smallint" | "integer" | "bigint" | "real" | "double precision" | "numeric")
}

/// The error for a value of another type where SQL requires a boolean; `None` for other messages.
fn booleans(text: &str) -> Option<Error> {
    if let Some(given) =
        text.strip_prefix("Unary operator 'NOT' requires a boolean expression, got ")
    {
        return Some(not_boolean("NOT", &sql_type(given)));
    }
    if let Some(given) = text.strip_prefix("Join condition must be boolean type, but got ") {
        return Some(not_boolean("JOIN/ON", &sql_type(given)));
    }
    let rest = text.strip_prefix("Cannot create filter with non-boolean predicate '")?;
    let (predicate, given) = rest.rsplit_once("' returning ")?;
    if let Some(value) = between(predicate, "Utf8(\"", "\")") {
        return Some(Error::new(
            ErrorKind::InvalidTextRepresentation,
            format!("invalid input syntax for type boolean: \"{value}\""),
        ));
    }
    Some(not_boolean("WHERE or HAVING", &sql_type(given)))
}

fn not_boolean(place: &str, given: &str) -> Error {
    Error::new(
        ErrorKind::DatatypeMismatch,
        format!("argument of {place} must be type boolean, not type {given}"),
    )
}

/// The error for two types without a cast between them; `None` for other messages.
fn casts(text: &str) -> Option<Error> {
    let (_, types) = text.split_once("Unsupported CAST from ")?;
    let (from, to) = types.lines().next()?.split_once(" to ")?;
    let message = format!("cannot cast type {} to {}", sql_type(from), sql_type(to));
    Some(Error::new(ErrorKind::CannotCoerce, message))
}

/// The error for a set operation of queries with different columns; `None` for other messages.
fn widths(text: &str) -> Option<Error> {
    let error = |message: &str| Some(Error::new(ErrorKind::SyntaxError, message));
    if let Some(set) = text.strip_suffix(" queries have different number of columns") {
        return error(&format!("each {set} query must have the same number of columns"));
    }
    if text.starts_with("Non-recursive term and recursive term must have the same number") {
        return error("each UNION query must have the same number of columns");
    }
    if text.starts_with("There is only support Literal types for field") {
        return Some(Error::new(
            ErrorKind::FeatureNotSupported,
            "the offset and default of lag and lead must be constants",
        ));
    }
    if text.starts_with("Too many columns! The subquery should only return one column") {
        return error("subquery must return only one column");
    }
    let of_subquery = text.ends_with(" in InSubquery") || text.ends_with(" in SetComparison");
    if text.starts_with("expr type Struct(") && of_subquery {
        return error("subquery has too few columns");
    }
    if text.starts_with("Inconsistent data length across values list") {
        return error("VALUES lists must all be the same length");
    }
    if let Some(types) = text
        .strip_prefix("Inconsistent data type across values list")
        .and_then(|rest| rest.split_once(". Was "))
        .and_then(|(_, types)| types.split_once(" but found "))
    {
        return Some(mismatch("VALUES", &[sql_type(types.0), sql_type(types.1)]));
    }
    let rest = text.strip_prefix("Source table contains ")?;
    let (has, rest) = rest.split_once(" columns but only ")?;
    let named = rest.split(' ').next()?;
    Some(Error::new(
        ErrorKind::InvalidColumnReference,
        format!("a table has {has} columns available but {named} columns specified"),
    ))
}

fn mismatch(place: &str, types: &[String]) -> Error {
    let first = types.first().map_or("unknown", String::as_str);
    let other = types.iter().find(|other| is_number(other) != is_number(first));
    let other = other.or(types.last()).map_or("unknown", String::as_str);
    let message = format!("{place} types {first} and {other} cannot be matched");
    Error::new(ErrorKind::DatatypeMismatch, message)
}

/// The error for a non-numeric LIMIT or OFFSET; `None` for other messages.
fn limits(text: &str) -> Option<Error> {
    for place in ["LIMIT", "OFFSET"] {
        if let Some(rest) = text.strip_prefix(&format!("Expected {place} to be an integer or null"))
        {
            let given = sql_type(rest.strip_prefix(", but got ").unwrap_or(rest));
            return Some(Error::new(
                ErrorKind::DatatypeMismatch,
                format!("argument of {place} must be type bigint, not type {given}"),
            ));
        }
        if !text.starts_with(&format!("Unsupported {place} expression")) {
            continue;
        }
        return Some(match text.contains("AggregateFunction") {
            true => Error::new(
                ErrorKind::GroupingError,
                format!("aggregate functions are not allowed in {place}"),
            ),
            false => Error::new(
                ErrorKind::FeatureNotSupported,
                format!("{place} needs a number or a parameter, not another expression"),
            ),
        });
    }
    None
}

/// The error for an invalid window definition; `None` for other messages.
fn windows(text: &str) -> Option<Error> {
    let error = |message: &str| Some(Error::new(ErrorKind::WindowingError, message));
    if let Some(name) = between(text, "The window ", " is not defined") {
        let message = format!("window \"{name}\" does not exist");
        return Some(Error::new(ErrorKind::UndefinedObject, message));
    }
    if text.starts_with("Window function calls cannot be nested") {
        return error("window function calls cannot be nested");
    }
    if text.starts_with("Invalid window frame: start bound") {
        return error("the frame of a window must not end before it starts");
    }
    if text.starts_with("Invalid window frame: frame offsets") {
        return Some(Error::new(
            ErrorKind::InvalidFrameOffset,
            "an offset of the frame of a window must be a number and not negative",
        ));
    }
    text.starts_with("RANGE requires exactly one ORDER BY column").then(|| {
        Error::new(
            ErrorKind::WindowingError,
            "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column",
        )
    })
}

/// The error for a field access, `(v).f`, on a value without fields.
pub fn not_composite() -> Error {
    Error::new(
        ErrorKind::WrongObjectType,
        "column notation .name applied to a value that is not of a composite type",
    )
}

/// The error for a clause in a place that does not allow the clause; `None` for other messages.
fn clauses(text: &str) -> Option<Error> {
    if let Some(name) = text.strip_prefix("Invalid qualifier ") {
        let message = format!("missing FROM-clause entry for table \"{name}\"");
        return Some(Error::new(ErrorKind::UndefinedTable, message));
    }
    if text.starts_with("Dot access not supported")
        || text.contains("Cannot access field at argument")
    {
        return Some(not_composite());
    }
    if text.starts_with("Unnest should be rewritten") {
        let message = "a set-returning function is not supported here";
        return Some(
            Error::new(ErrorKind::FeatureNotSupported, message)
                .with_hint("call the function in FROM: SELECT … FROM generate_series(…) AS x"),
        );
    }
    if text.starts_with("Correlated scalar subquery must be aggregated") {
        let message = "a correlated subquery without an aggregate is not supported";
        return Some(
            Error::new(ErrorKind::FeatureNotSupported, message)
                .with_hint("use an aggregate, for example max(), or write a join"),
        );
    }
    if text.starts_with("Invalid escape character in ") {
        return Some(
            Error::new(ErrorKind::InvalidEscape, "invalid escape string")
                .with_hint("Escape string must be empty or one character."),
        );
    }
    if let Some(operator) = text.strip_prefix("Unsupported binary operator: ") {
        let message = format!("the operator {} is not supported", operator.to_uppercase());
        return Some(Error::new(ErrorKind::FeatureNotSupported, message));
    }
    if text.starts_with("LATERAL syntax is not supported for ") {
        let message = "LATERAL after RIGHT JOIN or FULL JOIN is not supported";
        return Some(
            Error::new(ErrorKind::FeatureNotSupported, message)
                .with_hint("use JOIN LATERAL or LEFT JOIN LATERAL"),
        );
    }
    if text.starts_with("Only identifiers and literals are supported in tuples") {
        let message = "a row of expressions is not supported here";
        return Some(
            Error::new(ErrorKind::FeatureNotSupported, message)
                .with_hint("compare column by column, or compute the expressions in a subquery"),
        );
    }
    if text.starts_with("compound identifier: ") {
        return Some(Error::new(
            ErrorKind::SyntaxError,
            "improper qualified name (too many dotted names)",
        ));
    }
    if let Some(name) = between(text, "WITH query name \"", "\" specified more than once") {
        let message = format!("WITH query name \"{name}\" specified more than once");
        return Some(Error::new(ErrorKind::DuplicateAlias, message));
    }
    if let Some(query) = between(text, "Query ", " not implemented yet") {
        let what = query.split(' ').next().unwrap_or(query);
        return Some(
            Error::new(
                ErrorKind::FeatureNotSupported,
                format!("{what} inside of a query is not supported"),
            )
            .with_hint("run a separate statement"),
        );
    }
    if text.starts_with("Multiple recursive references to the same CTE") {
        let message = "recursive reference to a query must not appear more than once";
        return Some(Error::new(ErrorKind::InvalidRecursion, message));
    }
    if text.starts_with("unnest() can only be applied to array") {
        let message = "function unnest exists only for arrays";
        return Some(Error::new(ErrorKind::UndefinedFunction, message).with_hint(NO_FUNCTION));
    }
    if text == "Step cannot be zero" {
        return Some(Error::new(ErrorKind::InvalidParameterValue, "step size cannot equal zero"));
    }
    if text.contains(" not supported for Null") && text.starts_with("[return_type] ") {
        let name = text.strip_prefix("[return_type] ")?.split(' ').next()?.to_lowercase();
        return Some(no_function(&format!("{name}()")));
    }
    text.starts_with("Plan: [")
        .then(|| Error::internal("the planner made an invalid plan").with_detail(text.to_string()))
}

fn list(types: &str) -> Vec<String> {
    let types = types.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(types);
    split(types, ',').into_iter().map(sql_type).collect()
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    Some(text.split_once(before)?.1.split_once(after)?.0)
}

fn before_outside<'a>(text: &'a str, after: &str) -> &'a str {
    // The names of record types contain colons too, but inside of brackets.
    match after {
        ": " => split(text, ':').first().copied().unwrap_or(text),
        _ => text.split_once(after).map_or(text, |(before, _)| before),
    }
}
