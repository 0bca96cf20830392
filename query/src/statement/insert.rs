//! INSERT.
//!
//! ```text
//!   VALUES ─► cells ─► one array per column ┐
//!   SELECT ─► batches ─► assignment casts ──┼─► all columns, defaults filled ─► Append::push
//!   COPY   ─► batches of the listed columns ┘                                  ─► commit
//! ```

pub mod cells;
pub mod columns;
pub mod compute;
pub mod defaults;
pub mod returning;
pub mod sets;
pub mod values;

use std::sync::{Arc, Weak};

use arrow::datatypes::SchemaRef;
use datafusion::{
    logical_expr::LogicalPlan,
    scalar::ScalarValue,
    sql::sqlparser::ast::{
        ConflictTarget, Expr, Insert as Tree, OnConflictAction, OnInsert, Query, SelectItem,
        SetExpr, Statement, TableObject, Value, ValueWithSpan,
    },
};
use futures::StreamExt;
use stratalog_model::{
    ChronicleDefinition, ChronicleId, ColumnId, ColumnType, Error, ErrorKind, Gsn, ProducerId,
    Result, TakenKeyAction,
    store::{AppendOptions, CommittedAppend, OnConflict},
};
use stratalog_postgres::{
    errors::from_datafusion, names, parameters, parse::position,
    rules::equality::float_keys::stored,
};
use stratalog_text::parse::number::exact_type;
use stratalog_visor_core::{
    access::{Columns, Object, Privilege},
    acquisition::Use,
};

use self::{
    cells::Cell, columns::Targets, compute::ComputeContext, returning::Returning,
    values::ValuesClause,
};
use super::{query, row_policies::AppendChecks, subscribe};
use crate::{
    Outcome, Parsed, RowsTag, Session,
    session::{acquisitions::EnteredChronicle, transaction::LentAppend, work::Work},
    table::projection,
};

/// The name of DEFAULT clauses in error messages.
pub const DEFAULT_EXPRESSIONS: &str = "DEFAULT expressions";

/// A planned INSERT.
#[derive(Debug)]
pub struct Insert {
    /// The target table, and the columns that the statement fills.
    pub targets: Targets,
    source: InsertSource,
    on_conflict: OnConflict,
    /// AFTER GSN: the store must have reached this gsn before the insert, so that the new events
    /// get a later gsn (F56).
    after: Option<Cell>,
    returning: Option<Returning>,
}

#[derive(Debug)]
enum InsertSource {
    /// Rows of a VALUES clause.
    Values(Box<ValuesClause>),
    /// Rows of a query.
    Query(Box<query::Query>),
}

impl Insert {
    /// The logical plan that computes the rows; `None` for VALUES of constants.
    pub fn computed(&self) -> Option<&LogicalPlan> {
        match &self.source {
            InsertSource::Values(values) => values.plan_of_expressions(),
            InsertSource::Query(query) => Some(&query.plan),
        }
    }

    /// The parameters whose types are guesses, counted from 0. See [`parameters::Types::guesses`].
    pub fn guesses(&self) -> &[usize] {
        match &self.source {
            InsertSource::Values(values) => values.guesses(),
            InsertSource::Query(query) => &query.guesses,
        }
    }

    /// The schema of the rows of RETURNING; `None` without RETURNING.
    pub fn result(&self) -> Option<SchemaRef> {
        self.returning.as_ref().map(|returning| Arc::clone(&returning.schema))
    }
}

/// Moves the WITH clause of `WITH … INSERT INTO … SELECT …` into the source query of the INSERT.
///
/// # Errors
/// `FeatureNotSupported` if the source is not a query, or has its own WITH clause.
pub fn adopt_with(insert: &mut Tree, outer: &Query) -> Result<()> {
    let Some(with) = &outer.with else { return Ok(()) };
    match &mut insert.source {
        Some(source) if source.with.is_none() => {
            source.with = Some(with.clone());
            Ok(())
        }
        _ => Err(Error::not_yet("WITH … INSERT with another WITH in the source")),
    }
}

