//! Parses the options of COPY, in both of PostgreSQL's forms. The parser knows only some of the
//! options and refuses the others; it therefore gets the statement without options.
//!
//! ```text
//!   COPY t FROM STDIN WITH (FORMAT csv, HEADER match, FORCE_NULL (a, b), ON_ERROR ignore)
//!   COPY t FROM STDIN WITH CSV HEADER DELIMITER AS ';' FORCE NULL a, b
//!                     └─────────────── cut off ────────────────────────┘
//! ```

use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};
use stratalog_text::copy::{ColumnSelection, CopyOptionValue};

use super::{
    rewrite::{is_keyword, significant},
    words::UnexpectedToken,
};

type Options = Vec<(String, CopyOptionValue)>;

/// Removes the options of a COPY from the tokens, and returns the options. Other statements stay
/// unchanged.
///
/// # Errors
/// The token that is not an option.
pub(super) fn cut(tokens: &mut Vec<TokenWithSpan>) -> Result<Options, UnexpectedToken> {
    let places = significant(tokens);
    let token = |at: usize| places.get(at).and_then(|place| tokens.get(*place));
    if !token(0).is_some_and(|first| is_keyword(&first.token, Keyword::COPY)) {
        return Ok(Vec::new());
    }
    let Some(first) = behind_target(&places, tokens) else { return Ok(Vec::new()) };
    let mut reader = Reader { tokens: (first..places.len()).filter_map(token).collect(), next: 0 };
    let of_query = token(1).is_some_and(|source| source.token == Token::LParen);
    let options = reader.options(of_query)?;
    // The parser would read any other word here as an option.
    if reader.peek().is_some() && !reader.is_word("where") {
        return reader.wrong();
    }
    let end = places.get(first + reader.next).copied().unwrap_or(tokens.len());
    if let Some(start) = places.get(first).copied() {
        tokens.drain(start..end);
    }
    Ok(options)
}

/// The index of the significant token after STDIN, STDOUT or the file name.
fn behind_target(places: &[usize], tokens: &[TokenWithSpan]) -> Option<usize> {
    let token = |at: usize| places.get(at).and_then(|place| tokens.get(*place)).map(|t| &t.token);
    let mut depth = 0_usize;
    let direction = (1..places.len()).find(|at| match token(*at) {
        Some(Token::LParen) => {
            depth += 1;
            false
        }
        Some(Token::RParen) => {
            depth = depth.saturating_sub(1);
            false
        }
        Some(word) => {
            depth == 0 && (is_keyword(word, Keyword::FROM) || is_keyword(word, Keyword::TO))
        }
        None => false,
    })?;
    let program = token(direction + 1).is_some_and(|word| is_keyword(word, Keyword::PROGRAM));
    Some(direction + if program { 3 } else { 2 })
}

