//! CALL of Stratalog's procedures: flush or compaction of a table, a check of all stored data, a
//! backup of the database, acceptance of a clock jump, new certificates, and tokens.
//!
//! ```text
//!   CALL stratalog.flush('cpu')   ─► argument ─► table ─► EventStore::flush
//!   CALL stratalog.compact($1)    (planned as SELECT)     EventStore::compact
//!   CALL stratalog.check()        ──────────────────────► Inspector::inspect
//!   CALL stratalog.backup('URL')  ─► argument ──────────► Backups::backup
//!   CALL stratalog.accept_clock_jump() ─────────────────► Clock::accept_jump
//!   CALL stratalog.create_token('name', …) ─► arguments ► Catalog::apply
//!   CALL stratalog.reload()       ──────────────────────► Certificates::reload
//! ```
//! Cancellation of a CALL stops the wait for the result. A flush or compaction continues in the
//! background; a check or a backup stops.

mod token;

use std::{ops::ControlFlow, sync::Arc};

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, StringViewArray},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use datafusion::{
    scalar::ScalarValue,
    sql::sqlparser::ast::{
        Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Query as Tree, SelectItem,
        SetExpr, Statement, Value,
    },
};
use futures::{StreamExt, TryStreamExt, stream};
use stratalog_model::{ChronicleId, ColumnType, Error, ErrorKind, Result, store::MoveCounts};
use stratalog_pg_catalog::table_of_regclass;
use stratalog_postgres::{
    errors::{from_arrow, from_datafusion},
    names, parse,
    walk::{self, Look},
};

use super::query;
use crate::{
    Columns, FinishedBackup, InspectionResult, Object, Outcome, Parsed, Privilege, Rows, RowsTag,
    Session, session::work::Work,
};

/// The SQL schema of Stratalog's procedures.
const SCHEMA: &str = "stratalog";

/// A planned CALL.
#[derive(Debug)]
pub struct Call {
    procedure: Procedure,
    /// A query with a column for each argument, such as the name of the table, or the destination
    /// of the backup. `None` for a procedure without an argument.
    argument: Option<query::Query>,
}

