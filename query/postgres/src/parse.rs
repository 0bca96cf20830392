//! Splits and parses a SQL string into statements.
//!
//! ```text
//!   text ─► tokens ─► split at `;` ─► limits ─► rewrite ─► sqlparser ─► Tree
//! ```

use datafusion::sql::sqlparser::{
    ast::Statement,
    parser::{Parser, ParserOptions},
    tokenizer::{Token, TokenWithSpan, Tokenizer, Word},
};
use stratalog_model::{Error, ErrorKind, Result, chronicle::SYSTEM_COLUMNS};
use stratalog_text::copy::CopyOptionValue;

use self::{
    depth::DEPTH_MAX, dialect::ParserDialect, lines::LineStarts, parser_errors::parser_error,
    position::Positions,
};

use crate::{
    errors::syntax::{END_OF_INPUT, position, syntax_error},
    redact,
};

pub mod access;
mod acquire;
mod alter;
mod balance;
mod body_insert;
mod call;
mod chains;
mod copy_options;
mod depth;
mod dialect;
mod distinct;
mod drop_mode;
mod escape;
mod expansion;
mod fetch;
pub mod forms;
mod lexical;
mod lines;
mod nested_statements;
mod parentheses;
mod parser_errors;
pub mod position;
mod precedence;
mod prefixes;
mod queries;
mod rewrite;
pub mod sealed;
mod words;

pub use acquire::{AcquireSyntax, OwnStatement};
pub use balance::{joined, query_of};
pub use body_insert::{body_insert, body_insert_mut};
pub use call::call;
pub use drop_mode::DropMode;
pub use rewrite::{is_keyword, significant};

/// One parsed statement, with the clauses for which the parser's tree has no place.
#[derive(Debug)]
pub struct Tree {
    /// The parser's tree.
    pub statement: Statement,
    /// The text of the statement, without the final `;`.
    pub text: String,
    /// The number of characters in front of the statement in the SQL string.
    pub before: u32,
    /// The options of a COPY, for which the parser's tree has no place.
    pub copy_options: Vec<(String, CopyOptionValue)>,
    /// The indexes in [`SYSTEM_COLUMNS`] of the system columns that the statement mentions.
    pub system_columns: Vec<usize>,
    /// A statement of this project for which the parser's tree has no place.
    pub own: Option<OwnStatement>,
    /// How a DROP TABLE behaves if other sessions have acquired the table.
    pub dropping: DropMode,
}

/// The statements of `sql`, in order.
///
/// # Errors
/// `SyntaxError` with the position, `LimitExceeded` for a string longer than `bytes_max`,
/// `StatementTooComplex` for too deep nesting or too long chains.
pub fn statements(sql: &str, bytes_max: usize) -> Result<Vec<Tree>> {
    statements_of(sql, bytes_max).map_err(|error| redact::from_error(error, sql))
}

