//! The rows of a tablet block, reduced to their ticks and group numbers.

use arrow::buffer::ScalarBuffer;

use super::budget::Claim;

/// Tick and group number of each row of a tablet block.
#[derive(Debug)]
pub struct NumberedRows {
    /// Id of the numbering to which the group numbers belong.
    pub of: u64,
    /// Tick of each row.
    pub ticks: ScalarBuffer<i64>,
    /// Group number of each row.
    pub numbers: Vec<u32>,
    /// The memory claim, if the rows are cached.
    _claim: Option<Claim>,
}

impl NumberedRows {
    /// Rows with group numbers of the numbering `of`; `claim` is given if the rows are cached.
    pub fn new(of: u64, ticks: ScalarBuffer<i64>, numbers: Vec<u32>, claim: Option<Claim>) -> Self {
        Self { of, ticks, numbers, _claim: claim }
    }
}
