//! A session that takes DataFusion's DDL and shows results as DataFusion's files do.

use std::{collections::HashSet, time::Duration};

use arrow::datatypes::Schema;
use async_trait::async_trait;
use sqllogictest::{AsyncDB, DBOutput};
use stratalog_model::ColumnType;

use super::{render, rewrite};
use crate::{
    Failure, Letter,
    mode::in_process::{Answer, Client},
};

/// Longest time that one record may take.
const RECORD_SECONDS_MAX: u64 = 60;

/// One session of the upstream mode.
#[derive(Debug)]
pub struct UpstreamSession {
    client: Client,
    /// Whether some table got a `time` column that its statement did not name.
    implicit_time: bool,
    tables: HashSet<String>,
}

impl UpstreamSession {
    /// A session over `client`.
    pub fn new(client: Client) -> Self {
        Self { client, implicit_time: false, tables: HashSet::new() }
    }

    async fn answer(&mut self, sql: &str) -> Result<DBOutput<Letter>, Failure> {
        if let Some(created) = rewrite::create_table(sql) {
            return self.create(&created).await;
        }
        match self.client.answer(sql).await? {
            Answer::Done(count) => Ok(DBOutput::StatementComplete(count)),
            Answer::Rows { schema, batches } => {
                let left_out = self.left_out(sql, &schema);
                let mut rows = Vec::new();
                for batch in &batches {
                    rows.extend(render::rows(batch, &left_out)?);
                }
                let kept = schema.fields().len() - left_out.len();
                Ok(DBOutput::Rows { types: vec![Letter::Any; kept], rows })
            }
        }
    }

    /// Positions of `time` columns that only `*` can have brought in.
    fn left_out(&self, sql: &str, schema: &Schema) -> Vec<usize> {
        if !self.implicit_time || !sql.contains('*') {
            return Vec::new();
        }
        let fields = schema.fields().iter().enumerate();
        fields.filter(|(_, field)| field.name() == "time").map(|(at, _)| at).collect()
    }

    async fn create(
        &mut self,
        created: &rewrite::CreateAs<'_>,
    ) -> Result<DBOutput<Letter>, Failure> {
        if created.replace && self.tables.contains(created.name) {
            self.client.answer(&format!("DROP TABLE IF EXISTS {}", created.name)).await?;
        }
        let definitions: Vec<String> = match created.columns {
            Some(columns) => {
                rewrite::definitions(columns).into_iter().map(rewrite::definition).collect()
            }
            None => self.definitions_of(created.query).await?,
        };
        self.implicit_time |= !definitions.iter().any(|text| rewrite::is_timestamp(text));
        self.client
            .answer(&format!("CREATE TABLE {} ({})", created.name, definitions.join(", ")))
            .await?;
        self.tables.insert(created.name.to_string());
        if created.query.is_empty() {
            return Ok(DBOutput::StatementComplete(0));
        }
        let names: Vec<&str> =
            definitions.iter().filter_map(|text| rewrite::column_name(text)).collect();
        let insert =
            format!("INSERT INTO {} ({}) {}", created.name, names.join(", "), created.query);
        self.client.answer(&insert).await?;
        Ok(DBOutput::StatementComplete(0))
    }

    /// Column definitions for the result of a query.
    async fn definitions_of(&mut self, query: &str) -> Result<Vec<String>, Failure> {
        let Answer::Rows { schema, .. } = self.client.answer(query).await? else {
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
