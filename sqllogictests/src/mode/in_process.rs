//! In this process, through a session of the query service.

use std::{path::Path, sync::Arc};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use futures::TryStreamExt;
use sqllogictest::DBOutput;
use stratalog_query::{Login, Outcome, QueryService, Session};
use stratalog_text::ColumnWriter;

use crate::{Failure, Letter, mode::shown};

/// What one string of SQL answered.
#[derive(Debug)]
pub enum Answer {
    /// The rows of its last statement.
    Rows {
        /// Their shape.
        schema: SchemaRef,
        /// The rows.
        batches: Vec<RecordBatch>,
    },
    /// No rows; how many its command tag counts.
    Done(u64),
}

/// One session.
#[derive(Debug)]
pub struct Client {
    session: Arc<Session>,
}

impl Client {
    /// A session of `service`.
    pub fn connect(service: &Arc<QueryService>) -> Result<Self, Failure> {
        let login = Login {
            user: "stratalog".to_string(),
            database: "stratalog".to_string(),
            application_name: "sqllogictests".to_string(),
            ..Login::default()
        };
        Ok(Self { session: service.connect(login)? })
    }

    /// Runs one string of SQL to its end.
    pub async fn answer(&self, sql: &str) -> Result<Answer, Failure> {
        let answer = self.statements(sql).await;
        if answer.is_err() {
            self.session.fail_transaction();
        }
        answer
    }

    async fn statements(&self, sql: &str) -> Result<Answer, Failure> {
        let mut answer = Answer::Done(0);
        for parsed in self.session.parse(sql)? {
            answer = match self.session.run(&parsed).await? {
                Outcome::Rows(rows) => {
                    let schema = Arc::clone(rows.schema());
                    Answer::Rows { schema, batches: rows.try_collect().await? }
                }
                Outcome::Done(tag) => Answer::Done(count_of(&tag)),
                Outcome::Empty => Answer::Done(0),
                Outcome::CopyIn(_) | Outcome::CopyOut(_) => {
                    return Err(Failure::of_harness("COPY is tested over the wire"));
                }
            };
        }
        Ok(answer)
    }

    /// Runs one string of SQL and shows its rows as PostgreSQL's text.
    pub async fn run(&self, sql: &str) -> Result<DBOutput<Letter>, Failure> {
        match self.answer(sql).await? {
            Answer::Done(count) => Ok(DBOutput::StatementComplete(count)),
            Answer::Rows { schema, batches } => {
                let types = schema.fields().iter().map(|field| Letter::of(field)).collect();
                let mut rows = Vec::new();
                for batch in &batches {
                    rows.extend(self.shown_rows(&schema, batch)?);
                }
                Ok(DBOutput::Rows { types, rows })
            }
        }
    }

    fn shown_rows(
        &self,
        schema: &SchemaRef,
        batch: &RecordBatch,
    ) -> Result<Vec<Vec<String>>, Failure> {
        let style = self.session.text_style();
        let writers = schema
            .fields()
            .iter()
            .zip(batch.columns())
            .map(|(field, array)| ColumnWriter::new(array, field, &style))
            .collect::<Result<Vec<_>, _>>()?;
        let cell = |writer: &ColumnWriter<'_>, row| {
            let mut text = Vec::new();
            let present = writer.write(row, &mut text);
            shown(present.then(|| String::from_utf8_lossy(&text)).as_deref())
        };
        Ok((0..batch.num_rows())
            .map(|row| writers.iter().map(|writer| cell(writer, row)).collect())
            .collect())
    }

    /// Ends the session.
    pub fn close(&self) {
        self.session.close();
    }
}

/// The number at the end of a command tag: `INSERT 0 5`, `DELETE 3`.
fn count_of(tag: &str) -> u64 {
    tag.rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}
