//! The answers to Flight SQL's commands GetSqlInfo and GetXdbcTypeInfo.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use arrow_flight::sql::{
    Nullable, Searchable, SqlInfo as I, SqlNullOrdering, SqlOuterJoinsSupportLevel,
    SqlSupportedCaseSensitivity, SqlSupportedGroupBy, SqlSupportedResultSetConcurrency,
    SqlSupportedResultSetType, SqlSupportedSubqueries, SqlSupportedTransaction, SqlSupportedUnions,
    SqlSupportsConvert, SqlTransactionIsolationLevel, SupportedSqlGrammar, XdbcDataType,
    XdbcDatetimeSubcode,
    metadata::{
        SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
    },
};
use stratalog_model::{Error, Result};

/// Maximum bytes of the name of a table or column, as reported to clients.
const NAME_BYTES_MAX: i64 = 63;
/// Maximum columns of a table, a result, a GROUP BY and an ORDER BY, as reported to clients.
const COLUMNS_MAX: i64 = 1600;

/// The prepared answers, which do not change while the server runs.
pub(crate) struct Facts {
    sql: SqlInfoData,
    types: XdbcTypeInfoData,
}

impl std::fmt::Debug for Facts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Facts")
    }
}

impl Facts {
    /// Prepares the answers. They contain the limits in the arguments: the bytes of a statement,
    /// and the number of connections.
    ///
    /// # Errors
    /// `Internal` if an answer cannot be encoded as columns.
    pub(crate) fn new(statement_bytes_max: usize, connections_max: usize) -> Result<Self> {
        let written = |error| Error::internal(format!("facts about SQL: {error}"));
        Ok(Self {
            sql: sql(statement_bytes_max, connections_max).build().map_err(written)?,
            types: types().build().map_err(written)?,
        })
    }

    /// The answer to GetSqlInfo: the properties with the given numbers, or all properties if
    /// `numbers` is empty.
    ///
    /// # Errors
    /// `Internal` if the answer cannot be encoded as columns.
    pub(crate) fn sql(&self, numbers: &[u32]) -> Result<RecordBatch> {
        self.sql
            .record_batch(numbers.iter().copied())
            .map_err(|error| Error::internal(error.to_string()))
    }

    /// The answer to GetXdbcTypeInfo: the types with the XDBC number `number`, or all types for
    /// `None`.
    ///
    /// # Errors
    /// `Internal` if the answer cannot be encoded as columns.
    pub(crate) fn types(&self, number: Option<i32>) -> Result<RecordBatch> {
        self.types.record_batch(number).map_err(|error| Error::internal(error.to_string()))
    }
}

fn bits(values: impl IntoIterator<Item = i32>) -> i32 {
    values.into_iter().fold(0, |bits, value| bits | 1 << value)
}

