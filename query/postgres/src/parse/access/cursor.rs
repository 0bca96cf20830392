//! Reads words, names and roles from the parser's tokens.

use datafusion::sql::sqlparser::{
    ast::{Expr, Ident, ObjectName},
    parser::{Parser, ParserError},
    tokenizer::Token,
};
use stratalog_model::{Error, ErrorKind};

use super::{Parsed, Refusal, syntax::RoleSpec};
use crate::names;

/// A parser that reads words whether or not they are keywords of the parser.
pub(super) struct Cursor<'a, 'b> {
    parser: &'a mut Parser<'b>,
}

impl<'a, 'b> Cursor<'a, 'b> {
    pub(super) fn new(parser: &'a mut Parser<'b>) -> Self {
        Self { parser }
    }

    /// True if the next token is the unquoted word `wanted`, in any case.
    pub(super) fn is(&self, wanted: &str) -> bool {
        self.is_at(0, wanted)
    }

    /// True if the token after `skipped` tokens is the unquoted word `wanted`, in any case.
    pub(super) fn is_at(&self, skipped: usize, wanted: &str) -> bool {
        matches!(&self.parser.peek_nth_token_ref(skipped).token, Token::Word(word)
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
    }

    /// Consumes the next token and returns true if the token is the word `wanted`.
    pub(super) fn take(&mut self, wanted: &str) -> bool {
        let comes = self.is(wanted);
        if comes {
            self.parser.next_token();
        }
        comes
    }

    /// Consumes the words, and returns true, if all of them come next.
    pub(super) fn take_all(&mut self, wanted: &[&str]) -> bool {
        let come = wanted.iter().enumerate().all(|(at, word)| self.is_at(at, word));
        if come {
            wanted.iter().for_each(|_| self.skip());
        }
        come
    }

    pub(super) fn skip(&mut self) {
        self.parser.next_token();
    }

    pub(super) fn expect(&mut self, wanted: &str) -> Parsed<()> {
        match self.take(wanted) {
            true => Ok(()),
            false => self.unexpected(&wanted.to_uppercase()),
        }
    }

    pub(super) fn take_token(&mut self, wanted: &Token) -> bool {
        self.parser.consume_token(wanted)
    }

    pub(super) fn expect_token(&mut self, wanted: &Token) -> Parsed<()> {
        Ok(self.parser.expect_token(wanted).map(drop)?)
    }

    /// The error for the next token.
    pub(super) fn unexpected<T>(&self, wanted: &str) -> Parsed<T> {
        let error: Result<T, ParserError> =
            self.parser.expected_ref(wanted, self.parser.peek_token_ref());
        Ok(error?)
    }

    /// True at the end of the statement.
    pub(super) fn is_end(&self) -> bool {
        self.parser.peek_token_ref().token == Token::EOF
    }

    /// The next token, if the token is an unquoted word, in upper case; the token is consumed.
    pub(super) fn word(&mut self) -> Option<String> {
        let Token::Word(word) = &self.parser.peek_token_ref().token else { return None };
        let upper = word.quote_style.is_none().then(|| word.value.to_ascii_uppercase())?;
        self.skip();
        Some(upper)
    }

    /// The next token, if the token is a word, as a name; the token is consumed.
    pub(super) fn ident(&mut self) -> Parsed<Ident> {
        let Token::Word(word) = &self.parser.peek_token_ref().token else {
            return self.unexpected("a name");
        };
        let ident = Ident { value: word.value.clone(), quote_style: word.quote_style, span: word_span(self.parser) };
        self.skip();
        Ok(ident)
    }

    pub(super) fn object_name(&mut self) -> Parsed<ObjectName> {
        Ok(self.parser.parse_object_name(false)?)
    }

    pub(super) fn expression(&mut self) -> Parsed<Expr> {
        Ok(self.parser.parse_expr()?)
    }

    /// A constant in a list of values: a word, or an expression.
    pub(super) fn value(&mut self) -> Parsed<Expr> {
        match &self.parser.peek_token_ref().token {
            Token::Word(word) if !word.value.eq_ignore_ascii_case("interval") => {
                Ok(Expr::Identifier(self.ident()?))
            }
            _ => self.expression(),
        }
    }

    /// A text constant; `None` if another token comes.
    pub(super) fn text(&mut self) -> Option<String> {
        let text = match &self.parser.peek_token_ref().token {
            Token::SingleQuotedString(text)
            | Token::EscapedStringLiteral(text)
            | Token::UnicodeStringLiteral(text) => text.clone(),
            Token::DollarQuotedString(text) => text.value.clone(),
            _ => return None,
        };
        self.skip();
        Some(text)
    }

    pub(super) fn expect_text(&mut self) -> Parsed<String> {
        match self.text() {
            Some(text) => Ok(text),
            None => self.unexpected("a text constant"),
        }
    }

    /// A whole number with an optional sign.
    pub(super) fn integer(&mut self) -> Parsed<i64> {
        let negative = self.take_token(&Token::Minus);
        let number = match &self.parser.peek_token_ref().token {
            Token::Number(digits, _) => digits.parse::<i64>().ok(),
            _ => None,
        };
        let Some(number) = number else { return self.unexpected("a whole number") };
        self.skip();
        Ok(if negative { -number } else { number })
    }

    /// A role: a name, or CURRENT_USER and similar words.
    pub(super) fn role(&mut self) -> Parsed<RoleSpec> {
        let ident = self.ident()?;
        role_of(&ident)
    }

    /// A comma-separated list.
    pub(super) fn list<T>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut all = vec![one(self)?];
        while self.take_token(&Token::Comma) {
            all.push(one(self)?);
        }
        Ok(all)
    }

    pub(super) fn roles(&mut self) -> Parsed<Vec<RoleSpec>> {
        self.list(Self::role)
    }

    /// A refused form.
    pub(super) fn unsupported<T>(&self, message: impl Into<String>, hint: &str) -> Parsed<T> {
        let error = Error::new(ErrorKind::FeatureNotSupported, message);
        Err(Refusal::from(if hint.is_empty() { error } else { error.with_hint(hint) }))
    }
}

fn word_span(parser: &Parser<'_>) -> datafusion::sql::sqlparser::tokenizer::Span {
    parser.peek_token_ref().span
}

/// The role that a name denotes.
fn role_of(ident: &Ident) -> Parsed<RoleSpec> {
    let name = names::fold(ident);
    Ok(match (ident.quote_style, name.as_str()) {
        (None, "current_user" | "current_role") => RoleSpec::CurrentUser,
        (None, "session_user") => RoleSpec::SessionUser,
        (_, "public") => RoleSpec::Public,
        (None, "none") => {
            return Err(Refusal::from(Error::new(
                ErrorKind::ReservedName,
                "role name \"none\" is reserved",
            )));
        }
        _ => RoleSpec::Named(name),
    })
}
