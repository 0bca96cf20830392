//! Statements: parsed, prepared, executed.

pub(crate) mod access;
pub(crate) mod acquire;
pub(crate) mod as_of_sealed;
pub(crate) mod call;
pub(crate) mod column_reads;
pub mod copy;
pub(crate) mod cursor;
pub(crate) mod ddl;
pub(crate) mod delete;
pub(crate) mod explain;
pub(crate) mod insert;
pub(crate) mod lock;
mod one_row;
pub(crate) mod origin;
pub(crate) mod point;
pub(crate) mod query;
pub(crate) mod replays;
pub(crate) mod row_policies;
pub(crate) mod setting;
pub(crate) mod shape;
pub(crate) mod subscribe;
pub(crate) mod system_columns;
pub(crate) mod template;
pub(crate) mod transaction;
pub(crate) mod zoned_constants;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::{scalar::ScalarValue, sql::sqlparser::ast::Statement};
use stratalog_metrics::StatementClass;
use stratalog_model::{ColumnType, Error, Result, chronicle::SYSTEM_COLUMNS};
use stratalog_postgres::{errors::place::place, names, parameters, parse};
use stratalog_text::{TimeZone, copy::CopyOptionValue};

use crate::{ShareReservation, service::statement_bytes};

/// The kind of a statement. Protocols read the kind before they run the statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementKind {
    /// Reads: SELECT, VALUES, WITH, TABLE, EXPLAIN, SHOW.
    Read,
    /// INSERT, DELETE, COPY … FROM.
    Write,
    /// CREATE, ALTER, DROP, COMMENT; CALL.
    Definition,
    /// BEGIN, COMMIT, ROLLBACK and their synonyms.
    Transaction,
    /// SET, RESET, DISCARD, PREPARE, DEALLOCATE, DECLARE, FETCH, ACQUIRE …
    Session,
}

impl StatementKind {
    /// The class under which metrics count the statement.
    pub(crate) fn class(self) -> StatementClass {
        match self {
            Self::Read => StatementClass::Read,
            Self::Write => StatementClass::Write,
            Self::Definition => StatementClass::Definition,
            Self::Transaction => StatementClass::Transaction,
            Self::Session => StatementClass::Session,
        }
    }
}

/// One statement of a SQL string.
#[derive(Debug)]
pub struct Parsed {
    kind: StatementKind,
    body: Body,
    /// The reserved memory of a long text; all statements of the text share the reservation.
    _held: Option<Arc<ShareReservation>>,
}

/// The content of a statement.
#[derive(Debug)]
enum Body {
    /// The syntax tree from the parser.
    Whole(Box<parse::Tree>),
    /// An unparsed query whose text differs from an already planned query only in its constants.
    Shaped {
        /// The text of the query, without the `;`.
        text: String,
        /// The already planned query, with parameters in place of the constants.
        like: Arc<Prepared>,
        /// The constants, in the order of the parameters.
        constants: Vec<String>,
    },
}

impl Parsed {
    pub(crate) fn new(tree: parse::Tree) -> Self {
        let kind = match tree.own {
            Some(parse::OwnStatement::Acquire(_) | parse::OwnStatement::Release(_)) => {
                StatementKind::Session
            }
            Some(parse::OwnStatement::Access(_)) => StatementKind::Definition,
            Some(parse::OwnStatement::Subscribe(_) | parse::OwnStatement::Trim) | None => {
                kind_of(&tree.statement)
            }
        };
        Self { kind, body: Body::Whole(Box::new(tree)), _held: None }
    }

    /// Attaches the reserved memory of the text to the statement.
    pub(crate) fn holding(self, held: Option<Arc<ShareReservation>>) -> Self {
        Self { _held: held, ..self }
    }

    /// A query whose text differs from `like` only in the constants. The parser does not read the
    /// query.
    pub(crate) fn shaped(text: &str, like: Arc<Prepared>, constants: Vec<String>) -> Self {
        let text = text.trim_end().trim_end_matches(';').trim_end().to_string();
        Self { kind: like.parsed.kind, body: Body::Shaped { text, like, constants }, _held: None }
    }

    /// The planned query that differs only in the constants, and the constants of this query;
    /// `None` if the parser read the statement.
    pub(crate) fn shape(&self) -> Option<(&Arc<Prepared>, &[String])> {
        match &self.body {
            Body::Shaped { like, constants, .. } => Some((like, constants)),
            Body::Whole(_) => None,
        }
    }

    /// The syntax tree from the parser. An unparsed query uses the tree of the planned query with
    /// the same shape.
    fn tree(&self) -> &parse::Tree {
        match &self.body {
            Body::Whole(tree) => tree,
            Body::Shaped { like, .. } => like.parsed.tree(),
        }
    }