/// Plans an INSERT.
///
/// # Errors
/// An error in the statement.
pub async fn plan(
    session: &Session,
    parsed: &Parsed,
    tree: &Tree,
    declared_types: &[Option<ColumnType>],
) -> Result<(Insert, Vec<Option<ColumnType>>)> {
    let chronicle = target(session, tree)?;
    let on_conflict = on_conflict(tree.on.as_ref(), &chronicle)?;
    let listed: Vec<String> = tree.columns.iter().map(names::single).collect::<Result<_>>()?;
    let count = parameters::count(&Statement::Insert(tree.clone()))?.max(declared_types.len());
    let mut types = declared_types.to_vec();
    types.resize(count, None);
    let after = match position::after(tree) {
        Some(expr) => {
            let after = Cell::of(expr, Some(&ColumnType::BigInt), &mut types)?;
            Some(after_gsn(after, &types)?)
        }
        None => None,
    };
    let written = tree.source.as_deref();
    let sets = match written.and_then(plain_values) {
        Some([row]) => sets::query_of(&chronicle, &listed, &row.content)?,
        _ => None,
    };
    let (source, listed) = match &sets {
        Some((query, columns)) => (Some(query.as_ref()), columns),
        None => (written, &listed),
    };
    let (targets, source, types) = match (source, source.and_then(plain_values)) {
        (None, _) => {
            let targets = Targets::new(session, chronicle, listed, Some(0)).await?;
            let values =
                ValuesClause::plan(session, vec![Vec::new()], &mut types, &targets).await?;
            (targets, InsertSource::Values(Box::new(values)), types)
        }
        (Some(_), Some(rows)) => {
            let width = rows.iter().map(|row| row.content.len()).max().unwrap_or(0);
            let targets = Targets::new(session, chronicle, listed, Some(width)).await?;
            let mut cells = Vec::with_capacity(rows.len());
            for row in rows {
                if row.content.len() != width {
                    return Err(Error::new(
                        ErrorKind::SyntaxError,
                        "VALUES lists must all be the same length",
                    ));
                }
                cells.push(
                    row.content
                        .iter()
                        .enumerate()
                        .map(|(at, expr)| Cell::of(expr, targets.column_type(at), &mut types))
                        .collect::<Result<Vec<_>>>()?,
                );
            }
            targets.refuse_times(&cells)?;
            let values = ValuesClause::plan(session, cells, &mut types, &targets).await?;
            (targets, InsertSource::Values(Box::new(values)), types)
        }
        (Some(source), None) => {
            if let Some(items) = placeholders(source) {
                let width = Some(items.len());
                let targets = Targets::new(session, Arc::clone(&chronicle), listed, width).await?;
                for (at, item) in items.iter().enumerate() {
                    let number = item.as_deref().and_then(parameters::number);
                    if let Some(slot @ None) =
                        number.and_then(|number| types.get_mut(number.saturating_sub(1)))
                    {
                        *slot = targets.column_type(at).cloned();
                    }
                }
            }
            let planner = session.enter_planner(parsed.system_columns()).await?;
            let round = |plan: LogicalPlan| columns::round_for(&chronicle, listed, plan);
            let mentioned = parsed.system_columns();
            let (query, types) =
                query::plan_adjusted(&planner, source, &types, mentioned, &round).await?;
            drop(planner);
            let width = query.schema.fields().len();
            let targets = Targets::new(session, chronicle, listed, Some(width)).await?;
            targets.refuse_time()?;
            targets.check_assignable(&query.schema)?;
            (targets, InsertSource::Query(Box::new(query)), types)
        }
    };
    let returning = match &tree.returning {
        Some(items) => {
            let alias = tree.table_alias.as_ref().map(|alias| &alias.alias);
            Some(Returning::plan(session, &targets.chronicle, items, alias, parsed).await?)
        }
        None => None,
    };
    Ok((Insert { targets, source, on_conflict, after, returning }, types))
}

