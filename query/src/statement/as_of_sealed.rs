//! `SELECT … AS OF SEALED`: reads only the unchangeable part of the tables (CL-5, F24).
//!
//! ```text
//!   AS OF SEALED ─► FOR SHARE OF a name that no table has ─► taken off when the query is planned
//!     (tokens)         (the parser knows that)                 ─► EventStore::seal ─► snapshot, confined
//! ```

use std::sync::Arc;

use datafusion::sql::sqlparser::{
    ast::{LockClause, Query},
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan, Word},
};
use stratalog_model::{
    ChronicleDefinition, ChronicleId, Error, ErrorKind, EventStore, Result, Snapshot, Tick,
    TickRange,
};

use super::{
    parse::{is_keyword, significant},
    walk::{self, Flow, Look},
};

/// The name of the lock's table.
const MARK: &str = "\u{1}sealed";

/// Rewrites AS OF SEALED, at the end of a query, as a lock for the parser.
pub fn as_a_lock(tokens: &mut Vec<TokenWithSpan>) {
    let places = significant(tokens);
    let token = |at: Option<&usize>| at.and_then(|at| tokens.get(*at)).map(|found| &found.token);
    let found = places.windows(3).enumerate().find_map(|(at, window)| {
        let [first, of, sealed] = window else { return None };
        let is = |at, word| token(Some(at)).is_some_and(|token| is_keyword(token, word));
        let says = is(first, Keyword::AS)
            && is(of, Keyword::OF)
            && matches!(token(Some(sealed)), Some(Token::Word(word))
                if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("sealed"));
        let ends = matches!(token(places.get(at + 3)), None | Some(Token::EOF | Token::RParen));
        (says && ends).then_some((*first, *sealed))
    });
    let Some((first, sealed)) = found else { return };
    if let Some(token) = tokens.get_mut(sealed) {
        let (value, quote_style) = (MARK.to_string(), Some('"'));
        token.token = Token::Word(Word { value, quote_style, keyword: Keyword::NoKeyword });
    }
    let Some(span) = tokens.get(first).map(|token| token.span) else { return };
    let word = |text: &str| TokenWithSpan::new(Token::make_keyword(text), span);
    tokens.splice(first..=first, [word("FOR"), word("SHARE")]);
}

/// True if a token is the rewritten AS OF SEALED.
pub fn is_mark(token: &Token) -> bool {
    matches!(token, Token::Word(word) if word.value == MARK)
}

fn marks(lock: &LockClause) -> bool {
    let name = lock.of.as_ref().and_then(|name| name.0.first()).and_then(|part| part.as_ident());
    name.is_some_and(|name| name.value == MARK)
}

/// Takes AS OF SEALED off a query. Returns true if the query had the clause.
///
/// # Errors
/// `SyntaxError` for AS OF SEALED in a subquery.
pub fn take(query: &mut Query) -> Result<bool> {
    let locks = query.locks.len();
    query.locks.retain(|lock| !marks(lock));
    let found = query.locks.len() < locks;
    match walk::look(query, &mut SealedLockSearch).is_break() {
        true => Err(Error::new(
            ErrorKind::SyntaxError,
            "AS OF SEALED applies to a whole query, not to a part of a query",
        )
        .with_hint("write AS OF SEALED at the end of the query, after LIMIT")),
        false => Ok(found),
    }
}

struct SealedLockSearch;

impl Look for SealedLockSearch {
    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        match query.locks.iter().any(marks) {
            true => Flow::Break(()),
            false => Flow::Continue(()),
        }
    }
}

/// Checks that the tables of a query can have a sealed part.
///
/// # Errors
/// `ObjectNotInPrerequisiteState` for a table with times from the data.
pub fn check(tables: &[Arc<ChronicleDefinition>]) -> Result<()> {
    let Some(table) = tables.iter().find(|table| !table.time_source.is_clocked()) else {
        return Ok(());
    };
    Err(Error::new(
        ErrorKind::ObjectNotInPrerequisiteState,
        format!(
            "nothing of table \"{}\" is ever sealed: events of any time may still come",
            table.name
        ),
    )
    .with_subject(table.subject())
    .with_hint("AS OF SEALED is for tables with time_source = 'client' or 'server'"))
}

/// Seals all finished parts of the tables, before the session pins a snapshot.
///
/// # Errors
/// `UndefinedTable` for a table that another session dropped.
pub fn seal(store: &dyn EventStore, tables: &[Arc<ChronicleDefinition>]) -> Result<()> {
    tables.iter().try_for_each(|table| store.seal(table).map(drop))
}

/// The unchangeable parts of a snapshot.
pub fn parts(
    snapshot: &dyn Snapshot,
    tables: &[Arc<ChronicleDefinition>],
) -> impl Iterator<Item = (ChronicleId, TickRange)> {
    tables.iter().map(move |table| {
        let sealed = snapshot.sealed(table);
        let ticks = sealed.map(|sealed| TickRange::new(Tick::MIN, sealed.next()));
        (table.id, ticks.unwrap_or(TickRange::EMPTY))
    })
}
