use super::*;

fn variables() -> Variables {
    Variables::new(("alice", true), &[("application_name".into(), "psql".into())], Arc::default())
        .unwrap()
}

#[test]
fn settings_are_sorted_and_their_defaults_valid() {
    for pair in SETTINGS.windows(2) {
        assert!(pair[0].name.to_lowercase() < pair[1].name.to_lowercase(), "{}", pair[1].name);
    }
    for setting in SETTINGS.iter().filter(|setting| setting.rule != Rule::Fixed) {
        assert_eq!(check::value(setting, setting.default).unwrap(), setting.default);
    }
}

#[test]
fn set_local_ends_with_the_block_and_a_rollback_undoes_set() {
    let variables = variables();
    variables.begin();
    variables.set("timezone", "Europe/Berlin", true).unwrap();
    variables.set("extra_float_digits", "3", false).unwrap();
    assert_eq!(variables.get("TimeZone").unwrap(), "Europe/Berlin");
    variables.end(false);
    assert_eq!(variables.get("TimeZone").unwrap(), "UTC");
    assert_eq!(variables.get("extra_float_digits").unwrap(), "1");
    variables.begin();
    variables.set("extra_float_digits", "3", false).unwrap();
    variables.end(true);
    assert_eq!(variables.get("extra_float_digits").unwrap(), "3");
    variables.reset("extra_float_digits", false).unwrap();
    assert_eq!(variables.get("extra_float_digits").unwrap(), "1");
    assert_eq!(variables.get("application_name").unwrap(), "psql");
}

#[test]
fn an_encoding_has_many_names() {
    let variables = variables();
    for name in ["utf-8", "'utf-8'", "UTF_8", "Unicode"] {
        variables.set("client_encoding", name, false).unwrap();
        assert_eq!(variables.get("client_encoding").as_deref(), Some("UTF8"));
    }
    assert!(variables.set("client_encoding", "u't'f8", false).is_err());
}

#[test]
fn what_would_have_no_effect_is_refused() {
    let variables = variables();
    for (name, value, kind) in [
        ("nonsense", "1", ErrorKind::UndefinedObject),
        ("server_version", "16", ErrorKind::CannotChangeNow),
        ("client_encoding", "LATIN1", ErrorKind::FeatureNotSupported),
        ("DateStyle", "German", ErrorKind::FeatureNotSupported),
        ("DateStyle", "Klingon", ErrorKind::InvalidParameterValue),
        ("standard_conforming_strings", "off", ErrorKind::FeatureNotSupported),
        ("lock_timeout", "soon", ErrorKind::InvalidParameterValue),
        ("default_transaction_isolation", "serializable", ErrorKind::FeatureNotSupported),
        ("extra_float_digits", "9", ErrorKind::InvalidParameterValue),
        ("statement_timeout", "soon", ErrorKind::InvalidParameterValue),
    ] {
        assert_eq!(variables.set(name, value, false).unwrap_err().kind(), kind, "{name} {value}");
    }
}

#[test]
fn what_is_no_duration_is_told_the_units_or_the_range() {
    let units = Some(
        "Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\".",
    );
    let range = Some("The valid range is 0 .. 2147483647 ms.");
    for (text, message, hint) in [
        ("25d", None, range),
        ("2147483648", None, range),
        ("100 days", None, units),
        ("1 2", None, units),
        ("abc", None, None),
        ("", None, None),
        ("s", None, None),
        (
            "-5s",
            Some(
                "-5000 ms is outside the valid range for parameter \"statement_timeout\" (0 .. 2147483647)",
            ),
            None,
        ),
    ] {
        let error = variables().set("statement_timeout", text, false).unwrap_err();
        let invalid = format!("invalid value for parameter \"statement_timeout\": \"{text}\"");
        assert_eq!(error.kind(), ErrorKind::InvalidParameterValue);
        assert_eq!(error.message(), message.unwrap_or(&invalid));
        assert_eq!(error.hint(), hint, "{text}");
    }
    assert!(variables().set("statement_timeout", "24d", false).is_ok());
}

#[test]
fn durations_have_units() {
    for (text, ms, shown) in [
        ("1500", 1500, "1500ms"),
        ("2s", 2000, "2s"),
        ("5 min", 300_000, "5min"),
        ("0", 0, "0"),
        ("100us", 1, "1ms"),
    ] {
        assert_eq!(check::duration_ms(text), Some(ms), "{text}");
        let variables = variables();
        variables.set("statement_timeout", text, false).unwrap();
        assert_eq!(variables.get("statement_timeout").unwrap(), shown);
        assert_eq!(variables.parsed().statement_timeout_ms, ms);
    }
}

#[test]
fn changes_are_reported_once() {
    let variables = variables();
    let first = variables.take_changes();
    assert!(first.contains(&("TimeZone".to_string(), "UTC".to_string())));
    assert!(variables.take_changes().is_empty());
    variables.set("application_name", "x", false).unwrap();
    assert_eq!(variables.take_changes(), [("application_name".to_string(), "x".to_string())]);
}

#[test]
fn a_search_path_folds_names() {
    let variables = variables();
    variables.set("search_path", "\"$user\", Public, \"Mixed\"", false).unwrap();
    assert_eq!(variables.parsed().search_path, ["public", "Mixed"]);
}
