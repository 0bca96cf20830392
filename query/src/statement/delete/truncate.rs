//! TRUNCATE: deletes all rows of one or several tables.

use std::{collections::BTreeSet, sync::Arc};

use datafusion::sql::sqlparser::ast::Truncate;
use stratalog_model::{BoxFuture, ChronicleDefinition, Error, ErrorKind, Result, TickRange};
use stratalog_visor_core::{access::Privilege, acquisition::Use};

use super::in_block;
use crate::{
    Outcome, Session, TransactionState,
    session::{acquisitions::EnteredChronicle, work::Work},
    statement::{insert, transaction},
};

/// Runs TRUNCATE. One record commits the statement for all tables.
///
/// RESTART IDENTITY and CASCADE have no effect: no table has a sequence or a foreign key.
///
/// # Errors
/// `FeatureNotSupported` for clauses that PostgreSQL does not have, and for a table of which the
/// session has acquired only a range; `UndefinedTable`; errors of a write.
pub async fn run(session: &Session, tree: &Truncate, work: &Arc<Work>) -> Result<Outcome> {
    if tree.if_exists || tree.partitions.is_some() || tree.on_cluster.is_some() {
        return Err(Error::not_yet("TRUNCATE with IF EXISTS, PARTITION or ON CLUSTER"));
    }
    insert::refuse_number(session, "TRUNCATE")?;
    transaction::check_write(session)?;
    let mut chronicles: Vec<Arc<ChronicleDefinition>> = Vec::new();
    let mut known = BTreeSet::new();
    for target in &tree.table_names {
        let chronicle = session.chronicle(&target.name)?;
        session.authorize_on(Privilege::Trim, chronicle.id)?;
        session.refuse_under_policies(&chronicle, "TRUNCATE")?;
        if known.insert(chronicle.id) {
            chronicles.push(chronicle);
        }
    }
    let mut uses = Vec::new();
    for chronicle in &chronicles {
        let EnteredChronicle { ticks, using, .. } = session.enter(chronicle.id, Use::Write)?;
        if ticks != TickRange::ALL {
            return Err(Error::new(
                ErrorKind::FeatureNotSupported,
                format!(
                    "\"{}\" is acquired in part, and TRUNCATE removes all rows",
                    chronicle.name
                ),
            )
            .with_hint("DELETE FROM the table removes the rows of the acquired part"));
        }
        uses.extend(using);
    }
    if session.transaction() == TransactionState::Idle {
        let mut append = session.store().begin(in_block::options(session))?;
        for chronicle in &chronicles {
            work.guard(append.delete(chronicle, TickRange::ALL)).await?;
        }
        work.commit()?;
        let removing: BoxFuture<'static, Result<()>> =
            Box::pin(async move { append.commit().await.map(drop) });
        session.commit_task(uses, removing)?.await?;
    } else {
        for chronicle in &chronicles {
            in_block::delete(session, chronicle, TickRange::ALL).await?;
        }
    }
    Ok(Outcome::Done("TRUNCATE TABLE".to_string()))
}
