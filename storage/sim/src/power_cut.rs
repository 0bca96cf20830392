//! A random test of CL-1. A seed determines the appends to a journal, the failures of the disk, and
//! the time when the process or the machine stops. After each stop, the test opens the journal
//! again, and compares the recovered frames with the promises.
//!
//! The rule for the recovered frames `R`: `kept` are the frames that were recovered (or made
//! durable) before; `sent` are the frames submitted since, in this order.
//! ```text
//!   R = kept ++ a prefix of sent, without the refused frames
//!       the prefix reaches the last frame acknowledged with `disk`
//!       … and, if only the process stopped, the last acknowledged frame
//! ```

use std::{
    path::Path,
    sync::{Arc, mpsc},
};

use bytes::Bytes;
use stratalog_journal::{Journal, JournalSettings, RequiredSegments};
use stratalog_model::{
    ChronicleId, Disk, Durability, ErrorKind, Frame, FrameKind, Log, Lsn, PartitionId, ProducerId,
    Result, SchemaVersion, StatementId, Tick, TickRange,
};

use crate::{Crash, Failure, FaultyDisk, Lie, Operation, Random, SabotageDisk};

const DIRECTORY: &str = "/data/journal";

/// Options of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Script {
    /// The lie of the disk, if any: calls that report success without effect.
    pub lie: Option<Lie>,
    /// A deliberate defect of the journal, if any.
    #[cfg(feature = "sabotage")]
    pub sabotage: Option<stratalog_journal::Sabotage>,
}

/// The counters of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of simulated crashes.
    pub crashes: u64,
    /// Number of acknowledged frames.
    pub acknowledged: u64,
    /// Number of refused frames.
    pub refused: u64,
    /// Number of frames that were lost, although acknowledged, without breaking a promise.
    pub lost_relaxed: u64,
    /// How often the journal was poisoned.
    pub poisoned: u64,
}

/// What the journal answered for a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Acknowledged at this durability level.
    Acknowledged(Durability),
    /// Refused permanently: recovery must not find the frame.
    Refused,
    /// Failed together with the disk: recovery may or may not find the frame.
    Unknown,
}

/// Runs the test that `seed` determines.
///
/// # Errors
/// A description of the broken promise.
pub fn run(seed: u64, script: Script) -> Result<Summary, String> {
    let mut random = Random::new(seed);
    Run {
        lone: seed.is_multiple_of(4),
        direct: seed.is_multiple_of(3),
        tiny: random.chance(30),
        random,
        disk: FaultyDisk::new(seed ^ 0xD15C),
        script,
        kept: Vec::new(),
        sent: Vec::new(),
        cut: false,
        failing: false,
        next: 1,
        summary: Summary::default(),
    }
    .run()
    .map_err(|broken| format!("seed {seed}: {broken}"))
}

/// The answer of the journal for a frame.
enum FrameAnswer {
    Known(stratalog_model::Result<Lsn>),
    Later(mpsc::Receiver<stratalog_model::Result<Lsn>>),
}

fn no_answer(number: u64) -> String {
    format!("frame {number} got no answer")
}

struct Run {
    random: Random,
    /// Whether frames are submitted one by one, so that each appender writes its own frame.
    lone: bool,
    /// Whether groups bypass the page cache.
    direct: bool,
    /// Whether all frames have the same size: then new frames end exactly where frames of a torn
    /// tail began.
    tiny: bool,
    disk: FaultyDisk,
    script: Script,
    /// Numbers of the frames that the last open has recovered.
    kept: Vec<u64>,
    /// Numbers and fates of the frames submitted since the last open.
    sent: Vec<(u64, Fate)>,
    /// Whether a power cut has happened since the last open.
    cut: bool,
    /// Whether a sync during the open may fail.
    failing: bool,
    next: u64,
    summary: Summary,
}