    /// Adds the position in the SQL string to an error of planning or execution.
    pub(crate) fn place(&self, error: Error) -> Error {
        let before = match &self.body {
            Body::Whole(tree) => tree.before,
            Body::Shaped { .. } => 0,
        };
        place(error, self.text(), before)
    }

    /// The statement's own text, without the `;`.
    pub fn text(&self) -> &str {
        match &self.body {
            Body::Whole(tree) => &tree.text,
            Body::Shaped { text, .. } => text,
        }
    }

    /// The name of the cursor that a FETCH reads; `None` for other statements. The rows have the
    /// schema that the cursor has at execution.
    pub fn fetches(&self) -> Option<String> {
        match self.statement() {
            Statement::Fetch { name, into: None, .. } => Some(names::fold(name)),
            _ => None,
        }
    }

    /// For a forward MOVE: the name of the cursor or portal, and the number of rows. The number is
    /// `None` for a MOVE to the end. The result is `None` for every other statement.
    pub fn moves_forward(&self) -> Option<(String, Option<u64>)> {
        cursor::moves_forward(self.statement())
    }

    /// True if the statement defines the order of its rows.
    pub fn is_ordered(&self) -> bool {
        self.is_endless()
            || matches!(self.statement(), Statement::Query(query) if query.order_by.is_some())
    }

    /// True for a SUBSCRIBE: the rows have no end, and come in the order of commits.
    pub fn is_endless(&self) -> bool {
        self.subscribes().is_some()
    }

    pub(crate) fn subscribes(&self) -> Option<parse::position::Beginning> {
        match self.own() {
            Some(parse::OwnStatement::Subscribe(beginning)) => Some(*beginning),
            _ => None,
        }
    }

    /// The kind of the statement.
    pub fn kind(&self) -> StatementKind {
        self.kind
    }

    /// The syntax tree of the statement. An unparsed query has the tree of the planned query with
    /// the same shape, with parameters in place of the constants. Code that plans from a tree must
    /// call [`Session::whole`].
    pub(crate) fn statement(&self) -> &Statement {
        &self.tree().statement
    }

    /// The parsed form of a Stratalog statement that the syntax tree of the SQL parser cannot
    /// express; `None` for standard statements.
    pub(crate) fn own(&self) -> Option<&parse::OwnStatement> {
        self.tree().own.as_ref()
    }

    /// The behavior of a DROP TABLE if other sessions have acquired the table.
    pub(crate) fn dropping(&self) -> parse::DropMode {
        self.tree().dropping
    }

    pub(crate) fn copy_options(&self) -> &[(String, CopyOptionValue)] {
        &self.tree().copy_options
    }

    /// True if the statement names at least one of the system columns in `names`.
    pub(crate) fn mentions(&self, names: &[&str]) -> bool {
        let named = |at: &usize| SYSTEM_COLUMNS.get(*at).is_some_and(|name| names.contains(name));
        self.system_columns().iter().any(named)
    }

    pub(crate) fn system_columns(&self) -> &[usize] {
        &self.tree().system_columns
    }
}

/// A planned statement: the types of its parameters and the schema of its result are known.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) parsed: Arc<Parsed>,
    /// The parameter types that the client declared; `None` for an undeclared type.
    pub(crate) declared_types: Vec<Option<ColumnType>>,
    pub(crate) parameter_types: Vec<ColumnType>,
    /// For each parameter, the name of its PostgreSQL type if a Stratalog type represents a
    /// different PostgreSQL type.
    pub(crate) parameter_type_names: Vec<Option<&'static str>>,
    /// Parameters with a guessed type, counted from 0.
    pub(crate) guessed_parameters: Vec<usize>,
    pub(crate) result: Option<SchemaRef>,
    pub(crate) plan: Plan,
    /// The versions of the catalog and of the settings at the time of planning. The plan is stale
    /// under other versions.
    pub(crate) catalog_version: u64,
    pub(crate) settings_version: u64,
    /// The session's time zone at planning, for constants without a zone.
    pub(crate) zone: TimeZone,
    /// The bytes that planning allocated and did not free; 0 if the statement reuses the plan of
    /// another statement.
    pub(crate) planned_bytes: usize,
}

/// The limit of the measured bytes of a plan, as a multiple of the estimate: planning may also
/// allocate memory of shared caches.
const MEASURED_MULTIPLE_MAX: usize = 16;

