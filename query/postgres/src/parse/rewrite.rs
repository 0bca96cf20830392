//! Rewrites words of PostgreSQL and of this project that the parser does not know.

use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan, Word},
};
use stratalog_model::Error;

use super::sealed;
use crate::checks::unsupported_statements;

/// Rewrites the tokens of a statement into tokens that the parser knows.
pub(super) fn for_parser(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut rewritten = chronicle_means_table(tokens);
    texts_in_quotes(&mut rewritten);
    super::queries::rewrite(&mut rewritten);
    only_means_the_table(&mut rewritten);
    compared_values(&mut rewritten);
    abort_means_rollback(&mut rewritten);
    reset_names_a_setting(&mut rewritten);
    trim_takes_spaces(&mut rewritten);
    array_means_brackets(&mut rewritten);
    operators_of_sets(&mut rewritten);
    functions_with_a_form(&mut rewritten);
    assignment_means_arrow(&mut rewritten);
    digits_of_intervals(&mut rewritten);
    frames_of_intervals(&mut rewritten);
    super::forms::rewrite(&mut rewritten);
    sealed::as_a_lock(&mut rewritten);
    rewritten
}

/// Rewrites `$$text$$` and `E'text'` to `'text'`: for some constants, for example intervals, the
/// parser accepts only the plain form. The tokenizer has already resolved the escapes. A text with
/// `''` or `\'` stays unchanged, because the parser's tree would not print the text correctly.
fn texts_in_quotes(tokens: &mut [TokenWithSpan]) {
    for token in tokens {
        let text = match &mut token.token {
            Token::DollarQuotedString(quoted) => &mut quoted.value,
            Token::EscapedStringLiteral(text) => text,
            _ => continue,
        };
        if !text.contains("''") && !text.contains("\\'") {
            token.token = Token::SingleQuotedString(std::mem::take(text));
        }
    }
}

/// Rewrites `FROM ONLY t` and `FROM ONLY (t)` to `FROM t`, because tables have no child tables
/// here.
fn only_means_the_table(tokens: &mut Vec<TokenWithSpan>) {
    let places = significant(tokens);
    let token = |at: usize| places.get(at).and_then(|at| tokens.get(*at)).map(|found| &found.token);
    let is = |at: usize, word| token(at).is_some_and(|token| is_keyword(token, word));
    let is_name = |at: usize| matches!(token(at), Some(Token::Word(_) | Token::Period));
    let mut removed = Vec::new();
    for at in 1..places.len() {
        let is_table = is(at - 1, Keyword::FROM) || is(at - 1, Keyword::JOIN);
        if !is_table || !is(at, Keyword::ONLY) {
            continue;
        }
        if token(at + 1) == Some(&Token::LParen) {
            let close = (at + 2..places.len()).find(|at| !is_name(*at));
            let close = close.filter(|at| token(*at) == Some(&Token::RParen));
            if let Some(close) = close.filter(|close| *close > at + 2) {
                removed.extend([at, at + 1, close]);
            }
        } else if is_name(at + 1) {
            removed.push(at);
        }
    }
    let removed: Vec<usize> = removed.iter().filter_map(|at| places.get(*at)).copied().collect();
    for at in removed.into_iter().rev() {
        tokens.remove(at);
    }
}

/// Rewrites `interval(2) '1.234 s'` to `'1.234 s'::interval(2)`: the parser accepts the precision
/// in the first form, but drops it.
fn digits_of_intervals(tokens: &mut Vec<TokenWithSpan>) {
    let places = significant(tokens);
    let mut found = Vec::new();
    for window in places.windows(5) {
        let [interval, open, digits, close, text] = window else { continue };
        let token = |at: &usize| tokens.get(*at).map(|token| &token.token);
        if token(interval).is_some_and(|token| is_keyword(token, Keyword::INTERVAL))
            && token(open) == Some(&Token::LParen)
            && matches!(token(digits), Some(Token::Number(..)))
            && token(close) == Some(&Token::RParen)
            && matches!(token(text), Some(Token::SingleQuotedString(_)))
        {
            found.push((*interval, *text));
        }
    }
    for (interval, text) in found.into_iter().rev() {
        let Some(text_token) = tokens.get(text).cloned() else { continue };
        let cast = TokenWithSpan::new(Token::DoubleColon, text_token.span);
        tokens.remove(text);
        tokens.splice(interval..interval, [text_token, cast]);
    }
}

