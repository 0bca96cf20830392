//! The letters for column types in `query` records.

use arrow::datatypes::{DataType, Field};
use stratalog_model::ColumnType;

/// A column type in the header of a `query` record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Letter {
    /// `B`
    Boolean,
    /// `I`: any integer
    Integer,
    /// `R`: floats and numerics
    Real,
    /// `D`
    Date,
    /// `P`: timestamps, with time zone or without
    Timestamp,
    /// `T`: everything else
    Text,
    /// `?`: an unknown type, or a type that is not checked
    Any,
}

impl Letter {
    /// The letter of a result column.
    pub fn of(field: &Field) -> Self {
        if matches!(field.data_type(), DataType::UInt64) {
            return Letter::Integer;
        }
        match ColumnType::from_arrow_field(field) {
            Some(ColumnType::Boolean) => Letter::Boolean,
            Some(ColumnType::SmallInt | ColumnType::Integer | ColumnType::BigInt) => {
                Letter::Integer
            }
            Some(ColumnType::Real | ColumnType::Double | ColumnType::Numeric { .. }) => {
                Letter::Real
            }
            Some(ColumnType::Date) => Letter::Date,
            Some(ColumnType::Timestamp { .. } | ColumnType::TimestampTz { .. }) => {
                Letter::Timestamp
            }
            _ => Letter::Text,
        }
    }
}

impl sqllogictest::ColumnType for Letter {
    fn from_char(value: char) -> Option<Self> {
        Some(match value {
            'B' => Letter::Boolean,
            'I' => Letter::Integer,
            'R' => Letter::Real,
            'D' => Letter::Date,
            'P' => Letter::Timestamp,
            'T' => Letter::Text,
            _ => Letter::Any,
        })
    }

    fn to_char(&self) -> char {
        match self {
            Letter::Boolean => 'B',
            Letter::Integer => 'I',
            Letter::Real => 'R',
            Letter::Date => 'D',
            Letter::Timestamp => 'P',
            Letter::Text => 'T',
            Letter::Any => '?',
        }
    }
}

/// True if the number of columns matches the record, and the types match wherever both are known.
#[expect(clippy::ptr_arg, reason = "the signature that sqllogictest's runner takes")]
pub fn letters_match(actual: &Vec<Letter>, expected: &Vec<Letter>) -> bool {
    actual.len() == expected.len()
        && actual.iter().zip(expected).all(|(actual, expected)| {
            actual == expected || *actual == Letter::Any || *expected == Letter::Any
        })
}
