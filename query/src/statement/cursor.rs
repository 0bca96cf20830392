//! Cursor statements: DECLARE, FETCH, MOVE, CLOSE.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::{
    execution::memory_pool::MemoryConsumer,
    scalar::ScalarValue,
    sql::sqlparser::ast::{
        CloseCursor, Declare, FetchDirection, Ident, Query as Tree, Statement, Value, ValueWithSpan,
    },
};
use futures::{StreamExt as _, TryStreamExt as _};
use stratalog_model::{ColumnType, Error, ErrorKind, Result};
use stratalog_postgres::names;
use stratalog_visor_core::acquisition::Use;

use super::{column_reads::ColumnReads, query, subscribe};
use crate::{
    Outcome, Parsed, Rows, RowsTag, Session, TransactionState,
    session::{
        CursorKind, Reads,
        cursor::{Direction, SqlCursor, count},
        work::{Stop, Work},
    },
};

/// Splits DECLARE into the declaration, the cursor name and the query.
///
/// # Errors
/// `SyntaxError`.
pub fn declared(statements: &[Declare]) -> Result<(&Declare, &Ident, &Tree)> {
    let [declare] = statements else {
        return Err(Error::new(ErrorKind::SyntaxError, "DECLARE needs the name of one cursor"));
    };
    let ([name], Some(tree)) = (declare.names.as_slice(), declare.for_query.as_deref()) else {
        return Err(Error::new(ErrorKind::SyntaxError, "DECLARE needs CURSOR FOR and a query"));
    };
    Ok((declare, name, tree))
}

/// The planned statement whose rows a cursor reads.
#[derive(Debug, Clone, Copy)]
pub enum CursorPlan<'a> {
    /// A query.
    Query(&'a query::Query),
    /// A SUBSCRIBE.
    Subscribe(&'a subscribe::Subscribe),
}

impl<'a> CursorPlan<'a> {
    fn reads(self) -> &'a Arc<ColumnReads> {
        match self {
            CursorPlan::Query(query) => &query.reads,
            CursorPlan::Subscribe(subscribe) => subscribe.reads(),
        }
    }
}

/// Runs DECLARE. The query reads the current snapshot, and starts with the first FETCH.
///
/// # Errors
/// `NoActiveTransaction` outside of a block, without HOLD; `DuplicateCursor`; errors of the query.
pub async fn declare(
    session: &Session,
    parsed: &Parsed,
    planned: CursorPlan<'_>,
    (types, values): (&[ColumnType], &[ScalarValue]),
) -> Result<Outcome> {
    let Statement::Declare { stmts } = parsed.statement() else {
        return Err(Error::internal("not a DECLARE"));
    };
    let (declare, name, _) = declared(stmts)?;
    let holds = declare.hold == Some(true);
    let in_block = session.transaction() != TransactionState::Idle;
    if !holds && !in_block {
        return Err(Error::new(
            ErrorKind::NoActiveTransaction,
            "DECLARE CURSOR can only be used in transaction blocks",
        )
        .with_hint("BEGIN first, or declare the cursor WITH HOLD"));
    }
    let name = names::fold(name);
    session.cursors().check_free(&name)?;
    // The query lives as long as the cursor. Cancellation and the timeout apply to each FETCH.
    let work = Work::within(0, session.memory_pool());
    let columns = planned.reads();
    let uses = match holds && in_block {
        true => Some(session.enter_beyond_block(columns)?),
        false => None,
    };
    let rows = match planned {
        CursorPlan::Query(query) => {
            let (tag, start) = (RowsTag::Fetch, query::QueryStart::WhenRead);
            let run = query::QueryRun { work: &work, tag, start };
            query::run(session, query, types, values, run).await?
        }
        CursorPlan::Subscribe(subscribe) => {
            subscribe::run(session, subscribe, types, values, &work).await?
        }
    };
    let memory = match declare.scroll {
        Some(true) if rows.is_endless() => {
            return Err(Error::new(
                ErrorKind::FeatureNotSupported,
                "a cursor for SUBSCRIBE cannot go back",
            )
            .with_hint("declare another cursor FROM GSN: each row contains its _gsn"));
        }
        Some(true) => {
            let planner = session.enter_planner(&[]).await?;
            let pool = &planner.tasks().runtime_env().memory_pool;
            Some(MemoryConsumer::new("cursor").register(pool))
        }
        Some(false) | None => None,
    };
    let cursor = SqlCursor::new(rows, memory);
    let now_ns = session.parts().clock.now_ns();
    let kind = CursorKind { holds, is_binary: declare.binary == Some(true), in_block };
    let reads = Reads::new(columns, uses);
    session.cursors().declare(&name, (cursor, work, reads), parsed.text(), kind, now_ns)?;
    Ok(Outcome::Done("DECLARE CURSOR".to_string()))
}

