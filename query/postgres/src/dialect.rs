//! Rewrites the syntax of PostgreSQL that the planner cannot read, or reads with another meaning.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, Ident, Interval, LimitClause, Query,
    Select, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, TimezoneInfo, Value,
    ValueWithSpan,
};
use stratalog_model::{ColumnType, Error, ErrorKind, Result};
use stratalog_text::{TextStyle, parse_value, write_value};

pub use self::rows::returns_rows;
use super::walk::{self, Change, Flow, Tree};

mod arrays;
mod casts;
mod conditions;
mod empty_lists;
mod expressions;
mod first_last;
mod forms;
mod groups;
mod intervals;
mod json_aggregates;
mod lateral;
pub mod merged_columns;
mod normal_forms;
mod oids;
mod operators;
pub mod positions;
pub mod preserved_orders;
mod recursive;
mod rows;
mod series;
mod sorting;
mod spelling;
mod tuples;
mod twin_subqueries;
mod values;
mod volatile;
mod windows;

/// Rewrites a statement in place into syntax that the planner reads with PostgreSQL's meaning.
///
/// # Errors
/// `FeatureNotSupported` for syntax that cannot be planned; an error in a time constant.
pub fn normalize(statement: &mut impl Tree, style: &TextStyle) -> Result<()> {
    let mut normalizer = Normalizer { style, empty_queries: Vec::new(), error: None };
    let _ = walk::change(statement, &mut normalizer);
    normalizer.error.map_or(Ok(()), Err)
}

struct Normalizer<'a> {
    style: &'a TextStyle,
    /// The names of the WITH queries whose result has no columns.
    empty_queries: Vec<String>,
    error: Option<Error>,
}

