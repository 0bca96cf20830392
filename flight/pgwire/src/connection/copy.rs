//! COPY in and out.

use futures::StreamExt as _;
use stratalog_model::{Error, ErrorKind};
use stratalog_query::{CopyIn, CopyOut};
use stratalog_text::{
    CopyParser, CopyWriter,
    copy::{CopyHeader, CopyLimits},
};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Connection, Ending, Step};
use crate::frontend::{Frontend, Inbound};

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    /// Takes the client's data into the sink. When this fails the sink is dropped and
    /// nothing is stored; what the client still sends is ignored as it comes.
    pub(super) async fn copy_in(&mut self, copy: CopyIn) -> Step<()> {
        let CopyIn { table, options, columns, mut sink } = copy;
        let count = columns.len();
        let limits = CopyLimits {
            record_bytes_max: self.settings.copy_line_bytes_max,
            ..CopyLimits::default()
        };
        let mut parser = CopyParser::new(options, columns, self.session.text_style())?
            .for_table(table)
            .with_limits(limits);
        self.out.copy_in(count)?;
        self.flush().await?;
        loop {
            let (kind, body) = match self.next_of_copy(&sink).await? {
                Inbound::Message(kind, body) => (kind, body),
                Inbound::Closed => return Err(Ending::Gone),
                Inbound::Broken(error) => return Err(Ending::Fatal(error)),
            };
            match kind {
                b'd' => {
                    for batch in parser.push(&body)? {
                        self.watched(sink.push(batch)).await?;
                    }
                }
                b'c' => break,
                // Clients may pipeline these; they mean nothing here.
                b'H' | b'S' => {}
                b'X' => return Err(Ending::Gone),
                b'f' => {
                    let reason = match Frontend::decode(kind, body)? {
                        Frontend::CopyFail(reason) => reason,
                        _ => String::new(),
                    };
                    return Err(Ending::Error(Error::new(
                        ErrorKind::QueryCanceled,
                        format!("COPY from stdin failed: {reason}"),
                    )));
                }
                other => {
                    return Err(Ending::Error(Error::new(
                        ErrorKind::ProtocolViolation,
                        format!("unexpected message type 0x{other:02X} during COPY from stdin"),
                    )));
                }
            }
        }
        if let Some(batch) = parser.finish()? {
            self.watched(sink.push(batch)).await?;
        }
        let rows = self.watched(sink.finish()).await?;
        self.out.complete(&format!("COPY {rows}"))?;
        Ok(())
    }

    /// Sends a result as COPY data, each row a message.
    pub(super) async fn copy_out(&mut self, copy: CopyOut) -> Step<()> {
        let CopyOut { options, mut rows } = copy;
        let schema = std::sync::Arc::clone(rows.schema());
        let header = options.header != CopyHeader::Absent;
        let writer = CopyWriter::new(options, schema, self.session.text_style());
        self.out.copy_out(rows.schema().fields().len())?;
        if header {
            let start = self.out.begin(b'd');
            writer.write_header(&mut self.out.bytes);
            self.out.end(start)?;
        }
        let mut count = 0_u64;
        while let Some(batch) = self.watched(async { rows.next().await.transpose() }).await? {
            let mut lines = writer.rows(&batch)?;
            for row in 0..batch.num_rows() {
                let start = self.out.begin(b'd');
                lines.write(row, &mut self.out.bytes);
                self.out.end(start)?;
                if self.out.bytes.len() >= self.settings.output_buffer_bytes {
                    self.flush().await?;
                }
                count += 1;
            }
        }
        self.out.copy_done();
        self.out.complete(&format!("COPY {count}"))?;
        Ok(())
    }

    /// The next message of the client's data; ends when the statement is cancelled.
    async fn next_of_copy(&mut self, sink: &stratalog_query::CopySink) -> Step<Inbound> {
        if let Some(inbound) = self.reader.buffered() {
            return Ok(inbound);
        }
        self.flush().await?;
        tokio::select! {
            biased;
            inbound = self.reader.next() => Ok(inbound),
            error = sink.stopped() => Err(Ending::Error(error)),
            () = self.stop.hard.cancelled() => Err(super::shutting_down()),
        }
    }
}
