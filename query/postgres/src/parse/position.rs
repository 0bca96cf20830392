//! Rewrites statements with a position in the log (GSN) into statements that the parser knows. A
//! separate parser is not necessary: SUBSCRIBE also occurs inside of COPY and DECLARE, and TRIM is
//! equivalent to a DELETE. Left is the statement, right the rewritten statement:
//!
//! ```text
//!   TRIM t BEFORE GSN 100                     DELETE FROM t WHERE _gsn < (100)
//!   INSERT INTO t VALUES (1) AFTER GSN 100    INSERT INTO t VALUES (1), with 100 as a setting
//!   SUBSCRIBE t FROM GSN 100 WHERE a > 1      SELECT _gsn, *, CAST(100 AS BIGINT) FROM t WHERE a > 1
//! ```

use datafusion::sql::sqlparser::{
    ast::{Expr, Ident, Insert, Setting, Statement},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::{Span, Token, TokenWithSpan, Word},
};

use stratalog_model::Error;

use super::{
    OwnStatement, Tree, body_insert_mut,
    rewrite::is_keyword,
    sealed,
    words::{UnexpectedToken, Words},
};

/// The name of the setting in the parser's tree of an INSERT that holds the position of AFTER GSN.
pub const AFTER: &str = "after_gsn";

/// The position at which a SUBSCRIBE begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// The first event of the log.
    All,
    /// A gsn, which is the last column of the rewritten query.
    Gsn,
    /// A time, which is the last column of the rewritten query.
    Time,
    /// The next event that is stored.
    Live,
}

/// The log positions that a statement contains, removed from its tokens.
#[derive(Debug, Default)]
pub(super) struct Positions {
    /// The statement as the client wrote it, if the parser gets another statement.
    pub own: Option<OwnStatement>,
    after: Option<Vec<TokenWithSpan>>,
}

impl Positions {
    /// Removes the words that the parser does not know from the tokens.
    ///
    /// # Errors
    /// The token in a wrong place.
    pub(super) fn cut(tokens: &mut Vec<TokenWithSpan>) -> Result<Self, UnexpectedToken> {
        let words = Words::new(tokens);
        if words.is(0, "trim") && !words.is_token(1, &Token::LParen) {
            *tokens = trim(&words)?;
            return Ok(Self { own: Some(OwnStatement::Trim), after: None });
        }
        if let Some(at) = subscribe_at(&words) {
            let (rewritten, beginning) = subscribe(&words, at)?;
            *tokens = rewritten;
            return Ok(Self { own: Some(OwnStatement::Subscribe(beginning)), after: None });
        }
        if ["insert", "with", "prepare"].iter().any(|first| words.is(0, first)) {
            let (rest, after) = insert(&words)?;
            if after.is_some() {
                *tokens = rest;
            }
            return Ok(Self { own: None, after });
        }
        Ok(Self::default())
    }

    /// Stores the position of AFTER GSN in the parser's tree of the INSERT.
    ///
    /// # Errors
    /// An error of the parser about the position.
    pub(super) fn put(self, statement: &mut Statement) -> Result<(), ParserError> {
        let Some(after) = self.after else { return Ok(()) };
        let dialect = super::ParserDialect;
        let mut parser = Parser::new(&dialect)
            .with_recursion_limit(super::DEPTH_MAX)
            .with_tokens_with_locations(after);
        let value = parser.parse_expr()?;
        let statement = match statement {
            Statement::Prepare { statement, .. } => statement.as_mut(),
            other => other,
        };
        match inserted(statement) {
            Some(insert) => {
                insert.settings = Some(vec![Setting { key: Ident::new(AFTER), value }]);
                Ok(())
            }
            None => Err(ParserError::ParserError("AFTER GSN belongs to INSERT".to_string())),
        }
    }
}

/// The INSERT of a statement, also after a WITH; `None` for other statements.
fn inserted(statement: &mut Statement) -> Option<&mut Insert> {
    match statement {
        Statement::Insert(insert) => Some(insert),
        Statement::Query(tree) => body_insert_mut(tree),
        _ => None,
    }
}

