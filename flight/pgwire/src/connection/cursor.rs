//! Sends the rows of a result to the client, no faster than the client reads.

use arrow::array::RecordBatch;
use futures::{FutureExt as _, StreamExt as _};
use stratalog_model::Result;
use stratalog_query::Rows;
use stratalog_text::TextStyle;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Connection, Step, work::CancelPolicy};
use crate::encode::RowWriter;

/// A result of which the client has read some rows.
pub(crate) struct Cursor {
    rows: Rows,
    formats: Vec<i16>,
    style: TextStyle,
    /// The current batch, and the index of its next row.
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

    /// True after the last row was sent.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    /// Sends rows up to the end of the result, or up to `rows_max` rows (0: no limit); returns the
    /// number of rows. After exactly `rows_max` rows the result counts as unfinished, even if no
    /// row follows, as in PostgreSQL.
    pub(crate) async fn send_rows(&mut self, cursor: &mut Cursor, rows_max: usize) -> Step<u64> {
        let limit = if rows_max == 0 { u64::MAX } else { rows_max as u64 };
        self.pass_rows(cursor, limit, true).await
    }

    /// Sends or skips rows up to the end of the result, or up to `limit` rows. Returns the number
    /// of rows.
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
                None => match self.next_of(cursor, limit, sent).await? {
                    CursorItem::Rows(batch) => (batch, 0),
                    CursorItem::NotYet => break,
                    CursorItem::End => {
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
                self.out.make_room(writer.long_bytes(row), self.session.share())?;
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

/// An item of the stream of a result.
enum CursorItem {
    Rows(RecordBatch),
    End,
    /// An endless result has no row at present.
    NotYet,
}

impl From<Option<RecordBatch>> for CursorItem {
    fn from(next: Option<RecordBatch>) -> Self {
        next.map_or(Self::End, Self::Rows)
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    /// Reads the next rows. For an endless result, sends the buffered output before waiting. A
    /// request with a row limit that has already sent rows does not wait, but ends with fewer rows.
    async fn next_of(&mut self, cursor: &mut Cursor, limit: u64, sent: u64) -> Step<CursorItem> {
        if !cursor.rows.is_endless() {
            return Ok(self.watched(next(&mut cursor.rows)).await?.into());
        }
        if let Some(there) = next(&mut cursor.rows).now_or_never() {
            return Ok(there?.into());
        }
        let is_limited = limit < u64::MAX;
        if is_limited && sent > 0 {
            return Ok(CursorItem::NotYet);
        }
        self.flush().await?;
        if !is_limited {
            return Ok(self
                .watched_until(CancelPolicy::Closed, next(&mut cursor.rows))
                .await?
                .into());
        }
        let wait = self.session.subscribe_wait();
        let waited = async { Ok(tokio::time::timeout(wait, next(&mut cursor.rows)).await) };
        match self.watched(waited).await? {
            Ok(there) => Ok(there?.into()),
            Err(_) => Ok(CursorItem::NotYet),
        }
    }

    /// Reads the next rows for a COPY. For an endless result, sends the buffered output before
    /// waiting.
    pub(super) async fn next_to_copy(&mut self, rows: &mut Rows) -> Step<Option<RecordBatch>> {
        if rows.is_endless() {
            if let Some(there) = next(rows).now_or_never() {
                return Ok(there?);
            }
            self.flush().await?;
            return self.watched_until(CancelPolicy::Closed, next(rows)).await;
        }
        self.watched(next(rows)).await
    }
}

async fn next(rows: &mut Rows) -> Result<Option<RecordBatch>> {
    rows.next().await.transpose()
}