impl Call {
    /// The schema of the result.
    pub fn schema(&self) -> SchemaRef {
        match self.procedure {
            Procedure::Check => inspected_schema(),
            Procedure::Flush | Procedure::Compact => moved_schema(),
            Procedure::Backup => made_schema(),
            Procedure::AcceptClockJump => accepted_schema(),
            Procedure::CreateToken => token::created_schema(),
            Procedure::RevokeToken => token::revoked_schema(),
            Procedure::Reload => reloaded_schema(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Procedure {
    /// Moves the table's events from the journal into tablets.
    Flush,
    /// Flushes, and then merges all tablets and stories (files of events) of the table into as few
    /// stories as possible.
    Compact,
    /// Reads all stored data, and compares the data with the stored metadata.
    Check,
    /// Copies the database to another place.
    Backup,
    /// Makes the server's clock follow the machine's clock after a jump ahead.
    AcceptClockJump,
    /// Reads the server's certificate files again.
    Reload,
    /// Creates a token, and returns its text.
    CreateToken,
    /// Revokes a token.
    RevokeToken,
}

impl Procedure {
    const ALL: [Procedure; 8] = [
        Procedure::Flush,
        Procedure::Compact,
        Procedure::Check,
        Procedure::Backup,
        Procedure::AcceptClockJump,
        Procedure::CreateToken,
        Procedure::RevokeToken,
        Procedure::Reload,
    ];

    fn name(self) -> &'static str {
        match self {
            Procedure::Flush => "flush",
            Procedure::Compact => "compact",
            Procedure::Check => "check",
            Procedure::Backup => "backup",
            Procedure::AcceptClockJump => "accept_clock_jump",
            Procedure::Reload => "reload",
            Procedure::CreateToken => "create_token",
            Procedure::RevokeToken => "revoke_token",
        }
    }

    /// The names of the arguments. The first argument is required; all others have a default, which
    /// NULL means.
    fn parameters(self) -> &'static [&'static str] {
        match self {
            Procedure::Flush | Procedure::Compact => &["table"],
            Procedure::Check | Procedure::AcceptClockJump | Procedure::Reload => &[],
            Procedure::Backup => &["destination"],
            Procedure::CreateToken => &["name", "role", "scope", "expires"],
            Procedure::RevokeToken => &["name", "role"],
        }
    }

    /// What a procedure without an argument does, for error messages; `None` for a procedure with
    /// an argument.
    fn of_everything(self) -> Option<&'static str> {
        match self {
            Procedure::Check => Some("checks the whole database"),
            Procedure::AcceptClockJump => Some("acts on the server's clock"),
            Procedure::Reload => Some("reads the server's certificate files again"),
            Procedure::Flush
            | Procedure::Compact
            | Procedure::Backup
            | Procedure::CreateToken
            | Procedure::RevokeToken => None,
        }
    }

    /// A description of the expected argument, and an example, for error messages.
    fn argument(self) -> (&'static str, &'static str) {
        match self {
            Procedure::Flush | Procedure::Compact => ("the name of one table", "'cpu'"),
            Procedure::Check | Procedure::AcceptClockJump | Procedure::Reload => {
                ("no argument", "")
            }
            Procedure::Backup => ("one URL or path", "'s3://bucket/prefix'"),
            Procedure::CreateToken => (
                "the name of the token, and optionally role, scope and expires",
                "'grafana', role => 'reader', scope => 'read', expires => '90d'",
            ),
            Procedure::RevokeToken => {
                ("the name of the token, and optionally its role", "'grafana', role => 'reader'")
            }
        }
    }
}

/// Plans a CALL.
///
/// # Errors
/// `UndefinedFunction` for an unknown procedure, and for arguments other than one text; an error in
/// the argument.
pub async fn plan(
    session: &Session,
    parsed: &Arc<Parsed>,
    function: &Function,
    declared_types: &[Option<ColumnType>],
) -> Result<(Call, Vec<Option<ColumnType>>)> {
    let named = procedure(session, function)?;
    let arguments = arguments(function, named.map_or(&[], Procedure::parameters))?;
    if arguments.is_empty() {
        return match named {
            Some(procedure) if procedure.of_everything().is_some() => {
                Ok((Call { procedure, argument: None }, Vec::new()))
            }
            _ => Err(undefined(function, named, &[])),
        };
    }
    let tree = selected(arguments)?;
    let planner = session.enter_planner(parsed.system_columns()).await?;
    let (argument, types) =
        query::plan(&planner, &tree, declared_types, parsed.system_columns()).await?;
    let columns = argument.schema.fields().iter();
    let given: Vec<Option<ColumnType>> = columns
        .map(|field| match field.data_type() {
            DataType::Null => Some(ColumnType::Text),
            _ => ColumnType::from_arrow_field(field),
        })
        .collect();
    let are_texts = given.iter().all(|given| *given == Some(ColumnType::Text));
    match named {
        Some(procedure) if are_texts && given.len() == procedure.parameters().len() => {
            Ok((Call { procedure, argument: Some(argument) }, types))
        }
        _ => Err(undefined(function, named, &given)),
    }
}

/// The arguments of a call in the order of `parameters`, with NULL for each omitted argument behind
/// the first. Refuses all other clauses.
fn arguments(function: &Function, parameters: &[&str]) -> Result<Vec<Expr>> {
    let wrong = |what: &str| {
        let name = &function.name;
        Error::new(ErrorKind::SyntaxError, format!("{what} in CALL of {name}"))
            .with_hint("write CALL stratalog.flush('table')")
    };
    if function.over.is_some()
        || function.filter.is_some()
        || function.null_treatment.is_some()
        || !function.within_group.is_empty()
    {
        return Err(wrong("OVER, FILTER or the like"));
    }
    let list = match &function.args {
        FunctionArguments::None => return Err(wrong("no parentheses")),
        FunctionArguments::Subquery(_) => return Err(subquery()),
        FunctionArguments::List(list) => list,
    };
    if list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
        return Err(wrong("DISTINCT, ORDER BY or the like"));
    }
    let null = || Expr::value(Value::Null);
    let mut plain: Vec<Expr> = Vec::with_capacity(parameters.len());
    let mut named: Vec<(usize, &Expr)> = Vec::new();
    for argument in &list.args {
        match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(_)) if !named.is_empty() => {
                return Err(wrong("a positional argument behind a named argument"));
            }
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => plain.push(expr.clone()),
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. } => {
                let name = names::fold(name);
                let position = parameters.iter().position(|parameter| *parameter == name);
                let position = position.filter(|at| *at >= plain.len());
                let is_new = |at: &usize| named.iter().all(|(known, _)| known != at);
                match position.filter(is_new) {
                    Some(position) => named.push((position, expr)),
                    None => return Err(wrong("an unknown or repeated argument name")),
                }
            }
            FunctionArg::Unnamed(_) => return Err(wrong("*")),
            _ => return Err(wrong("an argument of this form")),
        }
    }
    if !plain.is_empty() || !named.is_empty() {
        plain.resize_with(parameters.len().max(plain.len()), null);
    }
    for (position, expr) in named {
        if let Some(place) = plain.get_mut(position) {
            *place = expr.clone();
        }
    }
    if walk::look(&plain, &mut Subqueries).is_break() { Err(subquery()) } else { Ok(plain) }
}

