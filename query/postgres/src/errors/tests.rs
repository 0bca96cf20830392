use super::*;

fn kind(error: DataFusionError) -> ErrorKind {
    from_datafusion(error).kind()
}

#[test]
fn our_errors_come_back_whole() {
    let ours = Error::new(ErrorKind::UniqueViolation, "duplicate key").with_detail("(a)");
    let wrapped = DataFusionError::Context("x".into(), Box::new(to_datafusion(ours)));
    let shared = DataFusionError::Shared(Arc::new(wrapped));
    let DataFusionError::Shared(inner) = &shared else { panic!("shared") };
    let second = Arc::clone(inner);
    let error = from_datafusion(shared);
    assert_eq!(error.kind(), ErrorKind::UniqueViolation);
    assert_eq!(error.detail(), Some("(a)"));
    assert_eq!(kind(DataFusionError::Shared(second)), ErrorKind::UniqueViolation);
}

#[test]
fn texts_find_their_kind() {
    for (error, wanted) in [
        (
            DataFusionError::Plan("table 'stratalog.public.x' not found".into()),
            ErrorKind::UndefinedTable,
        ),
        (
            DataFusionError::Plan("Invalid function 'foo'.\nDid you mean 'floor'?".into()),
            ErrorKind::UndefinedFunction,
        ),
        (DataFusionError::Execution("divide by zero".into()), ErrorKind::DivisionByZero),
        (
            DataFusionError::ArrowError(Box::new(ArrowError::DivideByZero), None),
            ErrorKind::DivisionByZero,
        ),
        (
            DataFusionError::ArrowError(Box::new(ArrowError::ArithmeticOverflow("a".into())), None),
            ErrorKind::NumericOutOfRange,
        ),
        (DataFusionError::ResourcesExhausted("pool".into()), ErrorKind::OutOfMemory),
        (DataFusionError::NotImplemented("x".into()), ErrorKind::FeatureNotSupported),
    ] {
        let text = error.to_string();
        assert_eq!(kind(error), wanted, "{text}");
    }
}

#[test]
fn a_misspelt_column_is_guessed() {
    assert_eq!(
        message::closest("usage_usr", ["host", "usage_user"].into_iter()),
        Some("usage_user")
    );
    assert_eq!(message::closest("zzz", ["host", "usage_user"].into_iter()), None);
}

#[test]
fn a_table_is_named_as_postgresql_names_it() {
    let error =
        from_datafusion(DataFusionError::Plan("table 'stratalog.public.metrics' not found".into()));
    assert_eq!(error.message(), "relation \"public.metrics\" does not exist");
}

#[test]
fn arithmetic_of_numerics_without_a_result_type_has_names_of_sql() {
    let plan = |reason: &str| {
        from_datafusion(DataFusionError::Plan(format!(
            "Cannot get result type for decimal operation Decimal128(30, 20) * \
             Decimal128(30, 20): {reason}"
        )))
    };
    let error = plan(
        "Invalid argument error: Output scale of Decimal128(30, 20) * Decimal128(30, 20) would \
         exceed max scale of 38",
    );
    assert_eq!(error.kind(), ErrorKind::NumericOutOfRange);
    assert_eq!(error.message(), "numeric field overflow");
    assert_eq!(
        error.detail(),
        Some(
            "The result of numeric(30,20) * numeric(30,20) has more than 38 digits behind the point."
        )
    );
    let other = plan("another reason");
    assert_eq!(other.kind(), ErrorKind::UndefinedFunction);
    assert_eq!(other.message(), "operator does not exist: numeric(30,20) * numeric(30,20)");
}

#[test]
fn kinds_of_joins_are_refused_without_a_syntax_tree() {
    let text = "Unsupported JOIN operator AsOf { match_condition: Value }";
    let error = from_datafusion(DataFusionError::NotImplemented(text.into()));
    assert_eq!(error.kind(), ErrorKind::FeatureNotSupported);
    assert_eq!(error.message(), "ASOF JOIN is not supported");
}

#[test]
fn overflows_name_the_type() {
    for (text, wanted) in [
        ("Overflow happened on: -2147483648 / -1", "integer out of range"),
        ("Overflow happened on: 9223372036854775807 * 2", "bigint out of range"),
        (
            "Overflow happened on: 123456789012345678123457000000 * 10000000000",
            "numeric out of range",
        ),
        ("Int32Array overflow on abs(-2147483648)", "integer out of range"),
        ("Int16Array overflow on abs(-32768)", "smallint out of range"),
    ] {
        let of_kernel = DataFusionError::from(ArrowError::ArithmeticOverflow(text.into()));
        for error in [of_kernel, DataFusionError::Execution(text.into())] {
            let error = from_datafusion(error);
            assert_eq!((error.kind(), error.message()), (ErrorKind::NumericOutOfRange, wanted));
        }
    }
}
