//! A story is durable after `finish` returns, and absent before.

use std::{path::Path, sync::Arc};

use stratalog_model::Disk;
use stratalog_sim::{Crash, FaultyDisk, Random};
use stratalog_story::{LocalShelf, Stories};

use crate::fixture::*;

/// The stories on a disk; the spool is on the same disk, or on a disk that looks like another disk.
fn open(disk: &FaultyDisk, copied: bool) -> Stories {
    let folder = Path::new("/data");
    let shelf_disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let spool_disk = if copied { Arc::new(disk.clone()) } else { Arc::clone(&shelf_disk) };
    let shelf = LocalShelf::open(shelf_disk, &folder.join("stories")).unwrap();
    on_shelf(Arc::new(shelf), spool_disk, folder).unwrap()
}

#[test]
fn a_power_cut_leaves_whole_stories_or_none() {
    let mut torn = 0;
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let copied = random.chance(50);
        let mut disk = FaultyDisk::new(seed);
        let stories = open(&disk, copied);
        let mut whole = Vec::new();
        for id in 1..=random.below(3) {
            whole.push(build(&stories, id, random.between(1, 4) as usize).unwrap());
        }
        // The next build meets the power cut at some call.
        disk.halt_after(random.between(1, 14));
        let last = build(&stories, 9, 3);
        drop(stories);
        disk = disk.crash(Crash::PowerCut);
        let stories = open(&disk, copied);
        for built in &whole {
            check(&stories, built).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
        let files = wait(stories.files()).unwrap();
        match last {
            Ok(built) => {
                check(&stories, &built).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            }
            Err(_) => torn += usize::from(files.len() == whole.len()),
        }
        assert!(files.len() <= whole.len() + 1);
        assert!(!disk.paths().iter().any(|path| path.to_string_lossy().ends_with(".building")));
        // Existing stories outside of the manifest are removed.
        let named = whole.iter().map(|built| built.name()).collect();
        keep_only(&stories, &named);
        assert_eq!(wait(stories.files()).unwrap().len(), whole.len());
    }
    assert!(torn > 50, "too few cuts in the middle: {torn}");
}
