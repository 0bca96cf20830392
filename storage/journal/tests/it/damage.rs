//! CL-6: after any damage, no frame is ever wrong, and no durable frame is cut.

use std::path::{Path, PathBuf};

use stratalog_journal::{CheckEvent, Journal, JournalSettings, RequiredSegments, Scope, check};
use stratalog_model::{Disk, Durability, ErrorKind, Frame, Log, Lsn, Result};
use stratalog_sim::{Crash, FaultyDisk};

use crate::support::*;

const DIRECTORY: &str = "/data/journal";

/// The end of the journal before the damage.
#[derive(Clone, Copy, PartialEq)]
enum End {
    /// Closed: everything is attested.
    Closed,
    /// Killed: no record attests the last frame.
    Killed,
}

/// The path and the bytes of a segment.
type SegmentFile = (PathBuf, Vec<u8>);

struct Sample {
    disk: FaultyDisk,
    settings: JournalSettings,
    frames: Vec<(Lsn, Frame)>,
    segments: Vec<SegmentFile>,
}

/// A journal of three small segments and frames of many sizes, each durable.
fn sample(end: End, preallocate: bool) -> Sample {
    let settings = JournalSettings {
        segment_bytes_max: 8 << 10,
        frame_bytes_max: 2 << 10,
        preallocate,
        ..small()
    };
    let disk = FaultyDisk::new(1);
    let journal =
        open_on(std::sync::Arc::new(disk.clone()), Path::new(DIRECTORY), settings.clone()).unwrap();
    let mut frames = Vec::new();
    for n in 1..=22 {
        let frame = frame(n, (n as usize * 37) % 600);
        frames.push((append(&journal, frame.clone(), Durability::Disk).unwrap(), frame));
    }
    if end == End::Closed {
        journal.close().unwrap();
    }
    let disk = disk.crash(Crash::Kill);
    drop(journal);
    let paths = disk.paths().into_iter().filter(|path| path.extension().is_some());
    let segments = paths.map(|path| (path.clone(), disk.contents(&path).unwrap())).collect();
    let sample = Sample { disk, settings, frames, segments };
    assert_eq!(sample.segments.len(), 3);
    assert_eq!(sample.read().unwrap(), sample.frames);
    sample.restore();
    sample
}

impl Sample {
    fn read(&self) -> Result<Vec<(Lsn, Frame)>> {
        let disk = std::sync::Arc::new(self.disk.clone());
        contents(&open_on(disk, Path::new(DIRECTORY), self.settings.clone())?)
    }

    fn restore(&self) {
        for (path, bytes) in &self.segments {
            self.disk.overwrite(path, bytes.clone());
        }
    }

    /// Opens with one file replaced; the number of frames, or `None` if the damage was reported.
    fn damaged(&self, path: &Path, bytes: Vec<u8>) -> Option<usize> {
        self.disk.overwrite(path, bytes);
        let (faults, seen) = self.check();
        let found = match self.read() {
            Ok(found) => {
                assert_eq!(found, self.frames[..found.len()], "a wrong frame");
                Some(found.len())
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{error}");
                let message = error.message();
                assert!(message.contains(".journal"), "does not name the file: {message}");
                None
            }
        };
        // A check reports the same damage, and continues behind the damage.
        assert_eq!(faults.is_empty(), found.is_some(), "{faults:?}");
        assert!(seen.iter().all(|frame| self.frames.contains(frame)), "a wrong frame");
        if let Some(found) = found {
            assert_eq!(seen, self.frames[..found]);
        }
        let covered = |lsn: Lsn| {
            let lost = faults.iter().filter_map(|(_, lost)| *lost);
            let mut lost = lost.map(|(first, last)| first <= lsn && last.is_none_or(|l| lsn <= l));
            lost.any(|lost| lost)
        };
        // Exception: in a segment with a damaged header, no frame can be verified.
        if found.is_none() && faults.iter().all(|(_, lost)| lost.is_some()) {
            let unseen = self.frames.iter().filter(|frame| !seen.contains(frame));
            for (lsn, _) in unseen {
                assert!(covered(*lsn), "frame {lsn} is not told: {faults:?}");
            }
        }
        for (named, _) in &faults {
            assert_eq!(named, path);
        }
        self.restore();
        found
    }

