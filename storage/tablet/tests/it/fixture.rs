//! Tablets with known blocks.

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use stratalog_journal::LocalDisk;
use stratalog_model::{ChronicleId, Disk, Result, SchemaVersion};
use stratalog_tablet::{BlockHead, BlockSummary, BuiltTablet, Section, TabletId, Tablets};

pub const CHRONICLE: ChronicleId = ChronicleId(7);

pub fn local(folder: &Path) -> Tablets {
    Tablets::open(Arc::new(LocalDisk), &folder.join("tablets"), Some(&folder.join("index")))
        .unwrap()
}

/// The payload of a block: compressible, and unique for each block.
pub fn payload(tablet: u64, block: u32) -> Bytes {
    let line = format!("tablet {tablet}, block {block}; ");
    line.repeat(20 + block as usize * 7).into()
}

pub fn summary(block: u32) -> BlockSummary {
    let first = i64::from(block) * 100 - 250;
    BlockSummary {
        rows: block + 1,
        ticks: (first, first + 99),
        gsns: (u64::from(block) * 10 + 1, u64::from(block) * 10 + 10),
        keys: (format!("key {block:04}").into(), format!("key {block:04}, last").into()),
        statistics: vec![block as u8; block as usize % 40].into(),
    }
}

pub fn section(bytes: &[u8], word_bytes: u8) -> Section<'_> {
    Section { bytes, word_bytes }
}

/// Builds a tablet of `blocks` blocks.
pub fn build(tablets: &Tablets, id: u64, blocks: u32) -> Result<(BuiltTablet, Vec<BlockHead>)> {
    let mut builder = tablets.build(TabletId(id), CHRONICLE, SchemaVersion(3))?;
    for block in 0..blocks {
        let (bytes, words) =
            (payload(id, block), (0..50_u64 * u64::from(block)).collect::<Vec<_>>());
        let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        builder.push(summary(block), &[section(&bytes, 1), section(&words, 8)])?;
    }
    let (built, heads) = builder.finish()?;
    tablets.remember(&built, &heads);
    Ok((built, heads))
}

/// Reads everything, and compares the bytes with the written bytes.
pub fn check(tablets: &Tablets, built: &BuiltTablet) -> Result<()> {
    let tablet = tablets.tablet(built)?;
    let heads = tablets.blocks(&tablet)?;
    assert_eq!(heads.len(), built.blocks as usize);
    for (block, head) in (0..).zip(&heads) {
        assert_eq!(head.summary, summary(block));
        assert_eq!(tablet.read(head, &[0])?, [payload(built.id.0, block)]);
        let both = tablet.read_all(head)?;
        assert_eq!(tablet.read(head, &[1])?, both[1..]);
        let words = both[1].chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        assert!(words.eq(0..50 * u64::from(block)));
    }
    Ok(())
}

/// Whether a disk has the file of a tablet.
pub fn is_there(disk: &dyn Disk, folder: &Path, id: u64) -> bool {
    disk.exists(&folder.join(format!("{id:020}.tablet"))).unwrap()
}
