//! The kinds of field values, and the column types that can store each kind.

use std::fmt;

use stratalog_model::ColumnType;

/// The kind of a field's value, by its syntax.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnKind {
    /// `1`, `1.5`, `-1e6`: 64-bit floating point.
    Float,
    /// `1i`: 64-bit integer.
    Integer,
    /// `1u`: 64-bit integer without a sign.
    Unsigned,
    /// `"…"`: text.
    Text,
    /// `t`, `true`, `f`, `false` …
    Boolean,
}

impl ColumnKind {
    /// The column type for new columns with values of this kind.
    pub fn column_type(self) -> ColumnType {
        match self {
            Self::Float => ColumnType::Double,
            Self::Integer => ColumnType::BigInt,
            Self::Unsigned => ColumnType::Numeric { precision: 20, scale: 0 },
            Self::Text => ColumnType::Text,
            Self::Boolean => ColumnType::Boolean,
        }
    }

    /// True if a column of the given type can store values of this kind. A single value may still
    /// be out of range.
    pub fn fits(self, column_type: &ColumnType) -> bool {
        use ColumnType as T;
        match self {
            Self::Float => matches!(column_type, T::Double | T::Real),
            Self::Integer | Self::Unsigned => {
                matches!(column_type, T::BigInt | T::Integer | T::SmallInt | T::Numeric { .. })
            }
            Self::Text => matches!(column_type, T::Text),
            Self::Boolean => matches!(column_type, T::Boolean),
        }
    }

    /// A description of the syntax of a value for a column of the given type, for a hint; `None` if
    /// no value fits.
    pub(crate) fn written_for(column_type: &ColumnType) -> Option<&'static str> {
        use ColumnType as T;
        Some(match column_type {
            T::Double | T::Real => "a float, 1.5",
            T::BigInt | T::Integer | T::SmallInt | T::Numeric { .. } => "an integer, 1i",
            T::Text => "a string, \"text\"",
            T::Boolean => "a boolean, true",
            _ => return None,
        })
    }
}

impl fmt::Display for ColumnKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Float => "float",
            Self::Integer => "integer",
            Self::Unsigned => "unsigned integer",
            Self::Text => "string",
            Self::Boolean => "boolean",
        })
    }
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FieldValue<'a> {
    /// A value of kind [`ColumnKind::Float`]. Some protocols also have NaN and infinity.
    Float(f64),
    /// A value of kind [`ColumnKind::Integer`].
    Integer(i64),
    /// A value of kind [`ColumnKind::Unsigned`].
    Unsigned(u64),
    /// A value of kind [`ColumnKind::Text`], without U+0000, which a table cannot store.
    Text(&'a str),
    /// A value of kind [`ColumnKind::Boolean`].
    Boolean(bool),
}

impl FieldValue<'_> {
    /// The kind of the value.
    pub fn kind(&self) -> ColumnKind {
        match self {
            Self::Float(_) => ColumnKind::Float,
            Self::Integer(_) => ColumnKind::Integer,
            Self::Unsigned(_) => ColumnKind::Unsigned,
            Self::Text(_) => ColumnKind::Text,
            Self::Boolean(_) => ColumnKind::Boolean,
        }
    }
}