struct Subqueries;

impl Look for Subqueries {
    fn pre_visit_query(&mut self, _: &Tree) -> walk::Flow {
        ControlFlow::Break(())
    }
}

fn subquery() -> Error {
    Error::new(ErrorKind::FeatureNotSupported, "cannot use subquery in CALL argument")
}

/// The procedure that a name denotes in the session; `None` if the name denotes no procedure.
fn procedure(session: &Session, function: &Function) -> Result<Option<Procedure>> {
    let (schema, name) = names::table(&function.name, session.connected_to())?;
    let ours = match schema {
        Some(schema) => schema == SCHEMA,
        None => session.variables().parsed().search_path.iter().any(|schema| schema == SCHEMA),
    };
    let mut known = Procedure::ALL.into_iter();
    Ok(known.find(|procedure| ours && procedure.name() == name))
}

fn undefined(function: &Function, named: Option<Procedure>, given: &[Option<ColumnType>]) -> Error {
    let types: Vec<String> = given
        .iter()
        .map(|given| given.as_ref().map_or_else(|| "unknown".to_string(), ToString::to_string))
        .collect();
    let message = format!("procedure {}({}) does not exist", function.name, types.join(", "));
    Error::new(ErrorKind::UndefinedFunction, message).with_hint(match named {
        Some(procedure) => {
            let (name, (what, example)) = (procedure.name(), procedure.argument());
            match procedure.of_everything() {
                Some(does) => format!("{SCHEMA}.{name} {does}: CALL {SCHEMA}.{name}()"),
                None => {
                    format!("{SCHEMA}.{name} needs {what} as text: CALL {SCHEMA}.{name}({example})")
                }
            }
        }
        None => "the procedures are stratalog.flush, stratalog.compact, stratalog.check, \
                 stratalog.backup, stratalog.accept_clock_jump, stratalog.reload, \
                 stratalog.create_token and stratalog.revoke_token; functions are called by SELECT"
            .to_string(),
    })
}

/// Builds the query `SELECT arguments`.
fn selected(arguments: Vec<Expr>) -> Result<Tree> {
    let tree = parse::statements("SELECT NULL", usize::MAX)?.into_iter().next();
    if let Some(parse::Tree { statement: Statement::Query(mut tree), .. }) = tree
        && let SetExpr::Select(select) = tree.body.as_mut()
    {
        select.projection = arguments.into_iter().map(SelectItem::UnnamedExpr).collect();
        return Ok(*tree);
    }
    Err(Error::internal("SELECT NULL is no query"))
}

/// The schema of the single result row of `flush` and `compact`.
fn moved_schema() -> SchemaRef {
    let column = |name| Field::new(name, DataType::Int64, true);
    Arc::new(Schema::new(vec![column("rows"), column("pieces_added"), column("pieces_removed")]))
}

/// The schema of the single result row of `accept_clock_jump`.
fn accepted_schema() -> SchemaRef {
    let column = |name| Field::new(name, DataType::Int64, true);
    Arc::new(Schema::new(vec![column("accepted_ns"), column("epoch")]))
}

/// The schema of the single result row of `reload`.
fn reloaded_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("certificate_expires_ns", DataType::Int64, true)]))
}

/// The schema of the single result row of `backup`.
fn made_schema() -> SchemaRef {
    let mut fields = vec![Field::new("backup", DataType::Utf8View, true)];
    let numbers = ["files", "bytes", "stored_files", "stored_bytes"];
    fields.extend(numbers.iter().map(|name| Field::new(*name, DataType::Int64, true)));
    Arc::new(Schema::new(fields))
}

