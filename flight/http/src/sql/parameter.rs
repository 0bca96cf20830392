//! The parameters of a statement, read from the JSON body of a request.
//!
//! The JSON parser converts each value directly to text. A tree of JSON values would need many
//! times the memory of the body.

use std::{
    borrow::Cow,
    fmt::{self, Formatter},
};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor},
};
use stratalog_model::ColumnType;

/// Maximum number of parameters of a statement, as in the Postgres protocol.
const PARAMETERS_MAX: usize = u16::MAX as usize;

/// A placeholder for a number that serde_json would round to double precision.
/// [`Parameters::keep_digits`] replaces the placeholder by the digits of the number. Valid JSON
/// strings contain this character only as an escape.
const ROUNDED: char = '\u{1}';

/// The parameters of a statement.
#[derive(Debug, Default)]
pub(super) struct Parameters {
    /// The value of each parameter as text; `None` is NULL.
    pub(super) texts: Vec<Option<String>>,
    /// The indexes of texts that contain [`ROUNDED`].
    rounded: Vec<usize>,
    /// The indexes of parameters that are JSON lists.
    lists: Vec<usize>,
}

impl Parameters {
    /// Returns the texts in the input syntax of the parameters' types: a JSON list for an array
    /// parameter becomes `{…}`.
    pub(super) fn in_syntax_of(
        &self,
        types: &[ColumnType],
    ) -> impl Iterator<Item = Option<Cow<'_, str>>> {
        self.texts.iter().enumerate().map(|(at, text)| {
            let text = text.as_deref()?;
            let is_array = matches!(types.get(at), Some(ColumnType::Array(_)));
            Some(match is_array && self.lists.binary_search(&at).is_ok() {
                true => Cow::Owned(array_text(text)),
                false => Cow::Borrowed(text),
            })
        })
    }

    /// Restores the digits of rounded numbers from `json`, the JSON text from which the parameters
    /// were parsed.
    ///
    /// # Errors
    /// `Internal` if `json` is another text.
    pub(super) fn keep_digits(&mut self, json: &str) -> stratalog_model::Result<()> {
        let is_rounded = |number: &&str| {
            *number == "-0" || (number.parse::<i64>().is_err() && number.parse::<u64>().is_err())
        };
        let other =
            || stratalog_model::Error::internal("the numbers of a request were not found again");
        let rounded = std::mem::take(&mut self.rounded);
        if rounded.is_empty() {
            return Ok(());
        }
        let mut digits = super::json::numbers(json).filter(is_rounded);
        for parameter in rounded {
            let text = self.texts.get_mut(parameter).and_then(Option::as_mut).ok_or_else(other)?;
            let mut parts = text.split(ROUNDED);
            let mut whole = parts.next().unwrap_or_default().to_string();
            for part in parts {
                whole.push_str(digits.next().ok_or_else(other)?);
                whole.push_str(part);
            }
            *text = whole;
        }
        digits.next().map_or(Ok(()), |_| Err(other()))
    }
}

impl<'de> Deserialize<'de> for Parameters {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(List)
    }
}

struct List;

impl<'de> Visitor<'de> for List {
    type Value = Parameters;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a list of parameters")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Parameters, A::Error> {
        let (mut texts, mut rounded, mut lists) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let mut text = String::new();
            let Some(kind) =
                list.next_element_seed(ValueWriter { out: &mut text, nested: false })?
            else {
                return Ok(Parameters { texts, rounded, lists });
            };
            if kind == ValueKind::Json && text.contains(ROUNDED) {
                rounded.push(texts.len());
            }
            if kind == ValueKind::Json && text.starts_with('[') {
                lists.push(texts.len());
            }
            if texts.len() >= PARAMETERS_MAX {
                return Err(A::Error::custom(format!(
                    "a statement has at most {PARAMETERS_MAX} parameters"
                )));
            }
            texts.push(match kind {
                ValueKind::Null => None,
                ValueKind::Text | ValueKind::Json => Some(text),
            });
        }
    }
}

/// Converts a JSON list to the syntax of PostgreSQL's arrays, for example `[1,null,"a"]` to
/// `{1,null,"a"}`. The input syntax of arrays reads `null` as NULL.
fn array_text(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(next) = rest.chars().next() {
        let mut length = next.len_utf8();
        match next {
            '[' => out.push('{'),
            ']' => out.push('}'),
            '"' => {
                let mut strings = serde_json::Deserializer::from_str(rest).into_iter::<String>();
                if let Some(Ok(text)) = strings.next() {
                    length = strings.byte_offset();
                    out.push('"');
                    for character in text.chars() {
                        if matches!(character, '"' | '\\') {
                            out.push('\\');
                        }
                        out.push(character);
                    }
                }
                out.push('"');
            }
            other => out.push(other),
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    out
}

/// The kind of a JSON value, for the text of its parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    Null,
    /// A JSON string; the parameter's text has no quotes.
    Text,
    Json,
}

/// Appends a JSON value to a text. `nested` is true inside a list or an object; strings then keep
/// their quotes.
struct ValueWriter<'a> {
    out: &'a mut String,
    nested: bool,
}

