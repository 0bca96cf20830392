//! DELETE and TRIM. DELETE removes an exact range of ticks at the beginning or the end of a
//! chronicle (F22). Both statements also remove all events before a position in the order of
//! commits (F103). Other ranges are refused.

mod in_block;
pub mod truncate;

use std::sync::Arc;

use datafusion::{
    logical_expr::{
        BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, utils::split_conjunction,
    },
    scalar::ScalarValue,
    sql::sqlparser::ast::{Delete as Tree, FromTable, Statement, TableFactor},
};
use stratalog_functions::function::sql_name;
use stratalog_model::{
    ChronicleDefinition, ColumnType, Error, ErrorKind, Gsn, Result, TickRange, TickRanges,
    store::DeletedArea,
};
use stratalog_postgres::{dialect, errors::from_datafusion, names::schemas, parameters, parse};
use stratalog_visor_core::{access::Privilege, acquisition::Use};

use super::{column_reads::ColumnReads, query, subscribe};
use crate::{
    Outcome, Parsed, Session, TransactionState,
    session::{acquisitions::EnteredChronicle, planner::Planner, work::Work},
    table::{projection, pushdown},
};

/// The events to remove.
#[derive(Debug, Clone, Copy)]
enum RemovedEvents {
    Nothing,
    Ticks(TickRange),
    /// Events with a gsn below the given gsn.
    Before(Gsn),
}

impl RemovedEvents {
    /// Restricts the events to remove to the ticks that the session has acquired. The session sees
    /// and deletes no events outside of these ticks.
    ///
    /// # Errors
    /// `OutsideProjection` for a removal by gsn, since these events may have any tick.
    fn limited_to(self, chronicle: &ChronicleDefinition, ticks: TickRange) -> Result<Self> {
        match self {
            RemovedEvents::Ticks(range) => match range.intersect(&ticks) {
                none if none.is_empty() => Ok(RemovedEvents::Nothing),
                some => Ok(RemovedEvents::Ticks(some)),
            },
            RemovedEvents::Before(_) if ticks != TickRange::ALL => {
                Err(projection::no_positions(chronicle, ticks))
            }
            other => Ok(other),
        }
    }
}

/// Runs DELETE or TRIM.
///
/// # Errors
/// `FeatureNotSupported`, with an explanation, for a range that cannot be deleted. For TRIM also
/// `NullNotAllowed`, and `DatatypeMismatch` for a position that is not a whole number.
pub async fn run(
    session: &Session,
    parsed: &Parsed,
    types: &[ColumnType],
    values: &[ScalarValue],
    work: &Arc<Work>,
) -> Result<Outcome> {
    let Statement::Delete(tree) = parsed.statement() else {
        return Err(Error::internal("neither a DELETE nor a TRIM"));
    };
    if tree.returning.is_some() {
        return Err(Error::not_yet("DELETE … RETURNING"));
    }
    if tree.using.is_some()
        || !tree.order_by.is_empty()
        || tree.limit.is_some()
        || tree.output.is_some()
        || !tree.tables.is_empty()
    {
        return Err(unsupported_range("the statement names several tables, an order or a limit"));
    }
    let from = match &tree.from {
        FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from) => from,
    };
    let [table] = from.as_slice() else {
        return Err(unsupported_range("the statement names several tables"));
    };
    let (TableFactor::Table { name, .. }, []) = (&table.relation, table.joins.as_slice()) else {
        return Err(unsupported_range("the statement does not name a table"));
    };
    let word =
        if matches!(parsed.own(), Some(parse::OwnStatement::Trim)) { "TRIM" } else { "DELETE" };
    super::insert::refuse_number(session, word)?;
    if word == "TRIM" {
        session.transaction.check_outside(word)?;
    }
    super::transaction::check_write(session)?;
    let chronicle = session.chronicle(name)?;
    let privilege = if word == "TRIM" { Privilege::Trim } else { Privilege::Delete };
    session.authorize_on(privilege, chronicle.id)?;
    session.refuse_under_policies(&chronicle, word)?;
    let in_block = session.transaction() != TransactionState::Idle;
    let removed = match &tree.selection {
        None => RemovedEvents::Ticks(TickRange::ALL),
        Some(selection) => {
            let sql = format!("SELECT 1 FROM {} WHERE {selection}", table.relation);
            let trims = word == "TRIM";
            admitted(session, &chronicle, (&sql, trims), types, values).await?
        }
    };
    let EnteredChronicle { ticks, using, .. } = session.enter(chronicle.id, Use::Write)?;
    let store = Arc::clone(session.store());
    if in_block {
        let range = match removed.limited_to(&chronicle, ticks)? {
            RemovedEvents::Nothing => TickRange::EMPTY,
            RemovedEvents::Ticks(range) => range,
            RemovedEvents::Before(_) => {
                session.transaction.check_outside("DELETE by _gsn")?;
                TickRange::EMPTY
            }
        };
        let deleted = work.guard(in_block::delete(session, &chronicle, range)).await?;
        return Ok(Outcome::Done(format!("{word} {deleted}")));
    }
    let area = match removed.limited_to(&chronicle, ticks)? {
        RemovedEvents::Nothing => return Ok(Outcome::Done(format!("{word} 0"))),
        RemovedEvents::Ticks(range) => DeletedArea::Ticks(range),
        RemovedEvents::Before(gsn) => DeletedArea::Before(gsn),
    };
    let prepared = work.guard(store.prepare_delete(&chronicle, area)).await?;
    work.commit()?;
    let deleting = prepared.carry_out();
    let deleted = session.commit_task(using.into_iter().collect(), deleting)?.await?;
    Ok(Outcome::Done(format!("{word} {deleted}")))
}