/// The schema of the result rows of `check`.
fn inspected_schema() -> SchemaRef {
    let column = |name: &str, of: DataType| Field::new(name, of, true);
    Arc::new(Schema::new(vec![
        column("part", DataType::Utf8View),
        column("path", DataType::Utf8View),
        column("table_name", DataType::Utf8View),
        column("rows", DataType::Int64),
        column("bytes", DataType::Int64),
        column("state", DataType::Utf8View),
        column("detail", DataType::Utf8View),
    ]))
}

/// Runs a CALL.
///
/// # Errors
/// `ActiveTransaction` in a block; `UndefinedTable`, `WrongObjectType`, `NullNotAllowed`; an error
/// of the procedure.
pub async fn run(
    session: &Session,
    call: &Call,
    types: &[ColumnType],
    values: &[ScalarValue],
    work: &Arc<Work>,
) -> Result<Outcome> {
    session.transaction.check_outside(&format!("CALL {SCHEMA}.{}", call.procedure.name()))?;
    check_server_right(session, call.procedure)?;
    let Some(argument) = &call.argument else {
        if call.procedure == Procedure::AcceptClockJump {
            return accept_clock_jump(session, call);
        }
        if call.procedure == Procedure::Reload {
            return reload(session, call).await;
        }
        let Some(inspector) = session.parts().inspector.clone() else {
            return Err(Error::new(
                ErrorKind::FeatureNotSupported,
                format!(
                    "{SCHEMA}.check needs a data directory, but the server has no data directory"
                ),
            ));
        };
        return Ok(Outcome::Rows(inspected(inspector.inspect().await?)?));
    };
    let mut texts = texts(session, argument, types, values, work).await?.into_iter();
    let first = texts.next().flatten();
    let text = first.ok_or_else(|| {
        Error::new(
            ErrorKind::NullNotAllowed,
            format!(
                "{SCHEMA}.{} needs {}, not NULL",
                call.procedure.name(),
                call.procedure.argument().0
            ),
        )
    })?;
    let table = || {
        let state = session.catalog();
        let path = session.variables().parsed().search_path;
        let chronicle = table_of_regclass(&state, session.database(), &path, &text)?;
        check_table_right(session, chronicle.id).map(|()| chronicle.id)
    };
    let columns = match call.procedure {
        Procedure::Flush => moved(session.store().flush(table()?).await?),
        Procedure::Compact => moved(session.store().compact(table()?).await?),
        Procedure::CreateToken => {
            let mut next = || texts.next().flatten();
            let wish =
                token::TokenWish { name: text, role: next(), scope: next(), expires: next() };
            token::create(session, wish).await?
        }
        Procedure::RevokeToken => token::revoke(session, text, texts.next().flatten()).await?,
        Procedure::Check | Procedure::AcceptClockJump | Procedure::Reload => {
            return Err(Error::internal("the procedure has no argument"));
        }
        Procedure::Backup => {
            let backups = session.parts().backups.as_ref();
            let backups = backups.ok_or_else(|| Error::not_yet("a backup of this database"))?;
            backup_columns(backups.backup(&text).await?)
        }
    };
    Ok(Outcome::Rows(rows(call.schema(), columns)?))
}

/// Checks the right to call a procedure that acts on the server. The match is exhaustive: a new
/// procedure does not compile until its right is decided here.
fn check_server_right(session: &Session, procedure: Procedure) -> Result<()> {
    let privilege = match procedure {
        Procedure::Check | Procedure::AcceptClockJump | Procedure::Reload => Privilege::Administer,
        Procedure::Backup => Privilege::BackUp,
        // The table in the argument decides; see `check_table_right`.
        Procedure::Flush | Procedure::Compact => return Ok(()),
        // The catalog decides about commands on tokens.
        Procedure::CreateToken | Procedure::RevokeToken => return Ok(()),
    };
    session.authorize(privilege, Object::Server, Columns::All)
}

/// Checks the right to flush or compact a table: its owner and administrators may.
fn check_table_right(session: &Session, chronicle: ChronicleId) -> Result<()> {
    match session.authorize_on(Privilege::Ownership, chronicle) {
        Err(error) if error.kind() == ErrorKind::InsufficientPrivilege => {
            let administers =
                session.authorize(Privilege::Administer, Object::Server, Columns::All);
            administers.map_err(|_| error)
        }
        owner => owner,
    }
}

