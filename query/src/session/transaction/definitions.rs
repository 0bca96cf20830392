//! Checks that the definitions (DDL) and the writes of one block are compatible.

use stratalog_model::{ChronicleDefinition, ChronicleId, Error, Result, SchemaVersion};
use stratalog_visor_core::{CatalogState, catalog::Command};

use super::{Block, Transaction};
use crate::session::TransactionState;

impl Transaction {
    /// Checks that the block may write to a chronicle after the definitions of the block so far.
    ///
    /// # Errors
    /// `FeatureNotSupported` after ADD COLUMN in the same block, if the block did not create the
    /// chronicle.
    pub fn check_target(&self, chronicle: &ChronicleDefinition) -> Result<()> {
        let mut block = self.0.lock();
        if block.definition.as_ref().is_some_and(|defined| defined.extends(chronicle.id)) {
            return Err(commit_first(&format!(
                "inserting into table \"{}\" after ADD COLUMN in the same block",
                chronicle.name
            )));
        }
        block.touch(chronicle.id, chronicle.schema_version);
        Ok(())
    }

    /// Records that the block deletes events of a chronicle. The delete does not depend on a schema
    /// version.
    pub fn note_delete(&self, chronicle: ChronicleId) {
        self.0.lock().touch(chronicle, SchemaVersion::default());
    }

    /// Checks that the block may execute DDL commands, given the catalog `seen`.
    ///
    /// # Errors
    /// `FeatureNotSupported` if the block has a producer sequence number, if a command drops a
    /// chronicle that the block has written to, or if a command creates a schema version that a
    /// write of the block already used.
    pub fn check_definition(&self, commands: &[Command], seen: &CatalogState) -> Result<()> {
        let block = self.0.lock();
        block.check_unnumbered()?;
        for command in commands {
            if command.drops(seen).iter().any(|id| block.touched.contains_key(id)) {
                return Err(commit_first(
                    "dropping a table after writes to the table in the same block",
                ));
            }
            if let Command::AddColumn { id, .. } = command
                && let (Some(written), Some(now)) =
                    (block.touched.get(id), seen.chronicle_by_id(*id))
                && *written > now.schema_version
            {
                return Err(commit_first(
                    "ADD COLUMN after a ROLLBACK TO that has undone another ADD COLUMN and later rows",
                ));
            }
        }
        Ok(())
    }

    /// Checks that the block may replace a chronicle with a copy that has a key.
    ///
    /// # Errors
    /// `FeatureNotSupported` if the block has a producer sequence number. For an existing
    /// chronicle, also if the block has written to existing chronicles: ADD PRIMARY KEY acquires
    /// the chronicle and waits for its writers, and such a writer may wait for a key of the block.
    pub fn check_new_key(&self, chronicle: ChronicleId) -> Result<()> {
        let block = self.0.lock();
        block.check_unnumbered()?;
        let created = |id: &ChronicleId| block.definition.as_ref().is_some_and(|d| d.created(*id));
        match created(&chronicle) || block.touched.keys().all(created) {
            true => Ok(()),
            false => Err(commit_first(
                "ADD PRIMARY KEY to an existing table after writes to existing tables in the same block",
            )),
        }
    }
}

impl Block {
    fn touch(&mut self, chronicle: ChronicleId, version: SchemaVersion) {
        if self.state == TransactionState::Block {
            let touched = self.touched.entry(chronicle).or_insert(version);
            *touched = version.max(*touched);
        }
    }

    fn check_unnumbered(&self) -> Result<()> {
        match self.numbered && self.append.is_some() {
            true => Err(commit_first("a definition in a block with stratalog.producer_sequence")),
            false => Ok(()),
        }
    }
}

/// The error for a statement that would work after a COMMIT.
fn commit_first(what: &str) -> Error {
    Error::not_yet(what).with_hint("COMMIT first")
}
