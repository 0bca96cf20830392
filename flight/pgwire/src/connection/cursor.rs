//! Rows to the client, with back-pressure.

use arrow::array::RecordBatch;
use futures::StreamExt as _;
use stratalog_query::Rows;
use stratalog_text::TextStyle;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Connection, Step};
use crate::encode::RowWriter;

/// A result that is being read.
pub(crate) struct Cursor {
    rows: Rows,
    formats: Vec<i16>,
    style: TextStyle,
    /// The batch that is being sent, and its next row.
    batch: Option<(RecordBatch, usize)>,
    ended: bool,
}

impl Cursor {
    pub(crate) fn new(rows: Rows, formats: Vec<i16>, style: TextStyle) -> Self {
        Self { rows, formats, style, batch: None, ended: false }
    }

    pub(crate) fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Whether everything was sent.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    /// Sends rows until the result ends or `rows_max` (0: no limit) are sent; how many
    /// they were. As in PostgreSQL, a result is known to have ended only when a row was
    /// asked for and there was none.
    pub(crate) async fn send_rows(&mut self, cursor: &mut Cursor, rows_max: usize) -> Step<u64> {
        let limit = if rows_max == 0 { u64::MAX } else { rows_max as u64 };
        self.pass_rows(cursor, limit, true).await
    }

    /// Sends rows, or passes them over, until the result ends or there were so many.
    pub(crate) async fn pass_rows(
        &mut self,
        cursor: &mut Cursor,
        limit: u64,
        sends: bool,
    ) -> Step<u64> {
        let mut sent = 0_u64;
        while !cursor.ended && sent < limit {
            let (batch, first) = match cursor.batch.take() {
                Some(batch) => batch,
                None => match self.watched(next(&mut cursor.rows)).await? {
                    Some(batch) => (batch, 0),
                    None => {
                        cursor.ended = true;
                        break;
                    }
                },
            };
            let left = batch.num_rows().saturating_sub(first);
            if !sends {
                let passed = left.min(usize::try_from(limit - sent).unwrap_or(usize::MAX));
                sent += passed as u64;
                if passed < left {
                    cursor.batch = Some((batch, first + passed));
                }
                continue;
            }
            let writer = RowWriter::new(&batch, &cursor.formats, &cursor.style)?;
            let mut row = first;
            while row < batch.num_rows() && sent < limit {
                writer.write(row, &mut self.out)?;
                row += 1;
                sent += 1;
                if self.out.bytes.len() >= self.settings.output_buffer_bytes {
                    self.flush().await?;
                }
            }
            drop(writer);
            if row < batch.num_rows() {
                cursor.batch = Some((batch, row));
            }
        }
        Ok(sent)
    }
}

async fn next(rows: &mut Rows) -> stratalog_model::Result<Option<RecordBatch>> {
    rows.next().await.transpose()
}
