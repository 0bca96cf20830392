//! Checks the types in a schema message, because Arrow's decoder panics at unknown types.

use arrow::ipc::{DateUnit, Endianness, Field, IntervalUnit, Message, Precision, TimeUnit, Type};

use super::{Fault, lies};

/// Checks the types of a schema's columns.
pub(super) fn check(message: &Message<'_>) -> Result<(), Fault> {
    let schema = message.header_as_schema();
    let schema = schema.ok_or_else(|| lies("the header is missing".to_string()))?;
    if schema.endianness() != Endianness::Little {
        let message = "big-endian values are not supported: send little-endian values";
        return Err(Fault::NotOffered(message.to_string()));
    }
    let fields =
        schema.fields().ok_or_else(|| lies("the schema has no list of columns".to_string()))?;
    fields.iter().try_for_each(check_field)
}

fn check_field(field: Field<'_>) -> Result<(), Fault> {
    let name = field.name().unwrap_or_default();
    if let Some(dictionary) = field.dictionary()
        && !dictionary.indexType().is_some_and(|int| matches!(int.bitWidth(), 8 | 16 | 32 | 64))
    {
        return Err(lies(format!(
            "the dictionary of column \"{name}\" has indices of no known type"
        )));
    }
    // The decoder panics if the offsets of a union are misaligned.
    if field.type_type() == Type::Union {
        let message = format!(
            "column \"{name}\" is a union, which is not supported: send the parts as columns"
        );
        return Err(Fault::NotOffered(message));
    }
    if !is_known(field) {
        let found = field.type_type().variant_name().unwrap_or("unknown");
        return Err(lies(format!("the type {found} of column \"{name}\" does not exist")));
    }
    field.children().iter().flatten().try_for_each(check_field)
}

fn is_known(field: Field<'_>) -> bool {
    let children = field.children().map_or(0, |children| children.len());
    let is_time_unit = |unit: TimeUnit| unit.variant_name().is_some();
    let known = match field.type_type() {
        Type::Null
        | Type::Bool
        | Type::Binary
        | Type::BinaryView
        | Type::LargeBinary
        | Type::Utf8
        | Type::Utf8View
        | Type::LargeUtf8
        | Type::Struct_ => Some(true),
        Type::Int => field.type_as_int().map(|int| matches!(int.bitWidth(), 8 | 16 | 32 | 64)),
        Type::FixedSizeBinary => field.type_as_fixed_size_binary().map(|of| of.byteWidth() >= 0),
        Type::FloatingPoint => field.type_as_floating_point().map(|of| {
            matches!(of.precision(), Precision::HALF | Precision::SINGLE | Precision::DOUBLE)
        }),
        Type::Date => field
            .type_as_date()
            .map(|of| matches!(of.unit(), DateUnit::DAY | DateUnit::MILLISECOND)),
        Type::Time => field.type_as_time().map(|of| match of.unit() {
            TimeUnit::SECOND | TimeUnit::MILLISECOND => of.bitWidth() == 32,
            TimeUnit::MICROSECOND | TimeUnit::NANOSECOND => of.bitWidth() == 64,
            _ => false,
        }),
        Type::Timestamp => field.type_as_timestamp().map(|of| is_time_unit(of.unit())),
        Type::Duration => field.type_as_duration().map(|of| is_time_unit(of.unit())),
        Type::Interval => field.type_as_interval().map(|of| {
            matches!(
                of.unit(),
                IntervalUnit::YEAR_MONTH | IntervalUnit::DAY_TIME | IntervalUnit::MONTH_DAY_NANO
            )
        }),
        Type::Decimal => field.type_as_decimal().map(|of| {
            let most = match of.bitWidth() {
                32 => 9,
                64 => 18,
                128 => 38,
                256 => 76,
                _ => 0,
            };
            (1..=most).contains(&of.precision()) && (-most..=most).contains(&of.scale())
        }),
        Type::List | Type::LargeList | Type::ListView | Type::LargeListView => Some(children == 1),
        Type::FixedSizeList => {
            field.type_as_fixed_size_list().map(|of| of.listSize() >= 0 && children == 1)
        }
        Type::Map => field.type_as_map().map(|_| children == 1),
        Type::RunEndEncoded => Some(children == 2),
        _ => None,
    };
    known.unwrap_or(false)
}