impl Normalizer<'_> {
    /// Records the error of `outcome`, if any, and then stops the walk.
    fn go_on(&mut self, outcome: Result<()>) -> Flow {
        self.error = outcome.err();
        if self.error.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Change for Normalizer<'_> {
    fn pre_visit_query(&mut self, query: &mut Query) -> Flow {
        if !query.locks.is_empty() {
            return self.go_on(Err(Error::new(
                ErrorKind::FeatureNotSupported,
                "SELECT … FOR UPDATE or FOR SHARE is not supported: events never change",
            )));
        }
        empty_lists::name_queries(query, &mut self.empty_queries);
        empty_lists::of_sets(query, &self.empty_queries);
        self.go_on(volatile::read_once(query))?;
        recursive::type_constants(query);
        self.go_on(sorting::write_out(query))?;
        rows::name_elements(query);
        forms::values(query);
        match query.body.as_mut() {
            SetExpr::Values(rows) => values::align(rows),
            SetExpr::Select(select) => {
                self.go_on(rows::distinct_rows(select, query.order_by.as_ref()))?;
                self.go_on(windows::write_out(select, query.order_by.as_mut()))?;
                casts::tell_apart(select, query.order_by.as_mut());
                twin_subqueries::tell_apart(select, query.order_by.as_mut());
            }
            _ => {}
        }
        self.go_on(fetch_means_limit(query))?;
        if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &mut query.limit_clause {
            for rows in limit.iter_mut().chain(offset.iter_mut().map(|offset| &mut offset.value)) {
                as_count(rows);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> Flow {
        empty_lists::without_wildcards(select, &self.empty_queries);
        forms::group_all(select);
        // Repeats the rewrite of `pre_visit_query`, because a SELECT in a branch of a UNION has no
        // query around it.
        self.go_on(windows::write_out(select, None))?;
        casts::tell_apart(select, None);
        twin_subqueries::tell_apart(select, None);
        self.go_on(groups::write_out(select))?;
        self.go_on(rows::join_series(select))?;
        self.go_on(conditions::of_select(select))?;
        for condition in select.selection.iter_mut().chain(select.having.iter_mut()) {
            self.go_on(tuples::in_condition(condition))?;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> Flow {
        lateral::name_columns(factor);
        self.go_on(
            refuse_sample(factor)
                .and_then(|()| conditions::in_from(factor))
                .and_then(|()| rows::in_from(factor))
                .and_then(|()| name_function_column(factor))
                .and_then(|()| series::settle(factor, self.style))
                .and_then(|()| read_times(factor, self.style)),
        )
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> Flow {
        forms::between(expr);
        groups::lift_grouping(expr);
        if let Expr::Exists { subquery, .. } = expr {
            empty_lists::of_sets(subquery, &self.empty_queries);
        }
        self.go_on(forms::subquery_without_columns(expr))?;
        tuples::of_rows(expr);
        arrays::cast_elements(expr);
        self.go_on(
            oids::respell(expr)
                .and_then(|()| arrays::membership(expr))
                .and_then(|()| conditions::respell(expr))
                .and_then(|()| operators::respell(expr))
                .and_then(|()| rows::respell(expr))
                .and_then(|()| intervals::respell(expr, self.style))
                .and_then(|()| spelling::respell(expr, self.style)),
        )?;
        self.go_on(tuples::with_subquery(expr))?;
        tuples::respell(expr);
        json_aggregates::respell(expr);
        first_last::respell(expr);
        expressions::respell(expr);
        normal_forms::respell(expr);
        forms::distinct_from(expr);
        self.go_on(tuples::in_subquery(expr))
    }

    // After the inner expressions, because the rewrite puts the comparison inside a new expression.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> Flow {
        arrays::in_array(expr);
        ControlFlow::Continue(())
    }
}

/// `FETCH FIRST n ROWS ONLY` means `LIMIT n`.
fn fetch_means_limit(query: &mut Query) -> Result<()> {
    let Some(fetch) = query.fetch.take() else { return Ok(()) };
    if fetch.with_ties || fetch.percent {
        return Err(Error::not_yet("FETCH … WITH TIES or PERCENT"));
    }
    let rows =
        fetch.quantity.unwrap_or_else(|| Expr::Value(Value::Number("1".to_string(), false).into()));
    match &mut query.limit_clause {
        None => {
            query.limit_clause = Some(LimitClause::LimitOffset {
                limit: Some(rows),
                offset: None,
                limit_by: Vec::new(),
            });
        }
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = Some(rows),
        Some(_) => {
            return Err(Error::new(ErrorKind::SyntaxError, "multiple LIMIT clauses not allowed"));
        }
    }
    Ok(())
}

/// Rounds a fractional row count of LIMIT or OFFSET to the nearest whole number. Also turns a
/// quoted whole number (`LIMIT '5'`) into a number.
fn as_count(rows: &mut Expr) {
    let Expr::Value(ValueWithSpan { value, .. }) = rows else { return };
    let (Value::SingleQuotedString(text) | Value::Number(text, _)) = &*value else { return };
    let whole = text.trim().parse::<i64>().ok();
    let nearest = || {
        let (whole, fraction) = text.split_once('.')?;
        let up = fraction.bytes().next().is_some_and(|digit| digit >= b'5');
        let is_number = matches!(value, Value::Number(..));
        whole.parse::<i64>().ok().filter(|_| is_number)?.checked_add(i64::from(up))
    };
    if let Some(count) = whole.or_else(nearest) {
        *value = Value::Number(count.to_string(), false);
    }
}

/// Refuses TABLESAMPLE: the planner would return all rows.
fn refuse_sample(factor: &TableFactor) -> Result<()> {
    match factor {
        TableFactor::Table { sample: Some(_), .. }
        | TableFactor::Derived { sample: Some(_), .. } => Err(Error::not_yet("TABLESAMPLE")
            .with_hint("use a condition on the time, or ORDER BY random() LIMIT n")),
        _ => Ok(()),
    }
}

/// Names the single column of a function in FROM after the alias of the function, or without an
/// alias after the function.
fn name_function_column(factor: &mut TableFactor) -> Result<()> {
    if let TableFactor::UNNEST { alias: Some(alias), array_exprs, .. } = factor
        && alias.columns.is_empty()
        && array_exprs.len() == 1
    {
        let name = alias.name.clone();
        alias.columns.push(TableAliasColumnDef { name, data_type: None });
    }
    let TableFactor::Table { name, alias, args: Some(_), .. } = factor else {
        return Ok(());
    };
    let function = match name.0.last().and_then(|part| part.as_ident()) {
        Some(ident)
            if matches!(super::names::fold(ident).as_str(), "generate_series" | "range") =>
        {
            ident.clone()
        }
        _ => return Ok(()),
    };
    let column = |name: &Ident| TableAliasColumnDef { name: name.clone(), data_type: None };
    match alias {
        Some(alias) if alias.columns.is_empty() => alias.columns.push(column(&alias.name)),
        Some(_) => {}
        None => {
            *alias = Some(TableAlias {
                explicit: true,
                columns: vec![column(&function)],
                name: function,
                at: None,
            });
        }
    }
    Ok(())
}

/// Rewrites the time constants in the arguments of a function in FROM in the format that the
/// function reads. The planner calls such a function during planning.
fn read_times(factor: &mut TableFactor, style: &TextStyle) -> Result<()> {
    let TableFactor::Table { args: Some(arguments), .. } = factor else { return Ok(()) };
    like_the_first(&mut arguments.args);
    for argument in &mut arguments.args {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument
            && let Some((text, column_type)) = time_of(expr)
        {
            let array = parse_value(Some(&text), &column_type, style)?;
            let field = column_type.arrow_field("", true);
            let utc = TextStyle::default();
            let Some(canonical) = write_value(&array, 0, &field, &utc)? else { continue };
            let (zone, suffix) = match column_type {
                ColumnType::TimestampTz { .. } => (TimezoneInfo::WithTimeZone, "Z"),
                _ => (TimezoneInfo::None, ""),
            };
            let data_type = match column_type {
                ColumnType::Date => DataType::Date,
                _ => DataType::Timestamp(Some(9), zone),
            };
            let canonical = canonical.trim_end_matches("+00").replace(' ', "T") + suffix;
            *expr = Expr::Cast {
                kind: CastKind::DoubleColon,
                expr: Box::new(Expr::Value(Value::SingleQuotedString(canonical).into())),
                data_type,
                array: false,
                format: None,
            };
        }
    }
    Ok(())
}

/// Types the quoted constants after a first argument that is a time: the second bound of a series
/// gets the type of the first bound, and the step becomes an interval.
fn like_the_first(arguments: &mut [FunctionArg]) {
    let Some((FunctionArg::Unnamed(FunctionArgExpr::Expr(first)), rest)) =
        arguments.split_first_mut()
    else {
        return;
    };
    let data_type = match (time_of(first), &*first) {
        (Some(_), Expr::TypedString(typed)) => typed.data_type.clone(),
        (Some(_), Expr::Cast { data_type, .. }) => data_type.clone(),
        _ => return,
    };
    let steps = DataType::Interval { fields: None, precision: None };
    for (argument, data_type) in rest.iter_mut().zip([data_type, steps]) {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument
            && let Expr::Value(value @ ValueWithSpan { value: Value::SingleQuotedString(_), .. }) =
                expr
        {
            let expr_of = Box::new(Expr::Value(value.clone()));
            *expr = match data_type {
                DataType::Interval { .. } => Expr::Interval(Interval {
                    value: expr_of,
                    leading_field: None,
                    leading_precision: None,
                    last_field: None,
                    fractional_seconds_precision: None,
                }),
                data_type => Expr::Cast {
                    kind: CastKind::DoubleColon,
                    expr: expr_of,
                    data_type,
                    array: false,
                    format: None,
                },
            };
        }
    }
}

/// The text and the type of a constant time; `None` for other expressions.
fn time_of(expr: &Expr) -> Option<(String, ColumnType)> {
    let (value, data_type) = match expr {
        Expr::TypedString(typed) => (&typed.value.value, &typed.data_type),
        Expr::Cast { expr, data_type, .. } => match expr.as_ref() {
            Expr::Value(ValueWithSpan { value, .. }) => (value, data_type),
            _ => return None,
        },
        _ => return None,
    };
    let column_type = crate::types::column_type(data_type).ok()?;
    match (value, &column_type) {
        (Value::SingleQuotedString(text), ColumnType::Date) => Some((text.clone(), column_type)),
        (
            Value::SingleQuotedString(text),
            ColumnType::Timestamp { .. } | ColumnType::TimestampTz { .. },
        ) => Some((text.clone(), column_type)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
