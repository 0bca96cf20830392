//! Restates errors about functions and operators that do not exist for their operands: with
//! PostgreSQL's names and types in place of the planner's, and with the position in the statement.
//! The planner's error shows an operator as the function that implements it, and each whole-number
//! constant as a bigint.
//!
//! ```text
//!   SELECT j || 1       function jsonb_concat(text, integer) does not exist
//!                  ─►   operator does not exist: jsonb || integer
//!   SELECT upper(1)     function upper(bigint) does not exist
//!                  ─►   function upper(integer) does not exist
//! ```

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use stratalog_model::{Error, ErrorKind};

use super::{
    names::split,
    place::{called_at, characters, is_word, words},
    plan::{no_function, no_operator},
};

/// The functions that implement operators, each with its operators.
const OPERATORS: [(&str, &[&str]); 22] = [
    ("jsonb_concat", &["||"]),
    ("jsonb_delete", &["-"]),
    ("jsonb_delete_path", &["#-"]),
    ("jsonb_object_field", &["->"]),
    ("jsonb_array_element", &["->"]),
    ("jsonb_object_field_text", &["->>"]),
    ("jsonb_array_element_text", &["->>"]),
    ("jsonb_extract_path", &["#>"]),
    ("jsonb_extract_path_text", &["#>>"]),
    ("jsonb_exists", &["?"]),
    ("jsonb_exists_any", &["?|"]),
    ("jsonb_exists_all", &["?&"]),
    ("jsonb_contains", &["@>", "<@"]),
    ("arraycontains", &["@>", "<@"]),
    ("arrayoverlap", &["&&"]),
    ("array_append", &["||"]),
    ("array_prepend", &["||"]),
    ("power", &["^"]),
    ("starts_with", &["^@"]),
    ("abs", &["@"]),
    ("sqrt", &["|/"]),
    ("cbrt", &["||/"]),
];

/// This project's functions that implement PostgreSQL's functions, each with PostgreSQL's names.
const FUNCTIONS: [(&str, &[&str]); 6] = [
    ("series_list", &["generate_series"]),
    ("regexp_matches_list", &["regexp_matches"]),
    ("regexp_substring", &["substring"]),
    ("jsonb_each_list", &["jsonb_each", "jsonb_each_text"]),
    ("jsonb_elements_list", &["jsonb_array_elements", "jsonb_array_elements_text"]),
    ("jsonb_keys_list", &["jsonb_object_keys"]),
];

/// The operator in a message, and its possible spellings in a statement.
const SPELLINGS: [(&str, &[&str]); 9] = [
    ("~~", &["like"]),
    ("!~~", &["like"]),
    ("~~*", &["ilike"]),
    ("!~~*", &["ilike"]),
    ("~", &["similar"]),
    ("!~", &["similar"]),
    (">=", &["between"]),
    ("<=", &["between"]),
    ("=", &["in", "is"]),
];

/// Restates an error in PostgreSQL's words. Also returns the position of the call or operator in
/// `text`, in characters from 1.
pub fn restate(error: Error, text: &str) -> (Error, Option<u32>) {
    let Some(tokens) = words(text) else { return (error, None) };
    let restated = match error.message().strip_prefix("operator does not exist: ") {
        Some(operation) => of_operator(operation, &tokens),
        None => {
            call(error.message()).and_then(|(name, types)| of_call(name, &types, &error, &tokens))
        }
    };
    match restated {
        Some((restated, at)) => {
            let position = tokens.get(at).and_then(|token| characters(text, token.span.start));
            (restated, position)
        }
        None => (error, None),
    }
}

/// The name and the types in a message `function name(type, type) does not exist`.
fn call(message: &str) -> Option<(&str, Vec<&str>)> {
    let called = message.strip_prefix("function ")?.strip_suffix(" does not exist")?;
    let (name, types) = called.split_once('(')?;
    Some((name.trim_matches('\''), split(types.strip_suffix(')')?, ',')))
}

/// A restated error, and the index of the token at which the call or the operator begins.
type RestatedError = Option<(Error, usize)>;

