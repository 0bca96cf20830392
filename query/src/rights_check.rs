//! The check that a session may still read the rows of a result.

use stratalog_model::Result;

/// Checks that the session may still read the columns of some rows.
pub(crate) type RightsCheck = Box<dyn Fn() -> Result<()> + Send + Sync>;
