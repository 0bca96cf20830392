//! Rewrites syntax of PostgreSQL that the parser does not know.

use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use super::rewrite::{is_keyword, significant};

/// A string constant that marks the lower bound of a BETWEEN SYMMETRIC.
pub const SYMMETRIC: &str = "\u{1}symmetric";

/// The token that replaces `OPERATOR(-)` in front of an operand.
const PREFIX_MINUS: Token = Token::QuestionMarkDash;

/// The token that replaces `OPERATOR(+)` in front of an operand.
const PREFIX_PLUS: Token = Token::AtDashAt;

/// Rewrites the tokens of a statement into syntax that the parser knows.
pub(super) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let has = |word: &str| tokens.iter().any(|token| is_word(&token.token, word));
    let (likes, between) = (has("like") || has("ilike"), has("between"));
    let (values, operator) = (has("values"), has("operator"));
    let typed = TYPES.iter().any(|name| has(name));
    if has("deferrable") {
        modes_without_deferrable(tokens);
    }
    if likes {
        patterns_of_sets(tokens);
    }
    if between {
        bounds_in_any_order(tokens);
    }
    if operator {
        prefix_operators(tokens);
    }
    if values {
        values_without_parentheses(tokens);
        values_as_values(tokens);
    }
    if typed {
        types_before_constants(tokens);
    }
}

