//! RETURNING: a query over the stored rows of the statement, with the assigned ticks and sequence
//! numbers.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Int16Array, Int64Array, RecordBatch, StringViewArray},
    datatypes::{Field, Schema, SchemaRef},
};
use datafusion::{
    catalog::TableProvider,
    datasource::MemTable,
    logical_expr::LogicalPlan,
    sql::sqlparser::ast::{Ident, SelectItem},
};
use stratalog_model::{
    ChronicleDefinition, ColumnId, Error, Result,
    batch::{EventBatch, system_column_type},
    chronicle::SYSTEM_COLUMNS,
};
use stratalog_postgres::{
    dialect,
    errors::{from_arrow, from_datafusion},
    names, parse,
};

use super::{WriteResult, columns::Targets};
use crate::{
    Parsed, Rows, RowsTag, Session,
    session::{acquisitions::PinnedSnapshot, work::Work},
    statement::{column_reads::ColumnReads, query, system_columns},
};

/// The table name of the stored rows in the query of RETURNING.
const STORED: &str = "$stored";

/// A planned RETURNING.
#[derive(Debug)]
pub struct Returning {
    /// The schema of the result.
    pub schema: SchemaRef,
    /// The query `SELECT items FROM "$stored" AS table`.
    sql: String,
    /// System columns that the items mention.
    mentioned: Vec<usize>,
    /// The chronicles and columns that the subqueries read.
    pub reads: Arc<ColumnReads>,
    /// The columns of the stored rows that the clause names; `None` for system columns.
    pub named: Option<Vec<ColumnId>>,
}

impl Returning {
    /// Plans the select items of a RETURNING clause.
    ///
    /// # Errors
    /// An error in the items.
    pub async fn plan(
        session: &Session,
        chronicle: &Arc<ChronicleDefinition>,
        items: &[SelectItem],
        alias: Option<&Ident>,
        parsed: &Parsed,
    ) -> Result<Self> {
        let shown =
            alias.cloned().unwrap_or_else(|| Ident::with_quote('"', chronicle.name.clone()));
        let mut items = items.to_vec();
        names::schemas::resolve_returning(
            &mut items,
            (&chronicle.schema, &chronicle.name),
            (&shown, alias.is_none()),
        )?;
        let list: Vec<String> = items.iter().map(ToString::to_string).collect();
        let sql = format!("SELECT {} FROM \"{STORED}\" AS {shown}", list.join(", "));
        let mentioned = parsed.system_columns().to_vec();
        let table = Arc::new(
            MemTable::try_new(stored_schema(chronicle, &mentioned), vec![Vec::new()])
                .map_err(from_datafusion)?,
        );
        let (reads, schema) = (Arc::default(), Arc::new(Schema::empty()));
        let empty = Self { schema, sql, mentioned, reads, named: None };
        let (plan, schema) = empty.logical(session, table).await?;
        let named = ColumnReads::columns_of(&plan, STORED, chronicle)?;
        Ok(Self { schema, reads: Arc::new(ColumnReads::of(&plan)?), named, ..empty })
    }

    async fn logical(
        &self,
        session: &Session,
        table: Arc<dyn TableProvider>,
    ) -> Result<(LogicalPlan, SchemaRef)> {
        let tree = parse::statements(&self.sql, usize::MAX)?
            .into_iter()
            .next()
            .ok_or_else(|| Error::internal("RETURNING without a query"))?;
        let datafusion::sql::sqlparser::ast::Statement::Query(mut tree) = tree.statement else {
            return Err(Error::internal("RETURNING is no query"));
        };
        let planner = session.enter_planner(&self.mentioned).await?;
        names::schemas::resolve(&mut tree, &*planner)?;
        system_columns::hide(&mut tree, &self.mentioned)?;
        let named = names::name_output(&mut tree);
        let mut statement = datafusion::sql::sqlparser::ast::Statement::Query(tree);
        dialect::normalize(&mut statement, planner.style())?;
        stratalog_pg_catalog::rewrite(&mut statement);
        planner.replace(STORED, table);
        let plan = planner.logical(&statement).await?;
        super::compute::check_one_row(&plan, Some(STORED), "RETURNING")?;
        let plan = planner.analyze(&plan)?;
        let schema = query::result_schema(plan.schema().as_arrow(), &named);
        Ok((plan, schema))
    }