impl Run {
    fn run(mut self) -> Result<Summary, String> {
        let settings = self.settings();
        for _ in 0..self.random.between(2, 5) {
            if self.random.chance(90) {
                self.disk.halt_after(self.random.between(1, 60));
            }
            if self.random.chance(10) {
                self.disk.fail(Operation::Sync, self.random.between(1, 4), Failure::Device);
                self.failing = true;
            }
            // Without an open journal, no frame can be submitted.
            if let Some(journal) = self.open(&settings)? {
                self.live(&journal)?;
                let crash = self.random.chance(65);
                let crash = if crash { Crash::PowerCut } else { Crash::Kill };
                self.die(journal, crash);
            } else {
                let cut = self.random.chance(50);
                self.disk = self.disk.crash(if cut { Crash::PowerCut } else { Crash::Kill });
                self.cut |= cut;
            }
            self.failing = false;
            self.disk.set_capacity(u64::MAX);
            self.summary.crashes += 1;
            if self.random.chance(30) {
                self.damage(&settings)?;
            }
        }
        match self.open(&settings)? {
            Some(_) => Ok(self.summary),
            None => Err("the journal does not open on a sound disk".to_string()),
        }
    }

    fn settings(&mut self) -> JournalSettings {
        JournalSettings {
            segment_bytes_max: self.random.between(8 << 10, 32 << 10),
            frame_bytes_max: 2 << 10,
            queue_bytes_max: 1 << 20,
            group_bytes_max: 8 << 10,
            free_bytes_min: 0,
            preallocate: self.random.chance(70),
            mark_idle_ms: 0,
            lone_us_max: if self.lone { u64::MAX } else { 0 },
            direct_bytes_min: if self.direct { 0 } else { u64::MAX },
            #[cfg(feature = "sabotage")]
            sabotage: self.script.sabotage,
            ..JournalSettings::default()
        }
    }

    /// Opens the journal and checks its frames; `None` if the disk halted or failed during the
    /// open.
    fn open(&mut self, settings: &JournalSettings) -> Result<Option<Journal>, String> {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let disk: Arc<dyn Disk> = match self.script.lie {
            Some(lie) => Arc::new(SabotageDisk::new(disk, lie)),
            None => disk,
        };
        let mut found = Vec::new();
        let opened = Journal::open(disk, Path::new(DIRECTORY).to_path_buf(), settings.clone())
            .and_then(|journal| {
                journal.replay(&mut |lsn, frame| {
                    found.push((lsn, frame));
                    Ok(())
                })?;
                Ok(journal)
            });
        let journal = match opened {
            Ok(journal) => journal,
            Err(_) if self.disk.is_halted() => return Ok(None),
            Err(error) if self.failing && error.kind() == ErrorKind::Io => return Ok(None),
            Err(error) => return Err(format!("the journal does not open: {error}")),
        };
        self.check(&found)?;
        Ok(Some(journal))
    }

    /// Compares the recovered frames with the promises. Afterwards, the recovered frames are the
    /// new `kept`.
    fn check(&mut self, found: &[(Lsn, Frame)]) -> Result<(), String> {
        let mut numbers = Vec::with_capacity(found.len());
        for ((lsn, frame), expected) in found.iter().zip(1..) {
            let number = frame.first_seq;
            if *lsn != Lsn(expected) {
                return Err(format!("lsn {lsn} where {expected} was due"));
            }
            if *frame != make_frame(number, self.tiny) {
                return Err(format!("frame {number} at lsn {lsn} is not what was sent"));
            }
            numbers.push(number);
        }
        let kept = numbers.get(..self.kept.len());
        if kept != Some(self.kept.as_slice()) {
            return Err(format!("{:?} were kept before, now {numbers:?}", self.kept));
        }
        let mut rest = numbers.get(self.kept.len()..).unwrap_or_default();
        let mut ended = false;
        for (number, fate) in &self.sent {
            let here = rest.split_first().filter(|(first, _)| *first == number);
            match (here, fate) {
                (Some(_), Fate::Refused) => {
                    return Err(format!("frame {number} was refused, and is there"));
                }
                (Some(_), _) if ended => {
                    return Err(format!("frame {number} is there, and one before is not"));
                }
                (Some((_, others)), _) => rest = others,
                (None, Fate::Acknowledged(durability)) if !ended && self.was_promised(*number) => {
                    return Err(format!("frame {number}, acknowledged at {durability}, is lost"));
                }
                (None, Fate::Acknowledged(_)) => {
                    self.summary.lost_relaxed += 1;
                    ended = true;
                }
                (None, Fate::Unknown | Fate::Refused) => {}
            }
        }
        if !rest.is_empty() {
            return Err(format!("{rest:?} were found and not expected there"));
        }
        self.kept = numbers;
        self.sent.clear();
        self.cut = false;
        Ok(())
    }

