//! An error that the shell shows, from the server or from the program itself.

use std::fmt::Write as _;

/// The SQLSTATE of errors of the operating system.
const IO: &str = "58030";

/// An error of a statement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SqlError {
    /// The severity: `ERROR`, `FATAL` …
    pub severity: Box<str>,
    /// The SQLSTATE; empty for an error of the program itself.
    pub sqlstate: Box<str>,
    /// The primary message.
    pub message: String,
    /// Further details, such as the values involved.
    pub detail: Option<Box<str>>,
    /// How to correct the error.
    pub hint: Option<Box<str>>,
    /// The place in the data, for example a line of COPY.
    pub context: Option<Box<str>>,
    /// The position in the statement in characters, from 1.
    pub position: Option<u32>,
    /// True if the connection is lost.
    pub connection_lost: bool,
}

impl SqlError {
    /// An error of the program itself, without SQLSTATE.
    pub fn local(message: impl Into<String>) -> Self {
        Self { severity: "ERROR".into(), message: message.into(), ..Self::default() }
    }

    /// An error in the input, with a SQLSTATE.
    pub fn of(sqlstate: &str, message: impl Into<String>) -> Self {
        Self { sqlstate: sqlstate.into(), ..Self::local(message) }
    }

    /// Adds a hint on how to correct the error.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<Box<str>>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// True if the error is that the reader of a pipe has closed it.
    pub fn is_broken_pipe(&self) -> bool {
        &*self.sqlstate == IO && self.message.contains("Broken pipe")
    }

    /// The error as lines of text. If the position is known, shows the line of `statement` with a
    /// mark.
    pub fn render(&self, statement: &str) -> String {
        let mut text = match &*self.sqlstate {
            "" => format!("{}:  {}", self.severity, self.message),
            sqlstate => format!("{}:  {sqlstate}: {}", self.severity, self.message),
        };
        if let Some((line, number, column)) = self.pointed_line(statement) {
            let label = format!("LINE {number}: ");
            let (line, column) = excerpt(line, column);
            let _ = write!(text, "\n{label}{line}\n{}^", " ".repeat(label.len() + column));
        }
        for (label, part) in
            [("DETAIL", &self.detail), ("HINT", &self.hint), ("CONTEXT", &self.context)]
        {
            if let Some(part) = part {
                let _ = write!(text, "\n{label}:  {part}");
            }
        }
        text
    }

    /// The line of the statement that contains the error's position, the number of this line (from
    /// 1), and the column (from 0).
    fn pointed_line<'a>(&self, statement: &'a str) -> Option<(&'a str, usize, usize)> {
        let mut before = usize::try_from(self.position?).ok()?.checked_sub(1)?;
        for (at, line) in statement.split('\n').enumerate() {
            let characters = line.chars().count();
            if before <= characters {
                return Some((line, at + 1, before));
            }
            before -= characters + 1;
        }
        None
    }
}

/// The part of a long line around `column`, and the column within this part.
fn excerpt(line: &str, column: usize) -> (String, usize) {
    const WIDTH: usize = 60;
    let line: Vec<char> = line.chars().map(|c| if c == '\t' { ' ' } else { c }).collect();
    if line.len() <= WIDTH {
        return (line.into_iter().collect(), column);
    }
    let start = column.saturating_sub(WIDTH / 2).min(line.len().saturating_sub(WIDTH));
    let excerpt: String = line.iter().skip(start).take(WIDTH).collect();
    let front = if start > 0 { "..." } else { "" };
    let back = if start + WIDTH < line.len() { "..." } else { "" };
    (format!("{front}{excerpt}{back}"), column - start + front.len())
}

impl From<stratalog_model::Error> for SqlError {
    fn from(error: stratalog_model::Error) -> Self {
        Self {
            severity: "ERROR".into(),
            sqlstate: error.kind().sqlstate().into(),
            message: error.message().to_string(),
            detail: error.detail().map(Box::from),
            hint: error.hint().map(Box::from),
            context: error.context().map(Box::from),
            position: error.position(),
            connection_lost: false,
        }
    }
}

impl From<tokio_postgres::Error> for SqlError {
    fn from(error: tokio_postgres::Error) -> Self {
        use tokio_postgres::error::ErrorPosition;
        match error.as_db_error() {
            Some(database) => Self {
                severity: database.severity().into(),
                sqlstate: database.code().code().into(),
                message: database.message().to_string(),
                detail: database.detail().map(Box::from),
                hint: database.hint().map(Box::from),
                context: database.where_().map(Box::from),
                position: match database.position() {
                    Some(ErrorPosition::Original(position)) => Some(*position),
                    _ => None,
                },
                connection_lost: database.severity() == "FATAL",
            },
            None => {
                let mut message = error.to_string();
                let mut source = std::error::Error::source(&error);
                while let Some(cause) = source {
                    let cause_text = cause.to_string();
                    if !message.contains(&cause_text) {
                        let _ = write!(message, ": {cause_text}");
                    }
                    source = cause.source();
                }
                Self { connection_lost: true, ..Self::of("08006", message) }
            }
        }
    }
}

impl From<std::io::Error> for SqlError {
    fn from(error: std::io::Error) -> Self {
        Self::of(IO, error.to_string())
    }
}

#[cfg(test)]
mod tests;
