//! A connection to a database that this process has opened.

use std::{fmt, pin::pin, sync::Arc};

use arrow::array::RecordBatch;
use futures::TryStreamExt as _;
use stratalog_model::ColumnType;
use stratalog_query::{CancelKey, Login, Outcome, Parsed, QueryService, Rows, Session};
use stratalog_text::{ColumnWriter, CopyParser, CopyWriter, TextStyle};

use super::{CopyData, Receiver};
use crate::{
    Embedded,
    sql::{
        error::SqlError,
        rows::{ResultColumn, TextRows},
    },
};

/// A session of an embedded database.
pub struct EmbeddedConnection {
    embedded: Arc<Embedded>,
    session: Arc<Session>,
    database: String,
}

impl fmt::Debug for EmbeddedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedConnection").finish_non_exhaustive()
    }
}

/// Cancels the running statement of an embedded session.
#[derive(Clone)]
pub struct EmbeddedCanceller {
    service: Arc<QueryService>,
    key: CancelKey,
}

impl EmbeddedCanceller {
    pub(super) fn cancel(&self) {
        self.service.cancel(&self.key);
    }
}

impl EmbeddedConnection {
    /// Opens a session.
    ///
    /// # Errors
    /// An unknown database.
    pub fn connect(embedded: Arc<Embedded>, user: &str, database: &str) -> Result<Self, SqlError> {
        let session = embedded.service().connect(Login {
            identity: stratalog_query::Identity::System,
            user: user.to_string(),
            database: database.to_string(),
            application_name: "stratalog sql".to_string(),
            client_address: None,
            settings: Vec::new(),
            long_secret: false,
        })?;
        Ok(Self { embedded, session, database: database.to_string() })
    }

    fn parse_one(&self, sql: &str) -> Result<Option<Arc<Parsed>>, SqlError> {
        let mut statements = self.session.parse(sql)?;
        match statements.len() {
            0 | 1 => Ok(statements.pop()),
            _ => Err(SqlError::local("more than one statement at a time")),
        }
    }

    pub(super) async fn run(
        &mut self,
        sql: &str,
        receiver: &mut dyn Receiver,
    ) -> Result<String, SqlError> {
        let Some(parsed) = self.parse_one(sql)? else { return Ok(String::new()) };
        match self.session.run(&parsed).await? {
            Outcome::Rows(rows) => self.receive(rows, receiver).await,
            Outcome::Done(tag) => Ok(tag),
            Outcome::Empty => Ok(String::new()),
            Outcome::CopyIn(_) => Err(SqlError::local("COPY … FROM STDIN has no data here")),
            Outcome::CopyOut(copy) => {
                let style = self.session.text_style();
                let mut rows = copy.rows;
                let writer = CopyWriter::new(copy.options, Arc::clone(rows.schema()), style);
                let (mut bytes, mut count) = (Vec::new(), 0);
                writer.write_header(&mut bytes)?;
                while let Some(batch) = rows.try_next().await? {
                    writer.write_batch(&batch, &mut bytes)?;
                    count += batch.num_rows();
                    copy.progress.add_rows(batch.num_rows());
                    copy.progress.add_bytes(bytes.len());
                    receiver.bytes(&bytes)?;
                    bytes.clear();
                }
                receiver.bytes(&bytes)?;
                Ok(format!("COPY {count}"))
            }
        }
    }

    async fn receive(
        &self,
        mut rows: Rows,
        receiver: &mut dyn Receiver,
    ) -> Result<String, SqlError> {
        let style = self.session.text_style();
        let columns = columns_of(rows.schema());
        receiver.columns(&columns)?;
        let mut text = TextRows::new(columns.len());
        while let Some(batch) = rows.try_next().await? {
            to_text(&batch, &style, &mut text)?;
            receiver.rows(&text)?;
            text.clear();
        }
        Ok(rows.tag())
    }

    pub(super) async fn copy_in(&mut self, sql: &str, data: CopyData<'_>) -> Result<u64, SqlError> {
        let parsed = self
            .parse_one(sql)?
            .ok_or_else(|| SqlError::local("an empty statement copies nothing"))?;
        let Outcome::CopyIn(mut copy) = self.session.run(&parsed).await? else {
            return Err(SqlError::local("the statement is not COPY … FROM STDIN"));
        };
        let mut parser = CopyParser::new(copy.options, copy.columns, self.session.text_style())?
            .for_table(copy.table)
            .requiring(&copy.required)
            .of_whole_rows(copy.whole_rows)
            .with_optional_last(copy.last_is_optional);
        let mut data = pin!(data);
        while let Some(bytes) = data.try_next().await? {
            for batch in parser.push(&bytes)? {
                copy.sink.push(batch).await?;
            }
            copy.progress.add_bytes(bytes.len());
        }
        if let Some(batch) = parser.finish()? {
            copy.sink.push(batch).await?;
        }
        Ok(copy.sink.finish(parser.skipped()).await?)
    }

    pub(super) async fn describe(&mut self, sql: &str) -> Result<Vec<ResultColumn>, SqlError> {
        let Some(parsed) = self.parse_one(sql)? else { return Ok(Vec::new()) };
        let prepared = self.session.prepare(&parsed, &[]).await?;
        Ok(prepared.result().map(|schema| columns_of(schema)).unwrap_or_default())
    }

    pub(super) fn canceller(&self) -> EmbeddedCanceller {
        EmbeddedCanceller {
            service: Arc::clone(self.embedded.service()),
            key: self.session.key().clone(),
        }
    }

    pub(super) fn take_notices(&mut self) -> Vec<String> {
        let notices = self.session.take_notices().into_iter();
        notices
            .map(|notice| {
                let mut line = format!("{}:  {}", notice.severity, notice.message);
                for (label, part) in [("DETAIL", notice.detail), ("HINT", notice.hint)] {
                    if let Some(part) = part {
                        line.push_str(&format!("\n{label}:  {part}"));
                    }
                }
                line
            })
            .collect()
    }

    pub(super) fn database(&self) -> &str {
        &self.database
    }

    pub(super) fn place(&self) -> String {
        self.embedded.directory().display().to_string()
    }
}

impl Drop for EmbeddedConnection {
    fn drop(&mut self) {
        self.session.close();
    }
}

fn columns_of(schema: &arrow::datatypes::Schema) -> Vec<ResultColumn> {
    let fields = schema.fields().iter();
    fields
        .map(|field| ResultColumn {
            name: field.name().clone(),
            column_type: ColumnType::from_arrow_field(field).unwrap_or(ColumnType::Text),
        })
        .collect()
}

fn to_text(batch: &RecordBatch, style: &TextStyle, rows: &mut TextRows) -> Result<(), SqlError> {
    let schema = batch.schema();
    let writers: Vec<ColumnWriter<'_>> = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(array, field)| ColumnWriter::new(array.as_ref(), field, style))
        .collect::<Result<_, _>>()?;
    let mut value = Vec::new();
    for row in 0..batch.num_rows() {
        for writer in &writers {
            value.clear();
            let present = writer.write(row, &mut value);
            let text =
                std::str::from_utf8(&value).map_err(|_| SqlError::local("a value is not UTF-8"))?;
            rows.push(present.then_some(text));
        }
    }
    Ok(())
}