fn of_call(name: &str, types: &[&str], error: &Error, tokens: &[TokenWithSpan]) -> RestatedError {
    let own = [name];
    let known = FUNCTIONS.iter().find(|(ours, _)| *ours == name);
    let names = known.map_or(own.as_slice(), |(_, names)| names);
    let called = names.iter().find_map(|name| Some((*name, called_at(tokens, name)?)));
    let Some((called, (first, open))) = called else {
        let (_, operators) = OPERATORS.iter().find(|(function, _)| *function == name)?;
        return operators.iter().find_map(|operator| of_function(name, types, operator, tokens));
    };
    let given = arguments(tokens, open);
    let types: Vec<String> = match given.len() == types.len() {
        true => types.iter().zip(given).map(|(of, given)| of_constant(of, given)).collect(),
        false => types.iter().map(|of| without_digits(of)).collect(),
    };
    let restated = no_function(&format!("{called}({})", types.join(", ")));
    // A hint that lists this project's internal functions would not help the user.
    let restated = match error.hint() {
        Some(hint) if known.is_none() => restated.with_hint(hint),
        _ => restated,
    };
    Some((restated, first))
}

/// The error for an operator that the function `name` implements.
fn of_function(
    name: &str,
    types: &[&str],
    operator: &str,
    tokens: &[TokenWithSpan],
) -> RestatedError {
    let is_operator = |token: &TokenWithSpan| token.token.to_string() == operator;
    let at = tokens.iter().position(is_operator)?;
    // The planner's text may be PostgreSQL's jsonb.
    let jsonb = |of: &str| match of {
        "text" if name.starts_with("jsonb_") => "jsonb".to_string(),
        of => without_digits(of),
    };
    let what = match *types {
        [operand] => format!("{operator} {}", without_digits(operand)),
        [first, second] => {
            let (left, right) = match operator {
                "<@" => (second, first),
                _ => (first, second),
            };
            let constant = left_of(tokens, at).and_then(|constant| of_token(left, constant));
            let left = constant.unwrap_or_else(|| jsonb(left));
            format!("{left} {operator} {}", beside(right, right_of(tokens, at)))
        }
        _ => return None,
    };
    Some((no_operator(&what), at))
}

fn of_operator(operation: &str, tokens: &[TokenWithSpan]) -> RestatedError {
    let is_symbol =
        |word: &&str| !word.chars().any(|c| c.is_alphanumeric() || "()[],\"".contains(c));
    let distinct = operation.replace(" IS NOT DISTINCT FROM ", " = ");
    let operation = distinct.replace(" IS DISTINCT FROM ", " = ");
    let operator = operation.split(' ').find(is_symbol)?;
    let (left, right) = operation.split_once(operator)?;
    let (left, right) = (left.trim(), right.trim());
    let shown = if operator == "!=" { "<>" } else { operator };
    let places = |is: &dyn Fn(&Token) -> bool| -> Vec<usize> {
        let all = tokens.iter().enumerate();
        all.filter(|(_, token)| is(&token.token)).map(|(at, _)| at).collect()
    };
    let mut found = places(&|token| token.to_string() == shown);
    if found.is_empty() {
        let known = SPELLINGS.iter().find(|(known, _)| *known == shown);
        let spellings = known.map_or(&[][..], |(_, spellings)| spellings);
        found = places(&|token| spellings.iter().any(|spelling| is_word(token, spelling)));
    }
    let negated = |at: usize| at.checked_sub(1).filter(|at| word_at(tokens, *at, "not"));
    match found.as_slice() {
        [at] if left.is_empty() => {
            Some((no_operator(format!("{shown} {}", without_digits(right)).trim_end()), *at))
        }
        [at] => {
            let (first, left_end) = match negated(*at) {
                Some(not) => (not, not),
                None => (*at, *at),
            };
            let shown = match (shown, first < *at) {
                ("~~", true) => "!~~",
                ("~~*", true) => "!~~*",
                (shown, _) => shown,
            };
            let left = beside(left, left_of(tokens, left_end));
            let right = beside(right, right_of(tokens, *at));
            Some((no_operator(&format!("{left} {shown} {right}")), first))
        }
        // The planner replaces the complement of a number, `~ x`, with an exclusive or.
        [] if shown == "#" => {
            let at = tokens.iter().position(|token| token.token == Token::Tilde)?;
            let operand = beside(left, right_of(tokens, at));
            Some((no_operator(&format!("~ {operand}")), at))
        }
        _ => None,
    }
}

fn word_at(tokens: &[TokenWithSpan], at: usize, word: &str) -> bool {
    tokens.get(at).is_some_and(|token| is_word(&token.token, word))
}

/// The constant to the left of the operator with the index `at`; `None` if the left operand is more
/// than one token.
fn left_of(tokens: &[TokenWithSpan], at: usize) -> Option<&Token> {
    let constant = at.checked_sub(1).and_then(|at| tokens.get(at)).map(|token| &token.token)?;
    let before = at.checked_sub(2).and_then(|at| tokens.get(at)).map(|token| &token.token);
    let begins = match before {
        None | Some(Token::LParen | Token::LBracket | Token::Comma) => true,
        Some(Token::Word(_)) => BEFORE.iter().any(|word| word_at(tokens, at - 2, word)),
        Some(_) => false,
    };
    begins.then_some(constant)
}

