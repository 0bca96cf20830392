//! Allocation of numbers for new pieces.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering},
};

use stratalog_model::{ChronicleId, TierName, invariant};

use crate::tiering::files::EngineFiles;

/// Counts the pieces, also without a record in the manifest.
#[derive(Debug, Default)]
pub struct PieceCounter(AtomicU64);

impl PieceCounter {
    /// A number above the number of every piece. Only for the holder of the lock `move_lock`.
    fn next(&self, files: &EngineFiles) -> u64 {
        let named = files.manifest.state().last_piece;
        self.0.fetch_max(named, Ordering::Relaxed);
        let number = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        debug_assert!(named < number, "piece number {number} has a piece");
        number
    }
}

/// The numbers of one move. The numbers ascend, possibly with gaps because another move may take
/// numbers at the same time. Drop gives up all pieces under these numbers.
pub struct PieceNumbers<'a> {
    counter: &'a PieceCounter,
    files: &'a EngineFiles,
    chronicle: ChronicleId,
    tier: TierName,
    issued: BTreeSet<u64>,
}

impl<'a> PieceNumbers<'a> {
    /// An empty allocation for pieces of a chronicle and a tier.
    pub fn new(
        counter: &'a PieceCounter,
        files: &'a EngineFiles,
        chronicle: ChronicleId,
        tier: TierName,
    ) -> Self {
        Self { counter, files, chronicle, tier, issued: BTreeSet::new() }
    }

    /// Takes an unused number.
    pub fn take(&mut self) -> u64 {
        let number = self.counter.next(self.files);
        debug_assert!(
            self.issued.last().is_none_or(|last| *last < number),
            "the numbers of a move do not ascend"
        );
        let is_new = self.issued.insert(number);
        invariant!(OneOwner, is_new, "piece number {number} was given before");
        number
    }

    /// Hands the numbers over to the manifest, which may now name the pieces. Drop no longer gives
    /// up the pieces.
    pub fn hand_over(&mut self) -> IssuedNumbers {
        IssuedNumbers(std::mem::take(&mut self.issued))
    }

    /// Takes numbers back because the manifest does not name the pieces after all.
    pub fn take_back(&mut self, numbers: IssuedNumbers) {
        debug_assert!(self.issued.is_empty(), "the numbers taken since are forgotten");
        self.issued = numbers.0;
    }
}

/// Numbers that the manifest may name.
pub struct IssuedNumbers(BTreeSet<u64>);

impl Drop for PieceNumbers<'_> {
    fn drop(&mut self) {
        let issued = std::mem::take(&mut self.issued);
        if issued.is_empty() {
            return;
        }
        self.files.shelves.abandon(self.tier, self.chronicle, issued);
    }
}
