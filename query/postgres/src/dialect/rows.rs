//! Rewrites functions that return rows: `generate_series` in a select list, `jsonb_array_elements`
//! in a select list and in FROM, and functions after LATERAL.

use std::{collections::HashSet, ops::ControlFlow, sync::LazyLock};

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Distinct, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, Ident, ObjectName, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr,
    TableAlias, TableAliasColumnDef, TableFactor, TableFunctionArgs, TableWithJoins, UnaryOperator,
    Value, ValueWithSpan,
};
use stratalog_model::{Error, ErrorKind, Result};

use super::{
    positions,
    series::{is_constant, is_whole},
};
use crate::{
    names::{fold, replays},
    parse::{self, call},
    walk,
};

/// The name of the table, and of its column, that replaces a series in a select list.
const SERIES: &str = "$series";

/// The column name of `jsonb_array_elements` in FROM.
const VALUE: &str = "value";

/// The function that returns the rows of the set-returning function `name` as one list. The flag is
/// true if the elements are jsonb.
fn list_of(name: &str) -> Option<(&'static str, bool)> {
    Some(match name {
        "jsonb_array_elements" | "json_array_elements" => ("jsonb_elements_list", true),
        "jsonb_array_elements_text" | "json_array_elements_text" => {
            ("jsonb_elements_text_list", false)
        }
        "jsonb_object_keys" | "json_object_keys" => ("jsonb_keys_list", false),
        "generate_subscripts" => ("subscripts_list", false),
        "string_to_table" => ("string_to_array", false),
        "regexp_matches" => ("regexp_matches_list", false),
        "regexp_split_to_table" => ("regexp_split_to_array", false),
        "_pg_expandarray" => ("expand_array_list", false),
        _ => return None,
    })
}

/// True if the single column of a function in FROM keeps the name `value`, even under an alias.
fn has_value(name: &str) -> bool {
    list_of(name).is_some_and(|(list, _)| list.starts_with("jsonb_elements"))
}

/// The function that returns the key-value pairs of the set-returning function `name` as one list.
/// The flag is true if the values are jsonb.
fn pairs_of(name: &str) -> Option<(&'static str, bool)> {
    Some(match name {
        "jsonb_each" | "json_each" => ("jsonb_each_list", true),
        "jsonb_each_text" | "json_each_text" => ("jsonb_each_text_list", false),
        _ => return None,
    })
}

/// A subquery that returns a list of pairs as rows with the columns `key` and `value`.
fn pairs(
    list: &str,
    is_json: bool,
    arguments: Vec<Expr>,
    alias: Option<TableAlias>,
    function: Ident,
) -> Option<TableFactor> {
    let value = if is_json {
        "get_field(\"$row\", 'value')::jsonb"
    } else {
        "get_field(\"$row\", 'value')"
    };
    let sql = format!(
        "SELECT get_field(\"$row\", 'key') AS \"key\", {value} AS \"value\" FROM (SELECT 1 AS \"$row\") AS \"$rows\""
    );
    let mut subquery = query(&sql)?;
    let rows = call("unnest", vec![call(list, arguments)?])?;
    if let SetExpr::Select(select) = subquery.body.as_mut()
        && let Some(from) = select.from.first_mut()
        && let TableFactor::Derived { subquery: inner, .. } = &mut from.relation
        && let SetExpr::Select(inner) = inner.body.as_mut()
        && let Some(SelectItem::ExprWithAlias { expr, .. }) = inner.projection.first_mut()
    {
        *expr = rows;
    }
    let alias = alias.unwrap_or(TableAlias {
        explicit: true,
        name: function,
        columns: Vec::new(),
        at: None,
    });
    Some(TableFactor::Derived { lateral: true, subquery, alias: Some(alias), sample: None })
}

/// Set-returning functions that the planner supports in FROM without a rewrite.
const TABLES: [&str; 3] = ["generate_series", "range", "unnest"];

fn name_of(function: &Function) -> Option<String> {
    function.name.0.last().and_then(|part| part.as_ident()).map(fold)
}

fn unnamed(arguments: &[FunctionArg]) -> Option<Vec<Expr>> {
    arguments
        .iter()
        .map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
            _ => None,
        })
        .collect()
}

