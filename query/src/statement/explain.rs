//! EXPLAIN and EXPLAIN ANALYZE. The result has one text column; each row is a line of the plan.

use std::{sync::Arc, time::Instant};

use arrow::array::{RecordBatch, StringArray};
use datafusion::{
    logical_expr::LogicalPlan,
    physical_plan::display::DisplayableExecutionPlan,
    scalar::ScalarValue,
    sql::sqlparser::ast::{Statement, UtilityOption},
};
use futures::{StreamExt, stream};
use stratalog_model::{ColumnType, Error, ErrorKind, Result};
use stratalog_postgres::{
    errors::{from_arrow, from_datafusion},
    parameters,
    parse::body_insert,
};

use super::query;
use crate::{
    Outcome, Parsed, Prepared, Rows, RowsTag, Session,
    service::StoppablePlan,
    session::{text_schema, work::Work},
};

/// A planned EXPLAIN.
#[derive(Debug)]
pub struct Explain {
    query: query::Query,
    analyze: bool,
    verbose: bool,
}

impl Explain {
    /// The parameters whose types are guesses, counted from 0. See [`parameters::Types::guesses`].
    pub fn guesses(&self) -> &[usize] {
        &self.query.guesses
    }

    /// The logical plan of the explained query.
    pub fn plan(&self) -> &LogicalPlan {
        &self.query.plan
    }
}

/// Plans EXPLAIN of a query.
///
/// # Errors
/// `FeatureNotSupported` for unsupported options and statements.
pub async fn plan(
    session: &Session,
    parsed: &Arc<Parsed>,
    declared_types: &[Option<ColumnType>],
) -> Result<(Explain, Vec<Option<ColumnType>>)> {
    let (statement, analyze, verbose) = explained(parsed.statement())?;
    let Statement::Query(tree) = statement else {
        return Err(Error::not_yet("EXPLAIN of anything but a query"));
    };
    let planner = session.enter_planner(parsed.system_columns()).await?;
    let (query, types) =
        query::plan(&planner, tree, declared_types, parsed.system_columns()).await?;
    Ok((Explain { query, analyze, verbose }, types))
}

/// True for EXPLAIN EXECUTE, whose query is planned only at execution.
pub fn is_of_prepared(statement: &Statement) -> bool {
    matches!(statement, Statement::Explain { statement, .. }
        if matches!(**statement, Statement::Execute { .. }))
}

/// The explained statement, and whether ANALYZE and VERBOSE are set.
///
/// # Errors
/// `FeatureNotSupported` and `SyntaxError` for the other options.
pub fn explained(statement: &Statement) -> Result<(&Statement, bool, bool)> {
    let Statement::Explain { analyze, verbose, statement, format, options, .. } = statement else {
        return Err(Error::internal("not an EXPLAIN"));
    };
    if format.is_some() {
        return Err(Error::not_yet("EXPLAIN with FORMAT"));
    }
    let (mut analyze, mut verbose) = (*analyze, *verbose);
    for option in options.iter().flatten() {
        apply(option, &mut analyze, &mut verbose)?;
    }
    Ok((statement, analyze, verbose))
}

/// Runs the EXPLAIN EXECUTE `statement`, for a prepared query and the values of its parameters.
///
/// # Errors
/// `FeatureNotSupported` for other statements than queries; the errors of the query.
pub async fn run_prepared(
    session: &Session,
    statement: &Statement,
    (kept, values): (Arc<Prepared>, Vec<ScalarValue>),
    work: &Arc<Work>,
) -> Result<Outcome> {
    let (_, analyze, verbose) = explained(statement)?;
    let whole = session.whole(kept.parsed())?;
    let Statement::Query(tree) = whole.statement() else {
        return Err(Error::not_yet("EXPLAIN of anything but a query"));
    };
    if body_insert(tree).is_some() {
        return Err(Error::not_yet("EXPLAIN of anything but a query"));
    }
    let declared_types: Vec<Option<ColumnType>> =
        kept.parameter_types().iter().cloned().map(Some).collect();
    let (query, types) = {
        let planner = session.enter_planner(whole.system_columns()).await?;
        query::plan(&planner, tree, &declared_types, whole.system_columns()).await?
    };
    let types = parameters::or_text(types);
    let values = parameters::bind(&types, values, true)?;
    run(session, &Explain { query, analyze, verbose }, &types, &values, work).await
}

