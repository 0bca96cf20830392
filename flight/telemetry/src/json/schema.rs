//! The fields of OTLP's messages that the reader supports: the name in JSON, and the number and
//! type in protobuf.

/// The type of a field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Text,
    /// Bytes; base64 in JSON.
    Bytes,
    /// Bytes; hexadecimal in JSON.
    Hex,
    Boolean,
    /// An unsigned varint of 32 bits.
    Unsigned,
    /// An enum: a varint of 32 bits. A number for which the enum has no name is also valid.
    Enum,
    /// A signed varint of 64 bits.
    Integer,
    Fixed64,
    SFixed64,
    Fixed32,
    Double,
    Message(&'static [Rule]),
}

impl Kind {
    /// A description of the valid values, for error messages.
    pub(super) fn wanted(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Bytes => "base64",
            Self::Hex => "hexadecimal digits",
            Self::Boolean => "true or false",
            Self::Unsigned | Self::Enum | Self::Fixed32 => "an integer of 32 bits",
            Self::Integer | Self::Fixed64 | Self::SFixed64 => "an integer of 64 bits",
            Self::Double => "a number",
            Self::Message(_) => "an object",
        }
    }
}

/// A field of a message: its names and its type.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(super) name: &'static str,
    pub(super) number: u32,
    pub(super) kind: Kind,
    pub(super) repeated: bool,
}

const fn one(name: &'static str, number: u32, kind: Kind) -> Rule {
    Rule { name, number, kind, repeated: false }
}

const fn many(name: &'static str, number: u32, kind: Kind) -> Rule {
    Rule { name, number, kind, repeated: true }
}

pub(crate) static METRICS: [Rule; 1] =
    [many("resourceMetrics", 1, Kind::Message(&RESOURCE_METRICS))];

static RESOURCE_METRICS: [Rule; 2] = [
    one("resource", 1, Kind::Message(&RESOURCE)),
    many("scopeMetrics", 2, Kind::Message(&SCOPE_METRICS)),
];

static SCOPE_METRICS: [Rule; 2] =
    [one("scope", 1, Kind::Message(&SCOPE)), many("metrics", 2, Kind::Message(&METRIC))];

static METRIC: [Rule; 6] = [
    one("name", 1, Kind::Text),
    one("gauge", 5, Kind::Message(&NUMBERS)),
    one("sum", 7, Kind::Message(&NUMBERS)),
    one("histogram", 9, Kind::Message(&HISTOGRAM)),
    one("exponentialHistogram", 10, Kind::Message(&EXPONENTIAL)),
    one("summary", 11, Kind::Message(&SUMMARY)),
];

static NUMBERS: [Rule; 1] = [many("dataPoints", 1, Kind::Message(&NUMBER_POINT))];
static HISTOGRAM: [Rule; 1] = [many("dataPoints", 1, Kind::Message(&HISTOGRAM_POINT))];
/// The rule has no fields for the points, because the reader only counts and refuses them.
static EXPONENTIAL: [Rule; 1] = [many("dataPoints", 1, Kind::Message(&[]))];
static SUMMARY: [Rule; 1] = [many("dataPoints", 1, Kind::Message(&SUMMARY_POINT))];

static NUMBER_POINT: [Rule; 5] = [
    one("timeUnixNano", 3, Kind::Fixed64),
    one("asDouble", 4, Kind::Double),
    one("asInt", 6, Kind::SFixed64),
    many("attributes", 7, Kind::Message(&KEY_VALUE)),
    one("flags", 8, Kind::Unsigned),
];

static HISTOGRAM_POINT: [Rule; 9] = [
    one("timeUnixNano", 3, Kind::Fixed64),
    one("count", 4, Kind::Fixed64),
    one("sum", 5, Kind::Double),
    many("bucketCounts", 6, Kind::Fixed64),
    many("explicitBounds", 7, Kind::Double),
    many("attributes", 9, Kind::Message(&KEY_VALUE)),
    one("flags", 10, Kind::Unsigned),
    one("min", 11, Kind::Double),
    one("max", 12, Kind::Double),
];

static SUMMARY_POINT: [Rule; 6] = [
    one("timeUnixNano", 3, Kind::Fixed64),
    one("count", 4, Kind::Fixed64),
    one("sum", 5, Kind::Double),
    many("quantileValues", 6, Kind::Message(&QUANTILE)),
    many("attributes", 7, Kind::Message(&KEY_VALUE)),
    one("flags", 8, Kind::Unsigned),
];

static QUANTILE: [Rule; 2] = [one("quantile", 1, Kind::Double), one("value", 2, Kind::Double)];

pub(crate) static LOGS: [Rule; 1] = [many("resourceLogs", 1, Kind::Message(&RESOURCE_LOGS))];

static RESOURCE_LOGS: [Rule; 2] = [
    one("resource", 1, Kind::Message(&RESOURCE)),
    many("scopeLogs", 2, Kind::Message(&SCOPE_LOGS)),
];

static SCOPE_LOGS: [Rule; 2] =
    [one("scope", 1, Kind::Message(&SCOPE)), many("logRecords", 2, Kind::Message(&LOG_RECORD))];

static LOG_RECORD: [Rule; 10] = [
    one("timeUnixNano", 1, Kind::Fixed64),
    one("severityNumber", 2, Kind::Enum),
    one("severityText", 3, Kind::Text),
    one("body", 5, Kind::Message(&ANY_VALUE)),
    many("attributes", 6, Kind::Message(&KEY_VALUE)),
    one("flags", 8, Kind::Fixed32),
    one("traceId", 9, Kind::Hex),
    one("spanId", 10, Kind::Hex),
    one("observedTimeUnixNano", 11, Kind::Fixed64),
    one("eventName", 12, Kind::Text),
];

static RESOURCE: [Rule; 1] = [many("attributes", 1, Kind::Message(&KEY_VALUE))];

static SCOPE: [Rule; 3] = [
    one("name", 1, Kind::Text),
    one("version", 2, Kind::Text),
    many("attributes", 3, Kind::Message(&KEY_VALUE)),
];

static KEY_VALUE: [Rule; 2] =
    [one("key", 1, Kind::Text), one("value", 2, Kind::Message(&ANY_VALUE))];

static ANY_VALUE: [Rule; 7] = [
    one("stringValue", 1, Kind::Text),
    one("boolValue", 2, Kind::Boolean),
    one("intValue", 3, Kind::Integer),
    one("doubleValue", 4, Kind::Double),
    one("arrayValue", 5, Kind::Message(&VALUES)),
    one("kvlistValue", 6, Kind::Message(&KEY_VALUES)),
    one("bytesValue", 7, Kind::Bytes),
];

static VALUES: [Rule; 1] = [many("values", 1, Kind::Message(&ANY_VALUE))];
static KEY_VALUES: [Rule; 1] = [many("values", 1, Kind::Message(&KEY_VALUE))];
