//! Access to the words of a statement by index, for the code that runs before the parser.

use std::ops::Range;

use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use super::rewrite::significant;

/// The unexpected token; `None` if the statement ends too early.
pub(super) type UnexpectedToken = Option<TokenWithSpan>;

/// The tokens of a statement without blanks, accessed by index from 0.
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

    /// True if the token with the index `at` is the unquoted word `wanted`, in any case.
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

    /// Fails with the token at the index `at` as the unexpected token.
    pub(super) fn wrong<T>(&self, at: usize) -> Result<T, UnexpectedToken> {
        Err(self.get(at).cloned())
    }

    pub(super) fn span(&self, at: usize) -> Span {
        self.get(at).map_or_else(Span::empty, |token| token.span)
    }

    pub(super) fn tokens(&self, range: Range<usize>) -> impl Iterator<Item = TokenWithSpan> {
        self.0.get(range).unwrap_or(&[]).iter().map(|token| (*token).clone())
    }

    /// The index of the first token, from `start` on and outside of inner parentheses, for which
    /// `found` is true. Otherwise the index of the parenthesis that closes the surrounding pair, or
    /// the number of tokens.
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

    /// The index of the token after the name that begins at `start`. The name may have several
    /// parts.
    ///
    /// # Errors
    /// The token that is not part of a name.
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
