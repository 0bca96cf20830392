//! Damaged bytes never become wrong bytes (CL-6), and sled is never needed (CL-9).

use std::{
    fs,
    path::{Path, PathBuf},
};

use stratalog_model::ErrorKind;

use crate::fixture::*;

type Damage = dyn Fn(&mut Vec<u8>);

#[test]
fn every_flipped_bit_is_found_or_without_consequence() {
    let folder = tempfile::tempdir().unwrap();
    let tablets = local(folder.path());
    let (built, heads) = build(&tablets, 1, 4).unwrap();
    let path = folder.path().join("tablets/00000000000000000001.tablet");
    let bytes = fs::read(&path).unwrap();
    let mut found = 0;
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        fs::write(&path, &changed).unwrap();
        let outcome = check(&tablets, &built).and_then(|()| tablets.tablet(&built)?.verify());
        match outcome {
            Ok(()) => {
                // Zeros at the end of a block.
                let fills = heads.iter().any(|head| {
                    let end = (head.offset + head.bytes()) as usize;
                    (end - 16..end).contains(&at)
                });
                assert!(fills && bytes[at] == 0, "a flip at {at} is not found");
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::DataCorrupted, "at {at}: {error}");
                found += 1;
            }
        }
    }
    assert!(found > bytes.len() * 9 / 10);
}

#[test]
fn cut_and_foreign_files_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let tablets = local(folder.path());
    let (built, _) = build(&tablets, 1, 4).unwrap();
    let (other, _) = build(&tablets, 2, 4).unwrap();
    let path = |id: u64| folder.path().join(format!("tablets/{id:020}.tablet"));
    let bytes = fs::read(path(1)).unwrap();
    for len in [0, 1, 63, 64, 95, bytes.len() / 2, bytes.len() - 1] {
        fs::write(path(1), &bytes[..len]).unwrap();
        assert_eq!(tablets.tablet(&built).unwrap_err().kind(), ErrorKind::DataCorrupted);
    }
    fs::copy(path(2), path(1)).unwrap();
    assert_eq!(tablets.tablet(&built).unwrap_err().kind(), ErrorKind::DataCorrupted);
    check(&tablets, &other).unwrap();
}

/// Applies a change to each file of a folder.
fn spoil(folder: &Path, change: &impl Fn(&mut Vec<u8>)) -> usize {
    let mut spoilt = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            spoilt += spoil(&path, change);
        } else {
            let mut bytes = fs::read(&path).unwrap();
            change(&mut bytes);
            fs::write(&path, bytes).unwrap();
            spoilt += 1;
        }
    }
    spoilt
}

/// The files of a folder, without files of zeros only.
fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            list(&path, files);
        } else if fs::read(&path).unwrap().iter().any(|byte| *byte != 0) {
            files.push(path);
        }
    }
}

#[test]
fn sled_may_be_damaged_cut_or_gone() {
    let folder = tempfile::tempdir().unwrap();
    let index = folder.path().join("index");
    let tablets = local(folder.path());
    let built: Vec<_> = (1..=3).map(|id| build(&tablets, id, 30).unwrap().0).collect();
    drop(tablets);
    let mut random = stratalog_sim::Random::new(11);
    let mut damages: Vec<Box<Damage>> = vec![
        Box::new(Vec::clear),
        Box::new(|bytes| bytes.truncate(bytes.len() / 2)),
        Box::new(|bytes| bytes.fill(0xA7)),
    ];
    for _ in 0..40 {
        let (place, bit) = (random.any(), 1 << random.below(8));
        damages.push(Box::new(move |bytes| {
            let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0) + 1;
            if let Some(byte) = bytes.get_mut(place as usize % used) {
                *byte ^= bit;
            }
        }));
    }
    for damage in damages {
        assert!(spoil(&index, &damage) > 0);
        let tablets = local(folder.path());
        for built in &built {
            check(&tablets, built).unwrap();
        }
    }
    fs::remove_dir_all(&index).unwrap();
    let tablets = local(folder.path());
    for built in &built {
        check(&tablets, built).unwrap();
    }
}

/// `STRATALOG_FLIPS` sets the number of flips, `STRATALOG_SEEDS=FIRST..END` the seeds.
#[test]
fn a_flipped_bit_of_the_index_is_without_consequence() {
    let setting =
        |name: &str| -> Option<u64> { std::env::var(name).ok()?.split("..").next()?.parse().ok() };
    let flips = setting("STRATALOG_FLIPS").map_or(60, |flips| flips / 10);
    let seed = setting("STRATALOG_SEEDS").unwrap_or_else(|| u64::from(std::process::id()));
    let folder = tempfile::tempdir().unwrap();
    let index = folder.path().join("index");
    let tablets = local(folder.path());
    let built: Vec<_> = (1..=3).map(|id| build(&tablets, id, 30).unwrap().0).collect();
    drop(tablets);
    let mut random = stratalog_sim::Random::new(seed);
    for flip in 0..flips {
        let mut files = Vec::new();
        list(&index, &mut files);
        let path = &files[random.below(files.len() as u64) as usize];
        let mut bytes = fs::read(path).unwrap();
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        let (at, bit) = (random.below(used as u64) as usize, random.below(8));
        bytes[at] ^= 1 << bit;
        fs::write(path, &bytes).unwrap();
        println!("seed {seed}, flip {flip}: bit {bit} at {at} of {}", path.display());
        let tablets = local(folder.path());
        for built in &built {
            check(&tablets, built).unwrap();
        }
    }
}
