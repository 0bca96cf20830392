//! DELETE: exact tick ranges at the beginning or the end of a chronicle, nothing else (F22).

use std::sync::Arc;

use datafusion::{
    logical_expr::{LogicalPlan, utils::split_conjunction},
    scalar::ScalarValue,
    sql::sqlparser::ast::{Delete as Tree, FromTable, Statement, TableFactor},
};
use stratalog_model::{
    ChronicleDefinition, ColumnType, Error, ErrorKind, Result, TickRange, TickRanges,
};
use stratalog_visor_core::acquisition::Use;

use super::{parameters, parse, query};
use crate::{
    Outcome, Session,
    errors::from_datafusion,
    session::{acquired::Entered, work::Work},
    table::pushdown,
};

/// Runs DELETE.
///
/// # Errors
/// `FeatureNotSupported` with an explanation for anything but such a range.
pub async fn run(
    session: &Session,
    tree: &Tree,
    types: &[ColumnType],
    values: &[ScalarValue],
    work: &Work,
) -> Result<Outcome> {
    if tree.returning.is_some() {
        return Err(Error::not_yet("DELETE … RETURNING"));
    }
    if tree.using.is_some()
        || !tree.order_by.is_empty()
        || tree.limit.is_some()
        || tree.output.is_some()
        || !tree.tables.is_empty()
    {
        return Err(refused("it names more than one table, or an order or limit"));
    }
    let from = match &tree.from {
        FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from) => from,
    };
    let [table] = from.as_slice() else {
        return Err(refused("it names more than one table"));
    };
    let (TableFactor::Table { name, .. }, []) = (&table.relation, table.joins.as_slice()) else {
        return Err(refused("it does not name a table"));
    };
    super::insert::refuse_number(session, "DELETE")?;
    session.transaction.check_outside("DELETE")?;
    super::transaction::check_write(session)?;
    let chronicle = session.chronicle(name)?;
    let range = match &tree.selection {
        None => TickRange::ALL,
        Some(selection) => {
            let sql = format!("SELECT 1 FROM {} WHERE {selection}", table.relation);
            match admitted(session, &chronicle, &sql, types, values).await? {
                Some(range) => range,
                None => return Ok(Outcome::Done("DELETE 0".to_string())),
            }
        }
    };
    let Entered { ticks, using } = session.enter(chronicle.id, Use::Write)?;
    // Of a chronicle that is acquired in part, the session sees no more, and deletes no more.
    let range = range.intersect(&ticks);
    if range.is_empty() {
        return Ok(Outcome::Done("DELETE 0".to_string()));
    }
    work.commit()?;
    let store = Arc::clone(session.store());
    let deleted = Box::pin(async move { store.delete(&chronicle, range).await });
    let deleted = session.committing(using.into_iter().collect(), deleted)?.await?;
    Ok(Outcome::Done(format!("DELETE {deleted}")))
}

/// The types of the parameters of a DELETE.
///
/// # Errors
/// What is wrong with its WHERE clause.
pub async fn parameter_types(
    session: &Session,
    tree: &Tree,
    told: &[Option<ColumnType>],
) -> Result<Vec<Option<ColumnType>>> {
    if parameters::count(tree)? == 0 && told.is_empty() {
        return Ok(Vec::new());
    }
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &tree.from;
    let (Some(table), Some(selection)) = (from.first(), &tree.selection) else {
        return Ok(Vec::new());
    };
    let sql = format!("SELECT 1 FROM {} WHERE {selection}", table.relation);
    let parsed = parse::statements(&sql, usize::MAX)?.into_iter().next();
    let Some(parse::Tree { statement: Statement::Query(query), system_columns, .. }) = parsed
    else {
        return Err(Error::internal("DELETE without a filter"));
    };
    let planner = session.enter_planner(&system_columns).await?;
    let (_, types) = query::plan(&planner, &query, told, &system_columns).await?;
    Ok(types)
}

/// The one range of ticks that the WHERE clause of `sql` admits; `None` for no tick.
async fn admitted(
    session: &Session,
    chronicle: &ChronicleDefinition,
    sql: &str,
    types: &[ColumnType],
    values: &[ScalarValue],
) -> Result<Option<TickRange>> {
    let mut parsed = parse::statements(sql, usize::MAX)?
        .into_iter()
        .next()
        .ok_or_else(|| Error::internal("DELETE without a filter"))?;
    let planner = session.enter_planner(&parsed.system_columns).await?;
    super::dialect::normalize(&mut parsed.statement, planner.style())?;
    let mut told: Vec<Option<ColumnType>> = types.iter().cloned().map(Some).collect();
    parameters::cast_told(&mut parsed.statement, &mut told);
    stratalog_pg_catalog::rewrite(&mut parsed.statement);
    let mut plan = planner.logical(&parsed.statement).await?;
    if !types.is_empty() {
        plan =
            plan.with_param_values(parameters::for_plan(types, values)).map_err(from_datafusion)?;
    }
    let plan = planner.optimize(&plan)?;
    drop(planner);
    if let LogicalPlan::EmptyRelation(_) = &plan {
        return Ok(None);
    }
    if query::chronicles(&plan)? != [chronicle.id] {
        return Err(refused("its WHERE clause reads a table"));
    }
    let mut ticks = TickRanges::all();
    let mut node = &plan;
    loop {
        match node {
            LogicalPlan::Projection(projection) => node = &projection.input,
            LogicalPlan::SubqueryAlias(alias) => node = &alias.input,
            LogicalPlan::Filter(filter) => {
                for conjunct in split_conjunction(&filter.predicate) {
                    ticks = ticks.intersect(&exact(chronicle, conjunct)?);
                }
                node = &filter.input;
            }
            LogicalPlan::TableScan(scan) => {
                for conjunct in &scan.filters {
                    ticks = ticks.intersect(&exact(chronicle, conjunct)?);
                }
                break;
            }
            LogicalPlan::EmptyRelation(_) => return Ok(None),
            _ => return Err(refused("its WHERE clause is not a range of time")),
        }
    }
    match ticks.as_slice() {
        [] => Ok(None),
        [range] => Ok(Some(*range)),
        _ => Err(refused("its WHERE clause leaves a gap")),
    }
}

fn exact(
    chronicle: &ChronicleDefinition,
    conjunct: &datafusion::logical_expr::Expr,
) -> Result<TickRanges> {
    pushdown::ticks(chronicle, conjunct).ok_or_else(|| {
        let tick = chronicle.tick().map_or("time", |column| column.name.as_str());
        let mut names: Vec<_> =
            conjunct.column_refs().iter().map(|column| format!("\"{}\"", column.name)).collect();
        names.sort();
        let what = match names.is_empty() {
            true => "a condition".to_string(),
            false => format!("the condition on {}", names.join(", ")),
        };
        refused(&format!(
            "{what} is not a comparison of the tick column \"{tick}\" with a constant"
        ))
    })
}

fn refused(why: &str) -> Error {
    Error::new(ErrorKind::FeatureNotSupported, "this DELETE is not supported")
        .with_detail(why.to_string())
        .with_hint("events are deleted by ranges of time at the beginning or the end of a table: DELETE FROM t WHERE time < '2024-01-01'")
}