/// Checks that an AFTER GSN position is a whole number: any other number would be rounded.
fn after_gsn(after: Cell, types: &[Option<ColumnType>]) -> Result<Cell> {
    let other = match &after {
        Cell::Number(number) => {
            let is_whole = !number.contains(['.', 'e', 'E']) || number.starts_with("0x");
            (!is_whole).then(|| number.clone())
        }
        Cell::Parameter(at) => {
            types.get(*at).cloned().flatten().and_then(|column_type| match column_type {
                ColumnType::SmallInt
                | ColumnType::Integer
                | ColumnType::BigInt
                | ColumnType::Text => None,
                other => Some(other.to_string()),
            })
        }
        _ => None,
    };
    match other {
        // AFTER GSN accepts numbers and parameters, but no cast.
        Some(other) => Err(subscribe::no_position("AFTER GSN", &other)
            .with_hint("write the number without a fraction, or send a parameter of type bigint")),
        None => Ok(after),
    }
}

/// The rows of a source query that consists only of VALUES; `None` for any other query.
fn plain_values(
    source: &Query,
) -> Option<&[datafusion::sql::sqlparser::ast::Parens<Vec<datafusion::sql::sqlparser::ast::Expr>>]>
{
    let plain = source.with.is_none()
        && source.order_by.is_none()
        && source.limit_clause.is_none()
        && source.fetch.is_none();
    match source.body.as_ref() {
        SetExpr::Values(values) if plain => Some(&values.rows),
        _ => None,
    }
}

/// For each column of a SELECT, the name of the parameter if the column is only a parameter; `None`
/// for a query in which no column is only a parameter.
fn placeholders(source: &Query) -> Option<Vec<Option<String>>> {
    let SetExpr::Select(select) = source.body.as_ref() else { return None };
    let name = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            Some(match expr {
                Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) => {
                    Some(name.clone())
                }
                _ => None,
            })
        }
        _ => None,
    };
    let items: Option<Vec<Option<String>>> = select.projection.iter().map(name).collect();
    items.filter(|items| items.iter().any(Option::is_some))
}

fn target(session: &Session, tree: &Tree) -> Result<Arc<ChronicleDefinition>> {
    let TableObject::TableName(name) = &tree.table else {
        return Err(Error::new(ErrorKind::SyntaxError, "INSERT needs the name of a table"));
    };
    let foreign = tree.or.is_some()
        || tree.ignore
        || tree.overwrite
        || tree.replace_into
        || tree.partitioned.is_some()
        || tree.output.is_some()
        || tree.insert_alias.is_some()
        || tree.format_clause.is_some()
        || tree.settings.iter().flatten().any(|setting| setting.key.value != position::AFTER)
        || !tree.assignments.is_empty()
        || !tree.after_columns.is_empty();
    if foreign {
        return Err(Error::new(
            ErrorKind::SyntaxError,
            "this form of INSERT does not exist in PostgreSQL",
        ));
    }
    session.chronicle(name)
}

