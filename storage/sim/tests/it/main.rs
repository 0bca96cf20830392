//! The simulator's own tests, and what is tested with it.

mod crash;
mod power_cut;
