//! Scalar functions and functions in FROM: PostgreSQL's names, the choice between several
//! signatures, the valid arguments, and the results.

pub(crate) mod aliases;
pub(crate) mod bytes;
pub(crate) mod calls;
pub(crate) mod concat_arguments;
pub(crate) mod domain;
pub(crate) mod linear_search;
pub(crate) mod rounding;
pub(crate) mod series;
