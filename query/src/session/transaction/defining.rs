//! What a block may define and write, one beside the other.

use stratalog_model::{ChronicleDefinition, ChronicleId, Error, Result};
use stratalog_visor_core::{CatalogState, catalog::Command};

use super::{Block, Transaction};
use crate::session::TransactionState;

impl Transaction {
    /// Checks that the block may write to a chronicle, for all that the block defines.
    ///
    /// # Errors
    /// `FeatureNotSupported` behind columns that the block adds to a chronicle of before.
    pub fn check_target(&self, chronicle: &ChronicleDefinition) -> Result<()> {
        let mut block = self.0.lock();
        if block.state == TransactionState::Block {
            block.touched.insert(chronicle.id, chronicle.schema_version);
        }
        match &block.definition {
            Some(definition) if definition.extends(chronicle.id) => {
                Err(commit_first("writing to a table behind a column that the same block adds"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the block may carry out commands that define something, in the state `seen`.
    ///
    /// # Errors
    /// `FeatureNotSupported` when the block has written to a chronicle that a command drops, or with
    /// the schema version that a command gives, or when a producer numbers the block.
    pub fn check_definition(&self, commands: &[Command], seen: &CatalogState) -> Result<()> {
        let block = self.0.lock();
        block.check_unnumbered()?;
        for command in commands {
            if command.drops(seen).iter().any(|id| block.touched.contains_key(id)) {
                return Err(commit_first("dropping a table that the block has written to"));
            }
            if let Command::AddColumn { id, .. } = command
                && let (Some(written), Some(now)) =
                    (block.touched.get(id), seen.chronicle_by_id(*id))
                && *written > now.schema_version
            {
                return Err(commit_first(
                    "ADD COLUMN after ROLLBACK TO of rows with another new column",
                ));
            }
        }
        Ok(())
    }

    /// Checks that the block may make a chronicle anew, with a key.
    ///
    /// # Errors
    /// `FeatureNotSupported` when the block has written to the chronicle and has not made it, or when
    /// a producer numbers the block.
    pub fn check_new_key(&self, chronicle: ChronicleId) -> Result<()> {
        let block = self.0.lock();
        block.check_unnumbered()?;
        let made = block.definition.as_ref().is_some_and(|definition| definition.made(chronicle));
        match block.touched.contains_key(&chronicle) && !made {
            true => Err(commit_first("ADD PRIMARY KEY to a table that the block has written to")),
            false => Ok(()),
        }
    }
}

impl Block {
    fn check_unnumbered(&self) -> Result<()> {
        match self.numbered && self.append.is_some() {
            true => Err(commit_first("a definition in a block with stratalog.producer_sequence")),
            false => Ok(()),
        }
    }
}

/// What a block does not do yet, and another block can.
fn commit_first(what: &str) -> Error {
    Error::not_yet(what).with_hint("COMMIT first")
}
