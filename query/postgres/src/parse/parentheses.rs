//! Removes repeated parentheses. Generated statements can have hundreds around each other, and the
//! parser needs a level of recursion for each pair.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Reduces several parentheses directly around each other to two pairs. `((x))` means the same as
/// `(((x)))` wherever PostgreSQL accepts both, but a single pair may differ: `f((1, 2))` has one
/// argument.
pub(super) fn without_repeated(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut pairs: Vec<Pair> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    // The index of the pair that the last token closed.
    let mut last_closed: Option<usize> = None;
    let mut last_opened: Option<usize> = None;
    for (at, token) in tokens.iter().enumerate() {
        match token.token {
            Token::Whitespace(_) => continue,
            Token::LParen => {
                open.push(pairs.len());
                pairs.push(Pair { from: at, to: at, around: 0, after_open: last_opened.is_some() });
                last_opened = Some(at);
                last_closed = None;
                continue;
            }
            Token::RParen => {
                let Some(number) = open.pop() else { return tokens };
                let inner = last_closed.and_then(|inner| pairs.get(inner));
                // The pair contains only another pair: the inner pair begins directly after this
                // pair begins, and ends directly before this pair ends.
                let around = inner
                    .filter(|inner| inner.after_open && last_closed == Some(number + 1))
                    .map_or(0, |inner| inner.around + 1);
                if let Some(pair) = pairs.get_mut(number) {
                    pair.to = at;
                    pair.around = around;
                }
                last_closed = Some(number);
            }
            _ => last_closed = None,
        }
        last_opened = None;
    }
    let repeated = pairs.iter().filter(|pair| pair.around > 1);
    let mut dropped: Vec<usize> = repeated.flat_map(|pair| [pair.from, pair.to]).collect();
    if dropped.is_empty() || !open.is_empty() {
        return tokens;
    }
    dropped.sort_unstable();
    let mut dropped = dropped.into_iter().peekable();
    let kept = tokens.into_iter().enumerate().filter(|(at, _)| dropped.next_if_eq(at).is_none());
    kept.map(|(_, token)| token).collect()
}

/// A pair of parentheses, as indexes of its tokens.
struct Pair {
    from: usize,
    to: usize,
    /// The number of pairs that this pair directly surrounds, each directly inside of the other.
    around: usize,
    /// True if the previous token is an opening parenthesis.
    after_open: bool,
}

#[cfg(test)]
mod tests;