/// Builds `unnest(list(argument))`, with a cast to jsonb if the elements are jsonb.
fn elements(name: &str, arguments: Vec<Expr>) -> Option<Expr> {
    let (list, is_json) = list_of(name)?;
    let rows = call("unnest", vec![call(list, arguments)?])?;
    Some(as_json(rows, is_json))
}

/// Casts `rows` to jsonb if `is_json`.
fn as_json(rows: Expr, is_json: bool) -> Expr {
    match is_json {
        true => Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(rows),
            data_type: DataType::JSONB,
            array: false,
            format: None,
        },
        false => rows,
    }
}

/// Rewrites a call of a set-returning function in an expression as `unnest` of a list.
///
/// # Errors
/// `FeatureNotSupported` for a `generate_series` with unsupported arguments.
pub fn respell(expr: &mut Expr) -> Result<()> {
    let Expr::Function(function) = expr else { return Ok(()) };
    let Some(name) = name_of(function) else { return Ok(()) };
    if name == "generate_series" {
        let FunctionArguments::List(list) = &mut function.args else {
            return Err(misplaced_rows_error());
        };
        numbers_in_quotes(&mut list.args);
        let arguments = unnamed(&list.args).filter(|list| (2..=3).contains(&list.len()));
        *expr = arguments.and_then(series).ok_or_else(misplaced_rows_error)?;
        return Ok(());
    }
    if let FunctionArguments::List(list) = &function.args
        && let Some(arguments) = unnamed(&list.args)
        && let Some(rows) = elements(&name, arguments)
    {
        *expr = rows;
    }
    Ok(())
}

/// Builds `unnest(series_list(from, to, step))`, whose bounds may differ from row to row.
fn series(arguments: Vec<Expr>) -> Option<Expr> {
    call("unnest", vec![call("series_list", arguments)?])
}

fn misplaced_rows_error() -> Error {
    Error::new(ErrorKind::FeatureNotSupported, "generate_series() is not supported here")
        .with_hint("call the function in FROM: SELECT … FROM generate_series(…) AS x")
}

/// Moves a series from the select list to FROM: `SELECT generate_series(1, 3)` becomes `SELECT x
/// FROM …, generate_series(1, 3) AS x`.
///
/// # Errors
/// `FeatureNotSupported` for two series, which PostgreSQL would advance in parallel, and for a
/// series with DISTINCT ON that cannot move to FROM.
pub fn join_series(select: &mut Select) -> Result<()> {
    let first_rows = matches!(select.distinct, Some(Distinct::On(_)));
    let (count, late) = rows_in_list(select);
    if late && first_rows {
        return Err(first_of_rows());
    }
    if late {
        return Ok(());
    }
    let before = select.projection.clone();
    let mut series = None;
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let alone = matches!(expr, Expr::Function(_));
                if take_series(expr, &mut series)? && alone {
                    *item = SelectItem::ExprWithAlias {
                        expr: expr.clone(),
                        alias: Ident::new("generate_series"),
                    };
                }
            }
            SelectItem::ExprWithAlias { expr, .. } => {
                take_series(expr, &mut series)?;
            }
            _ => {}
        }
    }
    let Some(arguments) = series else {
        return if first_rows && count > 0 { Err(first_of_rows()) } else { Ok(()) };
    };
    let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    let starred = select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_)));
    let columns = arguments.iter().any(names_column);
    if grouped || starred || columns || select.having.is_some() {
        if first_rows {
            return Err(first_of_rows());
        }
        // Leaves the series in the select list; a later rewrite unnests it as a list in each row.
        select.projection = before;
        return Ok(());
    }
    let mut from = parse::statements("SELECT 1 FROM generate_series()", usize::MAX)?;
    let factor = from.pop().and_then(|tree| match tree.statement {
        datafusion::sql::sqlparser::ast::Statement::Query(query) => match *query.body {
            SetExpr::Select(select) => select.from.into_iter().next(),
            _ => None,
        },
        _ => None,
    });
    let Some(TableWithJoins { mut relation, joins }) = factor else { return Ok(()) };
    if let TableFactor::Table { alias, args, .. } = &mut relation {
        *alias = Some(TableAlias {
            explicit: true,
            name: Ident::with_quote('"', SERIES),
            columns: vec![TableAliasColumnDef {
                name: Ident::with_quote('"', SERIES),
                data_type: None,
            }],
            at: None,
        });
        let args_of = |argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument));
        *args = Some(TableFunctionArgs {
            args: arguments.into_iter().map(args_of).collect(),
            settings: None,
        });
    }
    select.from.push(TableWithJoins { relation, joins });
    Ok(())
}

