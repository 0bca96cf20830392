//! Keywords of the parser that are names in PostgreSQL: columns may be called `top`, `trim`, `exists`
//! or `interval`. The parser reads a name in quotes as a name. `x ISNULL` becomes `x IS NULL`.

use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use super::is_unquoted;
use crate::statement::parse::rewrite::significant;

const NAMES: [&str; 4] = ["top", "trim", "exists", "interval"];

/// Words before an operand.
const BEFORE_OPERAND: [&str; 20] = [
    "all",
    "and",
    "between",
    "by",
    "case",
    "distinct",
    "else",
    "from",
    "having",
    "like",
    "not",
    "on",
    "or",
    "select",
    "set",
    "symmetric",
    "then",
    "using",
    "when",
    "where",
];

/// Quotes the keywords that are names, and replaces ISNULL.
pub(super) fn as_names(tokens: &mut Vec<TokenWithSpan>) {
    let has_any = tokens.iter().any(|token| match &token.token {
        Token::Word(word) => {
            is_unquoted(word, "isnull") || NAMES.iter().any(|name| is_unquoted(word, name))
        }
        _ => false,
    });
    if !has_any {
        return;
    }
    let order = significant(tokens);
    let mut statement_begin = 0;
    let mut names = Vec::new();
    let mut null_tests = Vec::new();
    for at in 0..order.len() {
        let place = Place { tokens, order: &order, at };
        match place.token(0) {
            Some(Token::SemiColon) => statement_begin = at + 1,
            Some(Token::Word(word)) if word.quote_style.is_none() => {
                let index = order.get(at).copied().unwrap_or_default();
                let first = Place { at: statement_begin, ..place };
                match word.value.to_ascii_lowercase().as_str() {
                    "top" if place.is_top() => names.push(index),
                    "trim" if at != statement_begin && place.is_name_trim() => names.push(index),
                    "exists" if place.is_name_exists() => names.push(index),
                    // PREPARE has a list of types.
                    "interval" if !first.is_word(0, "prepare") && place.is_name_interval() => {
                        names.push(index);
                    }
                    "isnull" if place.is_null_test() => null_tests.push(index),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    for index in names {
        if let Some(TokenWithSpan { token: named @ Token::Word(_), .. }) = tokens.get_mut(index)
            && let Token::Word(word) = &*named
        {
            *named = Token::make_word(&word.value.to_ascii_lowercase(), Some('"'));
        }
    }
    for index in null_tests.into_iter().rev() {
        let Some(token) = tokens.get_mut(index) else { continue };
        token.token = Token::make_keyword("IS");
        let null = TokenWithSpan::new(Token::make_keyword("NULL"), token.span);
        tokens.insert(index + 1, null);
    }
}

/// A place among the tokens other than blanks.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    tokens: &'a [TokenWithSpan],
    order: &'a [usize],
    at: usize,
}

impl Place<'_> {
    /// The token at a distance.
    fn token(&self, distance: isize) -> Option<&Token> {
        let at = self.at.checked_add_signed(distance)?;
        Some(&self.tokens.get(*self.order.get(at)?)?.token)
    }

    fn is_word(&self, distance: isize, name: &str) -> bool {
        matches!(self.token(distance), Some(Token::Word(word)) if is_unquoted(word, name))
    }

    fn opens_parenthesis(&self) -> bool {
        matches!(self.token(1), Some(Token::LParen))
    }

    /// True unless the word begins `SELECT TOP 5` of other databases.
    fn is_top(&self) -> bool {
        !self.opens_parenthesis() && !matches!(self.token(1), Some(Token::Number(_, _)))
    }

    /// True outside of `trim(…)` and `TRIM table BEFORE …`.
    fn is_name_trim(&self) -> bool {
        let names_table = matches!(
            self.token(1),
            Some(Token::Word(word)) if word.keyword == Keyword::NoKeyword
        );
        !self.opens_parenthesis() && !names_table
    }

    /// True outside of `EXISTS (…)`, `IF EXISTS` and `IF NOT EXISTS`.
    fn is_name_exists(&self) -> bool {
        !self.opens_parenthesis() && !self.is_word(-1, "if") && !self.is_word(-1, "not")
    }

    /// True for an operand without a constant behind it. Behind a word, `::` or AS the word is a
    /// type.
    fn is_name_interval(&self) -> bool {
        let begins_operand = match self.token(-1) {
            Some(Token::Word(word)) => BEFORE_OPERAND.iter().any(|name| is_unquoted(word, name)),
            Some(
                Token::LParen
                | Token::Comma
                | Token::Plus
                | Token::Minus
                | Token::Mul
                | Token::Div
                | Token::Mod
                | Token::Eq
                | Token::Neq
                | Token::Lt
                | Token::LtEq
                | Token::Gt
                | Token::GtEq
                | Token::StringConcat,
            ) => true,
            _ => false,
        };
        let has_constant = matches!(
            self.token(1),
            Some(
                Token::LParen
                    | Token::Number(_, _)
                    | Token::Placeholder(_)
                    | Token::SingleQuotedString(_)
                    | Token::EscapedStringLiteral(_)
                    | Token::UnicodeStringLiteral(_)
                    | Token::NationalStringLiteral(_)
                    | Token::DollarQuotedString(_)
            )
        );
        begins_operand && !has_constant
    }

    /// True for the operator: a label follows AS, a column a period, a function has parentheses.
    fn is_null_test(&self) -> bool {
        let begins =
            matches!(self.token(-1), None | Some(Token::Period | Token::Comma | Token::LParen));
        !begins && !self.is_word(-1, "as") && !self.opens_parenthesis()
    }
}
