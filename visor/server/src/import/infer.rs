//! Infers the type of a column from its values.

use stratalog_model::ColumnType;
use stratalog_text::{TextStyle, parse_value};

/// The possible types for all values so far.
#[derive(Debug, Clone)]
pub(super) struct Guess {
    boolean: bool,
    integer: bool,
    /// True if all integers so far fit 64 bits.
    narrow: bool,
    double: bool,
    /// True if a number has more digits than a double can represent.
    long: bool,
    /// The largest numbers of digits before and after the decimal point; `None` after an infinity
    /// or NaN.
    digits: Option<(usize, usize)>,
    date: bool,
    timestamp: bool,
    /// True if all timestamps have a zone.
    zoned: bool,
    time: bool,
    uuid: bool,
    json: bool,
    seen: bool,
    /// True if any value so far is a date or a timestamp.
    any_time: bool,
    /// The first value that is neither a date nor a timestamp.
    odd: Option<String>,
}

impl Default for Guess {
    fn default() -> Self {
        Self {
            boolean: true,
            integer: true,
            narrow: true,
            double: true,
            long: false,
            digits: Some((0, 0)),
            date: true,
            timestamp: true,
            zoned: false,
            time: true,
            uuid: true,
            json: true,
            seen: false,
            any_time: false,
            odd: None,
        }
    }
}

impl Guess {
    /// Takes an untyped value into account, for example a CSV value.
    pub(super) fn text(&mut self, text: &str) {
        let text = text.trim();
        self.seen = true;
        self.json = false;
        self.boolean &=
            matches!(text, "true" | "false" | "TRUE" | "FALSE" | "True" | "False" | "t" | "f");
        self.number(text);
        self.dates(text);
    }

    /// Takes a JSON value into account. `written` is its text in the input, which has all digits of
    /// a number.
    pub(super) fn json(&mut self, value: &serde_json::Value, written: &str) {
        use serde_json::Value;
        match value {
            Value::Null => return,
            Value::String(text) => {
                (self.boolean, self.integer, self.double, self.json) = (false, false, false, false);
                self.dates(text);
            }
            other => {
                (self.date, self.timestamp, self.time, self.uuid) = (false, false, false, false);
                self.boolean &= other.is_boolean();
                self.json &= other.is_object() || other.is_array();
                self.number(written);
            }
        }
        self.seen = true;
    }

    fn number(&mut self, text: &str) {
        if self.integer {
            let integer = is_integer(text);
            self.integer = integer;
            self.narrow &= integer && text.parse::<i64>().is_ok();
        }
        self.double &= is_number(text);
        if self.double {
            self.long |= is_long(text);
            self.digits = self
                .digits
                .zip(digits_of(text))
                .map(|(most, these)| (most.0.max(these.0), most.1.max(these.1)));
        }
    }

    fn dates(&mut self, text: &str) {
        let parses = |column_type: ColumnType| {
            parse_value(Some(text), &column_type, &TextStyle::default()).is_ok()
        };
        let shaped = starts_like_a_date(text);
        let is_time = shaped && parses(ColumnType::TimestampTz { precision: 9 });
        self.any_time |= is_time;
        if !is_time && self.odd.is_none() {
            self.odd = Some(text.chars().take(40).collect());
        }
        self.date &= shaped && text.len() == 10 && parses(ColumnType::Date);
        if self.timestamp {
            self.timestamp = is_time;
            self.zoned |= self.timestamp && names_a_zone(text);
        }
        self.time &= text.len() >= 8
            && text.get(2..3) == Some(":")
            && text.get(5..6) == Some(":")
            && parses(ColumnType::Time);
        self.uuid &= text.len() == 36 && parses(ColumnType::Uuid);
    }

    /// A numeric type that can store all digits of the values; text if no numeric type can.
    fn exact(&self) -> ColumnType {
        match self.digits {
            Some((whole, scale)) if whole.saturating_add(scale) <= 38 => {
                let scale = u8::try_from(scale).unwrap_or(38);
                ColumnType::Numeric { precision: 38, scale }
            }
            _ => ColumnType::Text,
        }
    }

