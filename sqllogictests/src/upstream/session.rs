//! A session that accepts DataFusion's DDL, and formats results as in DataFusion's test files.

use std::{collections::HashMap, time::Duration};

use arrow::datatypes::Schema;
use async_trait::async_trait;
use sqllogictest::{AsyncDB, DBOutput};
use stratalog_model::ColumnType;

use super::{render, rewrite};
use crate::{
    Failure, Letter,
    mode::in_process::{InProcessClient, SqlAnswer},
};

/// Maximum time for one record (a statement or query of a test file), in seconds.
const RECORD_SECONDS_MAX: u64 = 60;

/// A session that runs DataFusion's test files.
#[derive(Debug)]
pub struct UpstreamSession {
    client: InProcessClient,
    /// The columns of each created table, without the added tick column.
    tables: HashMap<String, Vec<String>>,
}

impl UpstreamSession {
    /// A session over `client`.
    pub fn new(client: InProcessClient) -> Self {
        Self { client, tables: HashMap::new() }
    }

    async fn answer(&mut self, sql: &str) -> Result<DBOutput<Letter>, Failure> {
        if let Some(created) = rewrite::create_table(sql) {
            return self.create(&created).await;
        }
        let named = rewrite::insert_all(sql).and_then(|(name, source)| {
            let columns = self.tables.get(&name.to_ascii_lowercase())?;
            Some(format!("INSERT INTO {name} ({}) {source}", columns.join(", ")))
        });
        match self.client.answer(named.as_deref().unwrap_or(sql)).await? {
            SqlAnswer::Done(count) => Ok(DBOutput::StatementComplete(count)),
            SqlAnswer::Rows { schema, batches } => {
                let left_out = left_out(&schema);
                let mut rows = Vec::new();
                for batch in &batches {
                    rows.extend(render::rows(batch, &left_out)?);
                }
                let kept = schema.fields().len() - left_out.len();
                Ok(DBOutput::Rows { types: vec![Letter::Any; kept], rows })
            }
        }
    }

    async fn create(
        &mut self,
        created: &rewrite::CreateAs<'_>,
    ) -> Result<DBOutput<Letter>, Failure> {
        let key = created.name.to_ascii_lowercase();
        if created.replace && self.tables.contains_key(&key) {
            self.client.answer(&format!("DROP TABLE IF EXISTS {}", created.name)).await?;
        }
        let definitions: Vec<String> = match created.columns {
            Some(columns) => rewrite::definitions(columns)
                .into_iter()
                .filter(|text| rewrite::column_name(text).is_some())
                .map(rewrite::definition)
                .collect(),
            None => self.definitions_of(created.query).await?,
        };
        let create = format!(
            "CREATE TABLE {} ({} TIMESTAMPTZ NOT NULL DEFAULT now(), {})",
            created.name,
            rewrite::TICK,
            definitions.join(", ")
        );
        self.client.answer(&create).await?;
        let names: Vec<String> = definitions
            .iter()
            .filter_map(|text| rewrite::column_name(text))
            .map(str::to_string)
            .collect();
        let insert =
            format!("INSERT INTO {} ({}) {}", created.name, names.join(", "), created.query);
        self.tables.insert(key, names);
        if !created.query.is_empty() {
            self.client.answer(&insert).await?;
        }
        Ok(DBOutput::StatementComplete(0))
    }

    /// Column definitions of a table that can store the result of a query.
    async fn definitions_of(&mut self, query: &str) -> Result<Vec<String>, Failure> {
        let SqlAnswer::Rows { schema, .. } = self.client.answer(query).await? else {
            return Err(Failure::of_harness("CREATE TABLE AS without rows"));
        };
        schema
            .fields()
            .iter()
            .map(|field| {
                let column_type = ColumnType::from_arrow_field(field)
                    .ok_or_else(|| Failure::of_harness(format!("no SQL type for {field}")))?;
                Ok(format!("\"{}\" {column_type}", field.name()))
            })
            .collect()
    }
}

/// Positions of the added tick columns, which `*` puts into a result.
fn left_out(schema: &Schema) -> Vec<usize> {
    let fields = schema.fields().iter().enumerate();
    fields.filter(|(_, field)| field.name() == rewrite::TICK).map(|(at, _)| at).collect()
}

#[async_trait]
impl AsyncDB for UpstreamSession {
    type Error = Failure;
    type ColumnType = Letter;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<Letter>, Failure> {
        match tokio::time::timeout(Duration::from_secs(RECORD_SECONDS_MAX), self.answer(sql)).await
        {
            Ok(output) => output,
            Err(_) => Err(Failure::of_harness(format!("no answer in {RECORD_SECONDS_MAX} s"))),
        }
    }

    async fn shutdown(&mut self) {
        self.client.close();
    }

    fn engine_name(&self) -> &str {
        "DataFusion"
    }

    async fn sleep(duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    fn error_sql_state(failure: &Failure) -> Option<String> {
        Some(failure.sqlstate().to_string())
    }
}