/// The way to execute a statement.
#[derive(Debug)]
pub(crate) enum Plan {
    /// A query.
    Query(query::Query),
    /// A query that reuses the plan of a query with the same shape, with its own constants as
    /// parameters.
    Shaped(Arc<Prepared>, Vec<ScalarValue>),
    /// DECLARE of a cursor for a query.
    Declare(query::Query),
    /// SUBSCRIBE.
    Subscribe(Box<subscribe::Subscribe>),
    /// DECLARE of a cursor for a SUBSCRIBE.
    DeclareSubscribe(Box<subscribe::Subscribe>),
    /// EXPLAIN of a query.
    Explain(explain::Explain),
    /// INSERT.
    Insert(Box<insert::Insert>),
    /// CALL.
    Call(call::Call),
    /// ACQUIRE.
    Acquire(Box<acquire::Acquire>),
    /// Any other statement: executed directly from the syntax tree.
    Tree,
}

impl Prepared {
    /// The types of `$1`, `$2` …; text for an undetermined type.
    pub fn parameter_types(&self) -> &[ColumnType] {
        &self.parameter_types
    }

    /// The name of a parameter's PostgreSQL type, such as `oid`, if a Stratalog type represents a
    /// different PostgreSQL type; otherwise `None`.
    pub fn shown_type(&self, parameter: usize) -> Option<&'static str> {
        self.parameter_type_names.get(parameter).copied().flatten()
    }

    /// True if the type of a parameter, counted from 0, is a guess: the statement does not
    /// determine the type, or a function takes several types.
    pub fn is_guessed(&self, parameter: usize) -> bool {
        self.guessed_parameters.contains(&parameter)
    }

    /// Marks parameters, counted from 0, as guessed: arguments of functions that accept several
    /// types.
    pub(crate) fn guess(&mut self, guesses: &[usize]) {
        self.guessed_parameters.extend(guesses);
    }

    /// Parameter types wide enough for all digits of the given numeric values; `None` if the
    /// present types are wide enough.
    ///
    /// # Errors
    /// An error in the traversal of the plan.
    pub fn exact(&self, values: &[ScalarValue]) -> Result<Option<Vec<Option<ColumnType>>>> {
        let plan = match &self.plan {
            Plan::Query(query) | Plan::Declare(query) => Some(&query.plan),
            Plan::Insert(insert) => insert.computed(),
            Plan::Explain(explain) => Some(explain.plan()),
            _ => None,
        };
        let Some(plan) = plan else { return Ok(None) };
        parameters::exact(plan, &self.parameter_types, values, &self.declared_types)
    }

    pub(crate) fn settle(&mut self, types: Vec<Option<ColumnType>>) {
        let open = types.iter().enumerate().filter(|(_, found)| found.is_none());
        self.guessed_parameters = open.map(|(at, _)| at).collect();
        self.parameter_types = parameters::or_text(types);
        self.parameter_type_names =
            parameters::parameter_type_names(self.parsed.statement(), self.parameter_types.len());
    }

    /// The schema of the rows; `None` for a statement without rows.
    pub fn result(&self) -> Option<&SchemaRef> {
        self.result.as_ref()
    }

    /// The approximate memory of the statement and its plan, in bytes. The plan of a long text
    /// contains many copies of the text, because column names contain the text of expressions.
    pub fn memory_bytes(&self) -> usize {
        let estimate = statement_bytes(self.parsed.text());
        self.planned_bytes.min(estimate.saturating_mul(MEASURED_MULTIPLE_MAX)).max(estimate)
    }

    /// The parsed statement.
    pub fn parsed(&self) -> &Arc<Parsed> {
        &self.parsed
    }
}

fn kind_of(statement: &Statement) -> StatementKind {
    match statement {
        Statement::Query(query) if parse::body_insert(query).is_some() => StatementKind::Write,
        Statement::Query(_)
        | Statement::Explain { .. }
        | Statement::ExplainTable { .. }
        | Statement::ShowVariable { .. }
        | Statement::ShowVariables { .. } => StatementKind::Read,
        Statement::Copy { to: true, .. } => StatementKind::Read,
        Statement::Insert(_)
        | Statement::Delete(_)
        | Statement::Update(_)
        | Statement::Merge(_)
        | Statement::Truncate(_)
        | Statement::Copy { .. } => StatementKind::Write,
        Statement::StartTransaction { .. }
        | Statement::Commit { .. }
        | Statement::Rollback { .. }
        | Statement::Savepoint { .. }
        | Statement::ReleaseSavepoint { .. } => StatementKind::Transaction,
        Statement::Set(_)
        | Statement::Reset(_)
        | Statement::Discard { .. }
        | Statement::Prepare { .. }
        | Statement::Execute { .. }
        | Statement::Deallocate { .. }
        | Statement::Declare { .. }
        | Statement::Fetch { .. }
        | Statement::Close { .. }
        | Statement::Lock(_)
        | Statement::UNLISTEN { .. } => StatementKind::Session,
        _ => StatementKind::Definition,
    }
}
