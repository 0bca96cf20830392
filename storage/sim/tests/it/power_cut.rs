//! CL-1 on thousands of seeds; `STRATALOG_SEEDS=FIRST..END` chooses others.

use stratalog_sim::{
    Lie,
    power_cut::{Script, Summary, run},
};

fn seeds(default: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let chosen = std::env::var("STRATALOG_SEEDS").ok();
    let chosen = chosen.as_deref().and_then(|text| text.split_once(".."));
    chosen.map_or(default, |(first, end)| first.parse().unwrap()..end.parse().unwrap())
}

#[test]
fn what_was_acknowledged_survives() {
    let mut total = Summary::default();
    for seed in seeds(0..3000) {
        let summary = run(seed, Script::default()).unwrap_or_else(|broken| panic!("{broken}"));
        total.crashes += summary.crashes;
        total.acknowledged += summary.acknowledged;
        total.refused += summary.refused;
        total.lost_relaxed += summary.lost_relaxed;
        total.poisoned += summary.poisoned;
    }
    println!("{total:?}");
    // A test without accidents proves nothing.
    assert!(total.crashes > 5000 && total.acknowledged > 10_000, "{total:?}");
    assert!(total.refused > 1000 && total.lost_relaxed > 100 && total.poisoned > 100, "{total:?}");
}

#[test]
#[allow(clippy::needless_update, reason = "with the feature `sabotage` there is a field more")]
fn every_lie_of_the_disk_is_caught() {
    for lie in Lie::ALL {
        let script = Script { lie: Some(*lie), ..Script::default() };
        let caught = (0..500).find_map(|seed| run(seed, script).err());
        println!("{lie:?}: {caught:?}");
        assert!(caught.is_some(), "{lie:?} was not caught");
    }
}

#[cfg(feature = "sabotage")]
#[test]
fn every_sabotage_is_caught() {
    for seed in 0..500 {
        run(seed, Script::default()).unwrap_or_else(|broken| panic!("without one: {broken}"));
    }
    for (name, sabotage) in stratalog_journal::Sabotage::ALL {
        let script = Script { sabotage: Some(*sabotage), ..Script::default() };
        let caught = (0..2000).find_map(|seed| run(seed, script).err());
        println!("caught {name}: {caught:?}");
        assert!(caught.is_some(), "{name} was not caught");
    }
}