/// Translates an ON CONFLICT clause into the handling of rows whose key already exists.
fn on_conflict(on: Option<&OnInsert>, chronicle: &ChronicleDefinition) -> Result<OnConflict> {
    let conflict = match on {
        None => return Ok(OnConflict::Error),
        Some(OnInsert::OnConflict(conflict)) => conflict,
        Some(_) => {
            return Err(Error::new(
                ErrorKind::SyntaxError,
                "ON DUPLICATE KEY is not PostgreSQL's: use ON CONFLICT",
            ));
        }
    };
    match &conflict.conflict_target {
        None => {}
        Some(ConflictTarget::OnConstraint(name)) => {
            let wanted = chronicle.key_name();
            if !chronicle.primary_key || names::single(name)? != wanted {
                return Err(Error::new(
                    ErrorKind::UndefinedObject,
                    format!(
                        "constraint \"{name}\" for table \"{}\" does not exist",
                        chronicle.name
                    ),
                ));
            }
        }
        Some(ConflictTarget::Columns(columns)) => {
            let mut named: Vec<String> = columns.iter().map(names::fold).collect();
            let mut key: Vec<String> = chronicle
                .key_columns
                .iter()
                .chain([&chronicle.tick_column])
                .filter_map(|id| chronicle.column(*id))
                .map(|column| column.name.clone())
                .collect();
            named.sort();
            named.dedup();
            key.sort();
            if !chronicle.primary_key || named != key {
                return Err(no_such_constraint());
            }
        }
    }
    match &conflict.action {
        OnConflictAction::DoNothing => match chronicle.collision.on_taken_key() {
            TakenKeyAction::Refuse => Ok(OnConflict::Skip),
            // No conflict is possible if the table keeps every event.
            TakenKeyAction::Share if conflict.conflict_target.is_none() => Ok(OnConflict::Skip),
            TakenKeyAction::Share => Err(no_such_constraint()),
            TakenKeyAction::Replace | TakenKeyAction::Move => Err(Error::new(
                ErrorKind::FeatureNotSupported,
                format!(
                    "ON CONFLICT DO NOTHING is not supported in a table with collision = '{}'",
                    chronicle.collision
                ),
            )
            .with_hint(format!(
                "{}: omit ON CONFLICT, or create a table with collision = 'first'",
                chronicle.collision.effect()
            ))),
        },
        OnConflictAction::DoUpdate(_) => Err(Error::new(
            ErrorKind::FeatureNotSupported,
            "ON CONFLICT DO UPDATE is not supported: events never change",
        )
        .with_hint("in a table with collision = 'last', a plain INSERT replaces the event with the same key")),
    }
}

fn no_such_constraint() -> Error {
    Error::new(
        ErrorKind::InvalidColumnReference,
        "there is no unique or exclusion constraint matching the ON CONFLICT specification",
    )
}

impl Insert {
    /// Computes a batch with all columns of the table from the VALUES rows in `piece`.
    async fn batch_of(
        &self,
        computing: &ComputeContext<'_>,
        source: &ValuesClause,
        piece: &[Vec<Cell>],
    ) -> Result<arrow::array::RecordBatch> {
        let arrays = source.arrays(computing, piece, &self.targets).await?;
        self.targets.fill(computing, arrays, piece.len()).await
    }
}