struct Reader<'a> {
    tokens: Vec<&'a TokenWithSpan>,
    next: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|token| &token.token).filter(|token| **token != Token::EOF)
    }

    fn wrong<T>(&self) -> Result<T, UnexpectedToken> {
        let token = self.tokens.get(self.next).filter(|token| token.token != Token::EOF);
        Err(token.map(|token| (*token).clone()))
    }

    fn take(&mut self, wanted: &Token) -> bool {
        let found = self.peek() == Some(wanted);
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, wanted: &Token) -> Result<(), UnexpectedToken> {
        if self.take(wanted) { Ok(()) } else { self.wrong() }
    }

    /// True if the next token is the unquoted word `wanted`, in any case.
    fn is_word(&self, wanted: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(word))
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
    }

    fn take_word(&mut self, wanted: &str) -> bool {
        let found = self.is_word(wanted);
        self.next += usize::from(found);
        found
    }

    /// Reads a name, folded to lower case unless quoted.
    fn name(&mut self) -> Result<String, UnexpectedToken> {
        let name = match self.peek() {
            Some(Token::Word(word)) if word.quote_style.is_some() => word.value.clone(),
            Some(Token::Word(word)) => word.value.to_lowercase(),
            _ => return self.wrong(),
        };
        self.next += 1;
        Ok(name)
    }

    fn string(&mut self) -> Result<CopyOptionValue, UnexpectedToken> {
        let text = match self.peek() {
            Some(
                Token::SingleQuotedString(text)
                | Token::EscapedStringLiteral(text)
                | Token::UnicodeStringLiteral(text),
            ) => text.clone(),
            Some(Token::DollarQuotedString(quoted)) => quoted.value.clone(),
            _ => return self.wrong(),
        };
        self.next += 1;
        Ok(CopyOptionValue::Text(text))
    }

    fn names(&mut self) -> Result<CopyOptionValue, UnexpectedToken> {
        let mut names = vec![self.name()?];
        while self.take(&Token::Comma) {
            names.push(self.name()?);
        }
        Ok(CopyOptionValue::Columns(ColumnSelection::Named(names)))
    }

    fn options(&mut self, of_query: bool) -> Result<Options, UnexpectedToken> {
        let mut options = Vec::new();
        if !of_query && (self.is_word("using") || self.is_word("delimiters")) {
            self.take_word("using");
            if !self.take_word("delimiters") {
                return self.wrong();
            }
            options.push(("delimiter".to_string(), self.string()?));
        }
        // PostgreSQL accepts a WITH without an option.
        self.take_word("with");
        if self.take(&Token::LParen) {
            loop {
                options.push((self.name()?, self.value()?));
                if !self.take(&Token::Comma) {
                    break;
                }
            }
            self.expect(&Token::RParen)?;
            return Ok(options);
        }
        while let Some(option) = self.bare()? {
            options.push(option);
        }
        Ok(options)
    }

    /// Reads the value of an option inside of parentheses.
    fn value(&mut self) -> Result<CopyOptionValue, UnexpectedToken> {
        match self.peek() {
            None | Some(Token::Comma | Token::RParen) => Ok(CopyOptionValue::Absent),
            Some(Token::Mul) => {
                self.next += 1;
                Ok(CopyOptionValue::Columns(ColumnSelection::All))
            }
            Some(Token::LParen) => {
                self.next += 1;
                let names = self.names()?;
                self.expect(&Token::RParen)?;
                Ok(names)
            }
            Some(Token::Word(_)) => self.name().map(CopyOptionValue::Text),
            Some(Token::Number(_, _) | Token::Plus | Token::Minus) => self.number(),
            Some(_) => self.string(),
        }
    }

    fn number(&mut self) -> Result<CopyOptionValue, UnexpectedToken> {
        let minus = self.take(&Token::Minus);
        if !minus {
            self.take(&Token::Plus);
        }
        let Some(Token::Number(number, _)) = self.peek() else { return self.wrong() };
        let number = if minus { format!("-{number}") } else { number.clone() };
        self.next += 1;
        Ok(CopyOptionValue::Text(number))
    }

    /// Reads an option outside of parentheses; `None` if no option follows.
    fn bare(&mut self) -> Result<Option<(String, CopyOptionValue)>, UnexpectedToken> {
        for (word, name) in [("binary", "format"), ("csv", "format")] {
            if self.take_word(word) {
                return Ok(Some((name.to_string(), CopyOptionValue::Text(word.to_string()))));
            }
        }
        for name in ["freeze", "header"] {
            if self.take_word(name) {
                return Ok(Some((name.to_string(), CopyOptionValue::Absent)));
            }
        }
        for name in ["delimiter", "null", "quote", "escape", "encoding"] {
            if self.take_word(name) {
                if name != "encoding" {
                    self.take_word("as");
                }
                return Ok(Some((name.to_string(), self.string()?)));
            }
        }
        if !self.take_word("force") {
            return Ok(None);
        }
        let name = if self.take_word("quote") {
            "force_quote"
        } else if self.take_word("null") {
            "force_null"
        } else if self.take_word("not") && self.take_word("null") {
            "force_not_null"
        } else {
            return self.wrong();
        };
        let columns = if name == "force_quote" && self.take(&Token::Mul) {
            CopyOptionValue::Columns(ColumnSelection::All)
        } else {
            self.names()?
        };
        Ok(Some((name.to_string(), columns)))
    }
}
