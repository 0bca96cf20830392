use super::*;

#[test]
fn options_of_a_statement() {
    let text = |value: &str| CopyOptionValue::Text(value.to_string());
    let read = |direction, pairs: &[(&str, CopyOptionValue)]| {
        CopyOptions::from_pairs(direction, pairs.iter().map(|(name, value)| (*name, value)))
            .map_err(|error| format!("{} {}", error.kind().sqlstate(), error.message()))
    };
    let into = CopyDirection::In;
    let options = read(
        into,
        &[("FORMAT", text("csv")), ("header", CopyOptionValue::Absent), ("delimiter", text(";"))],
    )
    .unwrap();
    assert_eq!(
        options,
        CopyOptions { header: CopyHeader::Present, delimiter: b';', ..CopyOptions::csv() }
    );
    for (pairs, message) in [
        (vec![("format", text("xml"))], "22023 COPY format \"xml\" not recognized"),
        (
            vec![("format", text("binary")), ("delimiter", text(","))],
            "42601 cannot specify DELIMITER in BINARY mode",
        ),
        (
            vec![("format", text("binary")), ("null", text(""))],
            "42601 cannot specify NULL in BINARY mode",
        ),
        (
            vec![("format", text("binary")), ("header", text("true"))],
            "0A000 cannot specify HEADER in BINARY mode",
        ),
        (vec![("speed", text("fast"))], "42601 option \"speed\" not recognized"),
        (vec![("null", text("a")), ("NULL", text("b"))], "42601 conflicting or redundant options"),
        (
            vec![("delimiter", text("ab"))],
            "0A000 COPY delimiter must be a single one-byte character",
        ),
        (
            vec![("delimiter", text("é"))],
            "0A000 COPY delimiter must be a single one-byte character",
        ),
        (vec![("delimiter", text("a"))], "22023 COPY delimiter cannot be \"a\""),
        (
            vec![("delimiter", text("\n"))],
            "22023 COPY delimiter cannot be newline or carriage return",
        ),
        (vec![("quote", text("'"))], "0A000 COPY quote available only in CSV mode"),
        (
            vec![("format", text("csv")), ("quote", text(","))],
            "22023 COPY delimiter and quote must be different",
        ),
        (
            vec![("format", text("csv")), ("null", text("a,b"))],
            "0A000 COPY delimiter must not appear in the NULL specification",
        ),
        (
            vec![
                ("format", text("csv")),
                ("force_quote", CopyOptionValue::Columns(ColumnSelection::All)),
            ],
            "0A000 COPY force quote only available using COPY TO",
        ),
        (vec![("header", text("perhaps"))], "42601 header requires a Boolean value or \"match\""),
        (
            vec![("encoding", text("koi8r"))],
            "22023 argument to option \"encoding\" must be a valid encoding name",
        ),
        (vec![("on_error", text("maybe"))], "22023 COPY ON_ERROR \"maybe\" not recognized"),
        (vec![("log_verbosity", text("x"))], "22023 COPY LOG_VERBOSITY \"x\" not recognized"),
        (
            vec![("format", text("binary")), ("on_error", text("ignore"))],
            "42601 only ON_ERROR STOP is allowed in BINARY mode",
        ),
        (vec![("freeze", CopyOptionValue::Absent)], "0A000 COPY FREEZE is not supported"),
    ] {
        assert_eq!(read(into, &pairs).unwrap_err(), message);
    }
    assert_eq!(
        read(CopyDirection::Out, &[("header", text("match"))]).unwrap_err(),
        "0A000 cannot use \"match\" with HEADER in COPY TO"
    );
    assert!(read(into, &[("encoding", text("UTF-8")), ("freeze", text("off"))]).is_ok());
}