/// Runs a planned INSERT.
///
/// # Errors
/// An error in the values, or of the store; then nothing is stored.
pub async fn run(
    session: &Session,
    insert: &Insert,
    types: &[ColumnType],
    values: &[ScalarValue],
    work: &Arc<Work>,
) -> Result<Outcome> {
    super::transaction::check_write(session)?;
    // Before any value: an error in a value would come first otherwise.
    authorize_insert(session, insert.targets.chronicle.id, &written_columns(&insert.targets))?;
    let computing = ComputeContext::new(session, work, types, values);
    // Wait before any read or computation: an omitted time becomes the time of storage.
    if let Some(after) = &insert.after {
        come_after(session, &computing, after.clone()).await?;
    }
    // Subqueries of RETURNING see the data before the statement, like all other subqueries.
    let before = match &insert.returning {
        Some(returning) => Some(session.pin(&returning.reads, &[]).await?),
        None => None,
    };
    // Read first: afterwards, the writer borrows the rows of the block.
    let mut rows = None;
    let mut first = None;
    match &insert.source {
        InsertSource::Values(source) => {
            if source.is_computed_in_pieces() {
                computing.pin().await?;
            }
            if let Some(piece) = source.pieces().next() {
                first = Some(insert.batch_of(&computing, source, piece).await?);
            }
        }
        InsertSource::Query(source) => {
            rows = Some(
                query::run(
                    session,
                    source,
                    types,
                    values,
                    query::QueryRun::now(work, RowsTag::Insert),
                )
                .await?,
            );
        }
    }
    if let Some(returning) = &insert.returning {
        let object = Object::Chronicle(insert.targets.chronicle.id);
        let named = returning.named.as_deref().map_or(Columns::All, Columns::Some);
        // Without columns, as in RETURNING 1, the clause reads nothing.
        if named != Columns::Some(&[]) {
            session.authorize(Privilege::Select, object, named)?;
        }
    }
    let mut writer = Writer::begin(session, &insert.targets, insert.on_conflict)?;
    writer.keep = insert.returning.is_some();
    if let Some(batch) = first {
        writer.push(batch).await?;
    }
    match (&insert.source, rows) {
        (InsertSource::Values(source), _) => {
            for piece in source.pieces().skip(1) {
                writer.push(insert.batch_of(&computing, source, piece).await?).await?;
            }
        }
        (InsertSource::Query(_), None) => return Err(Error::internal("a query was not run")),
        (InsertSource::Query(_), Some(mut rows)) => {
            while let Some(batch) = rows.next().await {
                let batch = batch?;
                let arrays = insert.targets.assign(session, &batch)?;
                let batch = insert.targets.fill(&computing, arrays, batch.num_rows()).await?;
                writer.push(batch).await?;
            }
        }
    }
    let finished = writer.finish(session, work).await?;
    match (&insert.returning, before) {
        (Some(returning), Some(before)) => {
            let rows = returning.rows(session, &insert.targets, finished, &before, work).await?;
            Ok(Outcome::Rows(rows))
        }
        _ => Ok(Outcome::Done(format!("INSERT 0 {}", finished.rows))),
    }
}

/// Waits until all commits up to the gsn `after` are visible: later commits get a higher gsn.
async fn come_after(session: &Session, computing: &ComputeContext<'_>, after: Cell) -> Result<()> {
    let value =
        values::one_value(computing, after, &ColumnType::BigInt, "AFTER GSN", "AFTER GSN").await?;
    let gsn = ScalarValue::try_from_array(&value, 0).map_err(from_datafusion)?;
    match gsn {
        ScalarValue::Int64(Some(gsn)) => {
            // A position below 1 comes before all events.
            let reached = session.store().reached(Gsn(u64::try_from(gsn).unwrap_or(0)));
            session.waits().wait(reached).await
        }
        _ => Err(Error::new(ErrorKind::NullNotAllowed, "AFTER GSN needs a number, not NULL")),
    }
}

