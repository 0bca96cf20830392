//! Plans and answers every statement behind psql's backslash commands.

use crate::fixture::{batches, session};

#[tokio::test]
async fn psql_gets_an_answer_to_everything() {
    let session = session().await;
    let mut failed = Vec::new();
    let mut count = 0;
    for statement in include_str!("psql15.sql").split("\n-- \\") {
        let Some((command, sql)) = statement.split_once('\n') else { continue };
        if command.starts_with("-- What") {
            continue;
        }
        count += 1;
        // A correlated subquery, which only the planner of sessions can plan; the tests with psql
        // run the statement.
        if sql.contains("FROM pg_catalog.pg_policy") {
            continue;
        }
        if let Err(error) = batches(&session, sql).await {
            failed.push(format!("\\{command}: {error}\n{sql}"));
        }
    }
    assert!(count > 50, "{count} statements");
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}
