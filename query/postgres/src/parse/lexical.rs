//! Corrects tokens that the tokenizer reads differently from PostgreSQL.

mod keywords;

use datafusion::sql::sqlparser::{
    dialect::PostgreSqlDialect,
    tokenizer::{Span, Token, TokenWithSpan, Tokenizer, Whitespace, Word},
};
use stratalog_model::{Error, ErrorKind};

/// The type names of PostgreSQL's catalog. They mean the same type with and without quotes.
const CATALOG_TYPES: [&str; 19] = [
    "bool",
    "bytea",
    "date",
    "float4",
    "float8",
    "int2",
    "int4",
    "int8",
    "interval",
    "json",
    "jsonb",
    "name",
    "numeric",
    "oid",
    "text",
    "time",
    "timestamp",
    "timestamptz",
    "uuid",
];

/// True for a space, a tab or the end of a line.
fn is_blank(token: &TokenWithSpan) -> bool {
    use Whitespace::{Newline, Space, Tab};
    matches!(token.token, Token::Whitespace(Space | Newline | Tab))
}

/// Converts the tokens of a statement to the tokens that PostgreSQL would read.
///
/// # Errors
/// The token and a `SyntaxError`, for a number that is directly followed by letters, and for two
/// strings on one line.
pub(super) fn as_postgresql(
    tokens: Vec<TokenWithSpan>,
) -> Result<Vec<TokenWithSpan>, Box<(TokenWithSpan, Error)>> {
    let mut read: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // True if a line break follows the last string.
    let mut breaks_line = false;
    // Number of blanks after the last token that is not blank.
    let mut blanks = 0;
    for token in tokens {
        if let Token::Whitespace(whitespace) = &token.token {
            breaks_line |=
                matches!(whitespace, Whitespace::Newline | Whitespace::SingleLineComment { .. });
            // Keeps one blank of several, because all later steps visit all tokens.
            if !(is_blank(&token) && read.last().is_some_and(is_blank)) {
                blanks += 1;
                read.push(token);
            }
            continue;
        }
        let (separated, adjacent) = (std::mem::take(&mut breaks_line), blanks == 0);
        let last_at = read.len().checked_sub(std::mem::take(&mut blanks) + 1);
        let last = last_at.and_then(|at| read.get_mut(at));
        let last_span = last.as_ref().map(|last| last.span);
        let last = last.map(|last| &mut last.token);
        match (last, token.token) {
            (Some(Token::Number(number, _)), Token::Word(word))
                if adjacent && word.quote_style.is_none() =>
            {
                let junk =
                    format!("trailing junk after numeric literal at or near \"{number}{word}\"");
                let place = last_span.unwrap_or(token.span);
                let token = TokenWithSpan::new(Token::Word(word), place);
                return Err(Box::new((token, Error::new(ErrorKind::SyntaxError, junk))));
            }
            (Some(Token::SingleQuotedString(first)), Token::SingleQuotedString(more)) => {
                if !separated {
                    let message = format!("syntax error at or near \"'{more}'\"");
                    let token = TokenWithSpan::new(Token::SingleQuotedString(more), token.span);
                    return Err(Box::new((token, Error::new(ErrorKind::SyntaxError, message))));
                }
                first.push_str(&more);
                read.truncate(last_at.map_or(0, |at| at + 1));
            }
            // A hexadecimal number is invalid here; a bit string `x'10'` is valid, and one
            // character longer because of its quotes.
            (_, Token::HexStringLiteral(digits)) if length(&token.span) == digits.len() + 2 => {
                let junk = format!("trailing junk after numeric literal at or near \"0x{digits}\"");
                let token = TokenWithSpan::new(Token::HexStringLiteral(digits), token.span);
                return Err(Box::new((token, Error::new(ErrorKind::SyntaxError, junk))));
            }
            (_, Token::CustomBinaryOperator(operator)) => {
                read.extend(without_signs(&operator, &token.span));
            }
            (_, other) => read.push(TokenWithSpan::new(other, token.span)),
        }
    }
    types_in_quotes(&mut read);
    keywords::as_names(&mut read);
    Ok(read)
}

/// The number of characters of a token that lies within one line.
fn length(span: &Span) -> usize {
    usize::try_from(span.end.column.saturating_sub(span.start.column)).unwrap_or(usize::MAX)
}

/// Splits an operator from the signs at its end, which belong to the operand. Like in PostgreSQL,
/// an operator that contains a character other than the operators of the SQL standard keeps the
/// signs.
fn without_signs(operator: &str, span: &Span) -> Vec<TokenWithSpan> {
    let kept = match operator.contains(['~', '!', '@', '#', '%', '^', '&', '|', '`', '?']) {
        true => operator,
        false => match operator.trim_end_matches(['+', '-']) {
            "" => operator.get(..1).unwrap_or(operator),
            kept => kept,
        },
    };
    let place = |token: Token, from: usize, length: usize| {
        let mut span = *span;
        span.start.column += u64::try_from(from).unwrap_or_default();
        span.end.column = span.start.column + u64::try_from(length).unwrap_or_default();
        TokenWithSpan::new(token, span)
    };
    let whole = || place(Token::CustomBinaryOperator(kept.to_string()), 0, kept.len());
    let first = match Tokenizer::new(&PostgreSqlDialect {}, kept).tokenize().as_deref() {
        Ok([token]) => place(token.clone(), 0, kept.len()),
        _ => whole(),
    };
    let signs = operator.char_indices().skip(kept.chars().count()).map(|(at, sign)| {
        let sign = if sign == '+' { Token::Plus } else { Token::Minus };
        place(sign, at, 1)
    });
    std::iter::once(first).chain(signs).collect()
}

/// Removes the quotes of type names, `'null'::"jsonb"` becomes `'null'::jsonb`: the parser knows
/// types only by unquoted names.
fn types_in_quotes(tokens: &mut [TokenWithSpan]) {
    let mut before: [Option<(Role, usize)>; 3] = [None; 3];
    for at in 0..tokens.len() {
        let Some(token) = tokens.get(at).map(|token| &token.token) else { return };
        let this = match token {
            Token::Whitespace(_) => continue,
            Token::DoubleColon => Role::Cast,
            Token::Word(word) if is_unquoted(word, "as") => Role::Cast,
            Token::Word(word) if word.value == "pg_catalog" => Role::Schema,
            Token::Period => Role::Period,
            Token::Word(word)
                if word.quote_style.is_some() && CATALOG_TYPES.contains(&word.value.as_str()) =>
            {
                Role::Type
            }
            _ => Role::Other,
        };
        let schema = match (this, before) {
            (Role::Type, [_, _, Some((Role::Cast, _))]) => Some(None),
            (
                Role::Type,
                [Some((Role::Cast, _)), Some((Role::Schema, schema)), Some((Role::Period, _))],
            ) => Some(Some(schema)),
            _ => None,
        };
        for quoted in schema.into_iter().flat_map(|schema| schema.into_iter().chain([at])) {
            if let Some(TokenWithSpan { token: named @ Token::Word(_), .. }) =
                tokens.get_mut(quoted)
                && let Token::Word(word) = &*named
            {
                *named = Token::make_word(&word.value.clone(), None);
            }
        }
        let [_, second, third] = before;
        before = [second, third, Some((this, at))];
    }
}

/// The role that a token plays in a cast to a quoted type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Cast,
    Schema,
    Period,
    Type,
    Other,
}

fn is_unquoted(word: &Word, name: &str) -> bool {
    word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name)
}

#[cfg(test)]
mod tests;