impl<'de> DeserializeSeed<'de> for ValueWriter<'_> {
    type Value = ValueKind;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<ValueKind, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl ValueWriter<'_> {
    fn push(self, text: &str) -> ValueKind {
        self.out.push_str(text);
        ValueKind::Json
    }
}

impl<'de> Visitor<'de> for ValueWriter<'_> {
    type Value = ValueKind;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<ValueKind, E> {
        self.push("null");
        Ok(ValueKind::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<ValueKind, E> {
        Ok(self.push(if value { "true" } else { "false" }))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<ValueKind, E> {
        Ok(self.push(&value.to_string()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<ValueKind, E> {
        Ok(self.push(&value.to_string()))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<ValueKind, E> {
        self.out.push(ROUNDED);
        Ok(ValueKind::Json)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<ValueKind, E> {
        match self.nested {
            true => {
                let quoted = serde_json::to_string(value).map_err(E::custom)?;
                Ok(self.push(&quoted))
            }
            false => {
                self.out.push_str(value);
                Ok(ValueKind::Text)
            }
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ValueKind, A::Error> {
        self.out.push('[');
        while list.next_element_seed(ValueWriter { out: &mut *self.out, nested: true })?.is_some() {
            self.out.push(',');
        }
        if self.out.ends_with(',') {
            self.out.pop();
        }
        self.out.push(']');
        Ok(ValueKind::Json)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ValueKind, A::Error> {
        self.out.push('{');
        while let Some(key) = map.next_key::<String>()? {
            let quoted = serde_json::to_string(&key).map_err(A::Error::custom)?;
            self.out.push_str(&quoted);
            self.out.push(':');
            map.next_value_seed(ValueWriter { out: &mut *self.out, nested: true })?;
            self.out.push(',');
        }
        if self.out.ends_with(',') {
            self.out.pop();
        }
        self.out.push('}');
        Ok(ValueKind::Json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(json: &str) -> Vec<Option<String>> {
        let mut parameters = serde_json::from_str::<Parameters>(json).unwrap();
        parameters.keep_digits(json).unwrap();
        parameters.texts
    }

    #[test]
    fn values_are_texts_as_json_has_them() {
        let json = r#"[null, true, -1, 18446744073709551615, 1.5, "a\"b", [], {}, [1, [null, "x,"], {"k": "v\n", "n": 1}]]"#;
        let found = texts(json);
        let whole: Vec<serde_json::Value> = serde_json::from_str(json).unwrap();
        let wanted: Vec<Option<String>> = whole
            .into_iter()
            .map(|value| match value {
                serde_json::Value::Null => None,
                serde_json::Value::String(text) => Some(text),
                other => Some(other.to_string()),
            })
            .collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn numbers_keep_their_digits() {
        let json = r#"[1.10, "2.50\u0001", -0, 18446744073709551617, {"n": [1, 12345678901234567890123, 1e5]}]"#;
        let texts = texts(json);
        let texts: Vec<&str> = texts.iter().flatten().map(String::as_str).collect();
        let nested = r#"{"n":[1,12345678901234567890123,1e5]}"#;
        assert_eq!(texts, ["1.10", "2.50\u{1}", "-0", "18446744073709551617", nested]);
    }

    #[test]
    fn lists_for_arrays_are_arrays() {
        let json = r#"[[1, null, 1.50], ["a\"b\\c,{}", "null", "\u00e9\n"], [], [1], "{2}", [[1], [true]]]"#;
        let mut parameters = serde_json::from_str::<Parameters>(json).unwrap();
        parameters.keep_digits(json).unwrap();
        let array = |element| ColumnType::Array(Box::new(element));
        let numeric = ColumnType::Numeric { precision: 38, scale: 2 };
        let types = [
            array(numeric),
            array(ColumnType::Text),
            array(ColumnType::Text),
            ColumnType::Jsonb,
            array(ColumnType::Integer),
            array(ColumnType::Boolean),
        ];
        let texts: Vec<_> = parameters.in_syntax_of(&types).flatten().collect();
        let strings = "{\"a\\\"b\\\\c,{}\",\"null\",\"é\n\"}";
        assert_eq!(texts, ["{1,null,1.50}", strings, "{}", "[1]", "{2}", "{{1},{true}}"]);
    }

    #[test]
    fn the_number_of_parameters_is_bounded() {
        let list = |count: usize| format!("[{}]", vec!["1"; count].join(","));
        assert_eq!(texts(&list(PARAMETERS_MAX)).len(), PARAMETERS_MAX);
        let error = serde_json::from_str::<Parameters>(&list(PARAMETERS_MAX + 1)).unwrap_err();
        assert!(error.to_string().contains("at most 65535 parameters"), "{error}");
    }
}
