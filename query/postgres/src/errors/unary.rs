//! Errors for prefix operators, and for aggregates of a value without a type.

use stratalog_model::{Error, ErrorKind};

use super::{
    names::sql_type,
    plan::{no_function, no_operator},
};

/// The error for a prefix operator that only the parser knows, and for an aggregate that does not
/// accept the type of its argument; `None` for other messages.
pub fn unknown_operator(text: &str) -> Option<Error> {
    if let Some(name) = text.strip_prefix("Unsupported SQL unary operator ") {
        let operator = match name {
            "PGPrefixFactorial" => "!!",
            "Hash" => "#",
            "AtDashAt" => "@-@",
            "DoubleAt" => "@@",
            "QuestionDash" => "?-",
            "QuestionPipe" => "?|",
            "PGPostfixFactorial" => {
                return Some(Error::new(ErrorKind::SyntaxError, "syntax error at end of input"));
            }
            _ => return None,
        };
        return Some(no_operator(operator));
    }
    let (name, given) = text.strip_prefix("[return_type] ")?.split_once(" not supported for ")?;
    let name = name.to_lowercase();
    match given {
        "Null" => {
            let message = format!("function {name}(unknown) is not unique");
            Some(Error::new(ErrorKind::AmbiguousFunction, message).with_hint(
                "Could not choose a best candidate function. You might need to add explicit type casts.",
            ))
        }
        given => Some(no_function(&format!("{name}({})", sql_type(given)))),
    }
}

/// The error for a sign in front of a value that is not a number. `note` is the planner's note, the
/// only text with the type of the value.
pub fn no_sign(note: &str) -> Option<Error> {
    let (sign, given) = note.split_once(" cannot be used with ")?;
    ["-", "+"].contains(&sign).then(|| no_operator(&format!("{sign} {}", sql_type(given))))
}