fn is_word(token: &Token, wanted: &str) -> bool {
    matches!(token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

/// Replaces `removed` tokens from the index `at` on with the tokens `inserted`.
pub(super) struct Edit {
    pub(super) at: usize,
    pub(super) removed: usize,
    pub(super) inserted: Vec<Token>,
}

/// Applies edits that do not overlap.
pub(super) fn apply(tokens: &mut Vec<TokenWithSpan>, mut edits: Vec<Edit>) {
    edits.sort_by_key(|edit| edit.at);
    for Edit { at, removed, inserted } in edits.into_iter().rev() {
        let place = tokens.get(at).or(tokens.last()).map(|token| token.span);
        let Some(span) = place else { return };
        let end = at.saturating_add(removed).min(tokens.len());
        let inserted = inserted.into_iter().map(|token| TokenWithSpan::new(token, span));
        tokens.splice(at.min(end)..end, inserted);
    }
}

/// Removes `[NOT] DEFERRABLE` from the transaction modes of BEGIN and similar statements. The mode
/// has an effect only with SERIALIZABLE, which is not supported.
fn modes_without_deferrable(tokens: &mut Vec<TokenWithSpan>) {
    let places = significant(tokens);
    let token = |place: usize| places.get(place).and_then(|at| tokens.get(*at)).map(|t| &t.token);
    let is = |place: usize, word: &str| token(place).is_some_and(|token| is_word(token, word));
    let Some(first_mode) = first_mode(&is) else { return };
    let end = (first_mode..places.len()).find(|place| token(*place) == Some(&Token::SemiColon));
    let mut edits = Vec::new();
    for place in first_mode..end.unwrap_or(places.len()) {
        if !is(place, "deferrable") {
            continue;
        }
        let negated = place > first_mode && is(place - 1, "not");
        let mut from = if negated { place - 1 } else { place };
        let mut to = place + 1;
        // Removes the mode together with a comma in front of it.
        if from > first_mode && token(from - 1) == Some(&Token::Comma) {
            from -= 1;
        } else if from == first_mode && token(to) == Some(&Token::Comma) && token(to + 1).is_some()
        {
            to += 1;
        }
        for at in places.get(from..to).unwrap_or(&[]) {
            edits.push(Edit { at: *at, removed: 1, inserted: Vec::new() });
        }
    }
    apply(tokens, edits);
}

/// The index of the first transaction mode; `None` for other statements than BEGIN, START
/// TRANSACTION, SET TRANSACTION and SET SESSION CHARACTERISTICS.
fn first_mode(is: &impl Fn(usize, &str) -> bool) -> Option<usize> {
    if is(0, "begin") {
        return Some(if is(1, "transaction") || is(1, "work") { 2 } else { 1 });
    }
    if (is(0, "start") || is(0, "set")) && is(1, "transaction") {
        return Some(2);
    }
    let of_session = ["set", "session", "characteristics", "as", "transaction"];
    of_session.iter().enumerate().all(|(at, word)| is(at, word)).then_some(of_session.len())
}

/// Words that can stand directly in front of an operand.
const BEFORE_OPERANDS: [&str; 17] = [
    "select",
    "all",
    "distinct",
    "where",
    "and",
    "or",
    "not",
    "on",
    "when",
    "then",
    "else",
    "case",
    "by",
    "having",
    "between",
    "like",
    "returning",
];

/// Rewrites `OPERATOR(pg_catalog.@) x` to `@ x`. A sign in OPERATOR becomes [`PREFIX_MINUS`] or
/// [`PREFIX_PLUS`], which bind less tightly than a plain sign: `OPERATOR(-) 1 + 2` is -3.
fn prefix_operators(tokens: &mut Vec<TokenWithSpan>) {
    let places = significant(tokens);
    let token = |place: usize| places.get(place).and_then(|at| tokens.get(*at)).map(|t| &t.token);
    let mut edits = Vec::new();
    // The index of the parenthesis that closes the last OPERATOR.
    let mut last_close = None;
    for place in 0..places.len() {
        if !token(place).is_some_and(|token| is_word(token, "operator"))
            || token(place + 1) != Some(&Token::LParen)
        {
            continue;
        }
        let mut at = place + 2;
        while matches!(token(at), Some(Token::Word(_))) && token(at + 1) == Some(&Token::Period) {
            at += 2;
        }
        if token(at + 1) != Some(&Token::RParen) {
            continue;
        }
        let is_prefix = match place.checked_sub(1) {
            None => true,
            before if before == last_close => true,
            Some(before) => match token(before) {
                Some(word @ Token::Word(_)) => {
                    BEFORE_OPERANDS.iter().any(|known| is_word(word, known))
                }
                Some(
                    Token::Number(..)
                    | Token::SingleQuotedString(_)
                    | Token::EscapedStringLiteral(_)
                    | Token::DollarQuotedString(_)
                    | Token::Placeholder(_)
                    | Token::RParen
                    | Token::RBracket,
                ) => false,
                _ => true,
            },
        };
        last_close = Some(at + 1);
        let operator = match token(at) {
            Some(Token::Minus) => PREFIX_MINUS,
            Some(Token::Plus) => PREFIX_PLUS,
            Some(
                other @ (Token::AtSign | Token::Tilde | Token::PGSquareRoot | Token::PGCubeRoot),
            ) => other.clone(),
            _ => continue,
        };
        if let (true, Some(from), Some(to)) = (is_prefix, places.get(place), places.get(at + 1)) {
            edits.push(Edit { at: *from, removed: to - from + 1, inserted: vec![operator] });
        }
    }
    apply(tokens, edits);
}

/// Rewrites `x NOT LIKE ALL (…)` to `x !~~ ALL (…)`.
fn patterns_of_sets(tokens: &mut Vec<TokenWithSpan>) {
    let places = significant(tokens);
    let token = |place: usize| places.get(place).and_then(|at| tokens.get(*at)).map(|t| &t.token);
    let is = |place: usize, word: &str| token(place).is_some_and(|token| is_word(token, word));
    let mut edits = Vec::new();
    for (place, at) in places.iter().enumerate() {
        let insensitive = is(place, "ilike");
        let of_set = ["any", "all", "some"].iter().any(|word| is(place + 1, word))
            && token(place + 2) == Some(&Token::LParen);
        if !(insensitive || is(place, "like")) || !of_set {
            continue;
        }
        let negation = place.checked_sub(1).filter(|before| is(*before, "not"));
        let operator = match (negation.is_some(), insensitive) {
            (false, false) => Token::DoubleTilde,
            (false, true) => Token::DoubleTildeAsterisk,
            (true, false) => Token::ExclamationMarkDoubleTilde,
            (true, true) => Token::ExclamationMarkDoubleTildeAsterisk,
        };
        let negation = negation.and_then(|place| places.get(place));
        edits.extend(negation.map(|at| Edit { at: *at, removed: 1, inserted: Vec::new() }));
        edits.push(Edit { at: *at, removed: 1, inserted: vec![operator] });
    }
    apply(tokens, edits);
}

/// Rewrites `x BETWEEN SYMMETRIC a AND b` to `x BETWEEN marker || a AND b`, with [`SYMMETRIC`] as
/// the marker. Also removes ASYMMETRIC, the default.
fn bounds_in_any_order(tokens: &mut Vec<TokenWithSpan>) {
    let places = significant(tokens);
    let mut edits = Vec::new();
    for pair in places.windows(2) {
        let [between, order] = pair else { continue };
        let token = |at: &usize| tokens.get(*at).map(|token| &token.token);
        let is = |at: &usize, word: &str| token(at).is_some_and(|token| is_word(token, word));
        if !is(between, "between") {
            continue;
        }
        let mark = || vec![Token::SingleQuotedString(SYMMETRIC.to_string()), Token::StringConcat];
        if is(order, "symmetric") {
            edits.push(Edit { at: *order, removed: 1, inserted: mark() });
        } else if is(order, "asymmetric") {
            edits.push(Edit { at: *order, removed: 1, inserted: Vec::new() });
        }
    }
    apply(tokens, edits);
}

/// The parenthesis that closes the parenthesis `open`. Both are indexes in `places`, the list of
/// tokens that are not blank.
fn closing(tokens: &[TokenWithSpan], places: &[usize], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (place, at) in places.iter().enumerate().skip(open) {
        match tokens.get(*at)?.token {
            Token::LParen => depth += 1,
            Token::RParen => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(place);
                }
            }
            _ => {}
        }
    }
    None
}