/// Makes the server's clock follow the machine's clock after a jump ahead, or confirms at a start
/// that the machine's clock is correct although it is ahead.
fn accept_clock_jump(session: &Session, call: &Call) -> Result<Outcome> {
    let clock = &session.parts().clock;
    let Some(accepted_ns) = clock.accept_jump()? else {
        return Err(Error::new(
            ErrorKind::ObjectNotInPrerequisiteState,
            "the machine's clock has not jumped ahead: no confirmation is needed",
        )
        .with_hint("stratalog.clock shows both clocks"));
    };
    let columns = vec![number(accepted_ns), number(clock.reading().line.epoch)];
    Ok(Outcome::Rows(rows(call.schema(), columns)?))
}

/// Reads the server's certificate files again.
async fn reload(session: &Session, call: &Call) -> Result<Outcome> {
    let Some(certificates) = session.service().certificates() else {
        return Err(Error::new(
            ErrorKind::ObjectNotInPrerequisiteState,
            "the database has no listeners, and therefore no certificate",
        ));
    };
    certificates.reload().await?;
    let expires: ArrayRef = Arc::new(Int64Array::from(vec![certificates.expires_ns()]));
    Ok(Outcome::Rows(rows(call.schema(), vec![expires])?))
}

/// Evaluates the arguments of a procedure; `None` for NULL.
async fn texts(
    session: &Session,
    argument: &query::Query,
    types: &[ColumnType],
    values: &[ScalarValue],
    work: &Arc<Work>,
) -> Result<Vec<Option<String>>> {
    let rows =
        query::run(session, argument, types, values, query::QueryRun::now(work, RowsTag::Select))
            .await?;
    let batches: Vec<RecordBatch> = rows.try_collect().await?;
    let mut filled = batches.iter().filter(|batch| batch.num_rows() > 0);
    let (Some(batch), None) = (filled.next(), filled.next()) else { return Err(set()) };
    if batch.num_rows() > 1 {
        return Err(set());
    }
    let texts = batch.columns().iter().map(|column| {
        let value = ScalarValue::try_from_array(column, 0).map_err(from_datafusion)?;
        Ok(value.try_as_str().flatten().map(str::to_string))
    });
    texts.collect()
}

fn set() -> Error {
    Error::new(
        ErrorKind::FeatureNotSupported,
        "set-returning functions are not allowed in CALL arguments",
    )
}

fn number(value: u64) -> ArrayRef {
    Arc::new(Int64Array::from(vec![i64::try_from(value).unwrap_or(i64::MAX)]))
}

fn moved(moved: MoveCounts) -> Vec<ArrayRef> {
    [moved.rows, moved.pieces_added, moved.pieces_removed].map(number).to_vec()
}

fn backup_columns(backup: FinishedBackup) -> Vec<ArrayRef> {
    let name: ArrayRef = Arc::new(StringViewArray::from(vec![backup.name]));
    let numbers = [backup.files, backup.bytes, backup.stored_files, backup.stored_bytes];
    [name].into_iter().chain(numbers.map(number)).collect()
}

fn inspected(found: Vec<InspectionResult>) -> Result<Rows> {
    let text = |of: fn(&InspectionResult) -> Option<&str>| -> ArrayRef {
        Arc::new(found.iter().map(of).collect::<StringViewArray>())
    };
    let number = |of: fn(&InspectionResult) -> Option<u64>| -> ArrayRef {
        let value = |row| of(row).map(|value| i64::try_from(value).unwrap_or(i64::MAX));
        Arc::new(found.iter().map(value).collect::<Int64Array>())
    };
    let columns = vec![
        text(|row| Some(&row.part)),
        text(|row| Some(&row.path)),
        text(|row| row.table_name.as_deref()),
        number(|row| row.rows),
        number(|row| row.bytes),
        text(|row| Some(&row.state)),
        text(|row| Some(&row.detail)),
    ];
    rows(inspected_schema(), columns)
}

fn rows(schema: SchemaRef, columns: Vec<ArrayRef>) -> Result<Rows> {
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(from_arrow)?;
    Ok(Rows::new(schema, stream::iter([Ok(batch)]).boxed(), RowsTag::Word("CALL")))
}
