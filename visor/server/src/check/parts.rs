//! Checks the parts of a data directory one by one, with or without a running server.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use stratalog_engine::{
    ManifestReplay,
    check::{CatalogEntry, Check, Line, PartKind, Repair, Report, Severity, Subject},
};
use stratalog_journal::{
    CheckEvent, JournalFault, JournalSettings, Scope, Summary, check as check_journal,
};
use stratalog_model::{Disk, Error, ErrorKind, Lsn, Result};
use stratalog_visor_core::{CatalogState, catalog::CatalogReplay, clock::MasterClock};

use crate::{StartError, directory::DataDirectory};

/// Maximum number of journal faults in the report.
const FAULTS_MAX: usize = 1000;

/// The paths of the parts of a data directory.
#[derive(Debug, Clone)]
pub(super) struct Folders {
    pub(super) root: PathBuf,
    pub(super) format: PathBuf,
    pub(super) clock: PathBuf,
    pub(super) catalog: PathBuf,
    pub(super) manifest: PathBuf,
    pub(super) journal: PathBuf,
}

impl Folders {
    pub(super) fn of(directory: &DataDirectory) -> Self {
        Self {
            root: directory.path().to_path_buf(),
            format: directory.format(),
            clock: directory.clock(),
            catalog: directory.catalog(),
            manifest: directory.manifest(),
            journal: directory.journal(),
        }
    }
}

/// A running check, with the report so far.
pub(super) struct Parts<'a> {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) folders: Folders,
    /// Is called with the number of bytes that were read; an error ends the check.
    pub(super) progress: &'a mut dyn FnMut(u64) -> Result<()>,
    pub(super) report: Report,
}

