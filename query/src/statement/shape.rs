//! Shapes of queries (texts without constants). A dashboard sends the same statement again and
//! again, with other times and names in the WHERE clause. The constants in comparisons become
//! parameters, so the planner plans the statement only once.
//!
//! ```text
//!   … WHERE host IN ('a','b') AND time >= '2016-01-01' GROUP BY …
//!   … WHERE host IN ($1,$2) AND time >= $3 GROUP BY …             'a', 'b', '2016-01-01'
//! ```
//! Only plain text constants become parameters: operands of a comparison, or elements of an IN
//! list, in the WHERE clause of a query or subquery. PostgreSQL determines the type of such a
//! constant in the same way as the type of a parameter.

/// A query whose constants in WHERE are replaced by parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// The statement, with `$1`, `$2` … in place of the constants.
    pub text: String,
    /// The constants, in order.
    pub constants: Vec<String>,
}

/// Maximum number of constants in a shape.
const CONSTANTS_MAX: usize = 64;

/// Words that may follow a replaceable constant.
const FOLLOWING: &[&str] = &["and", "or", "group", "order", "limit"];

/// Words that end a WHERE clause.
const ENDING: &[&str] = &[
    "group",
    "order",
    "having",
    "limit",
    "offset",
    "fetch",
    "window",
    "union",
    "intersect",
    "except",
];

/// The kind of text before a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PrecedingText {
    Comparison,
    /// The word IN.
    In,
    /// A parenthesis or comma in an IN list.
    List,
    Other,
}

/// The shape of a query; `None` if the query has no replaceable constant, or a construct that this
/// function does not analyze.
pub fn of(sql: &str) -> Option<Shape> {
    let bytes = sql.as_bytes();
    let mut text = String::with_capacity(sql.len());
    let mut constants: Vec<String> = Vec::new();
    let mut in_where = false;
    // A stack: for each open parenthesis, the value of `in_where` before the parenthesis.
    let mut outer: Vec<bool> = Vec::new();
    let mut before = PrecedingText::Other;
    let mut between = false;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let start = at;
        match byte {
            b'\'' => {
                let (end, constant) = quoted(sql, at)?;
                at = end;
                let apart =
                    start.checked_sub(1).and_then(|last| bytes.get(last)).is_none_or(|last| {
                        !last.is_ascii_alphanumeric() && !matches!(last, b'_' | b'&' | b'"' | 128..)
                    });
                let fits = in_where
                    && apart
                    && matches!(before, PrecedingText::Comparison | PrecedingText::List)
                    && follows(sql, at);
                if fits {
                    constants.push(constant);
                    if constants.len() > CONSTANTS_MAX {
                        return None;
                    }
                    text.push('$');
                    text.push_str(&constants.len().to_string());
                } else {
                    text.push_str(sql.get(start..at)?);
                }
                if before != PrecedingText::List {
                    before = PrecedingText::Other;
                }
                continue;
            }
            b'"' => {
                at += sql.get(at + 1..)?.find('"')? + 2;
                before = PrecedingText::Other;
            }
            // Parameters, comments and several statements are not analyzed.
            b'$' | b';' => {
                if *byte == b';' && sql.get(at + 1..)?.trim().is_empty() {
                    break;
                }
                return None;
            }
            b'-' if bytes.get(at + 1) == Some(&b'-') => return None,
            b'/' if bytes.get(at + 1) == Some(&b'*') => return None,
            b'=' | b'<' | b'>' => {
                while bytes.get(at).is_some_and(|byte| matches!(byte, b'=' | b'<' | b'>')) {
                    at += 1;
                }
                let operator = sql.get(start..at)?;
                let alone = bytes.get(at).is_none_or(|next| !b"~!@#%^&|?*/+-".contains(next))
                    && start
                        .checked_sub(1)
                        .and_then(|last| bytes.get(last))
                        .is_none_or(|last| !b"~!@#%^&|?*/+-".contains(last));
                before = match operator {
                    "=" | "<" | ">" | "<=" | ">=" | "<>" if alone => PrecedingText::Comparison,
                    _ => PrecedingText::Other,
                };
            }
            b'(' => {
                at += 1;
                outer.push(in_where);
                between = false;
                before = if before == PrecedingText::In {
                    PrecedingText::List
                } else {
                    PrecedingText::Other
                };
            }
            b')' => {
                at += 1;
                in_where = outer.pop()?;
                before = PrecedingText::Other;
            }
            b',' => {
                at += 1;
            }
            byte if byte.is_ascii_alphabetic() || *byte == b'_' => {
                while bytes
                    .get(at)
                    .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
                {
                    at += 1;
                }
                let word = sql.get(start..at)?.to_ascii_lowercase();
                before = match word.as_str() {
                    "in" => PrecedingText::In,
                    "between" => PrecedingText::Comparison,
                    "and" if between => PrecedingText::Comparison,
                    _ => PrecedingText::Other,
                };
                between = word == "between" || between && word != "and";
                match word.as_str() {
                    "where" => in_where = true,
                    // The select list of a subquery is outside of a WHERE clause until the
                    // subquery's parenthesis closes.
                    "select" => in_where = false,
                    word if ENDING.contains(&word) => in_where = false,
                    _ => {}
                }
            }
            byte if byte.is_ascii_whitespace() => at += 1,
            byte if byte.is_ascii() => {
                at += 1;
                before = PrecedingText::Other;
            }
            _ => return None,
        }
        text.push_str(sql.get(start..at)?);
    }
    (!constants.is_empty()).then_some(Shape { text, constants })
}

/// The end position and the value of the text constant that begins at `start`.
fn quoted(sql: &str, start: usize) -> Option<(usize, String)> {
    let mut constant = String::new();
    let mut rest = sql.get(start + 1..)?;
    loop {
        let end = rest.find('\'')?;
        constant.push_str(rest.get(..end)?);
        rest = rest.get(end + 1..)?;
        match rest.strip_prefix('\'') {
            Some(more) => {
                constant.push('\'');
                rest = more;
            }
            None => return Some((sql.len() - rest.len(), constant)),
        }
    }
}

/// True if the text after `end` shows that the constant is a whole operand and not a part of a
/// longer expression.
fn follows(sql: &str, end: usize) -> bool {
    let Some(rest) = sql.get(end..) else { return false };
    let apart = rest.trim_start();
    if apart.is_empty() || apart.starts_with([')', ',', ';']) {
        // The constant is complete. PostgreSQL would join a text constant on the next line to this
        // constant.
        return true;
    }
    let word = apart.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    rest.len() > apart.len() && FOLLOWING.contains(&word.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests;
