//! Runs statements in this process, through a session of the query service.

use std::{path::Path, sync::Arc};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use futures::TryStreamExt;
use sqllogictest::DBOutput;
use stratalog::{Embedded, StartError, settings::Settings};
use stratalog_query::{Login, Outcome, QueryService, Session, TransactionState};
use stratalog_text::ColumnWriter;

use crate::{Failure, Letter, mode::cell_text};

/// Size of the journal's segments in bytes: small, because every file has a new database.
const SEGMENT_BYTES: u64 = 20 << 20;

/// Settings of a database in `directory`.
pub(crate) fn settings(directory: &Path) -> Settings {
    let mut settings =
        Settings { data_dir: directory.to_string_lossy().into_owned(), ..Settings::default() };
    settings.segment_bytes.0 = SEGMENT_BYTES;
    // Keep no copies in memory, so that reads of tablets go to their files.
    settings.backlog_bytes_max.0 = 0;
    settings
}

pub(crate) fn not_started(error: StartError) -> Failure {
    Failure::of_harness(error.to_string())
}

/// An open database.
#[derive(Debug)]
pub struct InProcessInstance {
    embedded: Embedded,
}

impl InProcessInstance {
    /// Opens the database of `directory`.
    pub async fn open(directory: &Path) -> Result<Self, Failure> {
        let embedded = Embedded::open(&settings(directory)).await.map_err(not_started)?;
        Ok(Self { embedded })
    }

    /// The embedded server.
    pub(crate) fn embedded(&self) -> &Embedded {
        &self.embedded
    }

    /// Opens a session.
    pub fn connect(&self) -> Result<InProcessClient, Failure> {
        InProcessClient::connect(self.embedded.service())
    }

    /// Closes the database.
    pub async fn close(self) -> Result<(), Failure> {
        tokio::task::spawn_blocking(move || self.embedded.close())
            .await
            .map_err(|error| Failure::of_harness(error.to_string()))?
            .map_err(not_started)
    }
}

/// The result of an SQL string.
#[derive(Debug)]
pub enum SqlAnswer {
    /// The rows of the last statement.
    Rows {
        /// The schema of the rows.
        schema: SchemaRef,
        /// The rows.
        batches: Vec<RecordBatch>,
    },
    /// A result without rows, with the row count of the command tag.
    Done(u64),
}

/// A session.
#[derive(Debug)]
pub struct InProcessClient {
    session: Arc<Session>,
}

impl InProcessClient {
    /// A session of `service`.
    pub fn connect(service: &Arc<QueryService>) -> Result<Self, Failure> {
        let login = Login {
            identity: stratalog_query::Identity::Trusted,
            user: "stratalog".to_string(),
            database: "stratalog".to_string(),
            application_name: "sqllogictests".to_string(),
            ..Login::default()
        };
        Ok(Self { session: service.connect(login)? })
    }

    /// Runs all statements of an SQL string.
    pub async fn answer(&self, sql: &str) -> Result<SqlAnswer, Failure> {
        let answer = self.statements(sql).await;
        if answer.is_err() {
            self.session.fail_transaction();
        }
        answer
    }

    async fn statements(&self, sql: &str) -> Result<SqlAnswer, Failure> {
        let mut answer = SqlAnswer::Done(0);
        for parsed in self.session.parse(sql)? {
            answer = match self.session.run(&parsed).await? {
                Outcome::Rows(rows) => {
                    let schema = Arc::clone(rows.schema());
                    SqlAnswer::Rows { schema, batches: rows.try_collect().await? }
                }
                Outcome::Done(tag) => SqlAnswer::Done(count_of(&tag)),
                Outcome::Empty => SqlAnswer::Done(0),
                Outcome::CopyIn(_) | Outcome::CopyOut(_) => {
                    return Err(Failure::of_harness("COPY is tested over the wire"));
                }
            };
        }
        Ok(answer)
    }

    /// Runs an SQL string, and formats its rows as PostgreSQL would.
    pub async fn run(&self, sql: &str) -> Result<DBOutput<Letter>, Failure> {
        match self.answer(sql).await? {
            SqlAnswer::Done(count) => Ok(DBOutput::StatementComplete(count)),
            SqlAnswer::Rows { schema, batches } => {
                let types = schema.fields().iter().map(|field| Letter::of(field)).collect();
                let mut rows = Vec::new();
                for batch in &batches {
                    rows.extend(self.row_texts(&schema, batch)?);
                }
                Ok(DBOutput::Rows { types, rows })
            }
        }
    }

    fn row_texts(
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
            cell_text(present.then(|| String::from_utf8_lossy(&text)).as_deref())
        };
        Ok((0..batch.num_rows())
            .map(|row| writers.iter().map(|writer| cell(writer, row)).collect())
            .collect())
    }

    /// True if no transaction block is open.
    pub(crate) fn is_outside_of_block(&self) -> bool {
        self.session.transaction() == TransactionState::Idle
    }

    /// Ends the session.
    pub fn close(&self) {
        self.session.close();
    }
}

/// The number at the end of a command tag, such as 5 in `INSERT 0 5` and 3 in `DELETE 3`; 0 without
/// a number.
fn count_of(tag: &str) -> u64 {
    tag.rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}