    /// Whether the journal promised that frame `number`, or a later frame, survives the crashes so
    /// far.
    fn was_promised(&self, number: u64) -> bool {
        let since = self.sent.iter().skip_while(|(sent, _)| *sent != number);
        since.into_iter().any(|(_, fate)| match fate {
            Fate::Acknowledged(durability) => *durability == Durability::Disk || !self.cut,
            _ => false,
        })
    }

    /// Appends frames until the script ends or the disk fails.
    fn live(&mut self, journal: &Journal) -> Result<(), String> {
        for _ in 0..self.random.between(1, 12) {
            match self.random.below(20) {
                0 => self.disk.fail(Operation::Write, self.random.between(1, 4), Failure::Full),
                1 => self.disk.fail(Operation::Write, self.random.between(1, 4), Failure::Device),
                2 => self.disk.fail(Operation::Sync, self.random.between(1, 4), Failure::Device),
                3 => self.disk.fail(Operation::Resize, 1, Failure::Full),
                4 => self.disk.set_capacity(self.disk.used_bytes() + self.random.below(40 << 10)),
                5 => self.disk.set_capacity(u64::MAX),
                _ => {}
            }
            let poisoned = self.batch(journal)?;
            if poisoned || self.disk.is_halted() {
                return Ok(());
            }
        }
        if self.random.chance(20) && journal.close().is_ok() {
            // A successful close has synced all frames.
            for (_, fate) in &mut self.sent {
                if let Fate::Acknowledged(durability) = fate {
                    *durability = Durability::Disk;
                }
            }
        }
        Ok(())
    }

    /// Submits a few frames. The writer gets the first frame alone and the other frames as one
    /// group, so that a seed always leads to the same groups. Returns `true` if the journal was
    /// poisoned.
    fn batch(&mut self, journal: &Journal) -> Result<bool, String> {
        let mut outcomes = Vec::new();
        if !self.lone {
            self.disk.hold();
        }
        for at in 0..self.random.between(1, 9) {
            let number = self.next;
            let frame = make_frame(number, self.tiny);
            let durability =
                if self.random.chance(40) { Durability::Disk } else { Durability::Relaxed };
            let reserved = futures::executor::block_on(journal.reserve(frame.payload.len()));
            let Ok(reservation) = reserved else { break };
            self.next += 1;
            let (sender, receiver) = mpsc::channel();
            let done = Box::new(move |outcome| drop(sender.send(outcome)));
            journal.submit(frame, reservation, durability, done);
            if self.lone {
                let outcome = receiver.recv().map_err(|_| no_answer(number))?;
                outcomes.push((number, durability, FrameAnswer::Known(outcome)));
                continue;
            }
            outcomes.push((number, durability, FrameAnswer::Later(receiver)));
            if at == 0 {
                self.wait_until_taken(journal);
            }
        }
        self.disk.release();
        for (number, durability, receiver) in outcomes {
            let outcome = match receiver {
                FrameAnswer::Known(outcome) => outcome,
                FrameAnswer::Later(receiver) => receiver.recv().map_err(|_| no_answer(number))?,
            };
            let dead = self.disk.is_halted();
            let fate = match outcome {
                Ok(_) => Fate::Acknowledged(durability),
                Err(error) => match error.kind() {
                    _ if dead => Fate::Unknown,
                    // The journal is poisoned: the group was erased, but without a sync.
                    ErrorKind::Io if journal.status().poisoned.is_some() => Fate::Unknown,
                    ErrorKind::Io | ErrorKind::DiskFull => Fate::Refused,
                    _ => return Err(format!("frame {number} failed strangely: {error}")),
                },
            };
            match fate {
                Fate::Acknowledged(_) => self.summary.acknowledged += 1,
                _ => self.summary.refused += 1,
            }
            self.sent.push((number, fate));
        }
        let poisoned = journal.status().poisoned.is_some();
        self.summary.poisoned += u64::from(poisoned);
        Ok(poisoned)
    }

    /// Waits until the writer has removed the submitted frames from the queue, or has stopped.
    fn wait_until_taken(&self, journal: &Journal) {
        while journal.status().queued_bytes > 0 && !self.disk.is_holding() {
            std::thread::yield_now();
        }
    }

    fn die(&mut self, journal: Journal, crash: Crash) {
        let survivor = self.disk.crash(crash);
        drop(journal);
        self.disk = survivor;
        self.cut |= crash == Crash::PowerCut;
    }

