//! Conflicts of OTLP names with the same table or column name.
//!
//! `a.b` and `a_b` both become `a_b`: rows of one metric would replace rows of the other. The first
//! name gets the table or column; data of the other name is refused.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use ahash::RandomState;
use stratalog_model::{Error, ErrorKind, Result};

use crate::fault::excerpt;

/// Maximal number of cached names; the cache is emptied when it exceeds this number.
const NAMES_MAX: usize = 200_000;

/// The owning OTLP name of each table or column name.
type Owners = HashMap<Box<str>, Box<str>, RandomState>;

/// The registry of the OTLP names behind the names of tables and columns. Clones share the
/// registry.
#[derive(Debug, Clone, Default)]
pub struct Names(Arc<Mutex<Owners>>);

impl Names {
    /// Claims a place for a name; a suffix may have been appended.
    ///
    /// # Errors
    /// `DuplicateObject` if another name owns the place.
    pub(crate) fn claim(&self, place: &str, name: &str, suffix: &str) -> Result<()> {
        let mut owners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if owners.len() >= NAMES_MAX {
            owners.clear();
        }
        let owner = owners.entry(place.into());
        let owner = owner.or_insert_with(|| format!("{name}\0{suffix}").into());
        if owner.split_once('\0') == Some((name, suffix)) {
            return Ok(());
        }
        let stored = place.rsplit('\0').next().unwrap_or_default();
        Err(Error::new(
            ErrorKind::DuplicateObject,
            format!(
                "\"{}{suffix}\" and \"{}\" are both stored as \"{}\", and values of one metric would replace values of the other metric",
                excerpt(name),
                excerpt(&owner.replace('\0', "")),
                excerpt(stored)
            ),
        )
        .with_hint("rename one of the two at the sender"))
    }
}
