//! Statements: parsed, prepared, executed.

pub(crate) mod acquire;
pub(crate) mod call;
pub(crate) mod complexity;
pub mod copy;
pub(crate) mod cursor;
pub(crate) mod ddl;
pub(crate) mod delete;
pub(crate) mod dialect;
pub(crate) mod explain;
pub(crate) mod insert;
pub(crate) mod lock;
pub(crate) mod names;
mod one_row;
pub(crate) mod ordered;
pub(crate) mod origin;
pub(crate) mod overlooked;
pub(crate) mod parameters;
pub(crate) mod parse;
pub(crate) mod point;
pub(crate) mod query;
pub(crate) mod recursion;
pub(crate) mod refused;
pub(crate) mod replays;
pub(crate) mod sealed;
pub(crate) mod setting;
pub(crate) mod shape;
pub(crate) mod subscribe;
pub(crate) mod system_columns;
pub(crate) mod template;
pub(crate) mod transaction;
pub(crate) mod walk;
pub(crate) mod zoned;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::{scalar::ScalarValue, sql::sqlparser::ast::Statement};
use stratalog_model::{ColumnType, Error, Result, chronicle::SYSTEM_COLUMNS};
use stratalog_text::{TimeZone, copy::CopyOptionValue};

use crate::{Held, errors::place::place};

/// What kind of statement a string holds, for protocols that must tell before they run it.
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

/// One statement of a SQL string.
#[derive(Debug)]
pub struct Parsed {
    kind: StatementKind,
    body: Body,
    /// The memory of a long text, of all statements in it.
    _held: Option<Arc<Held>>,
}

/// What a statement consists of.
#[derive(Debug)]
enum Body {
    /// What the parser gave.
    Whole(Box<parse::Tree>),
    /// A query of the shape of one that is planned.
    Shaped {
        /// Its text, without the `;`.
        text: String,
        /// The query of its shape, with parameters in the places of its constants.
        like: Arc<Prepared>,
        /// What stands in those places.
        constants: Vec<String>,
    },
}

impl Parsed {
    pub(crate) fn new(tree: parse::Tree) -> Self {
        let kind = match tree.own {
            Some(parse::Own::Acquire(_) | parse::Own::Release(_)) => StatementKind::Session,
            Some(parse::Own::Subscribe(_) | parse::Own::Trim) | None => kind_of(&tree.statement),
        };
        Self { kind, body: Body::Whole(Box::new(tree)), _held: None }
    }

    /// The statement, with the memory that its text holds.
    pub(crate) fn holding(self, held: Option<Arc<Held>>) -> Self {
        Self { _held: held, ..self }
    }

    /// A query of the shape of another one, with these constants: it need not be parsed.
    pub(crate) fn shaped(text: &str, like: Arc<Prepared>, constants: Vec<String>) -> Self {
        let text = text.trim_end().trim_end_matches(';').trim_end().to_string();
        Self { kind: like.parsed.kind, body: Body::Shaped { text, like, constants }, _held: None }
    }

    /// The query whose shape it has, and its own constants, where it was not parsed for that.
    pub(crate) fn shape(&self) -> Option<(&Arc<Prepared>, &[String])> {
        match &self.body {
            Body::Shaped { like, constants, .. } => Some((like, constants)),
            Body::Whole(_) => None,
        }
    }

    /// What the parser gave; where it was not parsed, of the query whose shape it has.
    fn tree(&self) -> &parse::Tree {
        match &self.body {
            Body::Whole(tree) => tree,
            Body::Shaped { like, .. } => like.parsed.tree(),
        }
    }

    /// An error of planning or running it, with its place in the string.
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

    /// The cursor that a FETCH names, whose rows have the shape that it has now.
    pub fn fetches(&self) -> Option<String> {
        match self.statement() {
            Statement::Fetch { name, into: None, .. } => Some(names::fold(name)),
            _ => None,
        }
    }

    /// The portal that a MOVE names which goes forward, by so many rows or to the end (`None`):
    /// portals of the protocol are cursors of SQL, too.
    pub fn moves_forward(&self) -> Option<(String, Option<u64>)> {
        cursor::moves_forward(self.statement())
    }

    /// Whether its rows come in an order that it asks for.
    pub fn is_ordered(&self) -> bool {
        self.is_endless()
            || matches!(self.statement(), Statement::Query(query) if query.order_by.is_some())
    }

    /// Whether its rows go on without an end, in the order of commits: those of a SUBSCRIBE.
    pub fn is_endless(&self) -> bool {
        self.subscribes().is_some()
    }

