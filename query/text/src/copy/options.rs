//! Checks the options of COPY, with PostgreSQL's errors for invalid options.

use stratalog_model::{Error, ErrorKind, Result};

use super::CopyEncoding;
use crate::parse::parse_boolean;

/// The text format of COPY data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CopyFormat {
    /// Values separated by tabs, with backslash escapes and `\N` for NULL.
    #[default]
    Text,
    /// Values separated by commas, with quotes.
    Csv,
}

/// How COPY treats the first line of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CopyHeader {
    /// The first line is data.
    #[default]
    Absent,
    /// The first line has column names; COPY … FROM ignores them.
    Present,
    /// The first line has column names. COPY … FROM refuses the data if the names are not the
    /// expected names.
    Match,
}

/// The direction in which COPY moves data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CopyDirection {
    /// COPY … FROM: into the database.
    In,
    /// COPY … TO: out of the database.
    Out,
}

/// The columns to which an option applies.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ColumnSelection {
    /// The columns with these names.
    Named(Vec<String>),
    /// All columns, written as `*`.
    All,
}

impl Default for ColumnSelection {
    fn default() -> Self {
        Self::Named(Vec::new())
    }
}

impl ColumnSelection {
    /// True if the option applies to `column`.
    pub fn has(&self, column: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.iter().any(|name| name == column),
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self::Named(names) if names.is_empty())
    }
}

/// The value of an option in the statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyOptionValue {
    /// No value, only the name of the option, as in `HEADER`.
    Absent,
    /// The value as text: a string, number or word.
    Text(String),
    /// The value as a list of columns, or `*`.
    Columns(ColumnSelection),
}

/// The options of a COPY after validation. Delimiter, quote and escape are ASCII characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CopyOptions {
    /// True for the binary format. The options of the text formats then have no meaning.
    pub binary: bool,
    /// The format of the data.
    pub format: CopyFormat,
    /// The separator between two values.
    pub delimiter: u8,
    /// The text that represents NULL.
    pub null: String,
    /// The meaning of the first line.
    pub header: CopyHeader,
    /// The character around CSV values.
    pub quote: u8,
    /// The character before a quote within a CSV value.
    pub escape: u8,
    /// Columns whose values are always quoted (CSV, COPY … TO).
    pub force_quote: ColumnSelection,
    /// Columns in which the NULL text counts as an ordinary value, even without quotes (CSV, COPY …
    /// FROM).
    pub force_not_null: ColumnSelection,
    /// Columns in which the NULL text means NULL, even in quotes (CSV, COPY … FROM).
    pub force_null: ColumnSelection,
    /// The encoding of the data.
    pub encoding: CopyEncoding,
    /// True if COPY … FROM skips and counts rows with invalid values (`ON_ERROR ignore`).
    pub ignores_errors: bool,
    /// True if the server sends a message about each skipped row (`LOG_VERBOSITY verbose`).
    pub verbose: bool,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self {
            binary: false,
            format: CopyFormat::Text,
            delimiter: b'\t',
            null: "\\N".into(),
            header: CopyHeader::Absent,
            quote: b'"',
            escape: b'"',
            force_quote: ColumnSelection::default(),
            force_not_null: ColumnSelection::default(),
            force_null: ColumnSelection::default(),
            encoding: CopyEncoding::default(),
            ignores_errors: false,
            verbose: false,
        }
    }
}

impl CopyOptions {
    /// The default options of the CSV format.
    pub fn csv() -> Self {
        Self { format: CopyFormat::Csv, delimiter: b',', null: String::new(), ..Self::default() }
    }