    /// The result of a check: the faults with their files and frames, and the valid frames.
    fn check(&self) -> (Vec<ReportedFault>, Vec<(Lsn, Frame)>) {
        let disk: std::sync::Arc<dyn Disk> = std::sync::Arc::new(self.disk.clone());
        self.disk.set_read_only(true);
        let (mut faults, mut seen) = (Vec::new(), Vec::new());
        let scope = Scope::Closed(RequiredSegments::First);
        let settings = &self.settings;
        check(&disk, Path::new(DIRECTORY), settings, scope, &mut |sight| {
            match sight {
                CheckEvent::Frame { lsn, frame, .. } => seen.push((lsn, frame)),
                CheckEvent::Fault(fault) => {
                    let lost = fault.lost.map(|lost| (lost.first, lost.last));
                    faults.push((fault.path, lost));
                }
            }
            Ok(())
        })
        .unwrap();
        self.disk.set_read_only(false);
        (faults, seen)
    }
}

/// A file with a fault, and the unreadable frames.
type ReportedFault = (PathBuf, Option<(Lsn, Option<Lsn>)>);

#[test]
fn a_check_reads_on_behind_damage_and_says_which_frames_are_lost() {
    let sample = sample(End::Closed, true);
    let (path, bytes) = &sample.segments[1];
    let mut flipped = bytes.clone();
    // Two frames: the header of one, the payload of another.
    let headers: Vec<usize> = (4096..bytes.len())
        .step_by(128)
        .filter(|at| bytes[*at..].starts_with(b"SLFR") && bytes[at + 12] != 0)
        .collect();
    flipped[headers[0] + 50] ^= 1;
    flipped[headers[2] + 130] ^= 1;
    sample.disk.overwrite(path, flipped);
    let (faults, seen) = sample.check();
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(faults.iter().all(|(named, lost)| named == path && lost.is_some()), "{faults:?}");
    assert_eq!(seen.len(), sample.frames.len() - 2);
    sample.restore();
}

#[test]
fn a_check_of_what_is_durable_does_not_look_behind_it() {
    let sample = sample(End::Closed, true);
    let disk: std::sync::Arc<dyn Disk> = std::sync::Arc::new(sample.disk.clone());
    let (path, bytes) = &sample.segments[2];
    let last = sample.frames.last().unwrap().0;
    let count = |through: Lsn| {
        let (mut frames, mut faults) = (0, 0);
        let scope = Scope::Durable(Lsn(1), through);
        check(&disk, Path::new(DIRECTORY), &sample.settings, scope, &mut |sight| {
            match sight {
                CheckEvent::Frame { .. } => frames += 1,
                CheckEvent::Fault(_) => faults += 1,
            }
            Ok(())
        })
        .unwrap();
        (frames, faults)
    };
    assert_eq!(count(Lsn(0)), (0, 0));
    assert_eq!(count(last), (last.0, 0));
    // A writer is writing the last frame.
    let mut torn = bytes.clone();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    torn[used - 700..].fill(9);
    sample.disk.overwrite(path, torn);
    assert_eq!(count(Lsn(last.0 - 3)), (last.0 - 3, 0));
    assert_eq!(count(last).1, 1);
}

#[test]
fn every_flipped_byte_of_a_closed_journal_is_harmless_or_reported() {
    let sample = sample(End::Closed, true);
    let all = sample.frames.len();
    let mut reported = 0;
    for (path, bytes) in &sample.segments {
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            match sample.damaged(path, flipped) {
                None => reported += 1,
                Some(found) => assert_eq!(found, all, "byte {at} of {}", path.display()),
            }
        }
    }
    assert!(reported > 15_000, "{reported}");
}

#[test]
fn every_flipped_byte_of_a_killed_journal_costs_at_most_what_nothing_attests() {
    let sample = sample(End::Killed, true);
    let (path, bytes) = sample.segments.last().unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    for at in 0..used + 300 {
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x40;
        let found = sample.damaged(path, flipped).unwrap_or(usize::MAX);
        assert!(found >= sample.frames.len() - 1, "byte {at} cut durable frames: {found}");
    }
}

#[test]
fn a_preallocated_segment_that_was_truncated_is_reported() {
    let sample = sample(End::Killed, true);
    for (path, bytes) in &sample.segments {
        for len in (0..bytes.len()).step_by(13).chain([bytes.len() - 1]) {
            assert_eq!(sample.damaged(path, bytes[..len].to_vec()), None, "{len}");
        }
    }
}