/// The number of set-returning calls in a select list. The flag is true if the calls must produce
/// their rows after the rest of the query: several series advance in parallel, and aggregates and
/// window functions do not see the rows of a series. In both cases the series becomes a list in
/// each row.
fn rows_in_list(select: &Select) -> (usize, bool) {
    let (mut series, mut others) = (0_usize, false);
    let _ = walk::own_expressions(&select.projection, |expr| {
        if let Expr::Function(function) = expr
            && let Some(name) = name_of(function)
        {
            series += usize::from(gives_rows(&name));
            others |= function.over.is_some() || aggregates(&name);
        }
        ControlFlow::Continue(())
    });
    (series, series > 1 || series > 0 && others)
}

/// Checks DISTINCT ON together with a set-returning function in the select list. PostgreSQL applies
/// DISTINCT ON to the rows of the function if ORDER BY mentions the function. Otherwise PostgreSQL
/// applies DISTINCT ON first, and calls the function for the remaining rows.
///
/// # Errors
/// `FeatureNotSupported` for a call that PostgreSQL would make after DISTINCT ON.
pub fn distinct_rows(select: &Select, order_by: Option<&OrderBy>) -> Result<()> {
    let Some(OrderByKind::Expressions(order)) = order_by.map(|order_by| &order_by.kind) else {
        return Ok(());
    };
    if !matches!(select.distinct, Some(Distinct::On(_))) || rows_in_list(select).0 == 0 {
        return Ok(());
    }
    let item_makes_rows = |item: Option<&SelectItem>| match item {
        Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => {
            returns_rows(expr)
        }
        _ => false,
    };
    let mentions = |expr: &Expr| {
        match expr {
        Expr::Identifier(name) => item_makes_rows(select.projection.iter().find(|item| {
            matches!(item, SelectItem::ExprWithAlias { alias, .. } if fold(alias) == fold(name))
        })),
        Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) => {
            let at = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            item_makes_rows(at.and_then(|at| select.projection.get(at)))
        }
        expr => returns_rows(expr),
    }
    };
    match order.iter().any(|by| mentions(&by.expr)) {
        true => Ok(()),
        false => Err(first_of_rows()),
    }
}

fn first_of_rows() -> Error {
    Error::new(
        ErrorKind::FeatureNotSupported,
        "DISTINCT ON with a set-returning function is not supported in this form",
    )
    .with_hint("select the first rows in a subquery in FROM, and call the function outside")
}

