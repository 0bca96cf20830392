//! Names of OTLP that become one name of a table or column.
//!
//! `a.b` and `a_b` are both `a_b`: rows of one would replace rows of the other. The name that comes first
//! has the table or column; data of the other is refused.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use ahash::RandomState;
use stratalog_model::{Error, ErrorKind, Result};

use crate::fault::shown;

/// Names that are remembered; when there are more, all are forgotten.
const NAMES_MAX: usize = 200_000;

/// The names of OTLP by the places that they have.
type Owners = HashMap<Box<str>, Box<str>, RandomState>;

/// The names of OTLP that the names of tables and columns stand for. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Names(Arc<Mutex<Owners>>);

impl Names {
    /// Takes a place for a name, which a suffix may have been added to.
    ///
    /// # Errors
    /// `DuplicateObject` when the place is another name's.
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
                "\"{}{suffix}\" and \"{}\" are both stored as \"{}\", and one would replace the other",
                shown(name),
                shown(&owner.replace('\0', "")),
                shown(stored)
            ),
        )
        .with_hint("rename one of the two where it is sent"))
    }
}