/// Words that can stand directly in front of an operand.
const BEFORE: [&str; 12] =
    ["select", "where", "and", "or", "on", "not", "when", "then", "else", "case", "by", "having"];

/// The constant to the right of the operator with the index `at`; `None` if a cast follows.
fn right_of(tokens: &[TokenWithSpan], at: usize) -> Option<&Token> {
    let constant = tokens.get(at + 1).map(|token| &token.token)?;
    let is_cast = tokens.get(at + 2).is_some_and(|token| token.token == Token::DoubleColon);
    (!is_cast).then_some(constant)
}

/// The type name of an operand in the message: the type of the constant if the operand is a
/// constant, else the planner's type `of` without digits.
fn beside(of: &str, constant: Option<&Token>) -> String {
    match constant {
        Some(constant) => of_token(of, constant).unwrap_or_else(|| without_digits(of)),
        None => without_digits(of),
    }
}

/// PostgreSQL's type of a constant to which the planner gives the type `of`; `None` if both types
/// are the same.
fn of_token(of: &str, constant: &Token) -> Option<String> {
    match (of, constant) {
        ("bigint", Token::Number(digits, _)) if digits.parse::<i32>().is_ok() => {
            Some("integer".to_string())
        }
        ("text" | "text[]", Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_)) => {
            Some("unknown".to_string())
        }
        _ => None,
    }
}

/// The type name of an argument in the message. `of` is the planner's type, `given` are the tokens
/// of the argument.
fn of_constant(of: &str, given: &[TokenWithSpan]) -> String {
    let constant = match given {
        [constant] => Some(constant),
        [sign, constant] if sign.token == Token::Minus => Some(constant),
        _ => None,
    };
    beside(of, constant.map(|constant| &constant.token))
}

