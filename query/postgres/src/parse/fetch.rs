//! Parses FETCH and MOVE, of which the parser supports only some forms.

use datafusion::sql::sqlparser::{
    ast::{FetchDirection, FetchPosition, ObjectName, Statement, Value, ValueWithSpan},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::{Token, TokenWithSpan},
};

/// True for FETCH or MOVE.
pub fn is_fetch(tokens: &[TokenWithSpan]) -> bool {
    let first = tokens.iter().find(|token| !matches!(token.token, Token::Whitespace(_)));
    first.is_some_and(|token| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => {
            word.keyword == Keyword::FETCH || word.value.eq_ignore_ascii_case("move")
        }
        _ => false,
    })
}

/// Parses FETCH and MOVE. In the parser's tree, a MOVE is a FETCH INTO an empty name.
///
/// # Errors
/// An error of the parser.
pub fn parse(parser: &mut Parser<'_>) -> Result<Statement, ParserError> {
    let into = match parser.next_token().token {
        Token::Word(word) if word.keyword == Keyword::FETCH => None,
        _ => Some(ObjectName(Vec::new())),
    };
    let direction = direction(parser)?;
    let position = match parser.parse_one_of_keywords(&[Keyword::FROM, Keyword::IN]) {
        Some(Keyword::IN) => FetchPosition::In,
        _ => FetchPosition::From,
    };
    let name = parser.parse_identifier()?;
    Ok(Statement::Fetch { name, direction, position, into })
}

fn direction(parser: &mut Parser<'_>) -> Result<FetchDirection, ParserError> {
    // A cursor may have the name of a direction, for example `next`.
    if is_name(parser) {
        return Ok(FetchDirection::Next);
    }
    let words = [
        Keyword::NEXT,
        Keyword::PRIOR,
        Keyword::FIRST,
        Keyword::LAST,
        Keyword::ABSOLUTE,
        Keyword::RELATIVE,
        Keyword::ALL,
        Keyword::FORWARD,
        Keyword::BACKWARD,
    ];
    Ok(match parser.parse_one_of_keywords(&words) {
        Some(Keyword::NEXT) => FetchDirection::Next,
        Some(Keyword::PRIOR) => FetchDirection::Prior,
        Some(Keyword::FIRST) => FetchDirection::First,
        Some(Keyword::LAST) => FetchDirection::Last,
        Some(Keyword::ABSOLUTE) => FetchDirection::Absolute { limit: number(parser)? },
        Some(Keyword::RELATIVE) => FetchDirection::Relative { limit: number(parser)? },
        Some(Keyword::ALL) => FetchDirection::All,
        Some(Keyword::FORWARD) if parser.parse_keyword(Keyword::ALL) => FetchDirection::ForwardAll,
        Some(Keyword::FORWARD) => FetchDirection::Forward { limit: limit(parser)? },
        Some(_) if parser.parse_keyword(Keyword::ALL) => FetchDirection::BackwardAll,
        Some(_) => FetchDirection::Backward { limit: limit(parser)? },
        None => match limit(parser)? {
            Some(limit) => FetchDirection::Count { limit },
            None => FetchDirection::Next,
        },
    })
}

/// True if only the name of a cursor follows.
fn is_name(parser: &Parser<'_>) -> bool {
    matches!(parser.peek_nth_token(0).token, Token::Word(_))
        && matches!(parser.peek_nth_token(1).token, Token::EOF)
}

/// Reads a number if one follows; `None` otherwise.
fn limit(parser: &mut Parser<'_>) -> Result<Option<ValueWithSpan>, ParserError> {
    match parser.peek_token_ref().token {
        Token::Number(_, _) | Token::Minus | Token::Plus => number(parser).map(Some),
        _ => Ok(None),
    }
}

fn number(parser: &mut Parser<'_>) -> Result<ValueWithSpan, ParserError> {
    let negative = parser.consume_token(&Token::Minus);
    if !negative {
        let _ = parser.consume_token(&Token::Plus);
    }
    let text = parser.parse_literal_uint()?.to_string();
    let text = if negative { format!("-{text}") } else { text };
    Ok(Value::Number(text, false).into())
}