/// Parses the statement inside of a PREPARE again, as a separate statement. The text of the
/// statement does not contain the position of AFTER GSN; the position is copied from the old tree
/// to the new tree.
///
/// # Errors
/// See [`super::statements`].
pub fn parsed_again(statement: &Statement, bytes_max: usize) -> Result<Option<Tree>, Error> {
    let mut statement = statement.clone();
    let settings = inserted(&mut statement).and_then(|insert| insert.settings.take());
    let parsed = super::statements(&statement.to_string(), bytes_max)?;
    let Some(mut tree) = parsed.into_iter().next() else { return Ok(None) };
    if let Some(insert) = inserted(&mut tree.statement) {
        insert.settings = settings;
    }
    Ok(Some(tree))
}

/// The position in `AFTER GSN`: the events of the INSERT must have later positions.
pub fn after(insert: &Insert) -> Option<&Expr> {
    let mut settings = insert.settings.iter().flatten();
    settings.find(|setting| setting.key.value == AFTER).map(|setting| &setting.value)
}

/// The index of the word SUBSCRIBE: alone, in COPY, or as the query of a cursor.
fn subscribe_at(words: &Words<'_>) -> Option<usize> {
    if words.is(0, "subscribe") {
        return Some(0);
    }
    if words.is(0, "copy") && words.is_token(1, &Token::LParen) && words.is(2, "subscribe") {
        return Some(2);
    }
    if !words.is(0, "declare") {
        return None;
    }
    let at = words.find(1, |at| words.is(at, "for")) + 1;
    words.is(at, "subscribe").then_some(at)
}

fn trim(words: &Words<'_>) -> Result<Vec<TokenWithSpan>, UnexpectedToken> {
    let before = words.name(1)?;
    if !words.is(before, "before") {
        return words.wrong(before);
    }
    if !words.is(before + 1, "gsn") {
        return words.wrong(before + 1);
    }
    let value = before + 2;
    // The value is inserted between parentheses; a closing parenthesis in the value would therefore
    // change the condition.
    let behind = words.find(value, |_| false);
    if behind == value || behind < words.len() {
        return words.wrong(behind);
    }
    let (begin, end) = (words.span(0), words.span(before));
    let mut out = vec![word("DELETE", begin), word("FROM", begin)];
    out.extend(words.tokens(1..before));
    out.extend([word("WHERE", end), word("_gsn", end)]);
    out.extend([Token::Lt, Token::LParen].map(|token| TokenWithSpan::new(token, end)));
    out.extend(words.tokens(value..words.len()));
    out.push(TokenWithSpan::new(Token::RParen, words.span(words.len() - 1)));
    Ok(out)
}

/// The tokens of an INSERT without AFTER GSN, and the tokens of the position, a number or a
/// parameter. `None` if the statement has no AFTER GSN.
fn insert(
    words: &Words<'_>,
) -> Result<(Vec<TokenWithSpan>, Option<Vec<TokenWithSpan>>), UnexpectedToken> {
    let is_after = |at: usize| {
        words.is(at, "after")
            && words.is(at + 1, "gsn")
            && words.get(at + 2).is_some_and(|token| {
                matches!(token.token, Token::Number(..) | Token::Placeholder(_))
            })
    };
    let at = words.find(0, is_after);
    if !is_after(at) {
        let misses = |at: usize| {
            words.is(at, "after") && words.is(at + 1, "gsn") && is_no_position(words, at + 2)
        };
        let at = words.find(0, misses);
        return if misses(at) { words.wrong(at + 2) } else { Ok((Vec::new(), None)) };
    }
    // AFTER GSN must follow the inserted rows, or stand at the end of the statement.
    let follows = words.get(at + 3).map(|token| &token.token);
    // ON must begin ON CONFLICT here; the ON of a join cannot follow.
    let ends = |token: &Token| {
        is_keyword(token, Keyword::ON) && words.is(at + 4, "conflict")
            || is_keyword(token, Keyword::RETURNING)
    };
    if !follows.is_none_or(ends) {
        return words.wrong(at + 3);
    }
    let mut rest: Vec<TokenWithSpan> = words.tokens(0..at).collect();
    rest.extend(words.tokens(at + 3..words.len()));
    Ok((rest, Some(words.tokens(at + 2..at + 3).collect())))
}