/// The tokens of each argument of the call whose opening parenthesis has the index `open`.
fn arguments(tokens: &[TokenWithSpan], open: usize) -> Vec<&[TokenWithSpan]> {
    let (mut depth, mut start) = (0_usize, open + 1);
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate().skip(open + 1) {
        match token.token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen if depth == 0 => {
                found.extend(tokens.get(start..at).filter(|given| !given.is_empty()));
                break;
            }
            Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
            Token::Comma if depth == 0 => {
                found.extend(tokens.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// The type name without precision and scale: `numeric` for `numeric(2,1)`.
fn without_digits(of: &str) -> String {
    let Some((name, rest)) = of.split_once('(') else { return of.to_string() };
    match rest.split_once(')') {
        Some((digits, rest)) if digits.bytes().all(|c| c.is_ascii_digit() || c == b',') => {
            format!("{name}{rest}")
        }
        _ => of.to_string(),
    }
}

/// The position of an operator that the statement contains exactly once, in characters from 1.
pub fn only_place(text: &str, operator: &str) -> Option<u32> {
    let tokens = words(text)?;
    let mut found = tokens.iter().filter(|token| token.token.to_string() == operator);
    match (found.next(), found.next()) {
        (Some(only), None) => characters(text, only.span.start),
        _ => None,
    }
}

/// Restates the error of a condition that is not boolean, `argument of WHERE must be type boolean`.
/// Inserts the clause of the statement, and for a condition of one token the type of the condition
/// and its position.
pub fn restate_condition(error: Error, text: &str) -> (Error, Option<u32>) {
    let parts = error.message().strip_prefix("argument of ").and_then(|rest| {
        let (clause, given) = rest.split_once(" must be type boolean, not type ")?;
        Some((clause, given, condition_words(clause)?, words(text)?))
    });
    let Some((clause, given, before, tokens)) = parts else { return (error, None) };
    let mut found =
        (0..tokens.len()).filter(|at| before.iter().any(|word| word_at(&tokens, *at, word)));
    let (Some(at), None) = (found.next(), found.next()) else { return (error, None) };
    let clause = match clause {
        "WHERE or HAVING" if word_at(&tokens, at, "having") => "HAVING",
        "WHERE or HAVING" => "WHERE",
        clause => clause,
    };
    let is_whole = match tokens.get(at + 2).map(|token| &token.token) {
        None | Some(Token::RParen | Token::Comma | Token::Word(_)) => true,
        Some(_) => false,
    };
    let operand = tokens.get(at + 1).filter(|_| is_whole);
    let given = beside(given, operand.map(|operand| &operand.token));
    let message = format!("argument of {clause} must be type boolean, not type {given}");
    let position = operand.and_then(|operand| characters(text, operand.span.start));
    (Error::new(error.kind(), message), position)
}

/// The words that stand in front of the condition of a clause.
fn condition_words(clause: &str) -> Option<&'static [&'static str]> {
    match clause {
        "WHERE or HAVING" => Some(&["where", "having"]),
        "FILTER" => Some(&["where"]),
        "CASE/WHEN" => Some(&["when"]),
        "JOIN/ON" => Some(&["on"]),
        "NOT" => Some(&["not"]),
        _ => None,
    }
}

/// True for the kinds of errors that [`restate`] can restate.
pub fn is_signature(kind: ErrorKind) -> bool {
    kind == ErrorKind::UndefinedFunction
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restated(message: &str, text: &str) -> (String, Option<u32>) {
        let (error, position) = restate(Error::new(ErrorKind::UndefinedFunction, message), text);
        (error.message().to_string(), position)
    }

    #[test]
    fn operators_replace_the_functions_behind_them() {
        for (message, text, wanted, position) in [
            ("jsonb_concat(text, integer)", "SELECT j || 1", "jsonb || integer", 10),
            ("jsonb_object_field(text, numeric(2,1))", "SELECT j -> 1.5", "jsonb -> numeric", 10),
            ("jsonb_contains(bigint, text)", "SELECT j <@ 1", "jsonb <@ integer", 10),
            ("power(bigint, boolean)", "SELECT 1 ^ true", "integer ^ boolean", 10),
            ("abs(text)", "SELECT @ host", "@ text", 8),
        ] {
            let message = format!("function {message} does not exist");
            let wanted = format!("operator does not exist: {wanted}");
            assert_eq!(restated(&message, text), (wanted, Some(position)), "{text}");
        }
    }

    #[test]
    fn conditions_name_their_clause() {
        for (message, text, wanted, position) in [
            ("WHERE or HAVING", "SELECT 1 WHERE 1", "WHERE", 16),
            ("WHERE or HAVING", "SELECT 1 FROM t HAVING 1", "HAVING", 24),
            ("CASE/WHEN", "SELECT CASE WHEN 1 THEN 2 END", "CASE/WHEN", 18),
        ] {
            let message = format!("argument of {message} must be type boolean, not type bigint");
            let wanted = format!("argument of {wanted} must be type boolean, not type integer");
            let error = Error::new(ErrorKind::DatatypeMismatch, message);
            let (error, found) = restate_condition(error, text);
            assert_eq!((error.message(), found), (wanted.as_str(), Some(position)), "{text}");
        }
    }

    #[test]
    fn constants_have_the_types_of_postgresql() {
        for (message, text, wanted, position) in [
            ("upper(bigint)", "SELECT upper(1)", "upper(integer)", 8),
            ("abs(bigint, text)", "SELECT abs(-1, 'a')", "abs(integer, unknown)", 8),
            ("abs(bigint)", "SELECT abs(v)", "abs(bigint)", 8),
            (
                "series_list(text, text)",
                "SELECT generate_series(a, b)",
                "generate_series(text, text)",
                8,
            ),
        ] {
            let message = format!("function {message} does not exist");
            let wanted = format!("function {wanted} does not exist");
            assert_eq!(restated(&message, text), (wanted, Some(position)), "{text}");
        }
        for (message, text, wanted, position) in [
            ("bigint = boolean", "SELECT 1 = true", "integer = boolean", 10),
            ("bigint ~~ text", "SELECT 1 LIKE 'a'", "integer ~~ unknown", 10),
            ("text ~~ bigint", "SELECT a NOT LIKE 2", "text !~~ integer", 10),
            ("bigint != text", "SELECT 1 <> a", "integer <> text", 10),
            ("text # bigint", "SELECT ~ host", "~ text", 8),
            (
                "bigint IS DISTINCT FROM boolean",
                "SELECT 1 IS DISTINCT FROM true",
                "integer = boolean",
                10,
            ),
            (
                "timestamp(6) with time zone > text",
                "SELECT time > host",
                "timestamp with time zone > text",
                13,
            ),
        ] {
            let message = format!("operator does not exist: {message}");
            let wanted = format!("operator does not exist: {wanted}");
            assert_eq!(restated(&message, text), (wanted, Some(position)), "{text}");
        }
        let twice = "SELECT 1 = true, 1 = 1";
        let message = "operator does not exist: bigint = boolean";
        assert_eq!(restated(message, twice), (message.to_string(), None));
    }
}
