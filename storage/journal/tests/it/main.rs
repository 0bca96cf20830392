//! The journal as its users see it.

mod basics;
mod support;
