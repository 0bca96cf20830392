//! Limits the depth of the parser's trees. The depth is computed from the tokens, before the parser
//! builds the trees.

use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan, Word},
};
use stratalog_model::{Error, ErrorKind, Result};

use super::{balance::UNBALANCED_SETS_MAX, rewrite::is_keyword};

/// Maximum recursion depth of the parser. One pair of parentheses takes one level, a subquery two
/// or three.
pub(super) const DEPTH_MAX: usize = 1_000;

/// Maximum nesting of parentheses and CASE.
const NESTED_MAX: usize = 300;

/// Maximum nesting of brackets: arrays have six dimensions.
const BRACKETS_MAX: usize = 16;

/// Maximum number of operators that nest in an expression, for example arithmetic; AND, OR, IS and
/// LIKE count separately. The number equals the depth of the tree. Planning time grows with the
/// third power of the depth, because each level asks for the names and types of all levels below.
const OPERATORS_MAX: usize = 250;

/// The number of operators for which a function call counts.
const CALL_OPERATORS: usize = 2;

/// Maximum number of IS, LIKE and similar operators in a chain. A JOIN, a NOT, and a set operation
/// that adds a level to the tree, each count as four.
const CONNECTIVES_MAX: usize = 1_000;

/// Maximum number of AND, OR and set operations in a statement. A chain of equal operators becomes
/// a balanced tree ([`super::balance`]); the limit therefore bounds time and memory, and not the
/// depth.
const CHAINED_MAX: usize = 3_000;

/// Maximum number of set operations in a statement, because each branch is a separate plan. An
/// INTERSECT counts twice.
const UNIONS_MAX: usize = 600;

pub(super) fn too_complex(how: &str) -> Error {
    Error::new(ErrorKind::StatementTooComplex, format!("the statement is {how} too deeply"))
        .with_detail(format!(
            "a statement may nest {NESTED_MAX} levels, {BRACKETS_MAX} levels in brackets; an expression may chain {OPERATORS_MAX} operators, or nest {} calls; a statement may have {} JOINs in a chain, \
         {UNIONS_MAX} UNIONs or EXCEPTs, {} INTERSECTs, and {CHAINED_MAX} of AND and OR",
            OPERATORS_MAX / CALL_OPERATORS,
            CONNECTIVES_MAX / 4,
            UNIONS_MAX / 2
        ))
        .with_hint("use IN (…) or = ANY (…) instead of long OR chains, or split the statement")
}

/// A set operation; the flag is true for ALL.
type SetOperation = (Keyword, bool);

/// Counts that bound the depth of the trees within one pair of parentheses.
#[derive(Default, Clone, Copy)]
struct Depth {
    operators: usize,
    connectives: usize,
    /// The highest counts of operators and connectives in any completed sibling: the text between
    /// two commas, or between two ANDs.
    most: (usize, usize),
    /// The total weight of all chains of set operations except the last chain. A weight of four
    /// stands for a level of the tree.
    sets: usize,
    /// The operation of the last chain of set operations, and its number of operations.
    last_sets: Option<(SetOperation, usize)>,
}

impl Depth {
    fn next_sibling(&mut self) {
        let operators = self.most.0.max(self.operators);
        let connectives = self.most.1.max(self.connectives);
        self.most = (operators, connectives);
        self.operators = 0;
        self.connectives = 0;
    }

    fn highest(&self) -> (usize, usize) {
        let connectives = self.most.1.max(self.connectives);
        let sets = self.sets.saturating_add(self.last_weight());
        (self.most.0.max(self.operators), connectives.saturating_add(sets))
    }

    fn set_operation(&mut self, operation: SetOperation) {
        self.next_sibling();
        self.last_sets = match self.last_sets {
            Some((last, length)) if last == operation => Some((last, length.saturating_add(1))),
            _ => {
                self.sets = self.sets.saturating_add(self.last_weight());
                Some((operation, 1))
            }
        };
    }

    /// The weight of the last chain of set operations. A chain that becomes a balanced tree counts
    /// as one operation.
    fn last_weight(&self) -> usize {
        match self.last_sets {
            None => 0,
            Some(((Keyword::UNION, _), _)) => 4,
            Some((_, length)) if length > UNBALANCED_SETS_MAX => 4,
            Some((_, length)) => length.saturating_mul(4),
        }
    }
}