/// True if an expression calls a set-returning function. Subqueries do not count.
pub fn returns_rows(expr: &Expr) -> bool {
    let found = walk::own_expressions(expr, |expr| match expr {
        Expr::Function(function) if name_of(function).is_some_and(|name| gives_rows(&name)) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// True for the name of a set-returning function.
fn gives_rows(name: &str) -> bool {
    TABLES.contains(&name) || list_of(name).is_some()
}

/// True for the name of an aggregate.
fn aggregates(name: &str) -> bool {
    const OURS: [&str; 6] =
        ["every", "json_agg", "json_object_agg", "jsonb_agg", "jsonb_object_agg", "variance"];
    static ALL: LazyLock<HashSet<String>> = LazyLock::new(|| {
        let theirs = datafusion::functions_aggregate::all_default_aggregate_functions();
        let names = theirs.into_iter().map(|function| function.name().to_string());
        names.chain(OURS.map(str::to_string)).collect()
    });
    ALL.contains(name)
}

/// Replaces the series in an expression with a column, and moves the arguments of the series to
/// `series`. Returns true if the expression had a series.
fn take_series(expr: &mut Expr, series: &mut Option<Vec<Expr>>) -> Result<bool> {
    match expr {
        Expr::Function(function)
            if name_of(function).as_deref() == Some("generate_series")
                && function.over.is_none() =>
        {
            let arguments = match &function.args {
                FunctionArguments::List(list) => {
                    let mut arguments = list.args.clone();
                    numbers_in_quotes(&mut arguments);
                    unnamed(&arguments)
                }
                _ => None,
            };
            // PostgreSQL would advance two series in parallel.
            if series.is_some() {
                return Err(misplaced_rows_error());
            }
            *series = Some(arguments.ok_or_else(misplaced_rows_error)?);
            *expr = Expr::CompoundIdentifier(vec![
                Ident::with_quote('"', SERIES),
                Ident::with_quote('"', SERIES),
            ]);
            Ok(true)
        }
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => take_series(inner, series),
        Expr::Cast { expr: inner, .. } => take_series(inner, series),
        Expr::BinaryOp { left, right, .. } => {
            let (left, right) = (take_series(left, series)?, take_series(right, series)?);
            Ok(left || right)
        }
        _ => Ok(false),
    }
}

fn names_column(expr: &Expr) -> bool {
    let found = walk::expressions(expr, |expr| match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Subquery(_) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Rewrites functions in FROM: `jsonb_array_elements(x)`, and any function that returns one value,
/// becomes a lateral subquery. LATERAL in front of a function has no effect.
///
/// # Errors
/// `FeatureNotSupported` for an unsupported WITH ORDINALITY.
pub fn in_from(factor: &mut TableFactor) -> Result<()> {
    if let TableFactor::UNNEST { alias, array_exprs, with_ordinality: true, .. } = factor {
        let function = Ident::new("unnest");
        *factor = with_numbers(&function, std::mem::take(array_exprs), alias.take())?;
        return Ok(());
    }
    if let TableFactor::Function { name, args, with_ordinality, alias, .. } = factor {
        let function = name.0.last().and_then(|part| part.as_ident()).map(fold);
        let arguments = unnamed(args);
        if let (Some("unnest"), Some(array_exprs)) = (function.as_deref(), arguments) {
            if *with_ordinality {
                *factor = with_numbers(&Ident::new("unnest"), array_exprs, alias.take())?;
                return Ok(());
            }
            *factor = TableFactor::UNNEST {
                alias: alias.take(),
                array_exprs,
                with_offset: false,
                with_offset_alias: None,
                with_ordinality: *with_ordinality,
            };
            return Ok(());
        }
        *factor = TableFactor::Table {
            name: name.clone(),
            alias: alias.take(),
            args: Some(TableFunctionArgs { args: std::mem::take(args), settings: None }),
            with_hints: Vec::new(),
            version: None,
            with_ordinality: *with_ordinality,
            partitions: Vec::new(),
            json_path: None,
            sample: None,
            index_hints: Vec::new(),
        };
    }
    let TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } = factor else {
        return Ok(());
    };
    let Some(function) = name.0.last().and_then(|part| part.as_ident()).cloned() else {
        return Ok(());
    };
    let called = fold(&function);
    if stratalog_pg_catalog::is_table_function(&called) {
        return Ok(());
    }
    if called == positions::RECORD_FUNCTION {
        return Ok(());
    }
    if called == "generate_series" {
        numbers_in_quotes(&mut args.args);
    }
    let Some(given) = unnamed(&args.args) else { return Ok(()) };
    if let Some(table) = positions::in_from(&function, &given, alias.as_ref())? {
        if *with_ordinality {
            return Err(replays::no_ordinality(&called));
        }
        *factor = table;
        return Ok(());
    }
    if *with_ordinality {
        *factor = with_numbers(&function, given, alias.take())?;
        return Ok(());
    }
    if let Some((list, is_json)) = pairs_of(&called) {
        *factor =
            pairs(list, is_json, given, alias.take(), function).unwrap_or_else(|| factor.clone());
        return Ok(());
    }
    let rows = match TABLES.contains(&called.as_str()) {
        false => elements(&called, given.clone()).or_else(|| call_of(name, given)),
        true if called == "generate_series" && !is_constant(&given) => series(given),
        true => None,
    };
    let Some(rows) = rows else {
        args.args.iter_mut().for_each(as_bigint);
        return Ok(());
    };
    let column = match (has_value(&called), &alias) {
        (true, _) => VALUE.to_string(),
        (false, Some(alias)) => fold(&alias.name),
        (false, None) => called,
    };
    let column = Ident::with_quote('"', column);
    let Some(mut subquery) = query(&format!("SELECT 1 AS {column}")) else { return Ok(()) };
    if let SetExpr::Select(select) = subquery.body.as_mut()
        && let Some(SelectItem::ExprWithAlias { expr, .. }) = select.projection.first_mut()
    {
        *expr = rows;
    }
    let alias = alias.take().unwrap_or(TableAlias {
        explicit: true,
        name: function,
        columns: Vec::new(),
        at: None,
    });
    *factor = TableFactor::Derived { lateral: true, subquery, alias: Some(alias), sample: None };
    Ok(())
}

/// Rewrites a function WITH ORDINALITY, which numbers its rows, as a subquery: `FROM unnest(x) WITH
/// ORDINALITY AS u (u, k)`.
///
/// # Errors
/// `FeatureNotSupported` for a function whose rows are not available as a list.
fn with_numbers(
    function: &Ident,
    arguments: Vec<Expr>,
    alias: Option<TableAlias>,
) -> Result<TableFactor> {
    let called = fold(function);
    let not_yet = || Error::not_yet("WITH ORDINALITY of this function");
    let (lists, is_json) = match called.as_str() {
        "unnest" if arguments.is_empty() => return Err(not_yet()),
        "unnest" => (arguments, false),
        "generate_series" => (vec![call("series_list", arguments).ok_or_else(not_yet)?], false),
        name => {
            let (list, is_json) = list_of(name).ok_or_else(not_yet)?;
            (vec![call(list, arguments).ok_or_else(not_yet)?], is_json)
        }
    };
    let one = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Value(Value::Number("1".to_string(), false).into())),
        data_type: DataType::BigInt(None),
        array: false,
        format: None,
    };
    let lengths: Option<Vec<Expr>> =
        lists.iter().map(|list| call("cardinality", vec![list.clone()])).collect();
    // Shorter lists continue with NULL up to the length of the longest list.
    let length = match lists.len() {
        1 => lengths.and_then(|mut lengths| lengths.pop()),
        _ => lengths.and_then(|lengths| call("greatest", lengths)),
    };
    let numbers = length
        .and_then(|length| call("series_list", vec![one, length]))
        .and_then(|numbers| call("unnest", vec![numbers]));
    let mut values: Vec<Expr> = Vec::with_capacity(lists.len() + 1);
    for list in lists {
        values.push(as_json(call("unnest", vec![list]).ok_or_else(not_yet)?, is_json));
    }
    values.push(numbers.ok_or_else(not_yet)?);
    let column = match &alias {
        Some(alias) if values.len() == 2 => fold(&alias.name),
        _ => called,
    };
    // The suffix makes equal names distinct. Clients see only the name before the \u{1}.
    let last = values.len() - 1;
    let names: Vec<Ident> = (0..=last)
        .map(|at| match at {
            _ if at == last => Ident::new("ordinality"),
            0 => Ident::with_quote('"', &column),
            _ => Ident::with_quote('"', format!("{column}\u{1}{at}")),
        })
        .collect();
    let mut subquery = query("SELECT 1").ok_or_else(not_yet)?;
    if let SetExpr::Select(select) = subquery.body.as_mut() {
        select.projection = values
            .into_iter()
            .zip(&names)
            .map(|(expr, name)| SelectItem::ExprWithAlias { expr, alias: name.clone() })
            .collect();
    }
    let mut alias = alias.unwrap_or(TableAlias {
        explicit: true,
        name: function.clone(),
        columns: Vec::new(),
        at: None,
    });
    if !alias.columns.is_empty() {
        let unnamed = names.into_iter().skip(alias.columns.len());
        let unnamed = unnamed.map(|name| TableAliasColumnDef { name, data_type: None });
        alias.columns.extend(unnamed);
    }
    Ok(TableFactor::Derived { lateral: true, subquery, alias: Some(alias), sample: None })
}

/// Removes the quotes of a constant if another argument is a number: `generate_series(1, '3')`
/// becomes `generate_series(1, 3)`.
fn numbers_in_quotes(arguments: &mut [FunctionArg]) {
    let constant = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => {
            Some(value.value.clone())
        }
        _ => None,
    };
    let is_number =
        |argument: &FunctionArg| matches!(constant(argument), Some(Value::Number(_, _)));
    if !arguments.iter().any(is_number) {
        return;
    }
    for argument in arguments {
        let Some(Value::SingleQuotedString(text)) = constant(argument) else { continue };
        if let Ok(number) = text.trim().parse::<i64>() {
            let negative = number < 0;
            let number =
                Expr::Value(Value::Number(number.unsigned_abs().to_string(), false).into());
            let signed = match negative {
                true => Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number) },
                false => number,
            };
            *argument = FunctionArg::Unnamed(FunctionArgExpr::Expr(signed));
        }
    }
}

