//! Tests across modules: what is written is read back.

mod round_trip;