    /// Validates the options of a statement; option names may be in upper or lower case.
    ///
    /// # Errors
    /// PostgreSQL's errors: `SyntaxError`, `InvalidParameterValue`, `FeatureNotSupported`.
    pub fn from_pairs<'a>(
        direction: CopyDirection,
        pairs: impl IntoIterator<Item = (&'a str, &'a CopyOptionValue)>,
    ) -> Result<Self> {
        let mut given = GivenOptions::default();
        for (name, value) in pairs {
            given.set(name, value, direction)?;
        }
        let mut options = match given.format {
            Some(CopyFormat::Csv) => Self::csv(),
            _ => Self::default(),
        };
        options.apply(given, direction)?;
        Ok(options)
    }

    fn apply(&mut self, given: GivenOptions, direction: CopyDirection) -> Result<()> {
        if given.binary {
            self.binary = true;
            let refused = |kind, what: &str| {
                Err(Error::new(kind, format!("cannot specify {what} in BINARY mode")))
            };
            if given.delimiter.is_some() {
                return refused(ErrorKind::SyntaxError, "DELIMITER");
            }
            if given.null.is_some() {
                return refused(ErrorKind::SyntaxError, "NULL");
            }
            if given.header.is_some_and(|header| header != CopyHeader::Absent) {
                return refused(ErrorKind::FeatureNotSupported, "HEADER");
            }
            if given.ignores_errors {
                return Err(Error::new(
                    ErrorKind::SyntaxError,
                    "only ON_ERROR STOP is allowed in BINARY mode",
                ));
            }
            if given.encoding != CopyEncoding::Utf8 {
                return Err(Error::not_yet("ENCODING other than UTF8 in BINARY mode"));
            }
        }
        let csv = self.format == CopyFormat::Csv;
        let only_csv = |what: &str| {
            Error::new(
                ErrorKind::FeatureNotSupported,
                format!("COPY {what} available only in CSV mode"),
            )
        };
        if let Some(delimiter) = &given.delimiter {
            self.delimiter = one_byte("delimiter", delimiter)?;
        }
        if let Some(null) = given.null {
            self.null = null;
        }
        if let Some(header) = given.header {
            self.header = header;
        }
        if let Some(quote) = &given.quote {
            if !csv {
                return Err(only_csv("quote"));
            }
            self.quote = one_byte("quote", quote)?;
            self.escape = self.quote;
        }
        if let Some(escape) = &given.escape {
            if !csv {
                return Err(only_csv("escape"));
            }
            self.escape = one_byte("escape", escape)?;
        }
        for (selection, what, needed) in [
            (&given.force_quote, "force quote", CopyDirection::Out),
            (&given.force_not_null, "force not null", CopyDirection::In),
            (&given.force_null, "force null", CopyDirection::In),
        ] {
            if selection.is_empty() {
                continue;
            }
            if !csv {
                return Err(only_csv(what));
            }
            if direction != needed {
                let other = if needed == CopyDirection::In { "FROM" } else { "TO" };
                return Err(Error::new(
                    ErrorKind::FeatureNotSupported,
                    format!("COPY {what} only available using COPY {other}"),
                ));
            }
        }
        self.force_quote = given.force_quote;
        self.force_not_null = given.force_not_null;
        self.force_null = given.force_null;
        self.encoding = given.encoding;
        self.ignores_errors = given.ignores_errors;
        self.verbose = given.verbose;
        self.check()
    }

    fn check(&self) -> Result<()> {
        let invalid = |message: &str| Err(Error::new(ErrorKind::InvalidParameterValue, message));
        let refused = |message: &str| Err(Error::new(ErrorKind::FeatureNotSupported, message));
        let line_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
        if line_end(&self.delimiter) {
            return invalid("COPY delimiter cannot be newline or carriage return");
        }
        if self.null.bytes().any(|byte| line_end(&byte)) {
            return invalid("COPY null representation cannot use newline or carriage return");
        }
        if self.null.as_bytes().contains(&self.delimiter) {
            return refused("COPY delimiter must not appear in the NULL specification");
        }
        match self.format {
            CopyFormat::Text => {
                // In the text format, a delimiter must not look like a part of an escape, such as
                // `\n` or `\.`.
                if matches!(self.delimiter, b'\\' | b'.' | b'a'..=b'z' | b'0'..=b'9') {
                    return invalid(&format!(
                        "COPY delimiter cannot be \"{}\"",
                        char::from(self.delimiter)
                    ));
                }
            }
            CopyFormat::Csv => {
                if line_end(&self.quote) || line_end(&self.escape) {
                    return invalid("COPY quote and escape cannot be newline or carriage return");
                }
                if self.delimiter == self.quote {
                    return invalid("COPY delimiter and quote must be different");
                }
                if self.null.as_bytes().contains(&self.quote) {
                    return refused(
                        "CSV quote character must not appear in the NULL specification",
                    );
                }
            }
        }
        Ok(())
    }
}

fn one_byte(what: &str, text: &str) -> Result<u8> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() && *byte != 0 => Ok(*byte),
        _ => Err(Error::new(
            ErrorKind::FeatureNotSupported,
            format!("COPY {what} must be a single one-byte character"),
        )),
    }
}

/// The options as the statement gives them. Their combination is not checked yet.
#[derive(Debug, Default)]
struct GivenOptions {
    names: Vec<String>,
    binary: bool,
    format: Option<CopyFormat>,
    delimiter: Option<String>,
    null: Option<String>,
    header: Option<CopyHeader>,
    quote: Option<String>,
    escape: Option<String>,
    force_quote: ColumnSelection,
    force_not_null: ColumnSelection,
    force_null: ColumnSelection,
    encoding: CopyEncoding,
    ignores_errors: bool,
    verbose: bool,
}

