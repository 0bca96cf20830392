//! DELETE: exact tick ranges at the beginning or the end of a chronicle, nothing else (F22).

use datafusion::{
    logical_expr::{LogicalPlan, utils::split_conjunction},
    sql::sqlparser::ast::{Delete as Tree, FromTable, TableFactor},
};
use stratalog_model::{ChronicleDefinition, Error, ErrorKind, Result, TickRange, TickRanges};

use super::{parse, query};
use crate::{Outcome, Session, table::pushdown};

/// Runs DELETE.
///
/// # Errors
/// `FeatureNotSupported` with an explanation for anything but such a range.
pub async fn run(session: &Session, tree: &Tree) -> Result<Outcome> {
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
    session.transaction.check_outside("DELETE")?;
    session
        .transaction
        .check_write(super::transaction::is_on(session, "default_transaction_read_only"))?;
    let chronicle = session.chronicle(name)?;
    let range = match &tree.selection {
        None => TickRange::ALL,
        Some(selection) => {
            let sql = format!("SELECT 1 FROM {} WHERE {selection}", table.relation);
            match admitted(session, &chronicle, &sql).await? {
                Some(range) => range,
                None => return Ok(Outcome::Done("DELETE 0".to_string())),
            }
        }
    };
    let deleted = session.store().delete(&chronicle, range).await?;
    Ok(Outcome::Done(format!("DELETE {deleted}")))
}

/// The one range of ticks that the WHERE clause of `sql` admits; `None` for no tick.
async fn admitted(
    session: &Session,
    chronicle: &ChronicleDefinition,
    sql: &str,
) -> Result<Option<TickRange>> {
    let mut parsed = parse::statements(sql, usize::MAX)?
        .into_iter()
        .next()
        .ok_or_else(|| Error::internal("DELETE without a filter"))?;
    let planner = session.enter_planner(&parsed.system_columns).await;
    super::dialect::normalize(&mut parsed.statement, planner.style())?;
    stratalog_pg_catalog::rewrite(&mut parsed.statement);
    let plan = planner.optimize(&planner.logical(&parsed.statement).await?)?;
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
        refused(&format!(
            "\"{conjunct}\" is not a comparison of the tick column \"{tick}\" with a constant"
        ))
    })
}

fn refused(why: &str) -> Error {
    Error::new(ErrorKind::FeatureNotSupported, "this DELETE is not supported")
        .with_detail(why.to_string())
        .with_hint("events are deleted by ranges of time at the beginning or the end of a table: DELETE FROM t WHERE time < '2024-01-01'")
}
