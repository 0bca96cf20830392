//! The access list of one object, changed by PostgreSQL's rules: who grants, and which grants end
//! with a revoked grant option.

use std::collections::BTreeSet;

use stratalog_model::{ColumnId, Error, ErrorKind, Result};

use super::Scene;
use crate::access::{Grant, Object, Privilege, RoleId};

/// A grantee, a privilege, a column and a grantor: the identity of an entry.
pub(super) type Entry = (Option<RoleId>, Privilege, Option<ColumnId>, RoleId);

/// The access list of one object.
pub(super) struct AccessList<'a> {
    scene: &'a Scene<'a>,
    object: Object,
    owner: RoleId,
    grants: Vec<Grant>,
}

impl<'a> AccessList<'a> {
    pub(super) fn of(scene: &'a Scene<'a>, object: Object) -> Self {
        let access = scene.access();
        let (owner, grants) = (access.owner(object), access.grants(object).into_owned());
        Self { scene, object, owner, grants }
    }

    pub(super) fn grants(&self) -> &[Grant] {
        &self.grants
    }

    pub(super) fn into_grants(self) -> Vec<Grant> {
        self.grants
    }

    /// The columns with an entry for one of the privileges.
    pub(super) fn columns(&self, privileges: &[Privilege]) -> Vec<ColumnId> {
        let of = self.grants.iter().filter(|one| privileges.contains(&one.privilege));
        let columns: BTreeSet<ColumnId> = of.filter_map(|one| one.column).collect();
        columns.into_iter().collect()
    }

    /// The role in whose name the actor grants or revokes, and the privileges of `wanted` that this
    /// role may grant: the owner, if the actor has the owner's rights; otherwise the role of the
    /// actor with the most grant options.
    pub(super) fn best_grantor(
        &self,
        column: Option<ColumnId>,
        wanted: &[Privilege],
    ) -> (RoleId, Vec<Privilege>) {
        let rights = &self.scene.rights;
        if !rights.scope_allows_all() {
            return (rights.current(), Vec::new());
        }
        if rights.is_superuser() || rights.owns(self.object) {
            return (self.owner, wanted.to_vec());
        }
        let mut best = (rights.current(), self.options_of(rights.current(), column, wanted));
        for role in self.scene.access().roles_of(rights.current(), true) {
            let options = self.options_of(role, column, wanted);
            if options.len() > best.1.len() {
                best = (role, options);
            }
        }
        best
    }

    /// The privileges that were granted to the role itself with the grant option.
    fn options_of(
        &self,
        role: RoleId,
        column: Option<ColumnId>,
        wanted: &[Privilege],
    ) -> Vec<Privilege> {
        let may = |privilege: &&Privilege| {
            self.grants.iter().any(|one| {
                one.grantable
                    && one.grantee == Some(role)
                    && one.privilege == **privilege
                    && (one.column.is_none() || one.column == column)
            })
        };
        wanted.iter().filter(may).copied().collect()
    }

    /// The grantor of a GRANT or REVOKE, and the privileges that the grantor may grant. A notice
    /// tells the client of the others; `done` is the word for the action.
    ///
    /// # Errors
    /// `InsufficientPrivilege` if the actor has no privilege on the object at all.
    pub(super) fn granting(
        &self,
        column: Option<ColumnId>,
        wanted: &[Privilege],
        all: bool,
        done: &str,
        notices: &mut Vec<String>,
    ) -> Result<(RoleId, Vec<Privilege>)> {
        let (grantor, allowed) = self.best_grantor(column, wanted);
        let (kind, name) = self.scene.state.object_name(self.object);
        let what = match (column, self.object) {
            (Some(column), Object::Chronicle(id)) => {
                let chronicle = self.scene.state.chronicle_by_id(id);
                let named = chronicle.and_then(|chronicle| {
                    chronicle.columns.iter().find(|one| one.id == column)
                });
                let column = named.map_or_else(String::new, |found| found.name.clone());
                format!("column \"{column}\" of relation \"{name}\"")
            }
            _ => format!("\"{name}\""),
        };
        let verb = if done == "granted" { "were granted" } else { "could be revoked" };
        if allowed.is_empty() && !wanted.is_empty() {
            let held = self.scene.access().roles_of(grantor, true);
            let has_any = self.grants.iter().any(|one| {
                (one.column.is_none() || one.column == column)
                    && one.grantee.is_none_or(|grantee| held.contains(&grantee))
            });
            if !has_any || !self.scene.rights.scope_allows_all() {
                let message = match column {
                    Some(_) => format!("permission denied for {what}"),
                    None => format!("permission denied for {kind} {name}"),
                };
                return Err(self.scene.deny(message).with_detail(
                    "Only the owner, and roles with the grant option, may grant and revoke privileges.",
                ));
            }
            notices.push(format!("no privileges {verb} for {what}"));
        } else if allowed.len() < wanted.len() && !all {
            notices.push(format!("not all privileges {verb} for {what}"));
        }
        Ok((grantor, allowed))
    }

