//! Converts Arrow type names in DataFusion's messages to SQL type names.

/// The SQL name of an Arrow type; other words stay unchanged.
pub fn sql_type(arrow: &str) -> String {
    let arrow = arrow.trim();
    let arrow = arrow.strip_prefix("non-null ").unwrap_or(arrow);
    let name = match arrow {
        "Null" => "unknown",
        "Boolean" => "boolean",
        "Int8" | "UInt8" | "Int16" => "smallint",
        "UInt16" | "Int32" => "integer",
        "UInt32" | "Int64" | "UInt64" => "bigint",
        "Float16" | "Float32" => "real",
        "Float64" => "double precision",
        "Utf8" | "Utf8View" | "LargeUtf8" => "text",
        "Binary" | "BinaryView" | "LargeBinary" => "bytea",
        "Date32" | "Date64" => "date",
        "FixedSizeBinary(16)" => "uuid",
        _ => match arrow.split_once('(') {
            Some(("Timestamp", rest)) if rest.contains('"') => "timestamp with time zone",
            Some(("Timestamp", _)) => "timestamp without time zone",
            Some(("Time32" | "Time64", _)) => "time without time zone",
            Some(("Interval" | "Duration", _)) => "interval",
            Some(("Decimal32" | "Decimal64" | "Decimal128" | "Decimal256", _)) => "numeric",
            Some(("Struct", _)) => "record",
            Some(("List" | "LargeList" | "ListView" | "FixedSizeList", rest)) => {
                let inner = rest.strip_suffix(')').unwrap_or(rest);
                return format!("{}[]", sql_type(split(inner, ',').first().unwrap_or(&inner)));
            }
            _ => arrow,
        },
    };
    name.to_string()
}

/// Splits a text at each `separator` that is outside of brackets and quotes.
pub fn split(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut start) = (Vec::new(), 0);
    let (mut depth, mut quoted) = (0_usize, false);
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ if c == separator && depth == 0 => {
                parts.extend(text.get(start..at));
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.extend(text.get(start..));
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}