impl GivenOptions {
    fn set(&mut self, name: &str, value: &CopyOptionValue, direction: CopyDirection) -> Result<()> {
        let name = name.to_ascii_lowercase();
        if self.names.contains(&name) {
            return Err(Error::new(ErrorKind::SyntaxError, "conflicting or redundant options"));
        }
        let text = || match value {
            CopyOptionValue::Text(text) => Ok(text.clone()),
            _ => Err(Error::new(ErrorKind::SyntaxError, format!("{name} requires a parameter"))),
        };
        let columns = || match value {
            CopyOptionValue::Columns(columns) => Ok(columns.clone()),
            _ => Err(Error::new(
                ErrorKind::InvalidParameterValue,
                format!("argument to option \"{name}\" must be a list of column names"),
            )),
        };
        match name.as_str() {
            "format" => {
                let format = text()?;
                self.binary = format == "binary";
                self.format = Some(match format.as_str() {
                    "text" | "binary" => CopyFormat::Text,
                    "csv" => CopyFormat::Csv,
                    _ => {
                        return Err(Error::new(
                            ErrorKind::InvalidParameterValue,
                            format!("COPY format \"{format}\" not recognized"),
                        ));
                    }
                });
            }
            "delimiter" => self.delimiter = Some(text()?),
            "null" => self.null = Some(text()?),
            "quote" => self.quote = Some(text()?),
            "escape" => self.escape = Some(text()?),
            "header" => self.header = Some(header(value, direction)?),
            "force_quote" => self.force_quote = columns()?,
            "force_not_null" => self.force_not_null = columns()?,
            "force_null" => self.force_null = columns()?,
            "encoding" => self.encoding = encoding(&text()?)?,
            "on_error" => self.ignores_errors = ignores_errors(&text()?, direction)?,
            "log_verbosity" => {
                let verbosity = text()?;
                self.verbose = match verbosity.as_str() {
                    "default" => false,
                    "verbose" => true,
                    _ => return Err(not_recognized("LOG_VERBOSITY", &verbosity)),
                };
            }
            "freeze" => {
                if boolean(value)? {
                    return Err(Error::new(
                        ErrorKind::FeatureNotSupported,
                        "COPY FREEZE is not supported",
                    )
                    .with_hint("omit FREEZE: events are always immutable"));
                }
            }
            _ => {
                return Err(Error::new(
                    ErrorKind::SyntaxError,
                    format!("option \"{name}\" not recognized"),
                ));
            }
        }
        self.names.push(name);
        Ok(())
    }
}

fn not_recognized(option: &str, value: &str) -> Error {
    Error::new(
        ErrorKind::InvalidParameterValue,
        format!("COPY {option} \"{value}\" not recognized"),
    )
}

fn encoding(name: &str) -> Result<CopyEncoding> {
    CopyEncoding::named(name).ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidParameterValue,
            "argument to option \"encoding\" must be a valid encoding name",
        )
        .with_detail(format!("The encoding \"{name}\" is not supported."))
        .with_hint("Available encodings: UTF8, SQL_ASCII, LATIN1. Convert the data to UTF8.")
    })
}

fn ignores_errors(choice: &str, direction: CopyDirection) -> Result<bool> {
    if direction == CopyDirection::Out {
        return Err(Error::new(
            ErrorKind::InvalidParameterValue,
            "COPY ON_ERROR cannot be used with COPY TO",
        ));
    }
    match choice.to_ascii_lowercase().as_str() {
        "stop" => Ok(false),
        "ignore" => Ok(true),
        _ => Err(not_recognized("ON_ERROR", choice)),
    }
}

fn boolean(value: &CopyOptionValue) -> Result<bool> {
    match value {
        CopyOptionValue::Absent => Ok(true),
        CopyOptionValue::Text(text) => parse_boolean(text),
        CopyOptionValue::Columns(_) => {
            Err(Error::new(ErrorKind::SyntaxError, "a Boolean value is required"))
        }
    }
}

fn header(value: &CopyOptionValue, direction: CopyDirection) -> Result<CopyHeader> {
    if let CopyOptionValue::Text(text) = value
        && text.eq_ignore_ascii_case("match")
    {
        return match direction {
            CopyDirection::In => Ok(CopyHeader::Match),
            CopyDirection::Out => Err(Error::new(
                ErrorKind::FeatureNotSupported,
                format!("cannot use \"{text}\" with HEADER in COPY TO"),
            )),
        };
    }
    match boolean(value) {
        Ok(true) => Ok(CopyHeader::Present),
        Ok(false) => Ok(CopyHeader::Absent),
        Err(_) => {
            Err(Error::new(ErrorKind::SyntaxError, "header requires a Boolean value or \"match\""))
        }
    }
}

#[cfg(test)]
mod tests;
