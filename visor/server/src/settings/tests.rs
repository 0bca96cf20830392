use super::*;

fn layers(
    file: Option<&str>,
    environment: &[(&str, &str)],
    flags: &[(&str, &str)],
) -> (tempfile::TempDir, Layers) {
    let directory = tempfile::tempdir().unwrap();
    let own = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect()
    };
    let path = file.map(|text| {
        let path = directory.path().join("stratalog.toml");
        std::fs::write(&path, text).unwrap();
        path
    });
    let layers = Layers { file: path, environment: own(environment), flags: own(flags) };
    (directory, layers)
}

fn error(file: Option<&str>, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> String {
    let (_directory, layers) = layers(file, environment, flags);
    layers.load().unwrap_err().to_string()
}

#[test]
fn a_flag_wins_over_the_environment_over_the_file_over_the_default() {
    let file = "connections_max = 7\nstatement_timeout_ms = 7\nshutdown_grace_ms = 7\n";
    let environment =
        [("STRATALOG_STATEMENT_TIMEOUT_MS", "8"), ("STRATALOG_SHUTDOWN_GRACE_MS", "8")];
    let (_directory, layers) = layers(Some(file), &environment, &[("shutdown_grace_ms", "9")]);
    let (settings, warnings) = layers.load().unwrap();
    assert_eq!(settings.connections_max, 7);
    assert_eq!(settings.statement_timeout_ms, 8);
    assert_eq!(settings.shutdown_grace_ms, 9);
    assert_eq!(settings.segment_bytes, Settings::default().segment_bytes);
    assert!(warnings.is_empty());
}

#[test]
fn unknown_keys_are_refused_with_the_name_that_was_meant() {
    let text = error(Some("pg_listn = 'off'"), &[], &[]);
    assert!(text.contains("unknown setting pg_listn"), "{text}");
    assert!(text.contains("did you mean pg_listen?"), "{text}");
    let text = error(None, &[("STRATALOG_MEMORY_BYTE_MAX", "1")], &[]);
    assert!(text.contains("did you mean STRATALOG_MEMORY_BYTES_MAX?"), "{text}");
    let text = error(Some("zzz = 1"), &[], &[]);
    assert!(text.ends_with("stratalog.toml"), "no suggestion for what is like nothing: {text}");
}

#[test]
fn variables_of_an_orchestrator_are_ignored_with_a_warning() {
    let made = [
        ("STRATALOG_SERVICE_HOST", "10.0.0.1"),
        ("STRATALOG_SERVICE_PORT_PG", "5433"),
        ("STRATALOG_PG_SERVICE_PORT", "5433"),
        ("STRATALOG_PORT", "tcp://10.0.0.1:5433"),
        ("STRATALOG_PORT_5433_TCP_ADDR", "10.0.0.1"),
    ];
    let (_directory, layers) = layers(None, &made, &[]);
    let (settings, warnings) = layers.load().unwrap();
    assert_eq!(settings, Settings::default());
    assert_eq!(warnings.len(), made.len());
}

#[test]
fn other_variables_are_refused() {
    for (name, text) in [
        ("STRATALOG_NOSUCH", "1"),
        ("STRATALOG_PORT", "5433"),
        ("STRATALOG_PORT_PG_TCP", "5433"),
        ("STRATALOG_", "1"),
    ] {
        let said = error(None, &[(name, text)], &[]);
        assert!(said.starts_with(&format!("unknown setting {name} in the environment")), "{said}");
    }
}

#[test]
fn values_out_of_range_are_refused_with_the_range() {
    for (name, text, wanted) in [
        ("connections_max", "0", "between 1 and 1000000"),
        ("connections_max", "-1", "\"-1\" is not a whole number"),
        ("connections_max", "abc", "\"abc\" is not a whole number"),
        ("statement_timeout_ms", "1s", "\"1s\" is not a whole number of milliseconds"),
        ("object_store_metadata", "yes", "\"yes\" is not true or false"),
        ("tls_version_min", "1.1", "write 1.2 or 1.3"),
        ("scram_iterations", "100", "between 4096 and 10000000"),
        ("memory_bytes_max", "0", "0B is less than 1MiB"),
        ("memory_bytes_max", "0%", "1% to 90%"),
        ("query_memory_bytes_max", "1000", "1000B is less than 1MiB"),
        ("message_bytes_max", "0", "between 1KiB and"),
        ("statement_bytes_max", "3GiB", "between 1KiB and"),
        ("segment_bytes", "1MB", "segment_bytes = 1000000 must be at least 16781568"),
        ("journal_queue_bytes_max", "1MiB", "must be between 16777344"),
        ("data_dir", "", "path of a directory"),
        ("log_level", "foo", "\"foo\" is not a filter for log lines; write off, error"),
        ("log_level", "info,foo", "is not a filter"),
        ("log_level", "stratalog=loud", "is not a filter"),
        ("log_level", "", "is not a filter"),
    ] {
        let variable = format!("STRATALOG_{}", name.to_ascii_uppercase());
        let said = error(None, &[(&variable, text)], &[]);
        assert!(said.starts_with(&format!("{variable} in the environment: ")), "{said}");
        assert!(said.contains(wanted), "{name} = {text}: {said}");
        let said = error(None, &[], &[(name, text)]);
        assert!(said.starts_with(&format!("--{} in ", name.replace('_', "-"))), "{said}");
        let toml = match text.parse::<i64>() {
            Ok(number) => format!("{name} = {number}"),
            Err(_) => format!("{name} = '{text}'"),
        };
        assert!(error(Some(&toml), &[], &[]).starts_with(&format!("{name} in ")), "{toml}");
    }
    for (name, text) in [
        ("connections_max", "1"),
        ("memory_bytes_max", "1MiB"),
        ("segment_bytes", "17MiB"),
        ("log_level", "WARN"),
        ("log_level", "off"),
        ("log_level", "warn, stratalog_journal=debug"),
        ("log_level", "info,[connection{process=7}]=trace"),
    ] {
        let (_directory, layers) = layers(None, &[], &[(name, text)]);
        assert!(layers.load().is_ok(), "{name} = {text}");
    }
}

#[test]
fn values_that_do_not_fit_name_their_place() {
    let text = error(None, &[("STRATALOG_SEGMENT_BYTES", "many")], &[]);
    assert!(text.starts_with("STRATALOG_SEGMENT_BYTES in the environment"), "{text}");
    let text = error(None, &[], &[("pg_listen", "5433")]);
    assert!(text.starts_with("--pg-listen in the command line"), "{text}");
    let text = error(Some("connections_max = 'x'"), &[], &[]);
    assert!(text.starts_with("connections_max in "), "{text}");
    assert!(error(None, &[], &[("memory_bytes_max", "95%")]).contains("1% to 90%"));
}

#[test]
fn settings_of_web_tokens_belong_together() {
    let all = [("jwt_keys", "keys.json"), ("jwt_issuer", "https://i"), ("jwt_audience", "a")];
    let (_directory, complete) = layers(None, &[], &all);
    assert!(complete.load().is_ok(), "the order of flags does not matter");
    for missing in 0..all.len() {
        let mut given = all.to_vec();
        let (name, _) = given.remove(missing);
        let text = error(None, &[], &given);
        assert!(text.ends_with(&format!("but {name} is empty")), "{text}");
    }
}

#[test]
fn bytes_are_read_with_units_and_written_back() {
    for (text, bytes) in [
        ("17", 17),
        ("64MiB", 64 << 20),
        ("1.5 GiB", 3 << 29),
        ("500 MB", 500_000_000),
        ("2k", 2048),
    ] {
        assert_eq!(text.parse::<Bytes>().unwrap(), Bytes(bytes), "{text}");
    }
    for bytes in [0, 1, 1023, 1024, 1 << 20, (1 << 20) + 1, 5 << 30] {
        assert_eq!(Bytes(bytes).to_string().parse::<Bytes>().unwrap(), Bytes(bytes));
    }
    assert!("20000000TiB".parse::<Bytes>().is_err());
    assert!("-1".parse::<Bytes>().is_err());
}

#[test]
fn the_printed_configuration_reads_back_as_itself() {
    let mut settings = Settings { pg_listen: Listen::Off, ..Settings::default() };
    settings.memory_bytes_max = Budget::Fixed(Bytes(123 << 20));
    let (_directory, layers) = layers(Some(&commented_toml(&settings)), &[], &[]);
    assert_eq!(layers.load().unwrap().0, settings);
    assert_eq!(toml::from_str::<Settings>(&commented_toml(&settings)).unwrap(), settings);
}

#[test]
fn the_page_of_the_manual_is_what_the_code_says() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        page == settings_page(),
        "docs/settings.md differs from the code: run `stratalog docs settings > docs/settings.md`"
    );
}