fn apply(option: &UtilityOption, analyze: &mut bool, verbose: &mut bool) -> Result<()> {
    let value = option.arg.as_ref().map(|value| value.to_string().to_ascii_lowercase());
    let on = match value.as_deref().map(|value| value.trim_matches('\'')) {
        None | Some("true" | "on" | "1") => true,
        Some("false" | "off" | "0") => false,
        Some("text") if option.name.value.eq_ignore_ascii_case("format") => return Ok(()),
        Some(other) => {
            return Err(Error::new(
                ErrorKind::FeatureNotSupported,
                format!("EXPLAIN option {} {other} is not supported", option.name),
            ));
        }
    };
    match option.name.value.to_ascii_lowercase().as_str() {
        "analyze" => *analyze = on,
        "verbose" => *verbose = on,
        // These options have no effect: the details are always shown, or never measured.
        "costs" | "timing" | "summary" | "buffers" | "settings" | "wal" => {}
        other => {
            return Err(Error::new(
                ErrorKind::SyntaxError,
                format!("unrecognized EXPLAIN option \"{other}\""),
            ));
        }
    }
    Ok(())
}

/// Runs EXPLAIN: plans the query; ANALYZE also reads all rows of the query.
///
/// # Errors
/// The errors of the query.
pub async fn run(
    session: &Session,
    explain: &Explain,
    types: &[ColumnType],
    values: &[ScalarValue],
    work: &Arc<Work>,
) -> Result<Outcome> {
    explain.query.check(values)?;
    let started = Instant::now();
    let pinned = explain.query.pin(session).await?;
    let plan = if types.is_empty() {
        explain.query.plan.clone()
    } else {
        explain
            .query
            .plan
            .clone()
            .with_param_values(parameters::for_plan(types, values))
            .map_err(from_datafusion)?
    };
    let mut lines = Vec::new();
    let (physical, tasks) = {
        let planner = session.enter_planner(&[]).await?;
        if explain.verbose {
            let optimized = planner.optimize(&plan)?;
            lines.push("Logical plan:".to_string());
            lines.extend(
                optimized.display_indent().to_string().lines().map(|line| format!("  {line}")),
            );
            lines.push("Physical plan:".to_string());
        }
        (planner.physical(&plan, Arc::clone(&pinned.snapshot)).await?, planner.tasks())
    };
    let planned = started.elapsed();
    let indent = if explain.verbose { "  " } else { "" };
    if explain.analyze {
        let started = Instant::now();
        let stoppable = StoppablePlan::new(physical, work)?;
        let physical = Arc::clone(&stoppable.plan);
        let stream = session.execution().run(stoppable, tasks)?;
        let mut stream = work.guard_stream(session.watch(stream, Some(&pinned)));
        let mut rows = 0usize;
        while let Some(batch) = stream.next().await {
            rows = rows.saturating_add(batch?.num_rows());
        }
        let ran = started.elapsed();
        let shown = DisplayableExecutionPlan::with_metrics(physical.as_ref())
            .indent(explain.verbose)
            .to_string();
        lines.extend(shown.lines().map(|line| format!("{indent}{line}")));
        lines.push(format!("Rows: {rows}"));
        lines.push(format!("Planning Time: {:.3} ms", planned.as_secs_f64() * 1e3));
        lines.push(format!("Execution Time: {:.3} ms", ran.as_secs_f64() * 1e3));
    } else {
        let shown =
            DisplayableExecutionPlan::new(physical.as_ref()).indent(explain.verbose).to_string();
        lines.extend(shown.lines().map(|line| format!("{indent}{line}")));
    }
    Ok(Outcome::Rows(text_rows("QUERY PLAN", lines, RowsTag::Word("EXPLAIN"))?))
}

/// A result with one text column, one row for each line.
pub fn text_rows(name: &str, lines: Vec<String>, tag: RowsTag) -> Result<Rows> {
    let schema = text_schema(name);
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(StringArray::from(lines))])
        .map_err(from_arrow)?;
    Ok(Rows::new(schema, stream::iter([Ok(batch)]).boxed(), tag))
}
