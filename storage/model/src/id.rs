//! Newtypes for all identifiers and positions.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($( $(#[$doc:meta])* $name:ident($inner:ty); )*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { self.0.fmt(f) }
        }
    )* };
}

id! {
    /// A chronicle; never reused during the life of the data directory. 0 stands for the catalog.
    ChronicleId(u32);
    /// A column of one chronicle; never reused. Events refer to columns by id, so a rename changes
    /// no data.
    ColumnId(u32);
    /// The version of a chronicle's set of columns, counted from 1.
    SchemaVersion(u32);
    /// A fixed share of a chronicle's tick buckets (F73).
    PartitionId(u16);
    /// One file of a keeper's journal, counted from 1.
    SegmentId(u64);
    /// Position in one keeper's journal: the number of the frame, counted from 1 over all segments.
    Lsn(u64);
    /// Global sequence number: commit order, gap-free from 1, equal for every reader (F49, F102).
    Gsn(u64);
    /// The site that first stored an event (F47, F49).
    OriginId(u16);
    /// One statement or transaction whose frames become visible together. 0 marks a frame that is a
    /// complete statement by itself.
    StatementId(u64);
    /// A client that numbers its statements, so that the server recognizes a retry (F68). The value
    /// is a UUID.
    ProducerId(u128);
}

impl ProducerId {
    /// The UUID in its text form.
    pub fn as_uuid_text(self) -> String {
        uuid::Uuid::from_u128(self.0).to_string()
    }
}