    /// Flips a random bit, opens the journal, and restores the bit. The open must return the same
    /// frames, or report the damage.
    fn damage(&mut self, settings: &JournalSettings) -> Result<(), String> {
        // Makes all frames durable, and records this on disk: now no loss of a frame is permitted.
        let Some(journal) = self.open(settings)? else { return Ok(()) };
        let outcome = journal.close();
        drop(journal);
        if let Err(error) = outcome {
            return Err(format!("closing failed on a sound disk: {error}"));
        }
        let segments: Vec<_> =
            self.disk.paths().into_iter().filter(|path| path.extension().is_some()).collect();
        let Some(path) = segments.get(self.random.below(segments.len() as u64) as usize) else {
            return Ok(());
        };
        if self.random.chance(30) {
            return self.lose(path, settings);
        }
        let Some(mut bytes) = self.disk.contents(path) else { return Ok(()) };
        // Most bytes of a file are unwritten zeros: choose a byte before the zeros.
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at as u64 + 1);
        let at = self.random.below(used) as usize;
        let bit = 1 << self.random.below(8);
        let sound = bytes.clone();
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= bit;
        }
        self.disk.overwrite(path, bytes);
        let kept = self.kept.clone();
        match self.open_damaged(settings) {
            Ok(found) if found == kept => {}
            Ok(found) => {
                return Err(format!(
                    "bit flip at {at} of {}: {found:?} instead of {kept:?}",
                    path.display()
                ));
            }
            Err(error) if error.kind() == ErrorKind::DataCorrupted => {}
            Err(error) => return Err(format!("bit flip at {at} of {}: {error}", path.display())),
        }
        self.disk.overwrite(path, sound);
        Ok(())
    }

    /// Removes a segment, opens the journal, and restores the segment. The open must return all
    /// frames, or report the damage.
    fn lose(&mut self, path: &Path, settings: &JournalSettings) -> Result<(), String> {
        let Some(sound) = self.disk.contents(path) else { return Ok(()) };
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        self.disk.remove_file(path).map_err(failed)?;
        match self.open_damaged(settings) {
            Ok(found) if found == self.kept => {}
            Ok(found) => {
                return Err(format!(
                    "without {}: {found:?} instead of {:?}",
                    path.display(),
                    self.kept
                ));
            }
            Err(error) if error.kind() == ErrorKind::DataCorrupted => {}
            Err(error) => return Err(format!("without {}: {error}", path.display())),
        }
        if !self.disk.exists(path).map_err(failed)? {
            drop(self.disk.create(path).map_err(failed)?);
            self.disk.sync_dir(Path::new(DIRECTORY)).map_err(failed)?;
        }
        self.disk.overwrite(path, sound);
        Ok(())
    }

    /// Opens a damaged journal; returns the numbers of its frames, and 0 for a frame with wrong
    /// content.
    fn open_damaged(&self, settings: &JournalSettings) -> Result<Vec<u64>> {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let directory = Path::new(DIRECTORY).to_path_buf();
        let journal =
            Journal::open_existing(disk, directory, settings.clone(), RequiredSegments::First)?;
        let mut found = Vec::new();
        journal.replay(&mut |_, frame| {
            let sound = frame == make_frame(frame.first_seq, self.tiny);
            found.push(if sound { frame.first_seq } else { 0 });
            Ok(())
        })?;
        Ok(found)
    }
}

/// Makes the frame with the given number; equal numbers give equal frames.
fn make_frame(number: u64, tiny: bool) -> Frame {
    let mut random = Random::new(number);
    let len = match random.below(4) {
        _ if tiny => 8,
        0 => random.below(8),
        1 => random.between(500, 1100),
        _ => random.below(2 << 10),
    };
    let payload: Vec<u8> = (0..len).map(|_| random.any() as u8).collect();
    let start = random.any() as i64;
    let kinds = [FrameKind::Events, FrameKind::Commit, FrameKind::Delete, FrameKind::Catalog];
    Frame {
        kind: kinds.get(random.below(4) as usize).copied().unwrap_or(FrameKind::Events),
        partition: PartitionId(random.any() as u16),
        chronicle: ChronicleId(random.any() as u32),
        schema_version: SchemaVersion(random.any() as u32),
        statement: StatementId(random.any()),
        ticks: TickRange::new(Tick(start), Tick(start.saturating_add(9))),
        count: random.any() as u32,
        first_seq: number,
        producer: random.chance(50).then(|| (ProducerId(u128::from(random.any())), number)),
        payload: Bytes::from(payload),
    }
}