/// The types of the parameters of a DELETE.
///
/// # Errors
/// An error in the WHERE clause.
pub async fn parameter_types(
    session: &Session,
    tree: &Tree,
    declared_types: &[Option<ColumnType>],
) -> Result<Vec<Option<ColumnType>>> {
    if parameters::count(tree)? == 0 && declared_types.is_empty() {
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
    let (_, types) = query::plan(&planner, &query, declared_types, &system_columns).await?;
    Ok(types)
}

/// The events that match the WHERE clause of `sql`. `trims` is true if the clause comes from a
/// TRIM.
async fn admitted(
    session: &Session,
    chronicle: &ChronicleDefinition,
    (sql, trims): (&str, bool),
    types: &[ColumnType],
    values: &[ScalarValue],
) -> Result<RemovedEvents> {
    let mut parsed = parse::statements(sql, usize::MAX)?
        .into_iter()
        .next()
        .ok_or_else(|| Error::internal("DELETE without a filter"))?;
    let planner = session.enter_planner(&parsed.system_columns).await?;
    schemas::resolve(&mut parsed.statement, &*planner)?;
    dialect::normalize(&mut parsed.statement, planner.style())?;
    let mut declared_types: Vec<Option<ColumnType>> = types.iter().cloned().map(Some).collect();
    parameters::cast_to_declared(&mut parsed.statement, &mut declared_types);
    stratalog_pg_catalog::rewrite(&mut parsed.statement);
    let mut plan = planner.logical(&parsed.statement).await?;
    if !trims {
        session.check_reads(&ColumnReads::of(&plan)?)?;
    }
    if !types.is_empty() {
        plan =
            plan.with_param_values(parameters::for_plan(types, values)).map_err(from_datafusion)?;
    }
    if trims {
        check_position(&planner, &planner.analyze(&plan)?)?;
    }
    let plan = planner.optimize(&plan)?;
    if let LogicalPlan::EmptyRelation(_) = &plan {
        return Ok(RemovedEvents::Nothing);
    }
    if query::chronicles(&plan)? != [chronicle.id] {
        return Err(unsupported_range("the WHERE clause reads a table"));
    }
    let mut conjuncts: Vec<&Expr> = Vec::new();
    let mut node = &plan;
    loop {
        match node {
            LogicalPlan::Projection(projection) => node = &projection.input,
            LogicalPlan::SubqueryAlias(alias) => node = &alias.input,
            LogicalPlan::Filter(filter) => {
                conjuncts.extend(split_conjunction(&filter.predicate));
                node = &filter.input;
            }
            LogicalPlan::TableScan(scan) => {
                conjuncts.extend(&scan.filters);
                break;
            }
            LogicalPlan::EmptyRelation(_) => return Ok(RemovedEvents::Nothing),
            _ => return Err(unsupported_range("the WHERE clause is not a range of time")),
        }
    }
    let mut ticks = TickRanges::all();
    let mut before: Option<Gsn> = None;
    for conjunct in &conjuncts {
        match beginning(&planner, conjunct)? {
            Some(gsn) => before = Some(before.map_or(gsn, |known| known.min(gsn))),
            None => ticks = ticks.intersect(&exact(chronicle, conjunct)?),
        }
    }
    match (before, ticks.as_slice()) {
        (_, []) => Ok(RemovedEvents::Nothing),
        (Some(gsn), _) if ticks.is_all() => Ok(RemovedEvents::Before(gsn)),
        (Some(_), _) => Err(unsupported_range("the WHERE clause combines time and _gsn")),
        (None, [range]) => Ok(RemovedEvents::Ticks(*range)),
        (None, _) => Err(unsupported_range("the WHERE clause has a gap")),
    }
}

/// Checks that the position of a TRIM is a whole number. Without the check, NULL would remove
/// nothing, and a fraction would remove all events below the next whole number.
fn check_position(planner: &Planner, plan: &LogicalPlan) -> Result<()> {
    let mut node = plan;
    let filter = loop {
        match node {
            LogicalPlan::Projection(projection) => node = &projection.input,
            LogicalPlan::SubqueryAlias(alias) => node = &alias.input,
            LogicalPlan::Filter(filter) => break filter,
            _ => return Ok(()),
        }
    };
    let Expr::BinaryExpr(BinaryExpr { right: position, .. }) = &filter.predicate else {
        return Ok(());
    };
    if planner.value_of(position)?.is_some_and(|position| position.is_null()) {
        let message = "TRIM … BEFORE GSN needs a number, not NULL";
        return Err(Error::new(ErrorKind::NullNotAllowed, message));
    }
    let given = position.get_type(filter.input.schema()).map_err(from_datafusion)?;
    match given.is_integer() {
        true => Ok(()),
        false => Err(subscribe::no_position("TRIM … BEFORE GSN", &sql_name(&given))),
    }
}

/// The gsn below which a conjunct is true; `None` for any other conjunct.
fn beginning(planner: &Planner, conjunct: &Expr) -> Result<Option<Gsn>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = conjunct else { return Ok(None) };
    let is_gsn = |expr: &Expr| matches!(expr, Expr::Column(column) if column.name == "_gsn");
    let (op, value) = match (is_gsn(left), is_gsn(right)) {
        (true, false) => (Some(*op), right),
        (false, true) => (op.swap(), left),
        _ => return Ok(None),
    };
    let step = match op {
        Some(Operator::Lt) => 0,
        Some(Operator::LtEq) => 1,
        _ => return Ok(None),
    };
    Ok(match planner.value_of(value)? {
        Some(ScalarValue::Int64(Some(gsn))) => {
            Some(Gsn(u64::try_from(gsn.saturating_add(step)).unwrap_or(0)))
        }
        Some(ScalarValue::Int64(None)) => Some(Gsn(0)),
        _ => None,
    })
}

fn exact(chronicle: &ChronicleDefinition, conjunct: &Expr) -> Result<TickRanges> {
    pushdown::ticks(chronicle, conjunct).ok_or_else(|| {
        let tick = chronicle.tick().map_or("time", |column| column.name.as_str());
        let mut names: Vec<_> =
            conjunct.column_refs().iter().map(|column| format!("\"{}\"", column.name)).collect();
        names.sort();
        let what = match names.is_empty() {
            true => "a condition".to_string(),
            false => format!("the condition on {}", names.join(", ")),
        };
        unsupported_range(&format!(
            "{what} is not a comparison of the tick column \"{tick}\" with a constant"
        ))
    })
}

fn unsupported_range(why: &str) -> Error {
    Error::new(ErrorKind::FeatureNotSupported, "this DELETE is not supported")
        .with_detail(why.to_string())
        .with_hint("delete a range of time at the beginning or the end of a table: DELETE FROM t WHERE time < '2024-01-01'; or by position: TRIM t BEFORE GSN 100")
}