    /// If some values are times: the first value that is not a time.
    pub(super) fn odd_time(&self) -> Option<&str> {
        self.odd.as_deref().filter(|_| self.any_time)
    }

    /// The smallest type that can store all values; text if no value was seen.
    pub(super) fn column_type(&self) -> ColumnType {
        if !self.seen {
            ColumnType::Text
        } else if self.boolean {
            ColumnType::Boolean
        } else if self.integer && self.narrow {
            ColumnType::BigInt
        } else if self.integer {
            ColumnType::Numeric { precision: 38, scale: 0 }
        } else if self.double && !self.long {
            ColumnType::Double
        } else if self.double {
            self.exact()
        } else if self.date {
            ColumnType::Date
        } else if self.timestamp && self.zoned {
            ColumnType::TimestampTz { precision: 9 }
        } else if self.timestamp {
            ColumnType::Timestamp { precision: 9 }
        } else if self.time {
            ColumnType::Time
        } else if self.uuid {
            ColumnType::Uuid
        } else if self.json {
            ColumnType::Jsonb
        } else {
            ColumnType::Text
        }
    }
}

/// True if the number has more digits than a double can represent.
fn is_long(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let printed = text.parse::<f64>().map(|number| number.to_string());
    // Double precision keeps any 15 digits.
    digits > 15 && printed.is_ok_and(|printed| significant(&printed) != significant(text))
}

/// The digits of a number without leading and trailing zeros, and the power of ten of the first
/// digit; `None` if the text is not a number.
fn significant(text: &str) -> Option<(String, i64)> {
    let (whole, fraction, exponent) = decimal(text)?;
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0');
    if digits.is_empty() {
        return Some((String::new(), 0));
    }
    let zeros = i64::try_from(all.len() - digits.len()).ok()?;
    let power = i64::try_from(whole.len()).ok()?.saturating_sub(zeros).saturating_add(exponent);
    Some((digits.trim_end_matches('0').to_string(), power))
}

/// The number of digits before and after the decimal point; `None` if the text is not a number, or
/// has an exponent.
fn digits_of(text: &str) -> Option<(usize, usize)> {
    let (whole, fraction, exponent) = decimal(text)?;
    let moved = |digits: &str, by: i64| {
        let count = i64::try_from(digits.len()).ok()?.saturating_add(by);
        Some(usize::try_from(count).unwrap_or(0))
    };
    moved(whole, exponent).zip(moved(fraction, exponent.saturating_neg()))
}

/// The digits before and after the decimal point, and the exponent; `None` if the text is not a
/// number.
fn decimal(text: &str) -> Option<(&str, &str, i64)> {
    let text = text.trim_start_matches('-');
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    (digits(whole) && digits(fraction)).then_some((whole, fraction, exponent))
}

/// True for an integer of at most 38 digits. A text with leading zeros, such as `007`, is a code
/// and not an integer.
fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    (1..=38).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'))
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let code = digits.len() > 1
        && digits.starts_with('0')
        && digits.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    matches!(text, "NaN" | "nan" | "Infinity" | "-Infinity" | "inf" | "-inf")
        || (!code
            && digits.starts_with(|first: char| first.is_ascii_digit() || first == '.')
            && text.parse::<f64>().is_ok())
}

/// True for a text that begins like `2013-01-01`.
fn starts_like_a_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 10
        && bytes.first().is_some_and(u8::is_ascii_digit)
        && bytes.get(4) == Some(&b'-')
        && bytes.get(7) == Some(&b'-')
}

fn names_a_zone(text: &str) -> bool {
    let clock = text.get(10..).unwrap_or("");
    clock.contains(['Z', 'z', '+', '-'])
        || clock.trim_start_matches('T').contains(char::is_alphabetic)
}
