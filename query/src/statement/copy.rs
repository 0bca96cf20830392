//! Execution of COPY … FROM STDIN and COPY … TO STDOUT.

use std::{collections::HashSet, sync::Arc};

use arrow::array::{Array as _, RecordBatch};
use datafusion::sql::sqlparser::ast::{CopySource, CopyTarget, Query, Statement};
use stratalog_model::{ChronicleDefinition, Error, ErrorKind, Result, store::OnConflict};
use stratalog_postgres::{
    names::{self, quoted},
    parse,
};
use stratalog_text::copy::{ColumnSelection, CopyDirection, CopyOptions, SkippedRows};

use super::{
    insert::{
        Writer,
        columns::{self, Targets},
        compute::ComputeContext,
    },
    query, subscribe,
};
use crate::{
    CopyIn, CopyOut, CopyProgress, Notice, Outcome, Parsed, RowsTag, Session,
    session::work::{Stop, Work},
};

/// Receives the rows of a COPY … FROM STDIN. A drop before `finish` stores nothing.
#[derive(Debug)]
pub struct CopySink {
    session: Arc<Session>,
    targets: Targets,
    writer: Writer,
    work: Arc<Work>,
    /// True if the data may omit the last column of the table. An omitted column is NULL in all
    /// rows.
    last_is_optional: bool,
    progress: Arc<CopyProgress>,
}

impl CopySink {
    /// Adds rows with the columns of [`CopyIn::columns`](crate::CopyIn::columns), in order. Waits
    /// if the store cannot accept more rows yet.
    ///
    /// # Errors
    /// An error in a row, or an error of the store. Then nothing is stored, and the caller can only
    /// drop the sink. In a block, the block fails.
    pub async fn push(&mut self, rows: RecordBatch) -> Result<()> {
        let work = Arc::clone(&self.work);
        let pushed = work
            .guard(async {
                let count = rows.num_rows();
                let mut given = rows.columns().to_vec();
                self.writer.restores = self.targets.have_time();
                if self.last_is_optional
                    && given.last().is_some_and(|last| last.null_count() == count)
                {
                    given.pop();
                    self.writer.restores = false;
                }
                let computing = ComputeContext::new(&self.session, &self.work, &[], &[]);
                let batch = self.targets.fill(&computing, given, count).await?;
                self.writer.push(batch).await?;
                self.progress.add_rows(count);
                Ok(())
            })
            .await;
        if pushed.is_err() {
            self.session.fail_transaction();
        }
        pushed
    }

    /// Commits all rows at once, or, in a block, leaves the rows to the block. Reports the skipped
    /// rows in notices. Returns the number of stored rows.
    ///
    /// # Errors
    /// An error of the commit; then nothing is stored.
    pub async fn finish(self, skipped: &SkippedRows) -> Result<u64> {
        let Self { session, writer, work, .. } = self;
        let finished = work.guard(writer.finish(&session, &work)).await;
        if finished.is_err() {
            session.fail_transaction();
        }
        let stored = finished?.rows;
        for message in skipped.messages.iter().cloned().chain(skipped.summary()) {
            session.say(Notice::new(message));
        }
        Ok(stored)
    }

    /// Waits until the statement must stop: after a cancellation, a timeout, or a shutdown. A
    /// protocol that waits for data from the client also waits for this future.
    pub async fn stopped(&self) -> Error {
        self.work.stopped().await
    }

    /// Ends the COPY without storing rows. An open block fails, as in PostgreSQL after CopyFail.
    pub fn abort(self) {
        self.work.stop(Stop::User);
        self.session.fail_transaction();
    }
}

/// Starts a COPY; the protocol then transfers the data.
///
/// # Errors
/// `InsufficientPrivilege` for files and programs; an error in the statement.
pub async fn run(session: &Session, parsed: &Parsed, work: &Arc<Work>) -> Result<Outcome> {
    let Statement::Copy { source, to, target, .. } = parsed.statement() else {
        return Err(Error::internal("not a COPY"));
    };
    match target {
        CopyTarget::File { .. } | CopyTarget::Program { .. } => {
            let what =
                if matches!(target, CopyTarget::File { .. }) { "a file" } else { "a program" };
            let how = if *to { "COPY to" } else { "COPY from" };
            return Err(Error::new(
                ErrorKind::InsufficientPrivilege,
                format!("{how} {what} of the server is not supported"),
            )
            .with_hint("Anyone can COPY to stdout or from stdin. psql's \\copy command also works for anyone."));
        }
        CopyTarget::Stdin if *to => {
            return Err(Error::new(ErrorKind::SyntaxError, "COPY TO needs STDOUT"));
        }
        CopyTarget::Stdout if !*to => {
            return Err(Error::new(ErrorKind::SyntaxError, "COPY FROM needs STDIN"));
        }
        CopyTarget::Stdin | CopyTarget::Stdout => {}
    }
    let direction = if *to { CopyDirection::Out } else { CopyDirection::In };
    let options = parsed.copy_options().iter().map(|(name, value)| (name.as_str(), value));
    let options = CopyOptions::from_pairs(direction, options)?;
    if *to {
        copy_out(session, parsed, source, options, work).await
    } else {
        copy_in(session, source, options, work).await
    }
}

