//! Allocates numbers for new pieces. A number is never used again.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering},
};

use stratalog_model::{ChronicleId, TierName, invariant};

use crate::tiering::files::EngineFiles;

/// The highest number assigned so far, including pieces that the manifest does not name.
#[derive(Debug, Default)]
pub struct PieceCounter(AtomicU64);

impl PieceCounter {
    /// A number above the numbers of all pieces. The caller must hold `move_lock`.
    fn next(&self, files: &EngineFiles) -> u64 {
        let named = files.manifest.state().last_piece;
        self.0.fetch_max(named, Ordering::Relaxed);
        let number = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        debug_assert!(named < number, "piece number {number} has a piece");
        number
    }
}

/// The numbers allocated by one move, ascending. Gaps are possible, because another move may
/// allocate numbers at the same time. The drop removes the files with these numbers, unless
/// [`Self::hand_over`] was called.
pub struct PieceNumbers<'a> {
    counter: &'a PieceCounter,
    files: &'a EngineFiles,
    chronicle: ChronicleId,
    tier: TierName,
    issued: BTreeSet<u64>,
}

impl<'a> PieceNumbers<'a> {
    /// An allocation without numbers, for pieces of a chronicle in one tier.
    pub fn new(
        counter: &'a PieceCounter,
        files: &'a EngineFiles,
        chronicle: ChronicleId,
        tier: TierName,
    ) -> Self {
        Self { counter, files, chronicle, tier, issued: BTreeSet::new() }
    }

    /// Allocates the next number.
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

    /// Hands the numbers over to an edit of the manifest, which may name the pieces from now on.
    /// The drop no longer removes their files.
    pub fn hand_over(&mut self) -> IssuedNumbers {
        IssuedNumbers(std::mem::take(&mut self.issued))
    }

    /// Takes numbers back, because the edit failed and the manifest does not name the pieces. The
    /// drop removes their files again.
    pub fn take_back(&mut self, numbers: IssuedNumbers) {
        debug_assert!(self.issued.is_empty(), "the numbers taken since are forgotten");
        self.issued = numbers.0;
    }
}

/// Numbers of pieces that the manifest may name.
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