fn sql(statement_bytes_max: usize, connections_max: usize) -> SqlInfoDataBuilder {
    let mut info = SqlInfoDataBuilder::new();
    info.append(I::FlightSqlServerName, "Stratalog");
    info.append(I::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    info.append(I::FlightSqlServerArrowVersion, arrow::ARROW_VERSION);
    info.append(I::FlightSqlServerTransaction, SqlSupportedTransaction::Transaction as i32);
    info.append(I::FlightSqlServerStatementTimeout, 0_i32);
    info.append(I::FlightSqlServerTransactionTimeout, 0_i32);
    for (fact, holds) in FLAGS {
        info.append(*fact, *holds);
    }
    let texts: &[(I, &str)] = &[
        (I::SqlIdentifierQuoteChar, "\""),
        (I::SqlSearchStringEscape, "\\"),
        (I::SqlExtraNameCharacters, "$"),
        (I::SqlSchemaTerm, "schema"),
        (I::SqlProcedureTerm, "procedure"),
        (I::SqlCatalogTerm, "database"),
    ];
    for (fact, text) in texts {
        info.append(*fact, *text);
    }
    for (fact, words) in [
        (I::SqlKeywords, KEYWORDS),
        (I::SqlNumericFunctions, NUMERIC),
        (I::SqlStringFunctions, STRINGS),
        (I::SqlSystemFunctions, SYSTEM),
        (I::SqlDatetimeFunctions, TIMES),
    ] {
        info.append(fact, words);
    }
    let bigint = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let numbers: &[(I, i64)] = &[
        (I::SqlMaxBinaryLiteralLength, bigint(statement_bytes_max)),
        (I::SqlMaxCharLiteralLength, bigint(statement_bytes_max)),
        (I::SqlMaxColumnNameLength, NAME_BYTES_MAX),
        (I::SqlMaxColumnsInGroupBy, COLUMNS_MAX),
        (I::SqlMaxColumnsInIndex, COLUMNS_MAX),
        (I::SqlMaxColumnsInOrderBy, COLUMNS_MAX),
        (I::SqlMaxColumnsInSelect, COLUMNS_MAX),
        (I::SqlMaxColumnsInTable, COLUMNS_MAX),
        (I::SqlMaxConnections, bigint(connections_max)),
        (I::SqlMaxCursorNameLength, NAME_BYTES_MAX),
        // In Flight SQL, 0 means no limit or an unknown limit.
        (I::SqlMaxIndexLength, 0),
        (I::SqlDbSchemaNameLength, NAME_BYTES_MAX),
        (I::SqlMaxProcedureNameLength, NAME_BYTES_MAX),
        (I::SqlMaxCatalogNameLength, NAME_BYTES_MAX),
        (I::SqlMaxRowSize, 0),
        (I::SqlMaxStatementLength, bigint(statement_bytes_max)),
        (I::SqlMaxStatements, 0),
        (I::SqlMaxTableNameLength, NAME_BYTES_MAX),
        (I::SqlMaxTablesInSelect, 0),
        (I::SqlMaxUsernameLength, NAME_BYTES_MAX),
        (I::SqlIdentifierCase, SqlSupportedCaseSensitivity::SqlCaseSensitivityLowercase as i64),
        (
            I::SqlQuotedIdentifierCase,
            SqlSupportedCaseSensitivity::SqlCaseSensitivityCaseInsensitive as i64,
        ),
        (I::SqlNullOrdering, SqlNullOrdering::SqlNullsSortedHigh as i64),
        (
            I::SqlDefaultTransactionIsolation,
            SqlTransactionIsolationLevel::SqlTransactionRepeatableRead as i64,
        ),
    ];
    for (fact, number) in numbers {
        info.append(*fact, *number);
    }
    for (fact, values) in MASKS {
        info.append(*fact, bits(values.iter().copied()));
    }
    info.append(I::SqlSupportsConvert, conversions());
    info
}

/// The bit number of the conformance level "entry" of SQL-92.
const ANSI92_ENTRY: i32 = 0;

const FLAGS: &[(I, bool)] = &[
    (I::FlightSqlServerReadOnly, false),
    (I::FlightSqlServerSql, true),
    (I::FlightSqlServerSubstrait, false),
    (I::FlightSqlServerCancel, true),
    (I::FlightSqlServerBulkIngestion, true),
    (I::FlightSqlServerIngestTransactionsSupported, true),
    (I::SqlDdlCatalog, true),
    (I::SqlDdlSchema, true),
    (I::SqlDdlTable, true),
    (I::SqlAllTablesAreSelectable, true),
    (I::SqlSupportsColumnAliasing, true),
    (I::SqlNullPlusNullIsNull, true),
    (I::SqlSupportsTableCorrelationNames, true),
    (I::SqlSupportsDifferentTableCorrelationNames, false),
    (I::SqlSupportsExpressionsInOrderBy, true),
    (I::SqlSupportsOrderByUnrelated, true),
    (I::SqlSupportsLikeEscapeClause, true),
    (I::SqlSupportsNonNullableColumns, true),
    (I::SqlSupportsIntegrityEnhancementFacility, false),
    (I::SqlCatalogAtStart, true),
    (I::SqlSelectForUpdateSupported, false),
    (I::SqlStoredProceduresSupported, false),
    (I::SqlCorrelatedSubqueriesSupported, true),
    (I::SqlMaxRowSizeIncludesBlobs, true),
    (I::SqlTransactionsSupported, true),
    (I::SqlDataDefinitionCausesTransactionCommit, false),
    (I::SqlDataDefinitionsInTransactionsIgnored, false),
    (I::SqlBatchUpdatesSupported, true),
    (I::SqlSavepointsSupported, false),
    (I::SqlNamedParametersSupported, false),
    (I::SqlLocatorsUpdateCopy, false),
    (I::SqlStoredFunctionsUsingCallSyntaxSupported, false),
];

const MASKS: &[(I, &[i32])] = &[
    (
        I::SqlSupportedGroupBy,
        &[
            SqlSupportedGroupBy::SqlGroupByUnrelated as i32,
            SqlSupportedGroupBy::SqlGroupByBeyondSelect as i32,
        ],
    ),
    (
        I::SqlSupportedGrammar,
        &[
            SupportedSqlGrammar::SqlMinimumGrammar as i32,
            SupportedSqlGrammar::SqlCoreGrammar as i32,
        ],
    ),
    (I::SqlAnsi92SupportedLevel, &[ANSI92_ENTRY]),
    (
        I::SqlOuterJoinsSupportLevel,
        &[
            SqlOuterJoinsSupportLevel::SqlLimitedOuterJoins as i32,
            SqlOuterJoinsSupportLevel::SqlFullOuterJoins as i32,
        ],
    ),
    (I::SqlSchemasSupportedActions, &[]),
    (I::SqlCatalogsSupportedActions, &[]),
    (I::SqlSupportedPositionedCommands, &[]),
    (
        I::SqlSupportedSubqueries,
        &[
            SqlSupportedSubqueries::SqlSubqueriesInComparisons as i32,
            SqlSupportedSubqueries::SqlSubqueriesInExists as i32,
            SqlSupportedSubqueries::SqlSubqueriesInIns as i32,
            SqlSupportedSubqueries::SqlSubqueriesInQuantifieds as i32,
        ],
    ),
    (
        I::SqlSupportedUnions,
        &[SqlSupportedUnions::SqlUnion as i32, SqlSupportedUnions::SqlUnionAll as i32],
    ),
    (
        I::SqlSupportedTransactionsIsolationLevels,
        &[
            SqlTransactionIsolationLevel::SqlTransactionReadCommitted as i32,
            SqlTransactionIsolationLevel::SqlTransactionRepeatableRead as i32,
        ],
    ),
    (
        I::SqlSupportedResultSetTypes,
        &[SqlSupportedResultSetType::SqlResultSetTypeForwardOnly as i32],
    ),
    (I::SqlSupportedConcurrenciesForResultSetUnspecified, &[]),
    (
        I::SqlSupportedConcurrenciesForResultSetForwardOnly,
        &[SqlSupportedResultSetConcurrency::SqlResultSetConcurrencyReadOnly as i32],
    ),
    (I::SqlSupportedConcurrenciesForResultSetScrollSensitive, &[]),
    (I::SqlSupportedConcurrenciesForResultSetScrollInsensitive, &[]),
];

/// For each type, the types to which a value can be cast. Types are XDBC numbers.
fn conversions() -> BTreeMap<i32, Vec<i32>> {
    use SqlSupportsConvert as C;
    let numbers = [
        C::SqlConvertBigint as i32,
        C::SqlConvertInteger as i32,
        C::SqlConvertSmallint as i32,
        C::SqlConvertDecimal as i32,
        C::SqlConvertNumeric as i32,
        C::SqlConvertFloat as i32,
        C::SqlConvertReal as i32,
    ];
    let text = C::SqlConvertVarchar as i32;
    let (date, time, timestamp) =
        (C::SqlConvertDate as i32, C::SqlConvertTime as i32, C::SqlConvertTimestamp as i32);
    let with_text = |values: &[i32]| values.iter().copied().chain([text]).collect::<Vec<i32>>();
    let mut all: BTreeMap<i32, Vec<i32>> =
        numbers.iter().map(|number| (*number, with_text(&numbers))).collect();
    all.insert(date, with_text(&[timestamp]));
    all.insert(time, with_text(&[]));
    all.insert(timestamp, with_text(&[date, time]));
    all.insert(C::SqlConvertBit as i32, with_text(&[C::SqlConvertInteger as i32]));
    let from_text = [&numbers[..], &[date, time, timestamp, C::SqlConvertBit as i32]].concat();
    all.insert(text, from_text);
    all
}

/// The description of a type for GetXdbcTypeInfo.
fn xdbc(name: &str, data_type: XdbcDataType, size: i32, quoted: bool) -> XdbcTypeInfo {
    let quote = quoted.then(|| "'".to_string());
    let number = !quoted && data_type != XdbcDataType::XdbcBit;
    XdbcTypeInfo {
        type_name: name.to_string(),
        data_type,
        column_size: Some(size),
        literal_prefix: quote.clone(),
        literal_suffix: quote,
        create_params: None,
        nullable: Nullable::NullabilityNullable,
        case_sensitive: matches!(data_type, XdbcDataType::XdbcVarchar),
        searchable: Searchable::Full,
        unsigned_attribute: number.then_some(false),
        fixed_prec_scale: false,
        auto_increment: number.then_some(false),
        local_type_name: Some(name.to_string()),
        minimum_scale: None,
        maximum_scale: None,
        sql_data_type: data_type,
        datetime_subcode: None,
        num_prec_radix: number.then_some(10),
        interval_precision: None,
    }
}

fn types() -> XdbcTypeInfoDataBuilder {
    use XdbcDataType as T;
    let mut types = XdbcTypeInfoDataBuilder::new();
    for (name, data_type, size, quoted) in [
        ("boolean", T::XdbcBit, 1, false),
        ("smallint", T::XdbcSmallint, 5, false),
        ("integer", T::XdbcInteger, 10, false),
        ("bigint", T::XdbcBigint, 19, false),
        ("real", T::XdbcReal, 8, false),
        ("double precision", T::XdbcDouble, 17, false),
        ("text", T::XdbcVarchar, i32::MAX, true),
        ("uuid", T::XdbcVarchar, 36, true),
        ("jsonb", T::XdbcVarchar, i32::MAX, true),
        ("bytea", T::XdbcVarbinary, i32::MAX, true),
    ] {
        types.append(xdbc(name, data_type, size, quoted));
    }
    types.append(XdbcTypeInfo {
        create_params: Some(vec!["precision".to_string(), "scale".to_string()]),
        minimum_scale: Some(0),
        maximum_scale: Some(38),
        ..xdbc("numeric", T::XdbcNumeric, 38, false)
    });
    let times = |name: &str, data_type, size, subcode| XdbcTypeInfo {
        sql_data_type: XdbcDataType::XdbcDatetime,
        datetime_subcode: Some(subcode),
        minimum_scale: Some(0),
        maximum_scale: Some(9),
        ..xdbc(name, data_type, size, true)
    };
    types.append(XdbcTypeInfo {
        minimum_scale: None,
        maximum_scale: None,
        ..times("date", T::XdbcDate, 10, XdbcDatetimeSubcode::XdbcSubcodeYear)
    });
    types.append(times("time", T::XdbcTime, 15, XdbcDatetimeSubcode::XdbcSubcodeTime));
    types.append(times(
        "timestamp",
        T::XdbcTimestamp,
        29,
        XdbcDatetimeSubcode::XdbcSubcodeTimestamp,
    ));
    types.append(times(
        "timestamptz",
        T::XdbcTimestamp,
        35,
        XdbcDatetimeSubcode::XdbcSubcodeTimestampWithTimezone,
    ));
    types.append(XdbcTypeInfo {
        datetime_subcode: Some(XdbcDatetimeSubcode::XdbcSubcodeDayToSecond),
        ..xdbc("interval", T::XdbcInterval, 49, true)
    });
    types
}

/// Keywords of Stratalog that SQL:2003 does not have.
const KEYWORDS: &[&str] = &[
    "ABORT",
    "ANALYZE",
    "CHRONICLE",
    "CONFLICT",
    "COPY",
    "DATABASE",
    "DISCARD",
    "EXPLAIN",
    "ILIKE",
    "LIMIT",
    "LOCK",
    "NOTHING",
    "OFFSET",
    "QUALIFY",
    "RENAME",
    "RESET",
    "RETURNING",
    "SHOW",
    "TEMPORARY",
    "VERBOSE",
];
const NUMERIC: &[&str] = &[
    "ABS", "ACOS", "ASIN", "ATAN", "ATAN2", "CEILING", "COS", "COT", "DEGREES", "EXP", "FLOOR",
    "LOG", "LOG10", "MOD", "PI", "POWER", "RADIANS", "ROUND", "SIGN", "SIN", "SQRT", "TAN",
];
const STRINGS: &[&str] = &[
    "ASCII",
    "CHAR_LENGTH",
    "CONCAT",
    "LEFT",
    "LENGTH",
    "LOWER",
    "LTRIM",
    "OCTET_LENGTH",
    "POSITION",
    "REPEAT",
    "REPLACE",
    "RIGHT",
    "RTRIM",
    "SUBSTRING",
    "UPPER",
];
const SYSTEM: &[&str] = &["COALESCE", "CURRENT_DATABASE", "CURRENT_USER", "VERSION"];
const TIMES: &[&str] = &[
    "CURRENT_DATE",
    "CURRENT_TIME",
    "CURRENT_TIMESTAMP",
    "EXTRACT",
    "NOW",
    "DATE_PART",
    "DATE_TRUNC",
    "DATE_BIN",
    "TIME_BUCKET",
    "TO_CHAR",
    "TO_TIMESTAMP",
];