/// The storage side of one writing statement: receives rows, and at the end commits all rows, or
/// leaves the rows to the open block.
pub struct Writer {
    session: Weak<Session>,
    append: LentAppend,
    chronicle: Arc<ChronicleDefinition>,
    /// The use of the chronicle by this statement. An open block keeps the use until its end.
    entered: EnteredChronicle,
    on_conflict: OnConflict,
    /// The columns with values from the statement.
    listed: Vec<ColumnId>,
    checks: AppendChecks,
    /// True to keep a copy of the stored rows, for RETURNING.
    pub keep: bool,
    /// True for a restore of a table by COPY: the rows keep their times, although the server
    /// normally assigns the times or accepts only recent times. The table must never have had a
    /// row.
    pub restores: bool,
    admitted: Vec<stratalog_model::batch::EventBatch>,
    rows: u64,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("chronicle", &self.chronicle.name)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

/// The result of a writing statement.
#[derive(Debug)]
pub struct WriteResult {
    /// The number of stored rows.
    pub rows: u64,
    /// The stored rows, if [`Writer::keep`] is true.
    pub admitted: Vec<stratalog_model::batch::EventBatch>,
    /// The result of the commit; `None` if the rows belong to an open block.
    pub appended: Option<CommittedAppend>,
}

/// The columns with values from the statement.
fn written_columns(targets: &Targets) -> Vec<ColumnId> {
    let columns = &targets.chronicle.columns;
    targets.listed.iter().filter_map(|at| columns.get(*at)).map(|column| column.id).collect()
}

/// Checks that the session may append values of the columns now.
fn authorize_insert(session: &Session, chronicle: ChronicleId, listed: &[ColumnId]) -> Result<()> {
    let object = Object::Chronicle(chronicle);
    session.authorize(Privilege::Insert, object, Columns::Some(listed))
}

impl Writer {
    /// Starts a statement that [may write](super::transaction::check_write).
    ///
    /// # Errors
    /// `FeatureNotSupported` for a producer sequence number within a block, for a write to an
    /// existing table after ADD COLUMN in the same block, and for a plan with columns that ROLLBACK
    /// TO removed; `LockNotAvailable` when another session has acquired the table EXCLUSIVE.
    pub fn begin(session: &Session, targets: &Targets, on_conflict: OnConflict) -> Result<Self> {
        let (now, planned) = (session.catalog(), &targets.chronicle);
        let now = now.chronicle_by_id(planned.id).map(|now| now.schema_version);
        if now.is_some_and(|now| now < planned.schema_version) {
            return Err(Error::new(ErrorKind::FeatureNotSupported, crate::CACHED_PLAN_CHANGED)
                .with_detail("ROLLBACK TO removed columns of the planned statement"));
        }
        let listed = written_columns(targets);
        authorize_insert(session, planned.id, &listed)?;
        session.transaction.check_target(planned)?;
        let entered = session.enter(targets.chronicle.id, Use::Write)?;
        // The strictest table determines the durability.
        let options = AppendOptions {
            producer: take_producer(session)?,
            acceptance: session.acceptance(),
            ..AppendOptions::default()
        };
        let numbered = options.producer.is_some();
        Ok(Self {
            session: session.weak(),
            listed,
            checks: AppendChecks::default(),
            append: session.transaction.lend(numbered, || session.store().begin(options))?,
            chronicle: Arc::clone(&targets.chronicle),
            entered,
            on_conflict,
            keep: false,
            restores: false,
            admitted: Vec::new(),
            rows: 0,
        })
    }

    /// Adds rows with all columns of the chronicle to the append.
    ///
    /// # Errors
    /// See `Append::push`; `OutsideProjection` for rows outside of the range that the session has
    /// acquired.
    pub async fn push(&mut self, rows: arrow::array::RecordBatch) -> Result<()> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let within = self.entered.ticks;
        projection::check_rows(&self.chronicle, within, &rows)?;
        let session = self
            .session
            .upgrade()
            .ok_or_else(|| Error::new(ErrorKind::ConnectionFailure, "the session is closed"))?;
        // A long COPY sees a REVOKE and a new policy at its next rows.
        authorize_insert(&session, self.chronicle.id, &self.listed)?;
        self.checks.check(&session, &self.chronicle, self.keep, &rows).await?;
        let rows = stored(rows)?;
        let append = self.append.append()?;
        self.entered.announce(append.as_mut(), &self.chronicle);
        if self.chronicle.time_source.is_clocked() {
            append.restores(self.chronicle.id, self.restores);
        }
        let pushed = append.push(&self.chronicle, rows, self.on_conflict);
        let admitted = session.with_lost_writes_dropped(self.chronicle.id, pushed).await?;
        projection::check_ticks(&self.chronicle, within, &admitted.events.ticks)?;
        self.rows = self.rows.saturating_add(admitted.events.len() as u64);
        if self.keep {
            self.admitted.push(admitted.events);
        }
        Ok(())
    }