    /// Computes the result rows from the stored rows.
    ///
    /// # Errors
    /// An error of the evaluation of the items; the rows are stored in any case.
    pub async fn rows(
        &self,
        session: &Session,
        targets: &Targets,
        finished: WriteResult,
        pinned: &PinnedSnapshot,
        work: &Arc<Work>,
    ) -> Result<Rows> {
        let schema = stored_schema(&targets.chronicle, &self.mentioned);
        let mut gsn = match finished.appended {
            Some(appended) => appended.first_gsn.map(|gsn| gsn.0),
            None if self.mentioned.iter().any(|at| SYSTEM_COLUMNS.get(*at) == Some(&"_gsn")) => {
                return Err(Error::not_yet("RETURNING _gsn in a transaction block")
                    .with_detail("events get a _gsn at the commit of the block"));
            }
            None => None,
        };
        let mut batches = Vec::with_capacity(finished.admitted.len());
        for events in &finished.admitted {
            let chronicle = targets.chronicle.as_ref();
            batches.push(stored(chronicle, events, &schema, &self.mentioned, &mut gsn)?);
        }
        let table = Arc::new(
            MemTable::try_new(Arc::clone(&schema), vec![batches]).map_err(from_datafusion)?,
        );
        let (plan, schema) = self.logical(session, table).await?;
        query::run_plan(session, &plan, schema, pinned, query::QueryRun::now(work, RowsTag::Insert))
            .await
    }
}

fn stored_schema(chronicle: &ChronicleDefinition, mentioned: &[usize]) -> SchemaRef {
    let user = chronicle.arrow_schema();
    let mut fields: Vec<Arc<Field>> = user.fields().iter().map(Arc::clone).collect();
    for name in mentioned.iter().filter_map(|at| SYSTEM_COLUMNS.get(*at)) {
        if let Some(data_type) = system_column_type(name) {
            fields.push(Arc::new(Field::new(*name, data_type, true)));
        }
    }
    Arc::new(Schema::new(fields))
}

/// Builds a batch of stored events with the mentioned system columns. Advances `gsn` by the number
/// of events.
fn stored(
    chronicle: &ChronicleDefinition,
    events: &EventBatch,
    schema: &SchemaRef,
    mentioned: &[usize],
    gsn: &mut Option<u64>,
) -> Result<RecordBatch> {
    let rows = events.len();
    let count = i64::try_from(rows).unwrap_or(i64::MAX);
    let from = |first: u64| -> ArrayRef {
        let first = i64::try_from(first).unwrap_or(i64::MAX);
        Arc::new(Int64Array::from_iter_values((0..count).map(|at| first.saturating_add(at))))
    };
    let mut columns: Vec<ArrayRef> = events.rows.columns().to_vec();
    for name in mentioned.iter().filter_map(|at| SYSTEM_COLUMNS.get(*at)) {
        columns.push(match *name {
            "_tick" => Arc::new(Int64Array::new(events.ticks.clone(), None)),
            "_seq" => from(events.first_seq),
            "_gsn" => match gsn {
                Some(first) => from(*first),
                None => Arc::new(Int64Array::new_null(rows)),
            },
            "_origin" => Arc::new(Int16Array::from(vec![0; rows])),
            "_toid" => match gsn {
                Some(first) => from(*first),
                None => Arc::new(Int64Array::new_null(rows)),
            },
            "_group" => {
                let groups = chronicle.grouping();
                let groups = events.ticks.iter().map(|tick| groups.group_of(*tick));
                Arc::new(Int64Array::from_iter_values(groups))
            }
            _ => Arc::new(StringViewArray::from(vec!["journal"; rows])),
        });
    }
    *gsn = gsn.map(|first| first.saturating_add(rows as u64));
    RecordBatch::try_new(Arc::clone(schema), columns).map_err(from_arrow)
}
