//! The words of a statement, for the code before the parser.

use std::ops::Range;

use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use super::rewrite::significant;

/// The unexpected token; `None` at the end.
pub(super) type UnexpectedToken = Option<TokenWithSpan>;

/// The tokens except blanks, by number.
pub(super) struct Words<'a>(Vec<&'a TokenWithSpan>);

impl<'a> Words<'a> {
    pub(super) fn new(tokens: &'a [TokenWithSpan]) -> Self {
        let all = significant(tokens).into_iter().filter_map(|at| tokens.get(at));
        Self(all.filter(|token| token.token != Token::EOF).collect())
    }

    /// The number of tokens.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, at: usize) -> Option<&'a TokenWithSpan> {
        self.0.get(at).copied()
    }

    /// True if the token is the word, unquoted and in any case.
    pub(super) fn is(&self, at: usize, wanted: &str) -> bool {
        self.get(at).is_some_and(|token| match &token.token {
            Token::Word(word) => {
                word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted)
            }
            _ => false,
        })
    }

    pub(super) fn is_token(&self, at: usize, wanted: &Token) -> bool {
        self.get(at).is_some_and(|token| token.token == *wanted)
    }

    /// The error of the token at `at`.
    pub(super) fn wrong<T>(&self, at: usize) -> Result<T, UnexpectedToken> {
        Err(self.get(at).cloned())
    }

    pub(super) fn span(&self, at: usize) -> Span {
        self.get(at).map_or_else(Span::empty, |token| token.span)
    }

    pub(super) fn tokens(&self, range: Range<usize>) -> impl Iterator<Item = TokenWithSpan> {
        self.0.get(range).unwrap_or(&[]).iter().map(|token| (*token).clone())
    }

    /// The first token from `start` on, outside of parentheses, with `found` true. Without a match,
    /// the number of a closing parenthesis of an outer pair, or the number of tokens.
    pub(super) fn find(&self, start: usize, found: impl Fn(usize) -> bool) -> usize {
        let mut depth = 0_usize;
        for at in start..self.0.len() {
            if depth == 0 && found(at) {
                return at;
            }
            match self.get(at).map(|token| &token.token) {
                Some(Token::LParen | Token::LBracket) => depth += 1,
                Some(Token::RParen | Token::RBracket) if depth == 0 => return at,
                Some(Token::RParen | Token::RBracket) => depth -= 1,
                _ => {}
            }
        }
        self.0.len()
    }

    /// The number of the token after the name at `start`.
    pub(super) fn name(&self, start: usize) -> Result<usize, UnexpectedToken> {
        let mut at = start;
        loop {
            match self.get(at).map(|token| &token.token) {
                Some(Token::Word(_)) => at += 1,
                _ => return self.wrong(at),
            }
            if !self.is_token(at, &Token::Period) {
                return Ok(at);
            }
            at += 1;
        }
    }
}
