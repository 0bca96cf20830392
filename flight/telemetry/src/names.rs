//! Detects different OTLP names that have the same table or column name.
//!
//! `a.b` and `a_b` both become `a_b`: without this check, rows of one metric would replace rows of
//! the other. The first OTLP name owns the table or column, and the reader refuses data with
//! another name. If one point has two attributes whose keys become the same name, the point has a
//! single tag with both values, and neither attribute owns the column.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use ahash::RandomState;
use stratalog_model::{Error, ErrorKind, Result};

use crate::fault::{Refusal, excerpt};

/// Maximal number of registered names. When the registry is full, all names are removed.
const NAMES_MAX: usize = 200_000;

/// The OTLP name that owns each table or column name.
type Owners = HashMap<Box<str>, Owner<Box<str>>, RandomState>;

/// The registry of the OTLP names that own table and column names. All clones share one registry.
#[derive(Debug, Clone, Default)]
pub struct Names(Arc<Mutex<Owners>>);

/// An OTLP name that owns, or wants to own, the name of a table or column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner<T> {
    pub(crate) kind: OwnerKind,
    pub(crate) name: T,
    /// The part of the metric, for example the count of a histogram, if the part has its own table.
    /// '' for a whole metric and for an attribute.
    pub(crate) suffix: &'static str,
}

/// The kind of an OTLP name. The kind only appears in messages and does not distinguish owners,
/// because a sender may change the kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnerKind {
    Gauge,
    Sum,
    Histogram,
    Summary,
    Attribute,
}

/// The name of a table or column, and the OTLP name that claims it.
pub(crate) type Claim<'a> = (String, Owner<&'a str>);

impl Names {
    /// Registers the owners of table and column names, and runs `take`, which prepares the rows. If
    /// a name has another owner, or if `take` fails, no name gets a new owner.
    ///
    /// # Errors
    /// `DuplicateObject` if another OTLP name owns one of the names; errors of `take`.
    pub(crate) fn claim<T>(
        &self,
        claims: &[Claim<'_>],
        take: impl FnOnce() -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        // One lock covers the check and the registration, against concurrent requests.
        let mut owners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if owners.len() >= NAMES_MAX {
            owners.clear();
        }
        for (place, name) in claims {
            if let Some(owner) = owners.get(place.as_str())
                && (&*owner.name, owner.suffix) != (name.name, name.suffix)
            {
                return Err(Refusal::Item(conflict(place, name, owner)));
            }
        }
        let taken = take()?;
        for (place, Owner { kind, name, suffix }) in claims {
            let owner = || Owner { kind: *kind, name: Box::<str>::from(*name), suffix };
            owners.entry(place.as_str().into()).or_insert_with(owner);
        }
        Ok(taken)
    }
}

fn conflict(place: &str, name: &Owner<&str>, owner: &Owner<Box<str>>) -> Error {
    let owner = Owner { kind: owner.kind, name: &*owner.name, suffix: owner.suffix };
    let stored = place.rsplit('\0').next().unwrap_or_default();
    let harm = match name.kind {
        OwnerKind::Attribute => "points with one attribute would replace points with the other",
        _ => "values of one metric would replace values of the other",
    };
    Error::new(
        ErrorKind::DuplicateObject,
        format!("{name} and {owner} are both stored as \"{}\", and {harm}", excerpt(stored)),
    )
    .with_hint("rename one of the two at the sender")
}

impl fmt::Display for Owner<&str> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the ")?;
        match self.suffix {
            "" => {}
            "_bucket" => f.write_str("buckets of the ")?,
            suffix => write!(f, "{} of the ", suffix.trim_start_matches('_'))?,
        }
        let kind = match self.kind {
            OwnerKind::Gauge => "gauge",
            OwnerKind::Sum => "sum",
            OwnerKind::Histogram => "histogram",
            OwnerKind::Summary => "summary",
            OwnerKind::Attribute => "attribute",
        };
        write!(f, "{kind} \"{}\"", excerpt(self.name))
    }
}