/// Adapts the cast of a series argument for the planner, which supports only series of bigint.
/// Removes a cast of a small constant to smallint or integer, so that the series still returns
/// integers. Other casts to these types become casts to bigint.
fn as_bigint(argument: &mut FunctionArg) {
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument else { return };
    let Expr::Cast { data_type, expr: inner, .. } = &mut *expr else { return };
    if !is_whole(data_type) {
        return;
    }
    let is_number = matches!(
        inner.as_ref(),
        Expr::Value(ValueWithSpan { value: Value::Number(text, _), .. }) if text.parse::<i32>().is_ok()
    );
    match data_type {
        DataType::BigInt(_) | DataType::Int8(_) => {}
        _ if is_number => *expr = inner.as_ref().clone(),
        _ => *data_type = DataType::BigInt(None),
    }
}

/// A call of the function `name` with `arguments`.
fn call_of(name: &ObjectName, arguments: Vec<Expr>) -> Option<Expr> {
    let Expr::Function(mut function) = call("f", arguments)? else { return None };
    function.name = name.clone();
    Some(Expr::Function(function))
}

fn query(sql: &str) -> Option<Box<Query>> {
    match parse::statements(sql, usize::MAX).ok()?.pop()?.statement {
        datafusion::sql::sqlparser::ast::Statement::Query(query) => Some(query),
        _ => None,
    }
}

