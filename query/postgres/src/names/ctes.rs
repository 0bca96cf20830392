//! Renames nested WITH queries. DataFusion refuses an inner WITH query with the name of an outer
//! WITH query; in PostgreSQL the inner query hides the outer query. The first query
//! becomes the second query:
//!
//! ```text
//!   WITH q AS (…) SELECT * FROM (WITH q AS (SELECT … FROM q) SELECT * FROM q) z
//!   WITH q AS (…) SELECT * FROM (WITH q2 AS (SELECT … FROM q) SELECT * FROM q2 AS q) z
//! ```

use std::{collections::HashSet, ops::ControlFlow};

use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, ObjectNamePart, Query, TableAlias, TableFactor,
};

use super::fold;
use crate::walk::{self, Change, Flow, Look};

/// Gives new names to WITH queries that hide an outer WITH query, and to the references to these
/// queries.
pub fn tell_apart(query: &mut Query) {
    let mut repeated = RepeatedName::default();
    if walk::look(&*query, &mut repeated).is_break() {
        let _ = walk::change(query, &mut Renamer { levels: Vec::new(), renamed: 0 });
    }
}

/// Stops the walk at the second WITH query with the same name.
#[derive(Default)]
struct RepeatedName(HashSet<String>);

impl Look for RepeatedName {
    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        let mut ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        match ctes.all(|cte| self.0.insert(fold(&cte.alias.name))) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }
}

/// The WITH queries of a query.
struct WithLevel {
    /// For each WITH query, its name in the statement, and its new name if it has one.
    ctes: Vec<(String, Option<String>)>,
    /// The number of WITH queries that the walk has visited.
    visited: usize,
    recursive: bool,
}

impl WithLevel {
    fn known(&self) -> &[(String, Option<String>)] {
        let known = if self.recursive { self.ctes.len() } else { self.visited };
        self.ctes.get(..known).unwrap_or(&self.ctes)
    }
}

struct Renamer {
    levels: Vec<WithLevel>,
    renamed: usize,
}

impl Change for Renamer {
    fn pre_visit_query(&mut self, query: &mut Query) -> Flow {
        let mut ctes = Vec::new();
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            let name = fold(&cte.alias.name);
            let hides =
                self.levels.iter().flat_map(WithLevel::known).any(|(outer, _)| *outer == name);
            let new = hides.then(|| {
                self.renamed += 1;
                format!("{name}\u{1}{}", self.renamed)
            });
            if let Some(new) = &new {
                cte.alias.name = Ident::with_quote('"', new);
            }
            ctes.push((name, new));
        }
        let recursive = query.with.as_ref().is_some_and(|with| with.recursive);
        self.levels.push(WithLevel { ctes, visited: 0, recursive });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> Flow {
        self.levels.pop();
        if let Some(outer) = self.levels.last_mut()
            && outer.visited < outer.ctes.len()
        {
            outer.visited += 1;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> Flow {
        let TableFactor::Table { name, alias, args: None, .. } = factor else {
            return ControlFlow::Continue(());
        };
        let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else {
            return ControlFlow::Continue(());
        };
        let written = ident.clone();
        let called = fold(&written);
        let levels = self.levels.iter().rev();
        let definition =
            levels.flat_map(|level| level.known().iter().rev()).find(|(cte, _)| *cte == called);
        if let Some((_, Some(new))) = definition {
            *name = ObjectName::from(vec![Ident::with_quote('"', new)]);
            alias.get_or_insert_with(|| TableAlias {
                explicit: true,
                name: written,
                columns: Vec::new(),
                at: None,
            });
        }
        ControlFlow::Continue(())
    }
}
