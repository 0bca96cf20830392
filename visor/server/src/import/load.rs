//! Sends the batches of an input to a table, and explains errors.

use bytes::Bytes;
use futures::{StreamExt as _, stream};

use super::{
    ImportArguments,
    answers::IgnoringReceiver,
    producer::Producer,
    progress::RowProgress,
    source::{Batch, Source},
};
use crate::sql::{connection::Connection, error::SqlError};

/// Number of bytes of COPY data that are sent at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// A running import: the statement, and the numbers of rows so far.
pub(super) struct Load {
    /// The COPY statement of each batch.
    pub(super) statement: String,
    /// Rows that this run of the import has stored.
    pub(super) rows_stored: u64,
    /// Rows of the input that were stored before.
    pub(super) rows_skipped: u64,
    /// Rows that the producer had stored before this import.
    pub(super) rows_before: u64,
    pub(super) producer: Producer,
    /// The quoted name of the table, if this import has made the table.
    pub(super) made: Option<String>,
}

impl Load {
    /// Sends all batches of the input; skips the rows that were stored before.
    ///
    /// # Errors
    /// The first error of the input or of a batch; SQLSTATE 57014 after Ctrl-C.
    pub(super) async fn all(
        &mut self,
        connection: &mut Connection,
        mut source: Box<dyn Source>,
        batch_rows: u64,
        progress: &RowProgress,
    ) -> Result<(), SqlError> {
        let setting = format!("SET stratalog.producer = '{}'", self.producer.id);
        connection.run(&setting, &mut IgnoringReceiver).await?;
        let before = self.producer.rows_stored(connection).await?;
        self.rows_before = before;
        let (sender, mut batches) = tokio::sync::mpsc::channel::<Result<Batch, SqlError>>(1);
        tokio::task::spawn_blocking(move || {
            let mut skip = before;
            loop {
                // End a batch exactly where the already stored rows end, because a batch is stored
                // or skipped as a whole.
                let rows_max = if skip > 0 { batch_rows.min(skip) } else { batch_rows };
                let item = match source.next_batch(rows_max) {
                    Ok(Some(batch)) => Ok(batch),
                    Ok(None) => return,
                    Err(error) => Err(error),
                };
                let last = item.is_err();
                skip = skip.saturating_sub(item.as_ref().map_or(0, |batch| batch.rows));
                if sender.blocking_send(item).is_err() || last {
                    return;
                }
            }
        });
        let interrupted = || SqlError::of("57014", "interrupted");
        loop {
            let batch = tokio::select! {
                batch = batches.recv() => batch,
                Ok(()) = tokio::signal::ctrl_c() => return Err(interrupted()),
            };
            let Some(batch) = batch.transpose()? else { return Ok(()) };
            let (rows, position) = (batch.rows, batch.end);
            if self.rows_skipped < self.rows_before {
                self.rows_skipped += rows;
                progress.advance(position, self.rows_skipped);
                continue;
            }
            let canceller = connection.canceller();
            let stored = tokio::select! {
                stored = self.one(connection, batch) => stored?,
                Ok(()) = tokio::signal::ctrl_c() => {
                    canceller.cancel().await;
                    return Err(interrupted());
                }
            };
            if stored == 0 {
                self.rows_skipped += rows;
            } else {
                self.rows_stored += stored;
            }
            progress.advance(position, self.rows_stored + self.rows_skipped);
        }
    }

    /// Returns an error if the input has fewer rows than the producer has stored: it must be a
    /// different input.
    pub(super) fn check_end(&self) -> Result<(), SqlError> {
        let (rows, before) = (self.rows_skipped, self.rows_before);
        if rows >= before {
            return Ok(());
        }
        Err(SqlError::of(
            "22023",
            format!(
                "the input ends after {rows} rows, but {before} rows are stored under this --producer: the input is another one"
            ),
        )
        .with_hint("for another input, give another --producer, or no --producer"))
    }

    /// Sends a batch. Returns the number of stored rows; 0 if the batch was stored before.
    async fn one(&self, connection: &mut Connection, batch: Batch) -> Result<u64, SqlError> {
        let sequence = batch.first_row + batch.rows - 1;
        let setting = format!("SET stratalog.producer_sequence = {sequence}");
        connection.run(&setting, &mut IgnoringReceiver).await?;
        let Batch { bytes, lines, .. } = batch;
        let mut rest = Bytes::from(bytes);
        let chunks = std::iter::from_fn(move || {
            let chunk = rest.split_to(rest.len().min(CHUNK_BYTES));
            (!chunk.is_empty()).then_some(Ok(chunk))
        });
        connection
            .copy_in(&self.statement, stream::iter(chunks).boxed())
            .await
            .map_err(|error| lines.relabel(error))
    }

    /// Adds to an error the number of stored rows, and how to continue the import.
    pub(super) fn explained(&self, error: SqlError, arguments: &ImportArguments) -> SqlError {
        let done = self.rows_stored + self.rows_skipped.max(self.rows_before);
        let detail = match (&error.detail, done) {
            (Some(detail), _) => format!("{detail}\n         "),
            (None, _) => String::new(),
        };
        let stored = match (done, &self.made) {
            (0, None) => "Nothing is stored.".to_string(),
            (0, Some(table)) => format!("No row is stored; the new table {table} exists."),
            _ => format!("Rows 1 to {done} are stored; no row of the failed batch is stored."),
        };
        let hint = error.hint.clone().map(|hint| format!("{hint}\n       ")).unwrap_or_default();
        let resume = match (&arguments.producer, done) {
            (_, 0) => match (&self.made, arguments.create) {
                (Some(table), _) => format!(
                    "the table {table} exists now, without rows: correct the error, and run the command again; or, if a column has the wrong type, drop the table (DROP TABLE {table}), and run the command again with a larger --infer-rows"
                ),
                (None, true) => {
                    "correct the error, and run the command again; the table existed before this command, and --create does not change its columns"
                        .to_string()
                }
                (None, false) => "correct the error, and run the command again".to_string(),
            },
            (Some(_), _) => {
                "correct the error, and run the same command again: the command skips the stored rows"
                    .to_string()
            }
            (None, _) => format!(
                "correct the error, and run the command again with --producer {}: the command skips the stored rows",
                self.producer.name
            ),
        };
        SqlError {
            detail: Some(format!("{detail}{stored}").into()),
            hint: Some(format!("{hint}{resume}").into()),
            ..error
        }
    }
}
