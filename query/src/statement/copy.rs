//! COPY … FROM STDIN, COPY … TO STDOUT.

use std::{collections::HashSet, sync::Arc};

use arrow::array::RecordBatch;
use datafusion::sql::sqlparser::ast::{
    CopyLegacyCsvOption, CopyLegacyOption, CopyOption, CopySource, CopyTarget, Ident, Query,
    Statement,
};
use stratalog_model::{ChronicleDefinition, Error, ErrorKind, Result, store::OnConflict};
use stratalog_text::copy::{ColumnSelection, CopyDirection, CopyOptionValue, CopyOptions};

use super::{
    insert::{Writer, columns, columns::Targets, compute::Computing},
    names, parse, query,
};
use crate::{
    CopyIn, CopyOut, Outcome, Parsed, RowsTag, Session,
    session::work::{Stop, Work},
};

/// Takes the rows of a COPY … FROM STDIN. Dropping it before `finish` stores nothing.
#[derive(Debug)]
pub struct CopySink {
    session: Arc<Session>,
    targets: Targets,
    writer: Writer,
    work: Arc<Work>,
}

impl CopySink {
    /// Takes rows with the columns of [`CopyIn::columns`](crate::CopyIn::columns), in order.
    /// Waits under back-pressure.
    ///
    /// # Errors
    /// What the store says of the rows; then nothing is stored and the sink can only be
    /// dropped. In a block, the block fails.
    pub async fn push(&mut self, rows: RecordBatch) -> Result<()> {
        let work = Arc::clone(&self.work);
        let pushed = work
            .guard(async {
                let count = rows.num_rows();
                let given = rows.columns().to_vec();
                let computing = Computing::new(&self.session, &self.work, &[], &[]);
                let batch = self.targets.fill(&computing, given, count).await?;
                self.writer.push(batch).await
            })
            .await;
        if pushed.is_err() {
            self.session.fail_transaction();
        }
        pushed
    }

    /// Makes all rows durable and visible at once; returns how many they were.
    ///
    /// # Errors
    /// What committing says; then nothing is stored.
    pub async fn finish(self) -> Result<u64> {
        let Self { session, writer, work, .. } = self;
        let finished = work.guard(writer.finish(&session, &work)).await;
        if finished.is_err() {
            session.fail_transaction();
        }
        Ok(finished?.rows)
    }

    /// Ends when the statement is to be stopped: cancelled, out of time, or shut down. For
    /// a protocol that waits for the client's next piece of data.
    pub async fn stopped(&self) -> Error {
        self.work.stopped().await
    }

    /// Gives up: nothing is stored, and an open block fails, as PostgreSQL has it after
    /// CopyFail.
    pub fn abort(self) {
        self.work.stop(Stop::User);
        self.session.fail_transaction();
    }
}