/// True if the token at `at`, after AFTER GSN, is meant as a position, but is neither a number nor
/// a parameter. Otherwise `after gsn` is a column `after` with the alias `gsn`.
fn is_no_position(words: &Words<'_>, at: usize) -> bool {
    match words.get(at).map(|token| &token.token) {
        Some(Token::Minus | Token::Plus | Token::LParen | Token::SingleQuotedString(_)) => true,
        Some(Token::Word(word)) => {
            let calls =
                word.keyword == Keyword::NoKeyword && words.is_token(at + 1, &Token::LParen);
            calls || words.is(at, "null")
        }
        _ => false,
    }
}

fn subscribe(
    words: &Words<'_>,
    at: usize,
) -> Result<(Vec<TokenWithSpan>, Beginning), UnexpectedToken> {
    let name = at + 1..words.name(at + 1)?;
    let is_where = |at: usize| words.is(at, "where");
    let is_sealed = |at: usize| {
        let mark = words.get(at + 3).filter(|_| words.is(at, "for"));
        mark.is_some_and(|token| sealed::is_mark(&token.token))
    };
    let (beginning, value) = match name.end {
        from if words.is(from, "from") => {
            let beginning = match () {
                () if words.is(from + 1, "gsn") => Beginning::Gsn,
                () if words.is(from + 1, "timestamp") => Beginning::Time,
                () => return words.wrong(from + 1),
            };
            let value = from + 2..words.find(from + 2, |at| is_where(at) || is_sealed(at));
            if value.is_empty() {
                return words.wrong(value.end);
            }
            (beginning, value)
        }
        live if words.is(live, "live") => (Beginning::Live, live + 1..live + 1),
        other => (Beginning::All, other..other),
    };
    let span = words.span(at);
    let mut out: Vec<TokenWithSpan> = words.tokens(0..at).collect();
    let token = |token: Token| TokenWithSpan::new(token, span);
    out.extend([word("SELECT", span), word("_gsn", span), token(Token::Comma), token(Token::Mul)]);
    let kind = match beginning {
        Beginning::Gsn => Some("BIGINT"),
        Beginning::Time => Some("TIMESTAMPTZ"),
        Beginning::All | Beginning::Live => None,
    };
    if let Some(kind) = kind {
        out.extend([token(Token::Comma), word("CAST", span), token(Token::LParen)]);
        out.extend(words.tokens(value.clone()));
        out.extend([word("AS", span), word(kind, span), token(Token::RParen)]);
    }
    out.push(word("FROM", span));
    out.extend(words.tokens(name));
    // Only WHERE, AS OF SEALED or the closing parenthesis of the SUBSCRIBE may follow. A later
    // check refuses AS OF SEALED.
    let rest = words.get(value.end).map(|token| &token.token);
    let is_behind = rest.is_some_and(|token| *token != Token::RParen);
    if is_behind && !is_where(value.end) && !is_sealed(value.end) {
        return words.wrong(value.end);
    }
    // Refuses LIMIT ALL here, because the parser's tree would not contain it.
    let limit = words.find(value.end, |at| words.is(at, "limit") && words.is(at + 1, "all"));
    if words.is(limit, "limit") {
        return words.wrong(limit);
    }
    out.extend(words.tokens(value.end..words.len()));
    Ok((out, beginning))
}

fn word(text: &str, span: Span) -> TokenWithSpan {
    let keyword = match Token::make_keyword(text) {
        Token::Word(word) => word.keyword,
        _ => Keyword::NoKeyword,
    };
    let word = Word { value: text.to_string(), quote_style: None, keyword };
    TokenWithSpan::new(Token::Word(word), span)
}