#[test]
fn truncation_at_every_byte_without_preallocation_leaves_whole_frames() {
    let sample = sample(End::Killed, false);
    let (last, before) = sample.segments.split_last().unwrap();
    for (path, bytes) in before {
        // Without the continuation record, nothing is lost: the next segment exists.
        let frames_end = continuation(bytes);
        for len in 0..bytes.len() {
            let found = sample.damaged(path, bytes[..len].to_vec());
            let all = (len >= frames_end).then_some(sample.frames.len());
            assert_eq!(found, all, "{len}");
        }
    }
    let (path, bytes) = last;
    let mut previous = 0;
    for len in 0..=bytes.len() {
        match sample.damaged(path, bytes[..len].to_vec()) {
            None => assert!(len < 4096, "cut at {len} is no torn tail"),
            Some(found) => {
                assert!(found >= previous);
                previous = found;
            }
        }
    }
    assert_eq!(previous, sample.frames.len());
}

/// The last frame was never attested: the journal opens without this frame, at any cut.
#[test]
fn a_tail_torn_at_any_byte_is_cut() {
    let sample = sample(End::Killed, true);
    let all = sample.frames.len();
    let (path, bytes) = sample.segments.last().unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let (_, last) = sample.frames.last().unwrap();
    let begin = used.next_multiple_of(128) - 128 - last.payload.len().next_multiple_of(128);
    assert!(bytes[begin..].starts_with(b"SLFR") && !last.payload.is_empty());
    for torn_at in begin..used {
        let mut torn = bytes.clone();
        torn[torn_at..].fill(0);
        let found = sample.damaged(path, torn);
        assert_eq!(found, Some(all - 1), "torn at {} of the frame", torn_at - begin);
    }
    // Before the last frame, no tear is cut if a later frame attests the bytes.
    for torn_at in 4096..begin {
        let mut damaged = bytes.clone();
        damaged[torn_at..begin].fill(0);
        if damaged != *bytes {
            assert_eq!(sample.damaged(path, damaged), None, "{torn_at}");
        }
    }
}

#[test]
fn a_torn_tail_is_cut_and_the_journal_goes_on() {
    let sample = sample(End::Killed, true);
    let all = sample.frames.len();
    let (path, bytes) = sample.segments.last().unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let next = used.next_multiple_of(128);
    let mut garbage = bytes.clone();
    garbage[next..next + 700].fill(0xEE);
    assert_eq!(sample.damaged(path, garbage.clone()), Some(all));
    let mut longer = bytes.clone();
    longer.extend_from_slice(b"appended by somebody");
    assert_eq!(sample.damaged(path, longer.clone()), Some(all));
    for damaged in [garbage, longer] {
        sample.disk.overwrite(path, damaged);
        let disk = std::sync::Arc::new(sample.disk.clone());
        let journal = open_on(disk, Path::new(DIRECTORY), sample.settings.clone()).unwrap();
        assert_eq!(append(&journal, frame(99, 50), Durability::Disk).unwrap(), Lsn(all as u64 + 1));
        journal.close().unwrap();
        assert_eq!(sample.read().unwrap().len(), all + 1);
        sample.restore();
    }
}

#[test]
fn a_hole_before_a_durable_frame_is_reported_with_file_offset_and_frames() {
    let sample = sample(End::Killed, true);
    let (path, bytes) = sample.segments.last().unwrap();
    let mut hole = bytes.clone();
    hole[4096..4096 + 512].fill(0);
    sample.disk.overwrite(path, hole);
    let error = sample.read().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataCorrupted);
    let first = sample.frames.len() - 1;
    for part in ["00000000000000000003.journal", "offset 4096", "frame"] {
        assert!(error.message().contains(part), "{error} lacks {part} ({first})");
    }
    assert!(error.hint().unwrap().contains("truncate -s 4096"), "{error}");
}

#[test]
fn a_missing_segment_is_reported() {
    let sample = sample(End::Closed, true);
    let disk: std::sync::Arc<dyn stratalog_model::Disk> = std::sync::Arc::new(sample.disk.clone());
    for (path, _) in &sample.segments {
        let bytes = sample.disk.contents(path).unwrap();
        disk.remove_file(path).unwrap();
        let error = sample.read().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataCorrupted);
        assert!(error.message().contains(path.to_str().unwrap()), "{error}");
        assert!(!disk.exists(path).unwrap(), "its name is not used again");
        drop(disk.create(path).unwrap());
        sample.disk.overwrite(path, bytes);
    }
    assert_eq!(sample.read().unwrap(), sample.frames);
}

