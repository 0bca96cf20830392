//! Captures the state of a database at one instant. The captured files stay in place until the end
//! of the copy.
//!
//! ```text
//!   hold │ manifest's state │ journal synced │ journal's extents │ catalog's extents │ clock
//!           tablets and                        all acknowledged    the tables of      not before
//!           stories                            events              all these events   issued times
//! ```
//! A restore of this state looks like a restart after a crash before the last moves: the journal
//! still has events that tablets have too. If the catalog changes during the capture, journal and
//! catalog are captured again, so that both show the same instant.

use std::path::Path;

use bytes::Bytes;
use stratalog_engine::BackupHold;
use stratalog_journal::Extent;
use stratalog_model::{Disk, Error, ErrorKind, Log as _, Lsn, Result};

use crate::{Source, content::read_file};

/// Maximum number of attempts to capture journal and catalog while definitions change.
const TRIES: usize = 1000;

/// What a backup copies.
#[derive(Debug)]
pub struct CapturedState {
    pub hold: BackupHold,
    pub manifest: Bytes,
    pub events: Vec<Extent>,
    pub commands: Vec<Extent>,
    pub clock: Bytes,
    pub format: Bytes,
}

/// Captures a database at one instant, and prevents the removal of the captured files during the
/// copy.
///
/// # Errors
/// `Io`, also for a poisoned journal; `ObjectInUse` if definitions change during all [`TRIES`]
/// attempts.
pub async fn capture(source: &Source) -> Result<CapturedState> {
    let hold = source.engine.hold()?;
    let manifest = hold.manifest()?;
    let (events, commands) = extents(source, &hold).await?;
    let needed = events.iter().rposition(|extent| extent.first <= hold.floor());
    let events: Vec<Extent> = match needed {
        Some(first) => events.into_iter().skip(first).collect(),
        // The floor of the journal was never set: the journal is complete.
        None if hold.floor() == Lsn(0) => events,
        None => return Err(Error::internal("the beginning of the journal was released")),
    };
    debug_assert!(!events.is_empty(), "the journal has no segment");
    debug_assert!(
        events.is_sorted_by_key(|extent| extent.first),
        "the segments of the journal are not in order"
    );
    let disk = source.disk.as_ref();
    let clock = whole_file(disk, &source.directory.join("clock").join("clock"))?;
    let format = whole_file(disk, &source.directory.join("FORMAT"))?;
    Ok(CapturedState { hold, manifest, events, commands, clock, format })
}

async fn extents(source: &Source, hold: &BackupHold) -> Result<(Vec<Extent>, Vec<Extent>)> {
    let mut tries = 0;
    loop {
        let before = source.commands.status().written;
        hold.sync().await?;
        let events = source.events.extents()?;
        let commands = source.commands.extents()?;
        debug_assert!(
            commands.last().is_none_or(|extent| before <= extent.last),
            "the catalog's journal has lost frames"
        );
        if commands.last().is_some_and(|extent| extent.last == before) {
            return Ok((events, commands));
        }
        tries += 1;
        if tries == TRIES {
            // The last transaction may be in only one of the two logs.
            let message = "the backup could not copy journal and catalog as of one instant: definitions kept changing";
            return Err(Error::new(ErrorKind::ObjectInUse, message)
                .with_hint("back up again, while fewer tables are created, altered and dropped"));
        }
    }
}

fn whole_file(disk: &dyn Disk, path: &Path) -> Result<Bytes> {
    let len = disk.open(path).and_then(|file| file.len());
    let len = len.map_err(|error| Error::io(format!("cannot read {}", path.display()), error))?;
    read_file(disk, path, 0..len)
}
