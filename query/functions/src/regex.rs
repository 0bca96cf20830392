//! PostgreSQL's regular expressions ("advanced" regular expressions, ARE), and the functions that
//! use them.
//!
//! ```text
//!   pattern ─► syntax: translated for the engine ─► engine: linear, or backtracking if there are
//!                                                    back-references or look-around ─► functions
//! ```

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use stratalog_model::Result;

mod calls;
mod engine;
mod flags;
mod rows;
mod syntax;

pub use calls::functions;
pub(crate) use engine::{Expression, MatchSpans};
pub(crate) use flags::Flags;
pub use syntax::plain;

/// The maximum number of compiled expressions in the cache.
const CACHED_EXPRESSIONS_MAX: usize = 128;

/// A cache of compiled expressions by pattern and flags.
type ExpressionCache = HashMap<(String, Flags), Arc<Expression>>;

/// The cache of compiled expressions, which all sessions share.
static EXPRESSION_CACHE: LazyLock<Mutex<ExpressionCache>> = LazyLock::new(Mutex::default);

/// Returns the compiled expression for a pattern, from the cache if possible.
///
/// # Errors
/// `InvalidRegularExpression` for an invalid pattern.
pub(crate) fn compiled(pattern: &str, flags: Flags) -> Result<Arc<Expression>> {
    let key = (pattern.to_string(), flags);
    if let Some(known) = EXPRESSION_CACHE.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return Ok(Arc::clone(known));
    }
    let expression = Arc::new(Expression::new(pattern, flags)?);
    let mut kept = EXPRESSION_CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() >= CACHED_EXPRESSIONS_MAX {
        kept.clear();
    }
    kept.insert(key, Arc::clone(&expression));
    Ok(expression)
}

/// The pattern and flags of the previous row, with the compiled expression.
#[derive(Debug, Default)]
pub(crate) struct LastExpression(Option<(String, Flags, Arc<Expression>)>);

impl LastExpression {
    /// Returns the compiled expression for a pattern. If the previous row has the same pattern and
    /// flags, reuses its expression.
    ///
    /// # Errors
    /// `InvalidRegularExpression` for an invalid pattern.
    pub(crate) fn expression(&mut self, pattern: &str, flags: Flags) -> Result<Arc<Expression>> {
        match &self.0 {
            Some((last, with, expression)) if last == pattern && *with == flags => {
                Ok(Arc::clone(expression))
            }
            _ => {
                let expression = compiled(pattern, flags)?;
                self.0 = Some((pattern.to_string(), flags, Arc::clone(&expression)));
                Ok(expression)
            }
        }
    }
}

#[cfg(test)]
mod tests;
