//! Requests of every form, correct and malformed, through the reference's parser and this parser.

use proptest::{collection::vec, prelude::*, sample::select};
use stratalog_line::{LineLimits, RowLimits};

use crate::model::compare;

/// Small limits, so that the cache of series is emptied now and then.
const LIMITS: LineLimits = LineLimits {
    line_bytes_max: 1 << 20,
    request_lines_max: 1_000,
    errors_max: usize::MAX,
    rows: RowLimits {
        tables_max: 1_000,
        columns_max: 1_000,
        columns_total_max: 10_000,
        series_max: 5,
        series_bytes_max: 1 << 20,
        table_bytes_max: 256 << 20,
    },
};

/// A name with its escapes.
fn name(also: &'static str) -> impl Strategy<Value = String> {
    let plain = "[a-d][a-d_.0-9é\"=, \\\\]{0,4}[a-dé]|[a-d]|[a-d]|[a-d]|[a-d]{60,66}|time";
    (plain, any::<bool>()).prop_map(move |(name, twice)| {
        let mut raw = String::new();
        for c in name.chars() {
            match c {
                '\\' if twice => raw.push_str("\\\\"),
                c if also.contains(c) => raw.extend(['\\', c]),
                c => raw.push(c),
            }
        }
        raw
    })
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|value| format!("{value}i")),
        (0..100_u32).prop_map(|value| format!("{value}i")),
        any::<u64>().prop_map(|value| format!("{value}u")),
        any::<f64>().prop_filter("finite", |value| value.is_finite()).prop_map(|v| format!("{v}")),
        "-?[0-9]{1,21}(\\.[0-9]{1,21})?([eE][-+]?[0-9]{1,3})?",
        "[0-9]{1,2}\\.[0-9]{1,3}",
        select(vec!["t", "T", "true", "True", "TRUE", "f", "F", "false", "False", "FALSE"])
            .prop_map(String::from),
        "([a-c,= é\n#]|\\\\\"|\\\\\\\\|\\\\[a-c])*".prop_map(|text| format!("\"{text}\"")),
    ]
}

fn line() -> impl Strategy<Value = String> {
    let tags = vec((name(",= "), name(",= ")), 0..4);
    let fields = vec((name(",= "), value()), 1..5);
    let stamp =
        prop_oneof![Just(String::new()), "  ?-?[0-9]{1,19}", " 1700000000[0-9]{9}", " {1,2}"];
    let spaces =
        (select(vec!["", "", "", " ", "\t "]), "  ?", select(vec!["\n", "\n", "\r\n", " \n"]));
    (name(", "), tags, fields, stamp, spaces).prop_map(
        |(measurement, tags, fields, stamp, (before, between, end))| {
            let tags: String = tags.iter().map(|(key, value)| format!(",{key}={value}")).collect();
            let fields: Vec<_> =
                fields.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("{before}{measurement}{tags}{between}{}{stamp}{end}", fields.join(","))
        },
    )
}

fn request() -> impl Strategy<Value = String> {
    let other = select(vec!["\n", "  \n", "# a comment\n", "#\n", "\r\n"]).prop_map(String::from);
    let lines = vec(prop_oneof![9 => line(), 1 => other], 0..8);
    (lines, any::<bool>()).prop_map(|(lines, cut)| {
        // The same series again, so that the parser knows them.
        let mut text = lines.concat();
        text.push_str(&lines.concat());
        if cut {
            text.pop();
        }
        text
    })
}

/// A request with some changed bytes.
fn damaged() -> impl Strategy<Value = String> {
    let edits =
        vec((any::<prop::sample::Index>(), 0..3_u8, "[a ,=\"\\\\\n\r\t0-9iuteE.#\0-]"), 1..6);
    (request(), edits).prop_map(|(request, edits)| {
        let mut text: Vec<char> = request.chars().collect();
        for (at, edit, with) in edits {
            let at = at.index(text.len() + 1);
            let with = with.chars().next().unwrap();
            match edit {
                0 => text.insert(at, with),
                1 if at < text.len() => drop(text.remove(at)),
                _ if at < text.len() => text[at] = with,
                _ => {}
            }
        }
        text.into_iter().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn well_made_requests_are_read_alike(text in request(), piece in 1..200_usize) {
        prop_assert_eq!(compare(&text, piece, LIMITS), Ok(()));
    }

    #[test]
    fn damaged_requests_are_read_alike(text in damaged(), piece in 1..200_usize) {
        prop_assert_eq!(compare(&text, piece, LIMITS), Ok(()));
    }

    #[test]
    fn garbage_is_read_alike(text in "[am ,=\"\\\\\n\r1iutf.]{0,80}", piece in 1..20_usize) {
        prop_assert_eq!(compare(&text, piece, LIMITS), Ok(()));
    }
}
