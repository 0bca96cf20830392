//! Refuses volatile WITH queries that a query reads several times, for example `WITH q AS (SELECT
//! random()) SELECT … FROM q a, q b`. The planner would compute the WITH query again for each read,
//! with other results.

use std::{collections::HashMap, ops::ControlFlow};

use datafusion::sql::sqlparser::ast::{Expr, ObjectName, ObjectNamePart, Query};
use stratalog_model::{Error, ErrorKind, Result};

use crate::{
    names::fold,
    walk::{self, Tree},
};

/// Functions whose calls return different values.
const VOLATILE: &[&str] = &["random", "gen_random_uuid", "clock_timestamp", "timeofday"];

/// Refuses a volatile WITH query that is read more than once.
///
/// # Errors
/// `FeatureNotSupported`.
pub fn read_once(query: &Query) -> Result<()> {
    let Some(with) = &query.with else { return Ok(()) };
    // The name of the WITH query, and the function that makes the query volatile.
    let mut volatile: HashMap<String, String> = HashMap::new();
    for cte in &with.cte_tables {
        let called = call_in(cte.query.as_ref());
        let read = || {
            let mut read = volatile.iter().filter(|(name, _)| reads(cte.query.as_ref(), name) > 0);
            read.next().map(|(_, function)| function.clone())
        };
        if let Some(function) = called.or_else(read) {
            volatile.insert(fold(&cte.alias.name), function);
        }
    }
    for (name, function) in volatile {
        let own = with.cte_tables.iter().filter(|cte| fold(&cte.alias.name) == name);
        let own: usize = own.map(|cte| reads(cte.query.as_ref(), &name)).sum();
        if reads(query, &name) > own + 1 {
            return Err(Error::new(
                ErrorKind::FeatureNotSupported,
                format!("WITH query \"{name}\" calls {function}() and is read more than once; this combination is not supported"),
            )
            .with_hint("store the rows of the query in a table first"));
        }
    }
    Ok(())
}

/// The name of the first volatile function that `tree` calls; `None` without such a call.
pub(super) fn call_in(tree: &impl Tree) -> Option<String> {
    let mut found = None;
    let _ = walk::expressions(tree, |expr| {
        if let Expr::Function(call) = expr
            && let Some(ObjectNamePart::Identifier(name)) = call.name.0.last()
            && VOLATILE.contains(&fold(name).as_str())
        {
            found = Some(fold(name));
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    found
}

/// The number of times that `tree` reads the WITH query `name`.
fn reads(tree: &impl Tree, name: &str) -> usize {
    let mut count = 0;
    let _ = walk::relations(tree, |relation: &ObjectName| {
        if let [ObjectNamePart::Identifier(ident)] = relation.0.as_slice() {
            count += usize::from(fold(ident) == name);
        }
        ControlFlow::Continue(())
    });
    count
}
