//! The simulator's own tests, and what is tested with it.

mod power_cut;
