//! The rights of a session.

use std::sync::Arc;

use stratalog_model::{ChronicleId, Result};
use stratalog_visor_core::{
    CatalogState,
    access::{Columns, Identity, Object, Privilege},
};

use super::Session;

impl Session {
    /// On whose behalf the session's statements run now.
    pub fn identity(&self) -> Identity {
        *self.seen.identity.read()
    }

    /// Changes the identity, for SET ROLE. All plans of the session become stale.
    pub(crate) fn become_identity(&self, identity: Identity) {
        *self.seen.identity.write() = identity;
        self.variables.outdate();
    }

    /// The catalog with all chronicles, also those that the session may not know of.
    pub(crate) fn whole_catalog(&self) -> Arc<CatalogState> {
        self.seen.whole()
    }

    /// Checks that the session may use a privilege on an object now.
    ///
    /// # Errors
    /// See [`CatalogState::authorize`].
    pub fn authorize(
        &self,
        privilege: Privilege,
        object: Object,
        columns: Columns<'_>,
    ) -> Result<()> {
        let now_ns = self.parts().catalog.now_ns();
        self.whole_catalog().authorize(&self.identity(), privilege, object, columns, now_ns)
    }

    /// Checks that the session may use a privilege on a whole chronicle now.
    ///
    /// # Errors
    /// See [`CatalogState::authorize`].
    pub(crate) fn authorize_on(&self, privilege: Privilege, chronicle: ChronicleId) -> Result<()> {
        self.authorize(privilege, Object::Chronicle(chronicle), Columns::All)
    }

    /// Checks that the identity of the session is still valid: the role exists, the token was not
    /// revoked and has not expired.
    ///
    /// # Errors
    /// `InvalidAuthorization`.
    pub(crate) fn check_identity(&self) -> Result<()> {
        let catalog = &self.parts().catalog;
        match self.identity() {
            Identity::System => Ok(()),
            identity => catalog.state().access().rights(&identity, catalog.now_ns()).map(drop),
        }
    }
}
