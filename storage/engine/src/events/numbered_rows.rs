//! The rows of a block in the form of their ticks and group numbers.

use arrow::buffer::ScalarBuffer;

use super::budget::Claim;

/// The rows of a block, by group.
#[derive(Debug)]
pub struct NumberedRows {
    /// Id of the numbering.
    pub of: u64,
    /// Ticks of the rows.
    pub ticks: ScalarBuffer<i64>,
    /// Group numbers of the rows.
    pub numbers: Vec<u32>,
    /// The memory claim, if the rows are cached.
    _claim: Option<Claim>,
}

impl NumberedRows {
    /// Rows by the numbering `of`, cached with a claim.
    pub fn new(of: u64, ticks: ScalarBuffer<i64>, numbers: Vec<u32>, claim: Option<Claim>) -> Self {
        Self { of, ticks, numbers, _claim: claim }
    }
}
