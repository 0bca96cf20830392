//! Parameters of a statement in JSON.
//!
//! Values become texts while the body is read. A tree of JSON values would take many times the body's bytes.

use std::fmt::{self, Formatter};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor},
};

/// Parameters of a statement at most, as in the Postgres protocol.
const PARAMETERS_MAX: usize = u16::MAX as usize;

/// The parameters of a statement.
#[derive(Debug, Default)]
pub(super) struct Parameters {
    /// The texts; `None` is NULL.
    pub(super) texts: Vec<Option<String>>,
    /// The numbers that reading rounds to double precision, in the order of the JSON text.
    rounded: Vec<Rounded>,
}

/// A number in the text of a parameter.
#[derive(Debug)]
struct Rounded {
    parameter: usize,
    start: usize,
    end: usize,
}

impl Parameters {
    /// Puts the digits of `json`, which the parameters were read from, in the place of rounded numbers.
    pub(super) fn keep_digits(&mut self, json: &str) {
        let is_rounded = |number: &&str| {
            *number == "-0" || (number.parse::<i64>().is_err() && number.parse::<u64>().is_err())
        };
        let digits: Vec<&str> = match self.rounded.is_empty() {
            true => return,
            false => super::json::numbers(json).filter(is_rounded).collect(),
        };
        let rounded = std::mem::take(&mut self.rounded);
        debug_assert_eq!(digits.len(), rounded.len(), "{json}");
        // From the end, so that earlier places stay.
        for (number, digits) in rounded.into_iter().zip(digits).rev() {
            if let Some(Some(text)) = self.texts.get_mut(number.parameter) {
                text.replace_range(number.start..number.end, digits);
            }
        }
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
        let (mut texts, mut rounded) = (Vec::new(), Vec::new());
        loop {
            let mut text = String::new();
            let mut floats = Vec::new();
            let written = Written { out: &mut text, floats: &mut floats, nested: false };
            let Some(kind) = list.next_element_seed(written)? else {
                return Ok(Parameters { texts, rounded });
            };
            let parameter = texts.len();
            let places = floats.into_iter();
            rounded.extend(places.map(|(start, end)| Rounded { parameter, start, end }));
            if texts.len() >= PARAMETERS_MAX {
                return Err(A::Error::custom(format!(
                    "a statement has at most {PARAMETERS_MAX} parameters"
                )));
            }
            texts.push(match kind {
                Kind::Null => None,
                Kind::Value => Some(text),
            });
        }
    }
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Null,
    Value,
}

/// Appends a value to a text: as JSON where `nested`, and otherwise a string without quotes.
struct Written<'a> {
    out: &'a mut String,
    /// Where the text has numbers of double precision.
    floats: &'a mut Vec<(usize, usize)>,
    nested: bool,
}

impl<'de> DeserializeSeed<'de> for Written<'_> {
    type Value = Kind;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Kind, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Written<'_> {
    fn push(self, text: &str) -> Kind {
        self.out.push_str(text);
        Kind::Value
    }
}

impl<'de> Visitor<'de> for Written<'_> {
    type Value = Kind;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Kind, E> {
        self.push("null");
        Ok(Kind::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Kind, E> {
        Ok(self.push(if value { "true" } else { "false" }))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Kind, E> {
        Ok(self.push(&value.to_string()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Kind, E> {
        Ok(self.push(&value.to_string()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Kind, E> {
        let start = self.out.len();
        self.out.push_str(&serde_json::Value::from(value).to_string());
        self.floats.push((start, self.out.len()));
        Ok(Kind::Value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Kind, E> {
        match self.nested {
            true => {
                let quoted = serde_json::to_string(value).map_err(E::custom)?;
                Ok(self.push(&quoted))
            }
            false => Ok(self.push(value)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Kind, A::Error> {
        self.out.push('[');
        loop {
            let (out, floats) = (&mut *self.out, &mut *self.floats);
            if list.next_element_seed(Written { out, floats, nested: true })?.is_none() {
                break;
            }
            self.out.push(',');
        }
        if self.out.ends_with(',') {
            self.out.pop();
        }
        self.out.push(']');
        Ok(Kind::Value)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Kind, A::Error> {
        self.out.push('{');
        while let Some(key) = map.next_key::<String>()? {
            let quoted = serde_json::to_string(&key).map_err(A::Error::custom)?;
            self.out.push_str(&quoted);
            self.out.push(':');
            let (out, floats) = (&mut *self.out, &mut *self.floats);
            map.next_value_seed(Written { out, floats, nested: true })?;
            self.out.push(',');
        }
        if self.out.ends_with(',') {
            self.out.pop();
        }
        self.out.push('}');
        Ok(Kind::Value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(json: &str) -> Vec<Option<String>> {
        serde_json::from_str::<Parameters>(json).unwrap().texts
    }

    #[test]
    fn values_are_texts_as_json_has_them() {
        let json = r#"[null, true, -1, 18446744073709551615, 1.50, "a\"b", [], {}, [1, [null, "x,"], {"k": "v\n", "n": 1}]]"#;
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
        let json =
            r#"[1.10, "2.50", -0, 18446744073709551617, {"n": [1, 12345678901234567890123, 1e5]}]"#;
        let mut parameters = serde_json::from_str::<Parameters>(json).unwrap();
        parameters.keep_digits(json);
        let texts: Vec<&str> = parameters.texts.iter().flatten().map(String::as_str).collect();
        let nested = r#"{"n":[1,12345678901234567890123,1e5]}"#;
        assert_eq!(texts, ["1.10", "2.50", "-0", "18446744073709551617", nested]);
    }

    #[test]
    fn the_number_of_parameters_is_bounded() {
        let list = |count: usize| format!("[{}]", vec!["1"; count].join(","));
        assert_eq!(texts(&list(PARAMETERS_MAX)).len(), PARAMETERS_MAX);
        let error = serde_json::from_str::<Parameters>(&list(PARAMETERS_MAX + 1)).unwrap_err();
        assert!(error.to_string().contains("at most 65535 parameters"), "{error}");
    }
}