async fn copy_in(
    session: &Session,
    source: &CopySource,
    options: CopyOptions,
    work: &Arc<Work>,
) -> Result<Outcome> {
    let CopySource::Table { table_name, columns } = source else {
        return Err(Error::new(ErrorKind::SyntaxError, "COPY FROM needs a table, not a query"));
    };
    let chronicle = session.chronicle(table_name)?;
    let listed: Vec<String> = columns.iter().map(names::fold).collect();
    let last_is_optional = listed.is_empty() && ends_with_now(&chronicle);
    let targets = Targets::new(session, chronicle, &listed, None).await?;
    let copied = || targets.listed.iter().filter_map(|at| targets.chronicle.columns.get(*at));
    let columns =
        copied().map(|column| (column.name.clone(), column.column_type.clone())).collect();
    let required =
        copied().filter(|column| !column.nullable).map(|column| column.name.clone()).collect();
    let names = copied().map(|column| column.name.as_str()).collect();
    check_forced(&options, &names, Some(&targets.chronicle))?;
    let whole_rows = targets.listed.iter().copied().eq(0..targets.chronicle.columns.len());
    let table = targets.chronicle.name.clone();
    super::transaction::check_write(session)?;
    let writer = Writer::begin(session, &targets, OnConflict::Error)?;
    let progress = session.begin_copy("COPY FROM", Some(targets.chronicle.id));
    let sink = CopySink {
        session: session.shared()?,
        targets,
        writer,
        work: Arc::clone(work),
        last_is_optional,
        progress: Arc::clone(&progress),
    };
    let copy =
        CopyIn { table, options, columns, required, whole_rows, last_is_optional, sink, progress };
    Ok(Outcome::CopyIn(Box::new(copy)))
}

/// True if the last column of a table is the time column with the default now(), as in a table
/// created without a time column. Data without this column is then complete.
fn ends_with_now(chronicle: &ChronicleDefinition) -> bool {
    chronicle.columns.last().is_some_and(|last| {
        last.id == chronicle.tick_column
            && last.default_sql.as_deref() == Some("now()")
            && !chronicle.primary_key
    })
}

async fn copy_out(
    session: &Session,
    parsed: &Parsed,
    source: &CopySource,
    options: CopyOptions,
    work: &Arc<Work>,
) -> Result<Outcome> {
    let mut table = None;
    let tree: Query = match source {
        CopySource::Query(tree) => tree.as_ref().clone(),
        CopySource::Table { table_name, columns } => {
            let chronicle = session.chronicle(table_name)?;
            let listed: Vec<String> = columns.iter().map(names::fold).collect();
            let list: Vec<String> = if listed.is_empty() {
                chronicle.columns.iter().map(|column| quoted(&column.name)).collect()
            } else {
                // COPY TO may name system columns.
                let user: Vec<String> = listed
                    .iter()
                    .filter(|name| {
                        !stratalog_model::chronicle::SYSTEM_COLUMNS.contains(&name.as_str())
                    })
                    .cloned()
                    .collect();
                if !user.is_empty() {
                    columns::positions(&chronicle, &user)?;
                }
                listed.iter().map(|name| quoted(name)).collect()
            };
            let sql = format!(
                "SELECT {} FROM {}.{}",
                list.join(", "),
                quoted(&chronicle.schema),
                quoted(&chronicle.name)
            );
            table = Some(chronicle);
            match parse::statements(&sql, usize::MAX)?.into_iter().next().map(|tree| tree.statement)
            {
                Some(Statement::Query(tree)) => *tree,
                _ => return Err(Error::internal("COPY TO of a table is no query")),
            }
        }
    };
    let mentioned = parsed.system_columns();
    if let Some(beginning) = parsed.subscribes() {
        let (subscribe, types) = {
            let planner = session.enter_planner(mentioned).await?;
            subscribe::plan(&planner, &tree, beginning, &[], mentioned).await?
        };
        if !types.is_empty() {
            return Err(no_parameter());
        }
        let names = subscribe.schema.fields().iter().map(|field| field.name().as_str()).collect();
        check_forced(&options, &names, None)?;
        let rows = subscribe::run(session, &subscribe, &[], &[], work).await?;
        let progress = session.begin_copy("COPY TO", None);
        return Ok(Outcome::CopyOut(CopyOut { options, is_table: false, rows, progress }));
    }
    let (query, types) = {
        let planner = session.enter_planner(mentioned).await?;
        query::plan(&planner, &tree, &[], mentioned).await?
    };
    if !types.is_empty() {
        return Err(no_parameter());
    }
    let names = query.schema.fields().iter().map(|field| field.name().as_str()).collect();
    check_forced(&options, &names, table.as_deref())?;
    let rows =
        query::run(session, &query, &[], &[], query::QueryRun::now(work, RowsTag::Select)).await?;
    let is_table = table.is_some();
    let progress = session.begin_copy("COPY TO", table.map(|table| table.id));
    Ok(Outcome::CopyOut(CopyOut { options, is_table, rows, progress }))
}

fn no_parameter() -> Error {
    Error::new(ErrorKind::UndefinedParameter, "there is no parameter $1")
}

/// Checks that FORCE_… options name only columns in `copied`.
fn check_forced(
    options: &CopyOptions,
    copied: &HashSet<&str>,
    table: Option<&ChronicleDefinition>,
) -> Result<()> {
    for (selection, what) in [
        (&options.force_quote, "FORCE_QUOTE"),
        (&options.force_not_null, "FORCE_NOT_NULL"),
        (&options.force_null, "FORCE_NULL"),
    ] {
        let ColumnSelection::Named(names) = selection else { continue };
        let Some(name) = names.iter().find(|name| !copied.contains(name.as_str())) else {
            continue;
        };
        return Err(match table {
            Some(table) if table.column_named(name).is_some() => Error::new(
                ErrorKind::InvalidColumnReference,
                format!("{what} column \"{name}\" not referenced by COPY"),
            ),
            Some(table) => Error::new(
                ErrorKind::UndefinedColumn,
                format!("column \"{name}\" of relation \"{}\" does not exist", table.name),
            ),
            None => {
                Error::new(ErrorKind::UndefinedColumn, format!("column \"{name}\" does not exist"))
            }
        });
    }
    Ok(())
}
