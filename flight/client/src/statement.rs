//! Classifies a statement by its first words: whether a repetition is safe, and whether the
//! statement affects a single session. A client with several connections has several sessions, so
//! the latter statements are refused.

use crate::error::{Error, ErrorKind, Result};

/// The hint in the error for ACQUIRE and RELEASE statements: an acquisition belongs to a single
/// session.
const ACQUIRES: &str = "Chronolog::acquire returns a handle with its own session";

/// True if the words of the statement show that the statement only reads and is safe to repeat.
/// Uncertain statements count as changes.
pub(crate) fn is_pure(sql: &str) -> bool {
    const READS: [&str; 7] = ["select", "values", "table", "show", "with", "explain", "subscribe"];
    const CHANGES: [&str; 9] =
        ["insert", "update", "delete", "merge", "into", "truncate", "nextval", "setval", "copy"];
    let mut words = words(sql);
    let reads = words.next().is_some_and(|word| READS.iter().any(|read| word == *read));
    reads && words.all(|word| CHANGES.iter().all(|change| word != *change))
}

/// Refuses statements that affect only one of several sessions, and statements that begin or end a
/// transaction without the methods of the client.
///
/// # Errors
/// `InvalidOption`, with a hint to the right method.
pub(crate) fn check(sql: &str, in_transaction: bool) -> Result<()> {
    let mut words = words(sql);
    let mut next = || words.next().unwrap_or_default();
    let (first, second, third) = (next(), next(), next());
    let refused = |hint: &str| {
        Err(Error::new(
            ErrorKind::InvalidOption,
            format!("{} is not sent as a statement", first.to_ascii_uppercase()),
        )
        .with_hint(hint)
        .not_carried_out())
    };
    match (first.as_str(), in_transaction) {
        ("begin" | "start", false) => refused("Client::begin returns a transaction"),
        ("begin" | "start", true) => refused("the transaction is open already; SAVEPOINT nests"),
        ("rollback", true) if second == "to" || third == "to" => Ok(()),
        ("commit" | "end" | "rollback" | "abort", true) => {
            refused("call Transaction::commit or Transaction::rollback")
        }
        ("acquire", _) => refused(ACQUIRES),
        // A savepoint may have the name `chronicle` or `table`.
        ("release", _) if matches!(second.as_str(), "chronicle" | "table") && !third.is_empty() => {
            refused(ACQUIRES)
        }
        ("commit" | "end" | "rollback" | "abort" | "savepoint" | "release", false) => {
            refused("Client::begin returns a transaction; a transaction has savepoints")
        }
        ("set" | "reset" | "discard", false) => {
            refused("Client::set_option sets the option for each connection of the client")
        }
        ("prepare" | "execute" | "deallocate", false) => refused("call Client::prepare"),
        ("declare" | "fetch" | "move" | "close", false) => {
            refused("Client::query streams rows; a cursor is unnecessary")
        }
        _ => Ok(()),
    }
}

/// The words of a statement in lower case, without comments.
fn words(sql: &str) -> impl Iterator<Item = String> + '_ {
    let mut rest = sql;
    std::iter::from_fn(move || {
        loop {
            rest = rest.trim_start_matches(|c: char| !is_word(c) && c != '-' && c != '/');
            if let Some(comment) = rest.strip_prefix("--") {
                rest = comment.split_once('\n').map_or("", |(_, after)| after);
            } else if let Some(comment) = rest.strip_prefix("/*") {
                rest = after_comment(comment);
            } else if let Some(other) = rest.strip_prefix(['-', '/']) {
                rest = other;
            } else {
                break;
            }
        }
        let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at_checked(end)?;
        rest = after;
        (!word.is_empty()).then(|| word.to_ascii_lowercase())
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The text after a comment `/* … */`, with nested comments. `rest` is the text from the comment's
/// start.
fn after_comment(mut rest: &str) -> &str {
    let mut depth = 1_usize;
    while depth > 0 {
        let Some(at) = rest.find(['*', '/']) else { return "" };
        let (_, here) = rest.split_at_checked(at).unwrap_or_default();
        rest = if let Some(after) = here.strip_prefix("*/") {
            depth -= 1;
            after
        } else if let Some(after) = here.strip_prefix("/*") {
            depth += 1;
            after
        } else {
            here.get(1..).unwrap_or_default()
        };
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_told_from_changes() {
        for pure in [
            "SELECT 1",
            " -- insert\n /* a /* delete */ b */ select x / 2 - 1 FROM t",
            "VALUES (1)",
            "TABLE t",
            "WITH a AS (SELECT 1) SELECT * FROM a",
            "explain analyze select 1",
            "show all",
            "(SELECT 1)",
            "SUBSCRIBE t FROM GSN 7",
        ] {
            assert!(is_pure(pure), "{pure}");
        }
        for change in [
            "INSERT INTO t VALUES (1)",
            "WITH a AS (DELETE FROM t RETURNING x) SELECT * FROM a",
            "EXPLAIN ANALYZE INSERT INTO t VALUES (1)",
            "SELECT nextval('s')",
            "select * into u from t",
            "CREATE TABLE t (x int)",
            "/* unfinished",
            "",
        ] {
            assert!(!is_pure(change), "{change}");
        }
    }

    #[test]
    fn what_belongs_to_one_session_is_refused() {
        for refused in [
            "BEGIN",
            "commit",
            " SET x = 1",
            "/**/ROLLBACK",
            "DECLARE c CURSOR FOR x",
            "ACQUIRE CHRONICLE t EXCLUSIVE",
            "RELEASE TABLE t",
        ] {
            let error = check(refused, false).unwrap_err();
            assert!(error.hint().is_some() && error.is_not_carried_out(), "{refused}");
        }
        let acquires = check("release chronicle t", false).unwrap_err();
        assert!(acquires.hint().is_some_and(|hint| hint.contains("Chronolog::acquire")));
        for refused in [
            "BEGIN",
            "COMMIT",
            "ROLLBACK",
            "ROLLBACK WORK",
            "ABORT",
            "END",
            "RELEASE CHRONICLE t",
            "release table \"t\"",
        ] {
            assert!(check(refused, true).is_err(), "{refused}");
        }
        assert!(check("RELEASE chronicle", true).is_ok(), "a savepoint");
        for fine in ["SAVEPOINT a", "ROLLBACK TO a", "rollback work to a", "SET x = 1"] {
            assert!(check(fine, true).is_ok(), "{fine}");
        }
        for fine in ["SELECT 1", "DELETE FROM t WHERE time < '2020-01-01'", "CREATE TABLE t ()"] {
            assert!(check(fine, false).is_ok(), "{fine}");
        }
    }
}
