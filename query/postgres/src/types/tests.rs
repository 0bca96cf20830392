use datafusion::sql::sqlparser::{dialect::PostgreSqlDialect, parser::Parser};

use super::*;

fn parse(text: &str) -> Result<ColumnType> {
    let dialect = PostgreSqlDialect {};
    let sql_type = Parser::new(&dialect).try_with_sql(text).unwrap().parse_data_type().unwrap();
    column_type(&sql_type)
}

#[test]
fn postgresql_names_mean_our_types() {
    for (text, wanted) in [
        ("int4", "integer"),
        ("int2", "smallint"),
        ("bigint", "bigint"),
        ("float8", "double precision"),
        ("double precision", "double precision"),
        ("float(24)", "real"),
        ("varchar", "text"),
        ("numeric(10,2)", "numeric(10,2)"),
        ("decimal(5)", "numeric(5,0)"),
        ("timestamptz", "timestamp(9) with time zone"),
        ("timestamptz(3)", "timestamp(3) with time zone"),
        ("timestamp(6) with time zone", "timestamp(6) with time zone"),
        ("timestamp without time zone", "timestamp(9) without time zone"),
        ("text[]", "text[]"),
        ("jsonb", "jsonb"),
        ("uuid", "uuid"),
        ("interval", "interval"),
        ("bytea", "bytea"),
    ] {
        assert_eq!(parse(text).map(|found| found.to_string()).unwrap(), wanted, "{text}");
    }
}

#[test]
fn what_is_not_kept_is_refused() {
    for (text, wanted) in [
        ("varchar(10)", ErrorKind::FeatureNotSupported),
        ("char(3)", ErrorKind::FeatureNotSupported),
        ("json", ErrorKind::FeatureNotSupported),
        ("serial", ErrorKind::FeatureNotSupported),
        ("timestamptz(4)", ErrorKind::InvalidParameterValue),
        ("numeric(39,2)", ErrorKind::InvalidParameterValue),
        ("numeric(3,5)", ErrorKind::InvalidParameterValue),
        ("frobnicate", ErrorKind::UndefinedObject),
    ] {
        assert_eq!(parse(text).unwrap_err().kind(), wanted, "{text}");
    }
}