/// Refuses statements whose trees would be too deep. Returns the number of AND, OR and set
/// operations in the statement.
///
/// # Errors
/// `StatementTooComplex`.
pub(super) fn check(tokens: &[TokenWithSpan]) -> Result<usize> {
    // The counts of the enclosing parentheses and CASEs; the flag is true for a CASE.
    let mut outer: Vec<(Depth, bool)> = Vec::new();
    let mut here = Depth::default();
    let mut brackets = 0_usize;
    let (mut chained, mut unions) = (0_usize, 0_usize);
    let close = |here: &mut Depth, outer: &mut Vec<(Depth, bool)>| {
        let (operators, connectives) = here.highest();
        let (around, is_case) = outer.pop().unwrap_or_default();
        *here = around;
        here.operators = here.operators.saturating_add(operators);
        here.connectives = here.connectives.saturating_add(connectives);
        is_case
    };
    let mut rest = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let mut follows_name = false;
    while let Some(token) = rest.next() {
        let is_call = follows_name && token.token == Token::LParen;
        follows_name = matches!(&token.token, Token::Word(word) if is_name(word));
        match &token.token {
            Token::Number(_, _)
            | Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::DollarQuotedString(_)
            | Token::Placeholder(_)
            | Token::Period
            | Token::EOF => {}
            open @ (Token::LParen | Token::LBracket) => {
                let is_bracket = *open == Token::LBracket;
                // Each subscript in `a[1][2]` adds a level to the tree.
                let weight = if is_call { CALL_OPERATORS } else { usize::from(is_bracket) };
                here.operators = here.operators.saturating_add(weight);
                outer.push((here, false));
                here = Depth::default();
                brackets = brackets.saturating_add(usize::from(is_bracket));
                if outer.len() > NESTED_MAX || brackets > BRACKETS_MAX {
                    return Err(too_complex("nested"));
                }
            }
            close_of @ (Token::RParen | Token::RBracket) => {
                brackets = brackets.saturating_sub(usize::from(*close_of == Token::RBracket));
                while close(&mut here, &mut outer) {}
            }
            Token::Comma => here.next_sibling(),
            Token::Word(word) if word.quote_style.is_none() => match word.keyword {
                Keyword::AND | Keyword::OR => {
                    chained = chained.saturating_add(1);
                    here.next_sibling();
                }
                set @ (Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT) => {
                    chained = chained.saturating_add(1);
                    let weight = if set == Keyword::INTERSECT { 2 } else { 1 };
                    unions = unions.saturating_add(weight);
                    let next = rest.clone().next();
                    let all = next.is_some_and(|next| is_keyword(&next.token, Keyword::ALL));
                    here.set_operation((set, all));
                }
                // A JOIN or NOT takes several times the stack of an AND or OR.
                Keyword::JOIN | Keyword::NOT => {
                    here.connectives = here.connectives.saturating_add(4);
                }
                Keyword::IS
                | Keyword::NOTNULL
                | Keyword::IN
                | Keyword::LIKE
                | Keyword::ILIKE
                | Keyword::SIMILAR
                | Keyword::OVERLAPS
                | Keyword::BETWEEN
                | Keyword::COLLATE
                | Keyword::AT => here.connectives = here.connectives.saturating_add(1),
                // The branches of a CASE are siblings in the tree.
                Keyword::CASE => {
                    here.connectives = here.connectives.saturating_add(1);
                    outer.push((here, true));
                    here = Depth::default();
                    if outer.len() > NESTED_MAX {
                        return Err(too_complex("nested"));
                    }
                }
                Keyword::WHEN | Keyword::THEN | Keyword::ELSE => here.next_sibling(),
                Keyword::END if outer.last().is_some_and(|(_, is_case)| *is_case) => {
                    close(&mut here, &mut outer);
                }
                _ => {}
            },
            Token::Word(_) => {}
            _ => here.operators = here.operators.saturating_add(1),
        }
        let (operators, connectives) = here.highest();
        if operators > OPERATORS_MAX
            || connectives > CONNECTIVES_MAX
            || chained > CHAINED_MAX
            || unions > UNIONS_MAX
        {
            return Err(too_complex("chained"));
        }
    }
    Ok(chained)
}

/// True if a word before a parenthesis is the name of a function.
fn is_name(word: &Word) -> bool {
    word.quote_style.is_some()
        || !matches!(
            word.keyword,
            Keyword::IN
                | Keyword::AS
                | Keyword::AND
                | Keyword::OR
                | Keyword::NOT
                | Keyword::ON
                | Keyword::USING
                | Keyword::FROM
                | Keyword::JOIN
                | Keyword::LATERAL
                | Keyword::WHERE
                | Keyword::HAVING
                | Keyword::SELECT
                | Keyword::DISTINCT
                | Keyword::VALUES
                | Keyword::EXISTS
                | Keyword::ALL
                | Keyword::ANY
                | Keyword::SOME
                | Keyword::ARRAY
                | Keyword::ROW
                | Keyword::OVER
                | Keyword::FILTER
                | Keyword::BY
                | Keyword::WHEN
                | Keyword::THEN
                | Keyword::ELSE
                | Keyword::CASE
                | Keyword::UNION
                | Keyword::EXCEPT
                | Keyword::INTERSECT
        )
}

#[cfg(test)]
mod tests;