/// Rewrites `'1 day'::interval PRECEDING` to `'1 day' PRECEDING`: the parser accepts no cast in a
/// window frame.
fn frames_of_intervals(tokens: &mut Vec<TokenWithSpan>) {
    let places = significant(tokens);
    let mut found = Vec::new();
    for window in places.windows(4) {
        let [text, cast, interval, way] = window else { continue };
        let token = |at: &usize| tokens.get(*at).map(|token| &token.token);
        let is = |at: &usize, word| token(at).is_some_and(|token| is_keyword(token, word));
        if matches!(token(text), Some(Token::SingleQuotedString(_)))
            && token(cast) == Some(&Token::DoubleColon)
            && is(interval, Keyword::INTERVAL)
            && (is(way, Keyword::PRECEDING) || is(way, Keyword::FOLLOWING))
        {
            found.push((*cast, *interval));
        }
    }
    for (cast, interval) in found.into_iter().rev() {
        tokens.drain(cast..=interval);
    }
}

/// Rewrites `pg_catalog.substring(…)` to `substring(…)`: the parser knows functions with special
/// syntax only by their unqualified names.
fn functions_with_a_form(tokens: &mut Vec<TokenWithSpan>) {
    const FUNCTIONS: [&str; 4] = ["overlay", "position", "substring", "trim"];
    let places = significant(tokens);
    let mut found = Vec::new();
    for window in places.windows(4) {
        let [schema, dot, function, open] = window else { continue };
        let token = |at: &usize| tokens.get(*at).map(|token| &token.token);
        let is_schema = matches!(token(schema), Some(Token::Word(word))
            if word.value.eq_ignore_ascii_case("pg_catalog"));
        let is_function = matches!(token(function), Some(Token::Word(word))
            if word.quote_style.is_none()
                && FUNCTIONS.iter().any(|known| word.value.eq_ignore_ascii_case(known)));
        if is_schema
            && is_function
            && token(dot) == Some(&Token::Period)
            && token(open) == Some(&Token::LParen)
        {
            found.push((*schema, *dot));
        }
    }
    for (schema, dot) in found.into_iter().rev() {
        tokens.drain(schema..=dot);
    }
}

