//! Words of PostgreSQL and of ours that the parser does not know, as ones that it does.

use datafusion::sql::sqlparser::{
    dialect::PostgreSqlDialect,
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan, Tokenizer, Word},
};

/// The tokens of a statement, in words that the parser knows.
pub(super) fn for_parser(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut rewritten = chronicle_means_table(tokens);
    table_means_select(&mut rewritten);
    abort_means_rollback(&mut rewritten);
    drop_header_match(&mut rewritten);
    star_means_columns(&mut rewritten);
    trim_takes_spaces(&mut rewritten);
    array_means_brackets(&mut rewritten);
    operators_of_sets(&mut rewritten);
    functions_with_a_form(&mut rewritten);
    assignment_means_arrow(&mut rewritten);
    rewritten
}

/// `pg_catalog.substring(…)` says `substring(…)`: the parser knows these by their names alone.
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

/// `OPERATOR(pg_catalog.=) ANY` says `= ANY`: the parser knows no other form before a set.
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

/// `f(name := value)` says `f(name => value)`.
fn assignment_means_arrow(tokens: &mut [TokenWithSpan]) {
    for token in tokens {
        if token.token == Token::Assignment {
            token.token = Token::RArrow;
        }
    }
}

/// Words that a type ends with.
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

/// `text ARRAY` says `text[]`.
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

/// The UNLOGGED of a CREATE UNLOGGED, which the parser does not know.
pub(super) fn unlogged(tokens: &[TokenWithSpan]) -> Option<&TokenWithSpan> {
    let mut words = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let create = words.next()?;
    words.next().filter(|word| {
        is_keyword(&create.token, Keyword::CREATE) && is_keyword(&word.token, Keyword::UNLOGGED)
    })
}

/// Whether IS [NOT] DISTINCT FROM stands somewhere.
pub(super) fn compares_distinct(tokens: &[TokenWithSpan]) -> bool {
    let words = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    words.clone().zip(words.skip(1)).any(|(distinct, from)| {
        is_keyword(&distinct.token, Keyword::DISTINCT) && is_keyword(&from.token, Keyword::FROM)
    })
}

fn is_keyword(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == keyword && word.quote_style.is_none())
}

/// Positions of all tokens that are no space.
fn significant(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let all = tokens.iter().enumerate();
    all.filter(|(_, token)| !matches!(token.token, Token::Whitespace(_)))
        .map(|(at, _)| at)
        .collect()
}

/// `CREATE | DROP | ALTER CHRONICLE` and `COMMENT ON CHRONICLE` say TABLE.
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

/// Whether a COPY says `HEADER match`, which its tree shows as `HEADER`.
pub fn says_header_match(sql: &str) -> bool {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize().unwrap_or_default();
    let words: Vec<&Token> =
        tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    words.windows(2).any(|pair| matches!(pair, [header, word] if is_header_match(header, word)))
}

fn is_header_match(header: &Token, word: &Token) -> bool {
    matches!(header, Token::Word(word) if word.keyword == Keyword::HEADER)
        && matches!(word, Token::Word(word) if word.value.eq_ignore_ascii_case("match"))
}

/// The parser knows `HEADER` with a boolean only.
fn drop_header_match(tokens: &mut Vec<TokenWithSpan>) {
    let significant = significant(tokens);
    let word = |at: Option<&usize>| at.and_then(|at| tokens.get(*at)).map(|token| &token.token);
    if !matches!(word(significant.first()), Some(Token::Word(word)) if word.keyword == Keyword::COPY)
    {
        return;
    }
    let found = significant.windows(2).find_map(|pair| match pair {
        [header, next] => is_header_match(word(Some(header))?, word(Some(next))?).then_some(*next),
        _ => None,
    });
    if let Some(at) = found {
        tokens.remove(at);
    }
}

/// `TABLE name` as a statement says `SELECT * FROM name`.
fn table_means_select(tokens: &mut Vec<TokenWithSpan>) {
    let first = tokens.iter().position(|token| !matches!(token.token, Token::Whitespace(_)));
    let Some(at) = first else { return };
    let Some(token) = tokens.get(at) else { return };
    if !matches!(&token.token, Token::Word(word) if word.keyword == Keyword::TABLE) {
        return;
    }
    let span = token.span;
    let word = |text: &str| TokenWithSpan::new(Token::make_keyword(text), span);
    let select = [word("SELECT"), TokenWithSpan::new(Token::Mul, span), word("FROM")];
    tokens.splice(at..=at, select);
}

/// `trim(TRAILING FROM …)` says `trim(TRAILING ' ' FROM …)`.
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

/// `ABORT` is PostgreSQL's other word for ROLLBACK.
fn abort_means_rollback(tokens: &mut [TokenWithSpan]) {
    let first = tokens.iter_mut().find(|token| !matches!(token.token, Token::Whitespace(_)));
    if let Some(token) = first
        && is_keyword(&token.token, Keyword::ABORT)
    {
        token.token = Token::make_keyword("ROLLBACK");
    }
}

/// `FORCE_QUOTE *` of a COPY, and its like, say `FORCE_QUOTE (*)`, and the star is a name
/// without quotes, which no column has; so it is in `FORCE QUOTE *`.
fn star_means_columns(tokens: &mut Vec<TokenWithSpan>) {
    let places = significant(tokens);
    let token = |at: Option<&usize>| at.and_then(|at| tokens.get(*at)).map(|token| &token.token);
    if !token(places.first()).is_some_and(|first| is_keyword(first, Keyword::COPY)) {
        return;
    }
    let is =
        |at: Option<&usize>, keyword| token(at).is_some_and(|token| is_keyword(token, keyword));
    let listed = [Keyword::FORCE_QUOTE, Keyword::FORCE_NOT_NULL, Keyword::FORCE_NULL];
    let mut stars = Vec::new();
    for (index, at) in places.iter().enumerate().skip(2) {
        if token(Some(at)) != Some(&Token::Mul) {
            continue;
        }
        let (before, last) = (places.get(index - 1), places.get(index - 2));
        // Elsewhere a column of this name is multiplied.
        let ends = matches!(token(places.get(index + 1)), Some(Token::Comma | Token::RParen));
        if ends && listed.iter().any(|keyword| is(before, *keyword)) {
            stars.push((*at, true));
        } else if is(before, Keyword::QUOTE) && is(last, Keyword::FORCE) {
            stars.push((*at, false));
        }
    }
    for (at, listed) in stars.into_iter().rev() {
        let Some(span) = tokens.get(at).map(|token| token.span) else { continue };
        let star = Word { value: "*".to_string(), quote_style: None, keyword: Keyword::NoKeyword };
        let mut name = vec![TokenWithSpan::new(Token::Word(star), span)];
        if listed {
            name.insert(0, TokenWithSpan::new(Token::LParen, span));
            name.push(TokenWithSpan::new(Token::RParen, span));
        }
        tokens.splice(at..=at, name);
    }
}