fn statements_of(sql: &str, bytes_max: usize) -> Result<Vec<Tree>> {
    if sql.len() > bytes_max {
        return Err(Error::new(
            ErrorKind::LimitExceeded,
            format!("a statement of {} bytes is longer than {bytes_max} bytes", sql.len()),
        )
        .with_hint("send less at once, use COPY, or raise statement_bytes_max"));
    }
    let dialect = ParserDialect;
    let tokens = Tokenizer::new(&dialect, sql)
        .tokenize_with_location()
        .map_err(|error| syntax_error(sql, &error.to_string()))?;
    let tokens = lexical::as_postgresql(tokens)
        .map_err(|refused| error_at_token(sql, &refused.0, refused.1))?;
    let tokens = prefixes::without_long_runs(parentheses::without_repeated(tokens));
    let mut lines = LineStarts::new(sql);
    let mut counted = (0, 0_usize);
    let mut found = Vec::new();
    let mut passed = 0;
    for part in tokens.split(|token| token.token == Token::SemiColon) {
        passed += part.len() + 1;
        let semicolon = tokens.get(passed - 1);
        let significant =
            |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_) | Token::EOF);
        let (Some(first), Some(last)) =
            (part.iter().find(significant), part.iter().rev().find(significant))
        else {
            continue;
        };
        let start = lines.offset(sql, first.span.start);
        let end = lines.offset(sql, last.span.end).max(start);
        let is_access = access::is_access(part);
        let redacted =
            is_access.then(|| access::redacted(sql, (start, end), part, &mut lines)).flatten();
        let text =
            redacted.unwrap_or_else(|| sql.get(start..end).unwrap_or(sql).trim().to_string());
        let between = sql.get(counted.0..start).map_or(0, |passed| passed.chars().count());
        counted = (start, counted.1 + between);
        let before = u32::try_from(counted.1).unwrap_or(u32::MAX);
        let chained = depth::check(part)?;
        if let Some((at, error)) = rewrite::unsupported_statement(part)
            .or_else(|| nested_statements::nested_statement_error(part))
        {
            return Err(error_at_token(sql, at, error));
        }
        let wrong = |wrong: Option<TokenWithSpan>| {
            wrong.map_or_else(|| at_end(sql, semicolon), |token| at_token(sql, &token))
        };
        queries::check(part).map_err(wrong)?;
        let chain_continuations = chains::continuations(part);
        let compares_distinct = rewrite::compares_distinct(part);
        let escapes_by_parameter = escape::has_parameter(part);
        let has_adjacent_signs = prefixes::has_adjacent_signs(part);
        let has_regrouped_operator = precedence::has_operator(part);
        let mut tokens = rewrite::for_parser(part);
        alter::rewrite(&mut tokens);
        access::rewrite_session(&mut tokens);
        let is_own = acquire::is_own(part);
        if is_own {
            acquire::separate(&mut tokens);
        }
        let copy_options = copy_options::cut(&mut tokens).map_err(wrong)?;
        let mut positions = Positions::cut(&mut tokens).map_err(wrong)?;
        let dropping = drop_mode::cut(&mut tokens).unwrap_or_default();
        let system_columns = mentioned_system_columns(&tokens);
        let mut parser = Parser::new(&dialect)
            .with_options(ParserOptions::new().with_unescape(true))
            .with_recursion_limit(DEPTH_MAX)
            .with_tokens_with_locations(tokens);
        let parsed = match fetch::is_fetch(part) {
            _ if is_access => access::parse(&mut parser)
                .map_err(|refusal| refusal.into_error(sql))
                .and_then(|(predicates, syntax)| {
                    let query = acquire::selected(predicates);
                    let query = query.map_err(|error| parser_error(sql, error))?;
                    Ok((query, Some(OwnStatement::Access(Box::new(syntax)))))
                }),
            _ if is_own => acquire::parse(&mut parser)
                .map(|(query, own)| (query, Some(own)))
                .map_err(|error| parser_error(sql, error)),
            true => fetch::parse(&mut parser)
                .map(|fetch| (fetch, None))
                .map_err(|error| parser_error(sql, error)),
            false => parser
                .parse_statement()
                .map(|tree| (tree, positions.own.take()))
                .map_err(|error| parser_error(sql, error)),
        };
        let (mut statement, own) = parsed.map_err(|error| at_its_end(error, sql, semicolon))?;
        positions.put(&mut statement).map_err(|error| parser_error(sql, error))?;
        if has_regrouped_operator {
            precedence::regroup(&mut statement);
        }
        balance::balance(&mut statement, chained);
        expansion::check(&statement)?;
        if compares_distinct {
            distinct::end_operands(&mut statement);
        }
        if !chain_continuations.is_empty()
            && let Some(token) = chains::continuation(&statement, &chain_continuations)
        {
            let (start, end) =
                (lines.offset(sql, token.span.start), lines.offset(sql, token.span.end));
            let written = sql.get(start..end).unwrap_or_default();
            let message = format!("syntax error at or near \"{written}\"");
            return Err(error_at_token(sql, token, Error::new(ErrorKind::SyntaxError, message)));
        }
        if escapes_by_parameter {
            escape::into_patterns(&mut statement);
        }
        if has_adjacent_signs {
            prefixes::separate_signs(&mut statement);
        }
        let rest = parser.peek_token();
        if rest.token != Token::EOF {
            return Err(at_token(sql, &rest));
        }
        found.push(Tree { statement, text, before, copy_options, system_columns, own, dropping });
    }
    Ok(found)
}

