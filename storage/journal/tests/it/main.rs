//! The journal as its users see it.

mod basics;
mod damage;
mod faults;
mod format;
mod support;
