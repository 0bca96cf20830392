//! Finds the type that all values of a column have.

use stratalog_model::ColumnType;
use stratalog_text::{TextStyle, parse_value};

/// What the values seen so far could all be.
#[derive(Debug, Clone)]
pub(super) struct Guess {
    boolean: bool,
    integer: bool,
    /// Integers all fit 64 bits.
    narrow: bool,
    double: bool,
    date: bool,
    timestamp: bool,
    /// Timestamps name a zone.
    zoned: bool,
    time: bool,
    uuid: bool,
    json: bool,
    seen: bool,
}

impl Default for Guess {
    fn default() -> Self {
        Self {
            boolean: true,
            integer: true,
            narrow: true,
            double: true,
            date: true,
            timestamp: true,
            zoned: false,
            time: true,
            uuid: true,
            json: true,
            seen: false,
        }
    }
}

impl Guess {
    /// Takes a value of a form that has no types of its own.
    pub(super) fn text(&mut self, text: &str) {
        let text = text.trim();
        self.seen = true;
        self.json = false;
        self.boolean &=
            matches!(text, "true" | "false" | "TRUE" | "FALSE" | "True" | "False" | "t" | "f");
        if self.integer {
            let integer = is_integer(text);
            self.integer = integer;
            self.narrow &= integer && text.parse::<i64>().is_ok();
        }
        self.double &= is_number(text);
        self.dates(text);
    }

    /// Takes a JSON value.
    pub(super) fn json(&mut self, value: &serde_json::Value) {
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
                self.integer &= other.is_i64() || other.is_u64();
                self.narrow &= other.is_i64();
                self.double &= other.is_number();
                self.json &= other.is_object() || other.is_array();
            }
        }
        self.seen = true;
    }

    fn dates(&mut self, text: &str) {
        let parses = |column_type: ColumnType| {
            parse_value(Some(text), &column_type, &TextStyle::default()).is_ok()
        };
        let shaped = starts_like_a_date(text);
        self.date &= shaped && text.len() == 10 && parses(ColumnType::Date);
        if self.timestamp {
            self.timestamp = shaped && parses(ColumnType::TimestampTz { precision: 9 });
            self.zoned |= self.timestamp && names_a_zone(text);
        }
        self.time &= text.len() >= 8
            && text.get(2..3) == Some(":")
            && text.get(5..6) == Some(":")
            && parses(ColumnType::Time);
        self.uuid &= text.len() == 36 && parses(ColumnType::Uuid);
    }

    /// The narrowest type that all values have; text when there was none.
    pub(super) fn column_type(&self) -> ColumnType {
        if !self.seen {
            ColumnType::Text
        } else if self.boolean {
            ColumnType::Boolean
        } else if self.integer && self.narrow {
            ColumnType::BigInt
        } else if self.integer {
            ColumnType::Numeric { precision: 38, scale: 0 }
        } else if self.double {
            ColumnType::Double
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

/// An integer of at most 38 digits; `007` is a code, no number.
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

/// `2013-01-01`, and whatever follows.
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