/// Parses a single scalar expression: a stored DEFAULT, or a condition in a string.
///
/// # Errors
/// `SyntaxError`; `StatementTooComplex` for too deep nesting or too long chains.
pub fn expression(sql: &str) -> Result<datafusion::sql::sqlparser::ast::Expr> {
    let dialect = ParserDialect;
    let tokens = Tokenizer::new(&dialect, sql)
        .tokenize_with_location()
        .map_err(|error| syntax_error(sql, &error.to_string()))?;
    let tokens = lexical::as_postgresql(tokens)
        .map_err(|refused| error_at_token(sql, &refused.0, refused.1))?;
    let tokens = prefixes::without_long_runs(tokens);
    let chained = depth::check(&tokens)?;
    let has_adjacent_signs = prefixes::has_adjacent_signs(&tokens);
    let has_regrouped_operator = precedence::has_operator(&tokens);
    let mut parser =
        Parser::new(&dialect).with_recursion_limit(DEPTH_MAX).with_tokens_with_locations(tokens);
    let mut expression = parser.parse_expr().map_err(|error| parser_error(sql, error))?;
    if has_regrouped_operator {
        precedence::regroup(&mut expression);
    }
    balance::balance(&mut expression, chained);
    expansion::check(&expression)?;
    if has_adjacent_signs {
        prefixes::separate_signs(&mut expression);
    }
    let rest = parser.peek_token();
    if rest.token == Token::EOF { Ok(expression) } else { Err(at_token(sql, &rest)) }
}

fn at_token(sql: &str, token: &TokenWithSpan) -> Error {
    let error =
        Error::new(ErrorKind::SyntaxError, format!("syntax error at or near \"{}\"", token.token));
    error_at_token(sql, token, error)
}

/// Adds the position of a token to an error.
fn error_at_token(sql: &str, token: &TokenWithSpan, error: Error) -> Error {
    match position(sql, token.span.start) {
        Some(position) => error.with_position(position),
        None => error,
    }
}

/// The error for a statement that ends too early. The position is that of the semicolon, or the end
/// of the string.
fn at_end(sql: &str, semicolon: Option<&TokenWithSpan>) -> Error {
    if let Some(semicolon) = semicolon {
        return at_token(sql, semicolon);
    }
    let position = u32::try_from(sql.chars().count() + 1).unwrap_or(u32::MAX);
    Error::new(ErrorKind::SyntaxError, END_OF_INPUT).with_position(position)
}

/// Adds the position to an error of the parser about an unexpected end of the statement.
fn at_its_end(error: Error, sql: &str, semicolon: Option<&TokenWithSpan>) -> Error {
    if error.message() != END_OF_INPUT || error.position().is_some() {
        return error;
    }
    let placed = at_end(sql, semicolon);
    match error.detail() {
        Some(detail) => placed.with_detail(detail),
        None => placed,
    }
}

fn mentioned_system_columns(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let mentions = |name: &str| {
        tokens.iter().any(|token| match &token.token {
            Token::Word(Word { value, quote_style: None, .. }) => value.eq_ignore_ascii_case(name),
            Token::Word(Word { value, .. }) => value == name,
            _ => false,
        })
    };
    (0..SYSTEM_COLUMNS.len())
        .filter(|at| SYSTEM_COLUMNS.get(*at).is_some_and(|name| mentions(name)))
        .collect()
}

#[cfg(test)]
mod tests;
