//! Functions as SQL calls them.

mod functions;