    pub(crate) fn subscribes(&self) -> Option<parse::position::Beginning> {
        match self.own() {
            Some(parse::Own::Subscribe(beginning)) => Some(*beginning),
            _ => None,
        }
    }

    /// What kind of statement it is.
    pub fn kind(&self) -> StatementKind {
        self.kind
    }

    /// Its tree; where it was not parsed, that of its shape, with parameters in the places of its
    /// constants: what is planned from a tree is planned from that of [`Session::whole`].
    pub(crate) fn statement(&self) -> &Statement {
        &self.tree().statement
    }

    /// What it is, where the parser's tree has no place for that.
    pub(crate) fn own(&self) -> Option<&parse::Own> {
        self.tree().own.as_ref()
    }

    /// What a DROP TABLE does where others have acquired the table.
    pub(crate) fn dropping(&self) -> parse::Dropping {
        self.tree().dropping
    }

    pub(crate) fn copy_options(&self) -> &[(String, CopyOptionValue)] {
        &self.tree().copy_options
    }

    /// Whether it names one of these system columns.
    pub(crate) fn mentions(&self, names: &[&str]) -> bool {
        let named = |at: &usize| SYSTEM_COLUMNS.get(*at).is_some_and(|name| names.contains(name));
        self.system_columns().iter().any(named)
    }

    pub(crate) fn system_columns(&self) -> &[usize] {
        &self.tree().system_columns
    }
}

/// A statement whose parameters and result are known.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) parsed: Arc<Parsed>,
    /// Types that the client told.
    pub(crate) told: Vec<Option<ColumnType>>,
    pub(crate) parameter_types: Vec<ColumnType>,
    /// Names of the parameters' types, where PostgreSQL has one that ours stands for.
    pub(crate) shown: Vec<Option<&'static str>>,
    /// Positions of the parameters whose type nothing tells.
    pub(crate) guessed: Vec<usize>,
    pub(crate) result: Option<SchemaRef>,
    pub(crate) plan: Plan,
    /// What the plan was made under; another makes it stale.
    pub(crate) catalog_version: u64,
    pub(crate) settings_version: u64,
    /// The zone of constants without a written zone.
    pub(crate) zone: TimeZone,
}

/// How a statement is carried out.
#[derive(Debug)]
pub(crate) enum Plan {
    /// A query.
    Query(query::Query),
    /// A query that is planned by its shape, with the constants of this one.
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
    /// From its tree, when it is executed.
    Tree,
}

impl Prepared {
    /// The types of `$1`, `$2` …; text where nothing tells one.
    pub fn parameter_types(&self) -> &[ColumnType] {
        &self.parameter_types
    }

    /// The name of a parameter's type, where PostgreSQL has one that ours stands for: `oid` …
    pub fn shown_type(&self, parameter: usize) -> Option<&'static str> {
        self.shown.get(parameter).copied().flatten()
    }

    /// Whether the type of a parameter, counted from 0, is a guess: nothing tells the type, or a function takes
    /// several types.
    pub fn is_guessed(&self, parameter: usize) -> bool {
        self.guessed.contains(&parameter)
    }

    /// Adds parameters of functions that take several types.
    pub(crate) fn guess(&mut self, guesses: &[usize]) {
        self.guessed.extend(guesses);
    }

    /// The types under which the statement loses no digit of the values; `None` when the known types do.
    ///
    /// # Errors
    /// When the plan cannot be walked.
    pub fn exact(&self, values: &[ScalarValue]) -> Result<Option<Vec<Option<ColumnType>>>> {
        let plan = match &self.plan {
            Plan::Query(query) | Plan::Declare(query) => Some(&query.plan),
            Plan::Insert(insert) => insert.computed(),
            Plan::Explain(explain) => Some(explain.plan()),
            _ => None,
        };
        let Some(plan) = plan else { return Ok(None) };
        parameters::exact(plan, &self.parameter_types, values, &self.told)
    }

    pub(crate) fn settle(&mut self, types: Vec<Option<ColumnType>>) {
        let open = types.iter().enumerate().filter(|(_, found)| found.is_none());
        self.guessed = open.map(|(at, _)| at).collect();
        self.parameter_types = parameters::or_text(types);
        self.shown = parameters::shown(self.parsed.statement(), self.parameter_types.len());
    }

    /// Shape of the rows; `None` when the statement returns none.
    pub fn result(&self) -> Option<&SchemaRef> {
        self.result.as_ref()
    }

    /// The statement.
    pub fn parsed(&self) -> &Arc<Parsed> {
        &self.parsed
    }
}

fn kind_of(statement: &Statement) -> StatementKind {
    match statement {
        Statement::Query(query) if query::body_insert(query).is_some() => StatementKind::Write,
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
