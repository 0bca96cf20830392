//! Checks a data directory that no server has open.

use std::{io, path::Path, sync::Arc};

use stratalog_engine::{
    Shelves,
    check::{Line, PartKind, Report, Severity, Subject},
};
use stratalog_journal::{RequiredSegments, Scope};
use stratalog_model::{Disk, Error, Result};
use stratalog_story::Stories;
use stratalog_tablet::Tablets;

use super::parts::{Folders, Parts, definitions, left_over};
use crate::{
    StartError,
    backup::operator_remote_settings,
    directory::DataDirectory,
    embedded::{ShelfPurpose, open_shelf},
};

/// The report of the check; and the state of all events with which the parts were compared, if this
/// state was readable.
pub(super) struct OfflineFindings {
    pub(super) report: Report,
    pub(super) subject: Option<Subject>,
}

/// Checks all parts of a data directory. `wrong` is the error of its file FORMAT, if it has one.
pub(super) fn inspect(
    disk: &Arc<dyn Disk>,
    directory: &DataDirectory,
    wrong: Option<&StartError>,
    story_url: &str,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<OfflineFindings> {
    let folders = Folders::of(directory);
    let mut parts = Parts { disk: Arc::clone(disk), folders, progress, report: Report::default() };
    parts.format(wrong);
    parts.clock();
    let catalog = parts.catalog(Scope::Closed(RequiredSegments::First))?;
    let manifest = if directory.has_manifest() {
        parts.manifest(Scope::Closed(RequiredSegments::Any))?
    } else {
        let line = Line::new(PartKind::Manifest, "manifest", Severity::Sound);
        parts
            .report
            .push(line.with_detail("version 1 has no such file: the next start creates the file"));
        Some(stratalog_engine::ManifestReplay::new(true))
    };
    let copy = IndexCopy::of(&directory.index());
    let index = copy.as_ref().ok().map(IndexCopy::path);
    let shelf = open_shelf(
        disk,
        &directory.stories(),
        (story_url, operator_remote_settings()),
        ShelfPurpose::Look,
    )?;
    let shelves = Shelves {
        tablets: Arc::new(Tablets::look(Arc::clone(disk), &directory.tablets(), index)),
        stories: Arc::new(Stories::look(shelf, Arc::clone(disk), &directory.spool())),
    };
    let decision = catalog.as_ref().and_then(|state| state.decision().cloned());
    let definitions = catalog.map(|state| definitions(Arc::new(state)));
    let subject = manifest
        .map(|manifest| Subject::of_directory(manifest, shelves.clone(), definitions, decision));
    let subject = match subject.transpose() {
        Ok(subject) => subject,
        Err(error) => {
            let line = Line::new(PartKind::Manifest, "manifest", Severity::Damaged);
            parts.report.push(super::parts::of_error(line, &error));
            None
        }
    };
    match &subject {
        Some(subject) => {
            let from = RequiredSegments::At(subject.floor());
            parts.events(subject, Scope::Closed(from))?;
        }
        None => parts.events_alone(Scope::Closed(RequiredSegments::Any))?,
    }
    let mut report = parts.report;
    unnamed(disk, directory, story_url, &shelves, subject.as_ref(), &mut report)?;
    Ok(OfflineFindings { report, subject })
}

/// Reports the files without a reference in catalog or manifest.
fn unnamed(
    disk: &Arc<dyn Disk>,
    directory: &DataDirectory,
    story_url: &str,
    shelves: &Shelves,
    subject: Option<&Subject>,
    report: &mut Report,
) -> Result<()> {
    let failed = |path: &Path, error| Error::io(format!("cannot read {}", path.display()), error);
    let exists = |path: &Path| disk.exists(path).map_err(|error| failed(path, error));
    let mut lines = Vec::new();
    if exists(&directory.tablets())? {
        let (building, foreign) = shelves.tablets.others()?;
        for name in building {
            lines.push(left_over(format!("tablets/{name}"), "an unfinished tablet"));
        }
        for name in foreign {
            let line = Line::new(PartKind::Files, format!("tablets/{name}"), Severity::Damaged);
            let line = line.with_detail("not a file of Stratalog: a start is refused");
            lines.push(line.with_hint("move the file elsewhere"));
        }
        if let Some(subject) = subject {
            for id in shelves.tablets.files()?.into_keys().filter(|id| !subject.names_tablet(*id)) {
                let path = shelves.tablets.file_name(id);
                lines.push(left_over(path, "a tablet without an entry in the manifest"));
            }
        }
    }
    if let Some(subject) = subject
        && (!story_url.is_empty() || exists(&directory.stories())?)
    {
        let files = super::wait(shelves.stories.files())?;
        for name in files.into_keys().filter(|name| !subject.names_story(*name)) {
            let path = shelves.stories.place(name);
            let path = Path::new(&path).strip_prefix(directory.path()).unwrap_or(Path::new(&path));
            let path = path.display().to_string();
            lines.push(left_over(path, "a story without an entry in the manifest"));
        }
    }
    let folders = [
        (directory.spool(), "spool", "an unfinished story"),
        (directory.spill(), "spill", "a temporary file of a query"),
    ];
    for (folder, name, what) in folders {
        let there = if exists(&folder)? { disk.list(&folder) } else { Ok(Vec::new()) };
        for file in there.map_err(|error| failed(&folder, error))? {
            lines.push(left_over(format!("{name}/{file}"), what));
        }
    }
    if exists(&directory.format_new())? {
        let line = Line::new(PartKind::Files, "FORMAT.new", Severity::Warning);
        lines.push(
            line.with_detail("left by an interrupted start; the next start completes the work"),
        );
    }
    if subject.is_none() {
        // If edits of the manifest were lost, files that it no longer refers to may still be
        // needed.
        for line in &mut lines {
            line.cure = stratalog_engine::check::Repair::None;
            line.hint = Some("the file stays unchanged until the manifest is repaired".to_string());
        }
    }
    lines.into_iter().for_each(|line| report.push(line));
    Ok(())
}

/// A temporary copy of the index, because sled changes the files of an index that it opens.
struct IndexCopy(tempfile::TempDir);

impl IndexCopy {
    fn of(index: &Path) -> io::Result<Self> {
        let copy = tempfile::Builder::new().prefix("stratalog-check-").tempdir()?;
        copy_folder(index, copy.path())?;
        Ok(Self(copy))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            std::fs::create_dir(&to)?;
            copy_folder(&entry.path(), &to)?;
        } else {
            std::fs::copy(entry.path(), &to)?;
        }
    }
    Ok(())
}