/// For `FROM jsonb_array_elements(…) AS e`, replaces the bare name `e` with the element column,
/// `e.value`.
pub fn name_elements(query: &mut Query) {
    let mut aliases = Vec::new();
    if let SetExpr::Select(select) = query.body.as_ref() {
        for from in &select.from {
            let joined = from.joins.iter().map(|join| &join.relation);
            aliases.extend(std::iter::once(&from.relation).chain(joined).filter_map(alias_of));
        }
    }
    if aliases.is_empty() {
        return;
    }
    let is_alias = |ident: &Ident| aliases.contains(&fold(ident));
    if let SetExpr::Select(select) = query.body.as_mut() {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(Expr::Identifier(ident)) = item
                && is_alias(ident)
            {
                let alias = ident.clone();
                *item = SelectItem::ExprWithAlias { expr: Expr::Identifier(alias.clone()), alias };
            }
        }
    }
    let _ = walk::expressions_mut(query, |expr| {
        if let Expr::Identifier(ident) = expr
            && is_alias(ident)
        {
            let value = Ident::with_quote('"', VALUE);
            *expr = Expr::CompoundIdentifier(vec![ident.clone(), value]);
        }
        ControlFlow::Continue(())
    });
}

/// The alias of a function in FROM whose single column is always named `value`; `None` for other
/// items.
fn alias_of(factor: &TableFactor) -> Option<String> {
    let (name, alias) = match factor {
        TableFactor::Table { name, alias: Some(alias), args: Some(_), .. }
        | TableFactor::Function { name, alias: Some(alias), .. } => (name, alias),
        _ => return None,
    };
    let function = name.0.last().and_then(|part| part.as_ident()).map(fold)?;
    if !has_value(&function) {
        return None;
    }
    alias.columns.is_empty().then(|| fold(&alias.name)).filter(|alias| alias != VALUE)
}

#[cfg(test)]
mod tests;