/// Runs COPY up to the point at which the protocol carries the data.
///
/// # Errors
/// `InsufficientPrivilege` for files and programs; what is wrong with the statement.
pub async fn run(session: &Session, parsed: &Parsed, work: &Arc<Work>) -> Result<Outcome> {
    let Statement::Copy { source, to, target, options, legacy_options, values } =
        parsed.statement()
    else {
        return Err(Error::internal("not a COPY"));
    };
    if !values.is_empty() {
        return Err(Error::new(ErrorKind::SyntaxError, "COPY takes its data from the protocol"));
    }
    match target {
        CopyTarget::File { .. } | CopyTarget::Program { .. } => {
            let what =
                if matches!(target, CopyTarget::File { .. }) { "a file" } else { "a program" };
            let how = if *to { "COPY to" } else { "COPY from" };
            return Err(Error::new(
                ErrorKind::InsufficientPrivilege,
                format!("{how} {what} of the server is not offered"),
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
    let header = parse::says_header_match(parsed.text()).then_some("match");
    let options = copy_options(direction, options, legacy_options, header)?;
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
    let targets = Targets::new(session, chronicle, &listed, None).await?;
    let copied = || targets.listed.iter().filter_map(|at| targets.chronicle.columns.get(*at));
    let columns =
        copied().map(|column| (column.name.clone(), column.column_type.clone())).collect();
    let required =
        copied().filter(|column| !column.nullable).map(|column| column.name.clone()).collect();
    let names = copied().map(|column| column.name.as_str()).collect();
    check_forced(&options, &names, Some(&targets.chronicle))?;
    let table = targets.chronicle.name.clone();
    super::transaction::check_write(session)?;
    let writer = Writer::begin(session, &targets, OnConflict::Error)?;
    let sink = CopySink { session: session.shared()?, targets, writer, work: Arc::clone(work) };
    Ok(Outcome::CopyIn(CopyIn { table, options, columns, required, sink }))
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
                // System columns may be copied out by name.
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
    let (query, types) = {
        let planner = session.enter_planner(parsed.system_columns()).await?;
        query::plan(&planner, &tree, &[], parsed.system_columns()).await?
    };
    if !types.is_empty() {
        return Err(Error::new(ErrorKind::UndefinedParameter, "there is no parameter $1"));
    }
    let names = query.schema.fields().iter().map(|field| field.name().as_str()).collect();
    check_forced(&options, &names, table.as_deref())?;
    let rows = query::run(session, &query, &[], &[], work, RowsTag::Select).await?;
    Ok(Outcome::CopyOut(CopyOut { options, rows }))
}

/// Refuses a FORCE_… option that names a column that is not among those `copied`.
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

fn quoted(name: &str) -> String {
    Ident::with_quote('"', name).to_string()
}

/// The options of either form of COPY.
fn copy_options(
    direction: CopyDirection,
    options: &[CopyOption],
    legacy: &[CopyLegacyOption],
    header: Option<&str>,
) -> Result<CopyOptions> {
    let text = |value: &str| CopyOptionValue::Text(value.to_string());
    let columns = |names: &[Ident]| {
        CopyOptionValue::Columns(match names {
            [all] if all.value == "*" && all.quote_style.is_none() => ColumnSelection::All,
            names => ColumnSelection::Named(names.iter().map(names::fold).collect()),
        })
    };
    let switch = |value: bool| text(if value { "true" } else { "false" });
    let mut pairs: Vec<(&str, CopyOptionValue)> = Vec::new();
    for option in options {
        pairs.push(match option {
            CopyOption::Format(name) => ("format", text(&name.value.to_lowercase())),
            CopyOption::Freeze(value) => ("freeze", switch(*value)),
            CopyOption::Delimiter(value) => ("delimiter", text(&value.to_string())),
            CopyOption::Null(value) => ("null", text(value)),
            CopyOption::Header(value) => ("header", header.map_or_else(|| switch(*value), text)),
            CopyOption::Quote(value) => ("quote", text(&value.to_string())),
            CopyOption::Escape(value) => ("escape", text(&value.to_string())),
            CopyOption::ForceQuote(names) => ("force_quote", columns(names)),
            CopyOption::ForceNotNull(names) => ("force_not_null", columns(names)),
            CopyOption::ForceNull(names) => ("force_null", columns(names)),
            CopyOption::Encoding(value) => ("encoding", text(value)),
        });
    }
    for option in legacy {
        match option {
            CopyLegacyOption::Binary => pairs.push(("format", text("binary"))),
            CopyLegacyOption::Delimiter(value) => {
                pairs.push(("delimiter", text(&value.to_string())))
            }
            CopyLegacyOption::Null(value) => pairs.push(("null", text(value))),
            CopyLegacyOption::Header => pairs.push(("header", CopyOptionValue::Absent)),
            CopyLegacyOption::Csv(more) => {
                pairs.push(("format", text("csv")));
                for option in more {
                    pairs.push(match option {
                        CopyLegacyCsvOption::Header => ("header", CopyOptionValue::Absent),
                        CopyLegacyCsvOption::Quote(value) => ("quote", text(&value.to_string())),
                        CopyLegacyCsvOption::Escape(value) => ("escape", text(&value.to_string())),
                        CopyLegacyCsvOption::ForceQuote(names) => ("force_quote", columns(names)),
                        CopyLegacyCsvOption::ForceNotNull(names) => {
                            ("force_not_null", columns(names))
                        }
                    });
                }
            }
            other => {
                return Err(Error::new(
                    ErrorKind::SyntaxError,
                    format!("option \"{other}\" not recognized"),
                ));
            }
        }
    }
    CopyOptions::from_pairs(direction, pairs.iter().map(|(name, value)| (*name, value)))
}