/// Rewrites `OPERATOR(pg_catalog.=) ANY` to `= ANY`: before ANY and ALL, the parser accepts only
/// the plain operator.
fn operators_of_sets(tokens: &mut Vec<TokenWithSpan>) {
    let places = significant(tokens);
    let mut found = Vec::new();
    for window in places.windows(7) {
        let [word, open, schema, dot, _, close, set] = window else { continue };
        let token = |at: &usize| tokens.get(*at).map(|token| &token.token);
        let is_word = |at: &usize, wanted: &str| {
            matches!(token(at), Some(Token::Word(word))
                if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
        };
        if is_word(word, "operator")
            && token(open) == Some(&Token::LParen)
            && is_word(schema, "pg_catalog")
            && token(dot) == Some(&Token::Period)
            && token(close) == Some(&Token::RParen)
            && ["any", "all", "some"].iter().any(|wanted| is_word(set, wanted))
        {
            found.push((*word, *dot, *close));
        }
    }
    for (word, dot, close) in found.into_iter().rev() {
        tokens.remove(close);
        tokens.drain(word..=dot);
    }
}

/// Writes a named argument `f(name := value)` as `f(name => value)`.
fn assignment_means_arrow(tokens: &mut [TokenWithSpan]) {
    for token in tokens {
        if token.token == Token::Assignment {
            token.token = Token::RArrow;
        }
    }
}

/// The last words of type names.
const TYPES: [&str; 24] = [
    "bigint",
    "bool",
    "boolean",
    "bytea",
    "date",
    "decimal",
    "float4",
    "float8",
    "int",
    "int2",
    "int4",
    "int8",
    "integer",
    "interval",
    "jsonb",
    "numeric",
    "precision",
    "real",
    "smallint",
    "text",
    "timestamp",
    "timestamptz",
    "uuid",
    "varchar",
];

/// Writes the array type `text ARRAY` as `text[]`.
fn array_means_brackets(tokens: &mut Vec<TokenWithSpan>) {
    let significant = significant(tokens);
    let mut found = Vec::new();
    for (place, at) in significant.iter().enumerate() {
        let token = |place: Option<usize>| {
            place.and_then(|place| significant.get(place)).and_then(|at| tokens.get(*at))
        };
        let ends_type = match token(place.checked_sub(1)).map(|token| &token.token) {
            Some(Token::Word(word)) => {
                let value = word.value.to_ascii_lowercase();
                word.quote_style.is_none() && (TYPES.contains(&value.as_str()) || value == "zone")
            }
            _ => false,
        };
        let opens = matches!(
            token(Some(place + 1)).map(|token| &token.token),
            Some(Token::LBracket | Token::LParen)
        );
        let is_array =
            tokens.get(*at).is_some_and(|token| is_keyword(&token.token, Keyword::ARRAY));
        if is_array && ends_type && !opens {
            found.push(*at);
        }
    }
    for at in found.into_iter().rev() {
        let Some(span) = tokens.get(at).map(|token| token.span) else { continue };
        let brackets = [Token::LBracket, Token::RBracket];
        let brackets = brackets.into_iter().map(|token| TokenWithSpan { token, span });
        tokens.splice(at..=at, brackets);
    }
}

/// PostgreSQL's kinds of objects that the parser does not know in CREATE, ALTER and DROP.
const OBJECTS: [&str; 12] = [
    "access",
    "aggregate",
    "cast",
    "collation",
    "conversion",
    "event",
    "language",
    "publication",
    "rule",
    "statistics",
    "subscription",
    "tablespace",
];

/// The first token of a PostgreSQL statement that the parser does not know, and the error. The
/// first two words identify the statement.
pub(super) fn unsupported_statement(tokens: &[TokenWithSpan]) -> Option<(&TokenWithSpan, Error)> {
    let mut words = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let (first, second) = (words.next()?, words.next()?);
    let is = |token: &TokenWithSpan, word: &str| {
        matches!(&token.token, Token::Word(found)
            if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
    };
    if is(first, "do") && !matches!(second.token, Token::LParen | Token::Period) {
        return Some((first, unsupported_statements::block()));
    }
    if ["create", "drop", "alter"].iter().any(|word| is(first, word)) {
        let object = match is(second, "or") {
            true => words.nth(1),
            false => Some(second),
        };
        let object = object.filter(|object| OBJECTS.iter().any(|word| is(object, word)));
        if let Some(object) = object {
            let (action, object_name) = (&first.token, &object.token);
            let error = unsupported_statements::object(&format!("{action} {object_name}"));
            return Some((first, error));
        }
    }
    if is(first, "create") && is(second, "unlogged") {
        return Some((second, unsupported_statements::unlogged()));
    }
    let of_two_phases = is(first, "prepare") && is(second, "transaction")
        || (is(first, "commit") || is(first, "rollback")) && is(second, "prepared");
    of_two_phases.then(|| (first, unsupported_statements::two_phases()))
}

/// Writes the setting in `RESET TIME ZONE` and similar statements as a single name.
fn reset_names_a_setting(tokens: &mut Vec<TokenWithSpan>) {
    let places = significant(tokens);
    let word = |at: usize| match places.get(at).and_then(|at| tokens.get(*at)).map(|t| &t.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_ascii_lowercase(),
        _ => String::new(),
    };
    if word(0) != "reset" {
        return;
    }
    let rest: Vec<String> = (1..places.len().min(5)).map(word).collect();
    let rest: Vec<&str> = rest.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
    let name = match rest.as_slice() {
        ["time", "zone"] => "timezone",
        ["session", "authorization"] => "session_authorization",
        ["transaction", "isolation", "level"] => "transaction_isolation",
        _ => return,
    };
    let (Some(first), Some(last)) = (places.get(1), places.get(rest.len())) else { return };
    let Some(span) = tokens.get(*first).map(|token| token.span) else { return };
    let name = TokenWithSpan::new(Token::make_word(name, None), span);
    tokens.splice(*first..=*last, [name]);
}

/// True if the tokens contain IS DISTINCT FROM or IS NOT DISTINCT FROM.
pub(super) fn compares_distinct(tokens: &[TokenWithSpan]) -> bool {
    let words = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    words.clone().zip(words.skip(1)).any(|(distinct, from)| {
        is_keyword(&distinct.token, Keyword::DISTINCT) && is_keyword(&from.token, Keyword::FROM)
    })
}

/// True if a token is a keyword.
pub fn is_keyword(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == keyword && word.quote_style.is_none())
}

/// The indexes of all tokens except blanks.
pub fn significant(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let all = tokens.iter().enumerate();
    all.filter(|(_, token)| !matches!(token.token, Token::Whitespace(_)))
        .map(|(at, _)| at)
        .collect()
}

/// Replaces CHRONICLE with TABLE in `CREATE | DROP | ALTER CHRONICLE` and `COMMENT ON CHRONICLE`.
fn chronicle_means_table(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut words = 0usize;
    let mut previous = Keyword::NoKeyword;
    let mut eligible = false;
    tokens
        .iter()
        .map(|token| {
            let mut token = token.clone();
            if let Token::Word(word) = &mut token.token {
                words = words.saturating_add(1);
                if words == 1 {
                    eligible = matches!(
                        word.keyword,
                        Keyword::CREATE | Keyword::DROP | Keyword::ALTER | Keyword::COMMENT
                    );
                }
                let after = matches!(
                    previous,
                    Keyword::CREATE | Keyword::DROP | Keyword::ALTER | Keyword::ON
                );
                if eligible
                    && words <= 3
                    && after
                    && word.quote_style.is_none()
                    && word.value.eq_ignore_ascii_case("chronicle")
                {
                    *word = Word {
                        value: "TABLE".to_string(),
                        quote_style: None,
                        keyword: Keyword::TABLE,
                    };
                }
                previous = word.keyword;
            }
            token
        })
        .collect()
}

/// Rewrites `= ANY (VALUES …)` to `= ANY (SELECT * FROM (VALUES …))`, also for ALL and SOME.
fn compared_values(tokens: &mut Vec<TokenWithSpan>) {
    let places = significant(tokens);
    let token = |at: usize| places.get(at).and_then(|at| tokens.get(*at)).map(|found| &found.token);
    let is = |at: usize, word| token(at).is_some_and(|token| is_keyword(token, word));
    let (mut opens, mut values) = (Vec::new(), Vec::new());
    for at in 0..places.len() {
        match token(at) {
            Some(Token::LParen) => {
                let quantifiers = [Keyword::ANY, Keyword::ALL, Keyword::SOME];
                let compares = at > 0 && quantifiers.into_iter().any(|word| is(at - 1, word));
                opens.push((compares && is(at + 1, Keyword::VALUES)).then_some(at + 1));
            }
            Some(Token::RParen) => values.extend(opens.pop().flatten().map(|first| (first, at))),
            _ => {}
        }
    }
    // The places of insertions, from the last to the first, so that earlier indexes stay valid. The
    // flag distinguishes the end and the beginning of a VALUES.
    let mut inserted: Vec<(usize, bool)> =
        values.into_iter().flat_map(|(first, close)| [(first, true), (close, false)]).collect();
    inserted.sort_unstable_by(|a, b| b.cmp(a));
    for (at, begins) in inserted {
        let Some(at) = places.get(at).copied() else { continue };
        let Some(span) = tokens.get(at).map(|token| token.span) else { continue };
        let token = |token| TokenWithSpan::new(token, span);
        let word = |text: &str| token(Token::make_keyword(text));
        match begins {
            true => {
                let select =
                    [word("SELECT"), token(Token::Mul), word("FROM"), token(Token::LParen)];
                tokens.splice(at..at, select);
            }
            false => tokens.insert(at, token(Token::RParen)),
        }
    }
}

/// Adds the default character to TRIM: `trim(TRAILING FROM …)` becomes `trim(TRAILING ' ' FROM …)`.
fn trim_takes_spaces(tokens: &mut Vec<TokenWithSpan>) {
    let significant = significant(tokens);
    let is =
        |at: usize, keyword| tokens.get(at).is_some_and(|word| is_keyword(&word.token, keyword));
    let found: Vec<usize> = significant
        .windows(4)
        .filter_map(|four| match four {
            [trim, open, side, from] => {
                let sides = [Keyword::BOTH, Keyword::LEADING, Keyword::TRAILING];
                let opens = matches!(tokens.get(*open)?.token, Token::LParen);
                let named = sides.into_iter().any(|keyword| is(*side, keyword));
                (is(*trim, Keyword::TRIM) && opens && named && is(*from, Keyword::FROM))
                    .then_some(*from)
            }
            _ => None,
        })
        .collect();
    for from in found.into_iter().rev() {
        if let Some(span) = tokens.get(from).map(|token| token.span) {
            let spaces = Token::SingleQuotedString(" ".to_string());
            tokens.insert(from, TokenWithSpan::new(spaces, span));
        }
    }
}

/// Replaces ABORT with its synonym ROLLBACK.
fn abort_means_rollback(tokens: &mut [TokenWithSpan]) {
    let first = tokens.iter_mut().find(|token| !matches!(token.token, Token::Whitespace(_)));
    if let Some(token) = first
        && is_keyword(&token.token, Keyword::ABORT)
    {
        token.token = Token::make_keyword("ROLLBACK");
    }
}