impl Parts<'_> {
    /// The path relative to the data directory. A path outside of the data directory is returned
    /// unchanged.
    fn relative_path(&self, path: &Path) -> String {
        path.strip_prefix(&self.folders.root).unwrap_or(path).display().to_string()
    }

    /// Adds the report line for the file FORMAT; `wrong` is its error, if it has one.
    pub(super) fn format(&mut self, wrong: Option<&StartError>) {
        let line = |state| Line::new(PartKind::Format, "FORMAT", state);
        let line = match wrong {
            None => {
                let file = self.disk.open(&self.folders.format).and_then(|file| file.len());
                line(Severity::Sound).with_bytes(file.unwrap_or_default())
            }
            Some(error) => {
                let text = error.to_string();
                let what = text.split("\n  hint: ").next().unwrap_or(&text).to_string();
                line(Severity::Damaged).with_detail(what).with_hint(
                    "copy the file FORMAT of any data directory of the same version of Stratalog: the content is the same in all directories",
                )
            }
        };
        self.report.push(line);
    }

    /// Checks the file with the clock's lease.
    pub(super) fn clock(&mut self) {
        let line = |state| Line::new(PartKind::Clock, "clock/clock", state);
        let line = match MasterClock::look(self.disk.as_ref(), &self.folders.clock) {
            Ok(found) if found.copy_damaged => line(Severity::Warning)
                .with_bytes(found.bytes)
                .with_detail(
                    "one of the two copies of the lease is damaged; the next start uses the other copy, and time begins two seconds after the lease of this copy",
                )
                .with_hint("no action is needed: the next lease replaces the copy"),
            Ok(found) => line(Severity::Sound).with_bytes(found.bytes),
            Err(error) => of_error(line(Severity::Damaged), &error),
        };
        self.report.push(line);
    }

    /// Checks the journal of the catalog. Returns the catalog's state, or `None` if it is
    /// unreadable.
    pub(super) fn catalog(&mut self, scope: Scope) -> Result<Option<CatalogState>> {
        let mut replay = CatalogReplay::default();
        let folder = self.folders.catalog.clone();
        let sound = self.journal(PartKind::Catalog, &folder, scope, &mut |lsn, frame| {
            replay.frame(lsn, &frame)
        })?;
        let state = replay.finish();
        let Some(summary) = sound else { return Ok(None) };
        let tables = format!("{} tables", state.chronicle_count());
        self.sum_up(PartKind::Catalog, &folder, &summary, &tables);
        Ok(Some(state))
    }

    /// Checks the journal of the manifest. Returns the manifest's state, or `None` if it is
    /// unreadable.
    pub(super) fn manifest(&mut self, scope: Scope) -> Result<Option<ManifestReplay>> {
        let mut replay: Option<ManifestReplay> = None;
        let mut next = Lsn(1);
        let folder = self.folders.manifest.clone();
        let sound = self.journal(PartKind::Manifest, &folder, scope, &mut |lsn, frame| {
            // Earlier segments were released, so the first record is a complete snapshot.
            if lsn != next {
                replay = Some(ManifestReplay::new(false));
            }
            next = Lsn(lsn.0 + 1);
            replay.get_or_insert_with(|| ManifestReplay::new(true)).frame(lsn, frame)
        })?;
        let Some(summary) = sound else { return Ok(None) };
        let edits = format!("{} records", summary.frames);
        self.sum_up(PartKind::Manifest, &folder, &summary, &edits);
        Ok(Some(replay.unwrap_or_else(|| ManifestReplay::new(true))))
    }

    /// Passes the records of a journal to `read`, in order. Returns `None` after a fault.
    fn journal(
        &mut self,
        part: PartKind,
        folder: &Path,
        scope: Scope,
        read: &mut dyn FnMut(Lsn, stratalog_model::Frame) -> Result<()>,
    ) -> Result<Option<Summary>> {
        let disk = Arc::clone(&self.disk);
        let settings = JournalSettings::default();
        let mut sound = true;
        let summary = check_journal(&disk, folder, &settings, scope, &mut |sight| match sight {
            CheckEvent::Frame { path, offset, lsn, frame } => {
                (self.progress)(frame.payload.len() as u64)?;
                // After the first fault, errors of `read` would only be consequences of this fault.
                if sound && let Err(error) = read(lsn, frame) {
                    sound = false;
                    let line = Line::new(part, self.relative_path(path), Severity::Damaged);
                    let line = of_error(line, &error);
                    let place = format!("the record at offset {offset}: {}", line.detail);
                    self.report.push(line.with_detail(place));
                }
                Ok(())
            }
            CheckEvent::Fault(fault) => {
                sound = false;
                let line = self.of_fault(part, &fault);
                self.report.push(line);
                Ok(())
            }
        })?;
        self.torn(part, &summary, sound);
        self.leftover(&summary);
        Ok(sound.then_some(summary))
    }

    /// Compares the journal of events with `subject`, the state of all events.
    pub(super) fn events(&mut self, subject: &Subject, scope: Scope) -> Result<()> {
        let disk = Arc::clone(&self.disk);
        let folder = self.folders.journal.clone();
        let settings = JournalSettings::default();
        let (mut report, mut faults) = (Report::default(), Vec::new());
        let mut sound = true;
        let summary = {
            let mut check = Check::new(subject, &mut *self.progress);
            let summary = check_journal(&disk, &folder, &settings, scope, &mut |sight| {
                match sight {
                    CheckEvent::Frame { path, offset, lsn, frame } => {
                        check.frame(path, offset, lsn, frame)?;
                    }
                    CheckEvent::Fault(fault) => {
                        sound = false;
                        let foreign = fault.error.kind() != ErrorKind::DataCorrupted;
                        let means = match &fault.lost {
                            Some(lost) => Some(check.lost(lost.first, lost.frame.as_ref())),
                            None if foreign => None,
                            None => Some(check.lost(Lsn(0), None)),
                        };
                        if faults.len() < FAULTS_MAX {
                            faults.push((fault, means));
                        } else {
                            report.unlisted += 1;
                        }
                    }
                }
                Ok(())
            })?;
            check.pieces()?;
            report.append(check.finish(summary.torn.is_some()));
            summary
        };
        for (fault, means) in faults {
            let mut line = self.of_fault(PartKind::Journal, &fault);
            if let Some(means) = means {
                line.detail = format!("{}; {means}", line.detail);
            }
            if let Some(frame) = fault.lost.and_then(|lost| lost.frame) {
                line.rows = Some(u64::from(frame.count));
            }
            self.report.push(line);
        }
        let sound = sound && !report.is_damaged(PartKind::Journal);
        self.torn(PartKind::Journal, &summary, sound);
        self.leftover(&summary);
        if sound {
            let frames = format!("{} frames", summary.frames);
            self.sum_up(PartKind::Journal, &folder, &summary, &frames);
        }
        for line in &mut report.lines {
            line.path = self.relative_path(Path::new(&line.path));
        }
        self.report.append(report);
        Ok(())
    }

    /// Checks only the checksums of the journal of events: without a readable manifest, the
    /// required events of the journal are unknown.
    pub(super) fn events_alone(&mut self, scope: Scope) -> Result<()> {
        let folder = self.folders.journal.clone();
        let sound = self.journal(PartKind::Journal, &folder, scope, &mut |_, _| Ok(()))?;
        if let Some(summary) = sound {
            let what =
                format!("{} frames; the events of the frames were not checked", summary.frames);
            self.sum_up(PartKind::Journal, &folder, &summary, &what);
        }
        let line = Line::new(PartKind::Ownership, "manifest", Severity::Unchecked);
        self.report.push(
            line.with_detail(
                "tablets and stories were not checked: a check needs a sound manifest",
            ),
        );
        Ok(())
    }

    fn of_fault(&self, part: PartKind, fault: &JournalFault) -> Line {
        of_error(Line::new(part, self.relative_path(&fault.path), Severity::Damaged), &fault.error)
    }

    fn sum_up(&mut self, part: PartKind, folder: &Path, summary: &Summary, what: &str) {
        let line =
            Line::new(part, self.relative_path(folder), Severity::Sound).with_bytes(summary.bytes);
        self.report.push(line.with_detail(format!("{} segments, {what}", summary.segments)));
    }

    fn torn(&mut self, part: PartKind, summary: &Summary, sound: bool) {
        let Some((path, offset, bytes)) = &summary.torn else { return };
        let line = Line::new(part, self.relative_path(path), Severity::Warning).with_bytes(*bytes);
        let line = line.with_detail(format!(
            "{bytes} bytes from offset {offset} on are a torn tail: the rest of a write that a crash interrupted. No record says that the bytes were ever durable. If the server was closed in order, or only killed, the torn tail may be damage"
        ));
        let (hint, cure) = match sound {
            true => ("the next start or --repair cuts the torn tail", Repair::Tail),
            false => ("the torn tail stays unchanged until the damage is repaired", Repair::None),
        };
        self.report.push(line.with_hint(hint).with_cure(cure));
    }

    fn leftover(&mut self, summary: &Summary) {
        for path in &summary.leftover {
            let line = left_over(self.relative_path(path), "an unused segment");
            self.report.push(line);
        }
    }
}

/// The report line for a file that the next start will remove.
pub(super) fn left_over(path: String, what: &str) -> Line {
    Line::new(PartKind::Files, path, Severity::Warning)
        .with_detail(what)
        .with_hint("the next start or --repair removes the segment")
        .with_cure(Repair::Remove)
}

/// Adds the message and the details of an error to a report line.
pub(super) fn of_error(line: Line, error: &Error) -> Line {
    let line = line.with_detail(match error.detail() {
        Some(detail) => format!("{}; {detail}", error.message()),
        None => error.message().to_string(),
    });
    match error.hint() {
        Some(hint) => line.with_hint(hint),
        None => line,
    }
}

/// Looks up a chronicle's id in the catalog: the definition, or that the chronicle was dropped, or
/// that the catalog has never issued the id.
pub(super) fn definitions(
    state: Arc<CatalogState>,
) -> Arc<dyn Fn(stratalog_model::ChronicleId) -> CatalogEntry + Send + Sync> {
    Arc::new(move |id| match state.chronicle_by_id(id) {
        Some(known) => CatalogEntry::Chronicle(Arc::clone(known)),
        None if state.has_given(id) => CatalogEntry::Dropped,
        None => CatalogEntry::Never,
    })
}
