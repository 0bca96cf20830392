//! Parses ACQUIRE and RELEASE of chronicles, which the parser does not know.
//!
//! ```text
//!   ACQUIRE {CHRONICLE | TABLE} name [EXCLUSIVE | SHARED]
//!       [RANGE FROM e TO e | UNTIL e | SINCE e] [FOR interval] [NOWAIT]
//!   RELEASE {CHRONICLE | TABLE} name
//! ```
//! The expressions of an ACQUIRE are the columns of a query: the code for queries finds the
//! parameters and determines the types.

use datafusion::sql::sqlparser::{
    ast::{Expr, ObjectName, SelectItem, SetExpr, Statement},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::{Token, TokenWithSpan},
};

use super::{access::AccessSyntax, position::Beginning, rewrite::is_keyword};

/// A statement of this project for which the parser's tree has no place.
#[derive(Debug, Clone)]
pub enum OwnStatement {
    /// ACQUIRE. The parser's tree is a query that has the expressions of the ACQUIRE as columns.
    Acquire(AcquireSyntax),
    /// RELEASE of a chronicle.
    Release(ObjectName),
    /// SUBSCRIBE, alone or in COPY or DECLARE, and the position at which it begins. The parser's
    /// tree is the query of the SUBSCRIBE.
    Subscribe(Beginning),
    /// TRIM. The parser's tree is the equivalent DELETE.
    Trim,
    /// A statement about roles, rights or row policies. The parser's tree is a query that has the
    /// predicates of a policy as columns.
    Access(Box<AccessSyntax>),
}

/// An ACQUIRE without its expressions, which are the columns of the parser's tree.
#[derive(Debug, Clone)]
pub struct AcquireSyntax {
    /// The name of the chronicle.
    pub name: ObjectName,
    /// True for EXCLUSIVE.
    pub exclusive: bool,
    /// True if the first expression is the beginning of the range of events.
    pub begins: bool,
    /// True if the next expression is the end of the range of events.
    pub ends: bool,
    /// True if the next expression is the duration of the acquisition, from FOR.
    pub expires: bool,
    /// True for NOWAIT.
    pub nowait: bool,
}

/// True if the tokens are an ACQUIRE, or a RELEASE of a chronicle. RELEASE of a savepoint is
/// another statement, even for a savepoint with the name `chronicle`.
pub fn is_own(tokens: &[TokenWithSpan]) -> bool {
    let mut words = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let Some(first) = words.next() else { return false };
    if is(&first.token, "acquire") {
        return true;
    }
    let of = words.next().is_some_and(|second| names_chronicle(&second.token));
    of && is(&first.token, "release") && matches!(words.next(), Some(third) if is_name(third))
}

fn is_name(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Word(_))
}

fn is(token: &Token, wanted: &str) -> bool {
    matches!(token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

fn names_chronicle(token: &Token) -> bool {
    is(token, "chronicle") || is(token, "table")
}

/// Replaces the TO in `RANGE FROM interval '1 h' TO …` with a comma: the parser would read the TO
/// as part of the interval.
pub fn separate(tokens: &mut [TokenWithSpan]) {
    const FIELDS: [Keyword; 6] = [
        Keyword::YEAR,
        Keyword::MONTH,
        Keyword::DAY,
        Keyword::HOUR,
        Keyword::MINUTE,
        Keyword::SECOND,
    ];
    let (mut depth, mut from) = (0_usize, false);
    let mut found = None;
    let mut words = tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| !matches!(token.token, Token::Whitespace(_)))
        .peekable();
    while let Some((at, token)) = words.next() {
        match &token.token {
            Token::LParen => depth = depth.saturating_add(1),
            Token::RParen => depth = depth.saturating_sub(1),
            token if depth == 0 && is_keyword(token, Keyword::FROM) => from = true,
            token if depth == 0 && from && is_keyword(token, Keyword::TO) => {
                let ends_interval = words.peek().is_some_and(|(_, next)| {
                    FIELDS.iter().any(|field| is_keyword(&next.token, *field))
                });
                if !ends_interval {
                    found = Some(at);
                    break;
                }
            }
            _ => {}
        }
    }
    if let Some(token) = found.and_then(|at| tokens.get_mut(at)) {
        token.token = Token::Comma;
    }
}

/// Parses ACQUIRE or RELEASE. The returned statement is the query of its expressions.
///
/// # Errors
/// An error of the parser.
pub fn parse(parser: &mut Parser<'_>) -> Result<(Statement, OwnStatement), ParserError> {
    let acquires = is(&parser.next_token().token, "acquire");
    if !names_chronicle(&parser.peek_token_ref().token) {
        return parser.expected_ref("CHRONICLE or TABLE", parser.peek_token_ref());
    }
    parser.next_token();
    let name = parser.parse_object_name(false)?;
    if !acquires {
        return Ok((selected(Vec::new())?, OwnStatement::Release(name)));
    }
    let exclusive = parser.parse_keyword(Keyword::EXCLUSIVE);
    if !exclusive {
        take(parser, "shared");
    }
    let mut expressions = Vec::new();
    let (mut begins, mut ends) = (false, false);
    if parser.parse_keyword(Keyword::RANGE) {
        parser.expect_keyword(Keyword::FROM)?;
        expressions.push(parser.parse_expr()?);
        if !parser.consume_token(&Token::Comma) {
            return parser.expected_ref("TO", parser.peek_token_ref());
        }
        expressions.push(parser.parse_expr()?);
        (begins, ends) = (true, true);
    } else if take(parser, "since") {
        expressions.push(parser.parse_expr()?);
        begins = true;
    } else if take(parser, "until") {
        expressions.push(parser.parse_expr()?);
        ends = true;
    }
    let expires = parser.parse_keyword(Keyword::FOR);
    if expires {
        expressions.push(parser.parse_expr()?);
    }
    let nowait = parser.parse_keyword(Keyword::NOWAIT);
    let acquire = AcquireSyntax { name, exclusive, begins, ends, expires, nowait };
    Ok((selected(expressions)?, OwnStatement::Acquire(acquire)))
}

/// Consumes the next token and returns true if the token is `word`, which is not a keyword of the
/// parser.
fn take(parser: &mut Parser<'_>, word: &str) -> bool {
    let comes = is(&parser.peek_token_ref().token, word);
    if comes {
        parser.next_token();
    }
    comes
}

/// Builds `SELECT expressions`, or `SELECT NULL` for an empty list.
pub(super) fn selected(expressions: Vec<Expr>) -> Result<Statement, ParserError> {
    let dialect = super::dialect::ParserDialect;
    let mut query = Parser::new(&dialect).try_with_sql("SELECT NULL")?.parse_query()?;
    if let SetExpr::Select(select) = query.body.as_mut()
        && !expressions.is_empty()
    {
        select.projection = expressions.into_iter().map(SelectItem::UnnamedExpr).collect();
    }
    Ok(Statement::Query(query))
}
