//! Definitions and writes in one block, and the combinations that exclude each other.

use stratalog_model::{ChronicleDefinition, ChronicleId, Error, Result, SchemaVersion};
use stratalog_visor_core::{CatalogState, catalog::Command};

use super::{Block, Transaction};
use crate::session::TransactionState;

impl Transaction {
    /// Checks that the block may write to a chronicle, considering all definitions of the block.
    ///
    /// # Errors
    /// `FeatureNotSupported` after ADD COLUMN in the block to a chronicle not made by the block.
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

    /// Records a delete of events in a chronicle, for any columns of the chronicle.
    pub fn note_delete(&self, chronicle: ChronicleId) {
        self.0.lock().touch(chronicle, SchemaVersion::default());
    }

    /// Checks that the block may carry out commands that define something, in the state `seen`.
    ///
    /// # Errors
    /// `FeatureNotSupported` if a producer numbers the block, if a command drops a chronicle
    /// written by the block, or if a command gives a schema version already used by a write of the
    /// block.
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

    /// Checks that the block may make a chronicle anew, with a key.
    ///
    /// # Errors
    /// `FeatureNotSupported` if a producer numbers the block, and for an existing chronicle if the
    /// block has written to existing chronicles. ADD PRIMARY KEY acquires an existing chronicle and
    /// waits for the writers of the chronicle, but a writer may wait for a key of the block.
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

/// Refuses a statement that works in the next block.
fn commit_first(what: &str) -> Error {
    Error::not_yet(what).with_hint("COMMIT first")
}