/// The schema of the rows of a FETCH; `None` for MOVE, and for an unknown cursor.
///
/// # Errors
/// See [`to`].
pub fn fetched(session: &Session, statement: &Statement) -> Result<Option<SchemaRef>> {
    let Statement::Fetch { name, direction, into, .. } = statement else { return Ok(None) };
    to(direction)?;
    let open = session.cursors().find(&names::fold(name)).ok();
    Ok(open.filter(|_| into.is_none()).map(|open| open.schema))
}

/// Runs FETCH or MOVE.
///
/// # Errors
/// `InvalidCursorName`; `ObjectInUse` while another FETCH of the cursor is running;
/// `ObjectNotInPrerequisiteState` for a step back without SCROLL.
pub async fn fetch(session: &Session, statement: &Statement, work: &Arc<Work>) -> Result<Outcome> {
    let Statement::Fetch { name, direction, into, .. } = statement else {
        return Err(Error::internal("not a FETCH"));
    };
    let name = names::fold(name);
    let open = session.cursors().find(&name)?;
    // The session may have lost rights or an acquisition since the DECLARE.
    session.check_reads(&open.reads.columns)?;
    for chronicle in open.reads.columns.chronicles() {
        session.enter(*chronicle, Use::Read)?;
    }
    let cursor = Arc::clone(&open.cursor).try_lock_owned().map_err(|_| {
        let message = format!("cursor \"{name}\" is being read by another statement");
        Error::new(ErrorKind::ObjectInUse, message)
    })?;
    let wait = session.subscribe_wait();
    let rows = SqlCursor::fetch(cursor, to(direction)?, wait).await?;
    // Cancellation of a FETCH also stops the query of the cursor.
    let reading = Arc::clone(&open.work);
    let rows =
        work.guard_stream(session.watch(rows, None)).inspect_err(move |_| reading.stop(Stop::User));
    let rows = rows.boxed();
    if into.is_some() {
        return Ok(Outcome::Done(format!("MOVE {}", count(rows).await?)));
    }
    let rows = Rows::new(open.schema, rows, RowsTag::Fetch).in_binary(open.is_binary);
    Ok(Outcome::Rows(rows.checked_by(session.rights_check(&open.reads.columns))))
}

/// For a forward MOVE, the cursor name and the number of rows (`None` for a MOVE to the end);
/// otherwise `None`.
pub fn moves_forward(statement: &Statement) -> Option<(String, Option<u64>)> {
    let Statement::Fetch { name, direction, into: Some(_), .. } = statement else { return None };
    match to(direction).ok()? {
        Direction::Forward(rows) => Some((names::fold(name), rows)),
        _ => None,
    }
}

/// Runs CLOSE.
///
/// # Errors
/// `InvalidCursorName`.
pub fn close(session: &Session, cursor: &CloseCursor) -> Result<Outcome> {
    let tag = match cursor {
        CloseCursor::All => {
            session.cursors().close_all();
            "CLOSE CURSOR ALL"
        }
        CloseCursor::Specific { name } => {
            let name = names::fold(name);
            session.cursors().find(&name)?;
            session.cursors().close(&name);
            "CLOSE CURSOR"
        }
    };
    Ok(Outcome::Done(tag.to_string()))
}

fn to(direction: &FetchDirection) -> Result<Direction> {
    Ok(match direction {
        FetchDirection::Next => Direction::Forward(Some(1)),
        FetchDirection::Prior => Direction::Backward(Some(1)),
        FetchDirection::First => Direction::Absolute(1),
        FetchDirection::Last => Direction::Absolute(-1),
        FetchDirection::Absolute { limit } => Direction::Absolute(number(limit)?),
        FetchDirection::Relative { limit } => Direction::Relative(number(limit)?),
        FetchDirection::All | FetchDirection::ForwardAll => Direction::Forward(None),
        FetchDirection::BackwardAll => Direction::Backward(None),
        FetchDirection::Count { limit } => steps(number(limit)?),
        FetchDirection::Forward { limit } => match limit {
            Some(limit) => steps(number(limit)?),
            None => Direction::Forward(Some(1)),
        },
        FetchDirection::Backward { limit } => match limit {
            Some(limit) => steps(-number(limit)?),
            None => Direction::Backward(Some(1)),
        },
    })
}

/// The direction for a signed number of rows: a negative number moves backward.
fn steps(count: i64) -> Direction {
    match count {
        0.. => Direction::Forward(Some(count.unsigned_abs())),
        _ => Direction::Backward(Some(count.unsigned_abs())),
    }
}

/// Parses a number of rows, a 32-bit integer as in PostgreSQL.
fn number(limit: &ValueWithSpan) -> Result<i64> {
    let Value::Number(text, _) = &limit.value else {
        return Err(Error::internal("the number of a FETCH is none"));
    };
    let number: Option<i32> = text.parse().ok();
    number.map(i64::from).ok_or_else(|| {
        Error::new(ErrorKind::SyntaxError, format!("syntax error at or near \"{text}\""))
            .with_hint("FETCH ALL gets all rows")
    })
}