/// Removes the parentheses around the VALUES of an INSERT: `INSERT INTO t (VALUES (1))` becomes
/// `INSERT INTO t VALUES (1)`.
fn values_without_parentheses(tokens: &mut Vec<TokenWithSpan>) {
    let places = significant(tokens);
    let token = |place: usize| places.get(place).and_then(|at| tokens.get(*at)).map(|t| &t.token);
    if !token(0).is_some_and(|token| is_keyword(token, Keyword::INSERT)) {
        return;
    }
    let opens = |place: &usize| {
        token(*place) == Some(&Token::LParen)
            && token(*place + 1).is_some_and(|token| is_keyword(token, Keyword::VALUES))
    };
    // Only the table name, and a list of columns, can stand in front of the VALUES.
    let mut first = 2;
    while matches!(token(first), Some(Token::Word(_) | Token::Period)) {
        first += 1;
    }
    if token(first) == Some(&Token::LParen) && !opens(&first) {
        match closing(tokens, &places, first) {
            Some(close) => first = close + 1,
            None => return,
        }
    }
    if !opens(&first) {
        return;
    }
    let Some(close) = closing(tokens, &places, first) else { return };
    let dropped = [first, close].into_iter().filter_map(|place| places.get(place));
    let edits = dropped.map(|at| Edit { at: *at, removed: 1, inserted: Vec::new() }).collect();
    apply(tokens, edits);
}

/// Rewrites `(VALUES (1), (2))` in an expression as `(SELECT * FROM (VALUES (1), (2)) AS
/// "values")`, or for a single row as `(SELECT 1 AS column1)`.
fn values_as_values(tokens: &mut Vec<TokenWithSpan>) {
    const BEFORE: [Keyword; 17] = [
        Keyword::SELECT,
        Keyword::WHERE,
        Keyword::CASE,
        Keyword::WHEN,
        Keyword::THEN,
        Keyword::ELSE,
        Keyword::AND,
        Keyword::OR,
        Keyword::NOT,
        Keyword::ON,
        Keyword::BY,
        Keyword::HAVING,
        Keyword::LIMIT,
        Keyword::OFFSET,
        Keyword::BETWEEN,
        Keyword::LIKE,
        Keyword::RETURNING,
    ];
    let places = significant(tokens);
    let token = |place: usize| places.get(place).and_then(|at| tokens.get(*at)).map(|t| &t.token);
    let keyword = |text: &str| Token::make_keyword(text);
    let mut edits = Vec::new();
    for (place, at) in places.iter().enumerate().skip(1) {
        let opens = token(place) == Some(&Token::LParen)
            && token(place + 1).is_some_and(|token| is_keyword(token, Keyword::VALUES))
            && token(place + 2) == Some(&Token::LParen);
        let is_value = match token(place - 1) {
            Some(Token::Word(word)) => word.quote_style.is_none() && BEFORE.contains(&word.keyword),
            Some(
                Token::Comma
                | Token::Eq
                | Token::Neq
                | Token::Lt
                | Token::LtEq
                | Token::Gt
                | Token::GtEq
                | Token::Plus
                | Token::Minus
                | Token::Mul
                | Token::Div
                | Token::StringConcat,
            ) => true,
            _ => false,
        };
        if !opens || !is_value {
            continue;
        }
        let (Some(end), Some(row)) =
            (closing(tokens, &places, place), closing(tokens, &places, place + 2))
        else {
            continue;
        };
        let place_of = |place: usize| places.get(place).copied();
        let (Some(end_at), Some(row_at), Some(values_at), Some(first_at)) =
            (place_of(end), place_of(row), place_of(place + 1), place_of(place + 2))
        else {
            continue;
        };
        if row + 1 == end {
            let named = vec![keyword("AS"), Token::make_word("column1", Some('"'))];
            edits.push(Edit { at: values_at, removed: 1, inserted: vec![keyword("SELECT")] });
            edits.push(Edit { at: first_at, removed: 1, inserted: Vec::new() });
            edits.push(Edit { at: row_at, removed: 1, inserted: named });
        } else {
            let select =
                vec![Token::LParen, keyword("SELECT"), Token::Mul, keyword("FROM"), Token::LParen];
            let named = vec![
                Token::RParen,
                keyword("AS"),
                Token::make_word("values", Some('"')),
                Token::RParen,
            ];
            edits.push(Edit { at: *at, removed: 1, inserted: select });
            edits.push(Edit { at: end_at, removed: 1, inserted: named });
        }
    }
    apply(tokens, edits);
}

/// Type names that the parser would read as column names.
const TYPES: [&str; 3] = ["name", "oid", "regclass"];

/// Rewrites `name 'x'` to `'x'::name`, for the types in [`TYPES`].
fn types_before_constants(tokens: &mut Vec<TokenWithSpan>) {
    let places = significant(tokens);
    let mut edits = Vec::new();
    for pair in places.windows(2) {
        let [name, text] = pair else { continue };
        let token = |at: &usize| tokens.get(*at).map(|token| &token.token);
        let (Some(named @ Token::Word(_)), Some(constant @ Token::SingleQuotedString(_))) =
            (token(name), token(text))
        else {
            continue;
        };
        if TYPES.iter().any(|known| is_word(named, known)) {
            let cast = vec![constant.clone(), Token::DoubleColon, named.clone()];
            edits.push(Edit { at: *name, removed: 1, inserted: cast });
            edits.push(Edit { at: *text, removed: 1, inserted: Vec::new() });
        }
    }
    apply(tokens, edits);
}
