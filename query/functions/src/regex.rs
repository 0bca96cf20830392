//! PostgreSQL's regular expressions ("advanced" expressions), and the functions that use them.
//!
//! ```text
//!   pattern ─► syntax: the engine's spelling ─► engine: linear, unless there are back-references
//!                                                or look-around ─► functions
//! ```

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use stratalog_model::Result;

mod calls;
mod engine;
mod syntax;

pub use calls::functions;
pub(crate) use engine::{Expression, MatchSpans};
pub(crate) use syntax::Flags;
pub use syntax::plain;

/// The maximum number of cached compiled expressions.
const CACHED_EXPRESSIONS_MAX: usize = 128;

/// Compiled expressions by their pattern and flags.
type ExpressionCache = HashMap<(String, Flags), Arc<Expression>>;

/// The cache for all sessions.
static EXPRESSION_CACHE: LazyLock<Mutex<ExpressionCache>> = LazyLock::new(Mutex::default);

/// The compiled expression of a pattern.
///
/// # Errors
/// `InvalidRegularExpression`.
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

/// The expression of the previous row.
#[derive(Debug, Default)]
pub(crate) struct LastExpression(Option<(String, Flags, Arc<Expression>)>);

impl LastExpression {
    /// The compiled expression of a pattern.
    ///
    /// # Errors
    /// `InvalidRegularExpression`.
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