    /// Adds an entry, or the grant option to an entry.
    ///
    /// # Errors
    /// `InvalidGrant` if the grantor's own grant option comes from the grantee.
    pub(super) fn add(&mut self, new: Grant) -> Result<()> {
        if new.grantable {
            self.check_circle(&new)?;
        }
        let same = |one: &&mut Grant| {
            (one.grantee, one.privilege, one.column, one.grantor)
                == (new.grantee, new.privilege, new.column, new.grantor)
        };
        match self.grants.iter_mut().find(same) {
            Some(known) => known.grantable |= new.grantable,
            None => self.grants.push(new),
        }
        Ok(())
    }

    /// Checks that the grantor would have the grant option without the grantee's grant options.
    fn check_circle(&self, new: &Grant) -> Result<()> {
        if new.grantor == self.owner {
            return Ok(());
        }
        let mut without = Self { grants: self.grants.clone(), ..*self };
        let held: Vec<Entry> = without
            .grants
            .iter()
            .filter(|one| one.grantable && one.grantee == new.grantee)
            .map(|one| (one.grantee, one.privilege, one.column, one.grantor))
            .collect();
        for entry in held {
            without.remove(entry, false, true)?;
        }
        match without.has_option(new.grantor, new.privilege, new.column, true) {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::InvalidGrant,
                "grant options cannot be granted back to your own grantor",
            )),
        }
    }

    /// True if the role has the grant option, also as a member of other roles. If `of_object` is
    /// true, a grant option on the whole object counts for a column.
    fn has_option(
        &self,
        role: RoleId,
        privilege: Privilege,
        column: Option<ColumnId>,
        of_object: bool,
    ) -> bool {
        let held = self.scene.access().roles_of(role, true);
        held.contains(&self.owner)
            || self.grants.iter().any(|one| {
                one.grantable
                    && one.privilege == privilege
                    && (one.column == column || of_object && one.column.is_none())
                    && one.grantee.is_some_and(|grantee| held.contains(&grantee))
            })
    }

    /// Removes an entry, or only its grant option, and the grants that depend on the grant option.
    ///
    /// # Errors
    /// `DependentObjects` if such grants exist, and `cascade` is false.
    pub(super) fn remove(
        &mut self,
        entry: Entry,
        grant_option_only: bool,
        cascade: bool,
    ) -> Result<()> {
        // Each removed grant option may end further grants.
        let mut open = vec![(entry, grant_option_only)];
        while let Some((entry, option_only)) = open.pop() {
            let same = |one: &Grant| {
                (one.grantee, one.privilege, one.column, one.grantor) == entry
            };
            let Some(found) = self.grants.iter().position(same) else { continue };
            let Some(known) = self.grants.get_mut(found) else { continue };
            let was_grantable = known.grantable;
            known.grantable = false;
            if !option_only {
                self.grants.remove(found);
            }
            let (Some(grantee), privilege, column, _) = entry else { continue };
            if !was_grantable
                || grantee == self.owner
                || self.has_option(grantee, privilege, column, true)
            {
                continue;
            }
            let dependent: Vec<Entry> = self
                .grants
                .iter()
                .filter(|one| one.grantor == grantee && one.privilege == privilege)
                .filter(|one| column.is_none() || one.column == column)
                .filter(|one| !self.has_option(grantee, privilege, one.column, true))
                .map(|one| (one.grantee, one.privilege, one.column, one.grantor))
                .collect();
            if !dependent.is_empty() && !cascade {
                return Err(Error::new(ErrorKind::DependentObjects, "dependent privileges exist")
                    .with_hint("Use CASCADE to revoke them too."));
            }
            open.extend(dependent.into_iter().map(|entry| (entry, false)));
        }
        Ok(())
    }

    /// Removes all entries to and by a role, and the grants that depend on them.
    ///
    /// # Errors
    /// None in practice: dependent grants end, too.
    pub(super) fn forget(&mut self, role: RoleId) -> Result<()> {
        let of_role = |one: &&Grant| one.grantee == Some(role) || one.grantor == role;
        let entries: Vec<Entry> = self
            .grants
            .iter()
            .filter(of_role)
            .map(|one| (one.grantee, one.privilege, one.column, one.grantor))
            .collect();
        entries.into_iter().try_for_each(|entry| self.remove(entry, false, true))
    }
}