/// The last two segments.
fn last_two(sample: &Sample) -> (&SegmentFile, &SegmentFile) {
    match sample.segments.as_slice() {
        [.., before, last] => (before, last),
        _ => panic!("one segment"),
    }
}

/// Offset of the 128 bytes of the continuation record.
fn continuation(bytes: &[u8]) -> usize {
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    let at = used / 128 * 128;
    assert_eq!((&bytes[at..at + 4], bytes[at + 32]), (b"SLFR".as_slice(), 0x81));
    at
}

#[test]
fn what_a_missing_last_segment_held_can_be_given_up() {
    for preallocate in [true, false] {
        let sample = sample(End::Killed, preallocate);
        let ((before, bytes), (last, _)) = last_two(&sample);
        let disk: std::sync::Arc<dyn stratalog_model::Disk> =
            std::sync::Arc::new(sample.disk.clone());
        disk.remove_file(last).unwrap();
        let error = sample.read().unwrap_err();
        let at = continuation(bytes);
        let hint = format!("truncate -s {at} FILE && truncate -s {} FILE", bytes.len());
        assert!(error.hint().unwrap().contains(&hint), "{error:?}");
        let mut given_up = bytes.clone();
        given_up[at..].fill(0);
        sample.disk.overwrite(before, given_up);
        let found = sample.read().unwrap();
        assert_eq!(found, sample.frames[..found.len()]);
        assert!((1..sample.frames.len()).contains(&found.len()));
    }
}

#[test]
fn a_crash_before_a_segment_says_that_it_is_continued_is_made_good() {
    for preallocate in [true, false] {
        let sample = sample(End::Killed, preallocate);
        let ((before, bytes), (last, last_bytes)) = last_two(&sample);
        // The state between both steps: the last segment is empty, and not announced.
        let at = continuation(bytes);
        let mut silent = bytes[..at].to_vec();
        if preallocate {
            silent.resize(bytes.len(), 0);
        }
        let mut empty = last_bytes[..4096].to_vec();
        if preallocate {
            empty.resize(last_bytes.len(), 0);
        }
        sample.disk.overwrite(before, silent);
        sample.disk.overwrite(last, empty);
        let disk: std::sync::Arc<dyn stratalog_model::Disk> =
            std::sync::Arc::new(sample.disk.clone());
        let journal = open_on(disk.clone(), Path::new(DIRECTORY), sample.settings.clone()).unwrap();
        let kept = contents(&journal).unwrap();
        assert_eq!(kept, sample.frames[..kept.len()]);
        append(&journal, frame(99, 50), Durability::Disk).unwrap();
        journal.close().unwrap();
        drop(journal);
        assert_eq!(sample.disk.contents(before).unwrap(), *bytes, "the same record, late");
        assert_eq!(sample.read().unwrap().len(), kept.len() + 1);
        disk.remove_file(last).unwrap();
        assert_eq!(kind(sample.read()), Some(ErrorKind::DataCorrupted));
    }
}

#[test]
fn a_journal_that_was_made_and_is_gone_is_reported() {
    let sample = sample(End::Closed, true);
    let open_existing = || {
        let disk = std::sync::Arc::new(sample.disk.clone());
        let directory = Path::new(DIRECTORY).to_path_buf();
        let settings = sample.settings.clone();
        Journal::open_existing(disk, directory, settings, RequiredSegments::First)
    };
    drop(open_existing().unwrap());
    let disk: std::sync::Arc<dyn stratalog_model::Disk> = std::sync::Arc::new(sample.disk.clone());
    for (path, _) in &sample.segments {
        disk.remove_file(path).unwrap();
    }
    let error = open_existing().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataCorrupted);
    assert!(error.message().contains(DIRECTORY), "{error}");
    let elsewhere = Path::new("/data/elsewhere").to_path_buf();
    let error = Journal::open_existing(
        std::sync::Arc::clone(&disk),
        elsewhere.clone(),
        sample.settings.clone(),
        RequiredSegments::First,
    )
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataCorrupted);
    assert!(!disk.exists(&elsewhere).unwrap(), "nothing is made");
}