    /// Commits the rows, or leaves the rows to the open block.
    ///
    /// # Errors
    /// See `Append::commit`; the error of a statement that stops before the commit; `LeaseLost`
    /// when the session's lease on the table has run out.
    pub async fn finish(self, session: &Session, work: &Work) -> Result<WriteResult> {
        let appended = match self.append.finish(self.chronicle.id) {
            Some(append) => {
                work.commit()?;
                let uses = self.entered.using.into_iter().collect();
                Some(session.commit_task(uses, append.commit())?.await?)
            }
            None => None,
        };
        let duplicate = appended.is_some_and(|appended| appended.duplicate);
        if duplicate {
            session.say(super::transaction::already_stored());
        }
        Ok(WriteResult {
            rows: if duplicate { 0 } else { self.rows },
            admitted: if duplicate { Vec::new() } else { self.admitted },
            appended,
        })
    }
}

/// The value of `stratalog.producer_sequence`, the client's sequence number of the next writing
/// statement; `None` if not set.
fn sequence(session: &Session) -> Option<String> {
    session
        .setting("stratalog.producer_sequence")
        .filter(|sequence| !sequence.is_empty() && sequence != "0")
}

/// True if the client has set a sequence number for the next writing statement.
pub fn is_numbered(session: &Session) -> bool {
    sequence(session).is_some()
}

/// Checks that the client has set no sequence number, for a statement that cannot have a number.
///
/// # Errors
/// `FeatureNotSupported` if `stratalog.producer_sequence` is set.
pub fn refuse_number(session: &Session, statement: &str) -> Result<()> {
    match sequence(session) {
        None => Ok(()),
        Some(_) => Err(Error::new(
            ErrorKind::FeatureNotSupported,
            format!("stratalog.producer_sequence numbers INSERT and COPY, not {statement}"),
        )
        .with_hint("RESET stratalog.producer_sequence")),
    }
}

/// Reads the producer id and the sequence number of the next writing statement from the settings,
/// and resets the number.
fn take_producer(session: &Session) -> Result<Option<(ProducerId, u64)>> {
    let text = session.setting("stratalog.producer").unwrap_or_default();
    let Some(sequence) = sequence(session) else { return Ok(None) };
    if text.is_empty() {
        return Err(Error::new(
            ErrorKind::InvalidParameterValue,
            "stratalog.producer_sequence is set, and stratalog.producer is not",
        )
        .with_hint("SET stratalog.producer = 'a UUID', or RESET stratalog.producer_sequence"));
    }
    let bad = |what: &str| {
        Error::new(ErrorKind::InvalidParameterValue, format!("{what} has an invalid value"))
    };
    let producer = uuid::Uuid::parse_str(&text).map_err(|_| bad("stratalog.producer"))?;
    let sequence: u64 = sequence.parse().map_err(|_| bad("stratalog.producer_sequence"))?;
    session.variables().set("stratalog.producer_sequence", "0", false)?;
    Ok(Some((ProducerId(producer.as_u128()), sequence)))
}

/// Evaluates the argument expressions of an EXECUTE to constants of the given types.
///
/// # Errors
/// An error in a constant.
pub async fn constants(
    session: &Session,
    expressions: &[datafusion::sql::sqlparser::ast::Expr],
    types: &[ColumnType],
) -> Result<Vec<ScalarValue>> {
    let computing = ComputeContext::constants(session);
    let mut values = Vec::with_capacity(types.len());
    for (expr, column_type) in expressions.iter().zip(types) {
        let cell = Cell::of(expr, Some(column_type), &mut Vec::new())?;
        let exact = match &cell {
            Cell::Text(text) | Cell::Number(text) => exact_type(text, column_type),
            _ => None,
        };
        let column_type = exact.as_ref().unwrap_or(column_type);
        let array =
            values::one_value(&computing, cell, column_type, "parameter", "EXECUTE parameters")
                .await?;
        values.push(ScalarValue::try_from_array(&array, 0).map_err(from_datafusion)?);
    }
    Ok(values)
}
