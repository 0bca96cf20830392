//! Helpers for all modules.

use std::{
    path::Path,
    sync::{Arc, mpsc},
};

use bytes::Bytes;
use stratalog_journal::{Journal, JournalSettings, LocalDisk};
use stratalog_model::{
    ChronicleId, Disk, Durability, ErrorKind, Frame, FrameKind, Log, Lsn, PartitionId, ProducerId,
    Result, SchemaVersion, StatementId, Tick, TickRange, log::Reservation,
};

/// Small segments, no floor of free space, marks only at close.
pub fn small() -> JournalSettings {
    JournalSettings {
        segment_bytes_max: 64 << 10,
        frame_bytes_max: 16 << 10,
        queue_bytes_max: 1 << 20,
        group_bytes_max: 256 << 10,
        free_bytes_min: 0,
        mark_idle_ms: 0,
        direct_bytes_min: 6 << 10,
        ..JournalSettings::default()
    }
}

/// A frame recognizable by `n`.
pub fn frame(n: u64, payload_bytes: usize) -> Frame {
    let payload: Vec<u8> =
        (0..payload_bytes).map(|at| (n as usize).wrapping_mul(31).wrapping_add(at) as u8).collect();
    Frame {
        kind: FrameKind::Events,
        partition: PartitionId(0),
        chronicle: ChronicleId(n as u32 % 5),
        schema_version: SchemaVersion(1 + n as u32 % 3),
        statement: StatementId(n % 2 * n),
        ticks: TickRange::new(Tick(-(n as i64)), Tick(n as i64 + 1)),
        count: n as u32,
        first_seq: n * 7,
        producer: n.is_multiple_of(3).then_some((ProducerId(u128::from(n) << 70), n)),
        payload: Bytes::from(payload),
    }
}

pub fn open_at(directory: &Path, settings: JournalSettings) -> Result<Journal> {
    open_on(Arc::new(LocalDisk), directory, settings)
}

pub fn open_on(
    disk: Arc<dyn Disk>,
    directory: &Path,
    settings: JournalSettings,
) -> Result<Journal> {
    Journal::open(disk, directory.to_path_buf(), settings)
}

/// Waits for room; tests have no runtime.
pub fn reserve(journal: &Journal, bytes: usize) -> Result<Reservation> {
    block_on(journal.reserve(bytes))
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            std::task::Poll::Ready(value) => return value,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

/// Appends and waits for the acknowledgement.
pub fn append(journal: &Journal, frame: Frame, durability: Durability) -> Result<Lsn> {
    append_later(journal, frame, durability)?.recv().expect("completed")
}

/// Appends without waiting.
pub fn append_later(
    journal: &Journal,
    frame: Frame,
    durability: Durability,
) -> Result<mpsc::Receiver<Result<Lsn>>> {
    let reservation = reserve(journal, frame.payload.len())?;
    let (sender, receiver) = mpsc::channel();
    journal.submit(
        frame,
        reservation,
        durability,
        Box::new(move |outcome| {
            sender.send(outcome).ok();
        }),
    );
    Ok(receiver)
}

/// Everything in the journal.
pub fn contents(journal: &Journal) -> Result<Vec<(Lsn, Frame)>> {
    let mut frames = Vec::new();
    journal.replay(&mut |lsn, frame| {
        frames.push((lsn, frame));
        Ok(())
    })?;
    Ok(frames)
}

pub fn kind<T>(outcome: Result<T>) -> Option<ErrorKind> {
    outcome.err().map(|error| error.kind())
}
