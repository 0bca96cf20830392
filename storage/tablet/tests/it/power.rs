//! A tablet is durable after `finish` returns, and absent before.

use std::{path::Path, sync::Arc};

use stratalog_sim::{Crash, FaultyDisk, Random};
use stratalog_tablet::Tablets;

use crate::fixture::*;

#[test]
fn a_power_cut_leaves_whole_tablets_or_none() {
    let folder = Path::new("/tablets");
    let open = |disk: &FaultyDisk| Tablets::open(Arc::new(disk.clone()), folder, None);
    let mut torn = 0;
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut disk = FaultyDisk::new(seed);
        let tablets = open(&disk).unwrap();
        let mut whole = Vec::new();
        for id in 1..=random.between(1, 4) {
            whole.push(build(&tablets, id, random.between(1, 20) as u32).unwrap().0);
        }
        // The next build meets the power cut at some call.
        disk.halt_after(random.between(1, 25));
        let last = build(&tablets, 9, 8);
        disk = disk.crash(Crash::PowerCut);
        let tablets = open(&disk).unwrap();
        for built in &whole {
            check(&tablets, built).unwrap();
        }
        match last {
            Ok((built, _)) => check(&tablets, &built).unwrap(),
            Err(_) => torn += usize::from(!is_there(&disk, folder, 9)),
        }
        assert!(tablets.files().unwrap().len() <= whole.len() + 1);
    }
    assert!(torn > 50, "too few cuts in the middle: {torn}");
}
