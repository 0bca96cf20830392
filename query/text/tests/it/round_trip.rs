//! Random values of every type, written and read again in each format and style.

use arrow::array::{ArrayRef, RecordBatch};
use proptest::prelude::*;
use stratalog_model::ColumnType;
use stratalog_text::{
    ByteaOutput, ColumnBuilder, CopyFormat, CopyOptions, CopyParser, CopyWriter, IntervalStyle,
    TextStyle, TimeZone,
};

/// A type and texts of some of its values; `None` is NULL.
fn column() -> impl Strategy<Value = (ColumnType, Vec<Option<String>>)> {
    let scalar = scalar();
    (scalar, any::<bool>(), prop::collection::vec(any::<u64>(), 1..20)).prop_map(
        |(column_type, list, seeds)| {
            let value = |seed: u64| (!seed.is_multiple_of(7)).then(|| text_of(&column_type, seed));
            if !list {
                let values = seeds.iter().map(|seed| value(*seed)).collect();
                return (column_type, values);
            }
            let values = seeds
                .chunks(3)
                .map(|chunk| {
                    let items: Vec<String> = chunk
                        .iter()
                        .map(|seed| match value(*seed) {
                            None => "NULL".to_string(),
                            Some(text) => {
                                format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
                            }
                        })
                        .collect();
                    Some(format!("{{{}}}", items.join(",")))
                })
                .collect();
            (ColumnType::Array(Box::new(column_type)), values)
        },
    )
}

fn scalar() -> impl Strategy<Value = ColumnType> {
    let precision = prop::sample::select(vec![0_u8, 3, 6, 9]);
    prop_oneof![
        Just(ColumnType::Boolean),
        Just(ColumnType::SmallInt),
        Just(ColumnType::Integer),
        Just(ColumnType::BigInt),
        Just(ColumnType::Real),
        Just(ColumnType::Double),
        (1_u8..=38)
            .prop_flat_map(|precision| (Just(precision), 0..=precision))
            .prop_map(|(precision, scale)| ColumnType::Numeric { precision, scale }),
        Just(ColumnType::Text),
        Just(ColumnType::Bytea),
        precision.clone().prop_map(|precision| ColumnType::Timestamp { precision }),
        precision.prop_map(|precision| ColumnType::TimestampTz { precision }),
        Just(ColumnType::Date),
        Just(ColumnType::Time),
        Just(ColumnType::Interval),
        Just(ColumnType::Uuid),
        Just(ColumnType::Jsonb),
    ]
}

/// Spreads a seed over 64 bits.
fn mix(seed: u64) -> u64 {
    let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
}

fn text_of(column_type: &ColumnType, seed: u64) -> String {
    let bits = mix(seed);
    match column_type {
        ColumnType::Boolean => bits.is_multiple_of(2).to_string(),
        ColumnType::SmallInt => (bits as i16).to_string(),
        ColumnType::Integer => (bits as i32).to_string(),
        ColumnType::BigInt => (bits as i64).to_string(),
        ColumnType::Real => format!("{:e}", f32::from_bits(bits as u32)).replace("inf", "Infinity"),
        ColumnType::Double => format!("{:e}", f64::from_bits(bits)).replace("inf", "Infinity"),
        ColumnType::Numeric { precision, scale } => {
            let digits = format!("{:0>38}", u128::from(bits) * u128::from(mix(bits)) / 4);
            let kept = &digits[38 - usize::from(*precision)..];
            let (whole, fraction) = kept.split_at(kept.len() - usize::from(*scale));
            format!("{}{whole}.{fraction}", if bits.is_multiple_of(2) { "-" } else { "" })
                .replace("-.", "-0.")
        }
        ColumnType::Text => {
            let pool: Vec<char> =
                "ab,\"'\\\n\r\t;{}|NULL.é😀 \u{b}\u{8}\u{c}\u{1}N".chars().collect();
            (0..bits % 9).map(|at| pool[(mix(bits + at) % pool.len() as u64) as usize]).collect()
        }
        ColumnType::Bytea => (0..bits % 6)
            .fold("\\x".to_string(), |text, at| text + &format!("{:02x}", mix(bits + at) as u8)),
        ColumnType::Timestamp { precision } => timestamp(bits, *precision),
        ColumnType::TimestampTz { precision } => timestamp(bits, *precision) + "+00",
        ColumnType::Date => timestamp(bits, 0)[..10].to_string(),
        ColumnType::Time => {
            let second = bits % 86_400;
            format!(
                "{:02}:{:02}:{:02}.{:06}",
                second / 3600,
                second / 60 % 60,
                second % 60,
                bits % 1_000_000
            )
        }
        ColumnType::Interval => format!(
            "{} mons {} days {}.{:09} seconds",
            bits as i16,
            (bits >> 16) as i16,
            (bits >> 32) as i32,
            bits % 1_000_000_000
        ),
        ColumnType::Uuid => format!("{bits:016x}{:016x}", mix(bits)),
        ColumnType::Jsonb => format!("{{\"k\\n{}\": [{}, \"x\\\"\\t,\"]}}", bits % 5, bits as i8),
        ColumnType::Array(_) => unreachable!("made of the others"),
    }
}

fn timestamp(bits: u64, precision: u8) -> String {
    let fraction = &format!(".{:09}", bits % 1_000_000_000)[..=usize::from(precision)];
    format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02}{}",
        // For nanoseconds, only years within the range of nanoseconds.
        if precision == 9 { 1700 + bits % 500 } else { 1 + bits % 9998 },
        1 + bits / 7 % 12,
        1 + bits / 11 % 28,
        bits / 13 % 24,
        bits / 17 % 60,
        bits / 19 % 60,
        if precision == 0 { "" } else { fraction },
    )
}

fn build(column_type: &ColumnType, values: &[Option<String>]) -> ArrayRef {
    let mut builder = ColumnBuilder::new(column_type, values.len());
    for value in values {
        match value {
            Some(text) => builder.append_text(text, &TextStyle::default()).unwrap(),
            None => builder.append_null(),
        }
    }
    builder.finish()
}

fn options() -> impl Strategy<Value = CopyOptions> {
    let delimiter = prop::sample::select(vec![b',', b';', b'|', b'\t']);
    (any::<bool>(), delimiter, any::<bool>(), any::<bool>()).prop_map(
        |(csv, delimiter, own_quote, own_null)| {
            let mut options = if csv { CopyOptions::csv() } else { CopyOptions::default() };
            options.delimiter = delimiter;
            if csv && own_quote {
                options.quote = b'\'';
                options.escape = b'\\';
            }
            if own_null {
                options.null = "NULL".into();
            }
            options
        },
    )
}

fn style() -> impl Strategy<Value = TextStyle> {
    let zones = vec!["UTC", "Europe/Berlin", "America/St_Johns", "-3.5", "Asia/Kathmandu"];
    let intervals =
        vec![IntervalStyle::Postgres, IntervalStyle::PostgresVerbose, IntervalStyle::Iso8601];
    (prop::sample::select(zones), prop::sample::select(intervals), any::<bool>()).prop_map(
        |(zone, interval_style, hex)| TextStyle {
            time_zone: TimeZone::parse_setting(zone).unwrap(),
            interval_style,
            bytea_output: if hex { ByteaOutput::Hex } else { ByteaOutput::Escape },
            ..TextStyle::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn copy_reads_back_what_it_wrote(
        (column_type, values) in column(),
        options in options(),
        style in style(),
        step in 1_usize..50,
    ) {
        let array = build(&column_type, &values);
        let number = build(&ColumnType::Integer, &vec![Some("7".to_string()); values.len()]);
        let schema = std::sync::Arc::new(arrow::datatypes::Schema::new(vec![
            ColumnType::Integer.arrow_field("n", true),
            column_type.arrow_field("x", true),
        ]));
        let batch = RecordBatch::try_new(schema.clone(), vec![number, array]).unwrap();
        let mut data = Vec::new();
        CopyWriter::new(options.clone(), schema, style.clone()).write_batch(&batch, &mut data).unwrap();
        let columns = vec![("n".to_string(), ColumnType::Integer), ("x".to_string(), column_type)];
        let format = options.format;
        let mut parser = CopyParser::new(options, columns, style).unwrap();
        let mut batches = Vec::new();
        for piece in data.chunks(step) {
            batches.extend(parser.push(piece).unwrap());
        }
        batches.extend(parser.finish().unwrap());
        prop_assert_eq!(batches.len(), 1);
        prop_assert_eq!(&batches[0], &batch, "{:?}: {}", format, String::from_utf8_lossy(&data));
    }

    #[test]
    fn any_bytes_give_rows_or_an_error(data in prop::collection::vec(any::<u8>(), 0..300), csv in any::<bool>()) {
        let options = if csv { CopyOptions::csv() } else { CopyOptions::default() };
        let columns = vec![("a".to_string(), ColumnType::Text), ("b".to_string(), ColumnType::Text)];
        let mut parser = CopyParser::new(options, columns, TextStyle::default()).unwrap();
        if data.chunks(7).try_for_each(|piece| parser.push(piece).map(drop)).is_ok() {
            let _ = parser.finish();
        }
    }

    #[test]
    fn any_text_is_a_value_or_an_error(text in ".{0,40}", column_type in scalar()) {
        let mut builder = ColumnBuilder::new(&column_type, 1);
        if builder.append_text(&text, &TextStyle::default()).is_ok() {
            prop_assert_eq!(builder.len(), 1);
        }
    }

    #[test]
    fn texts_near_dates_do_not_panic(text in "[-+:./ 0-9TZPYMDHSJa-c,]{0,30}") {
        for column_type in [
            ColumnType::TimestampTz { precision: 9 },
            ColumnType::Timestamp { precision: 0 },
            ColumnType::Date,
            ColumnType::Time,
            ColumnType::Interval,
            ColumnType::Numeric { precision: 38, scale: 38 },
        ] {
            let _ = ColumnBuilder::new(&column_type, 1).append_text(&text, &TextStyle::default());
        }
    }
}

#[test]
fn formats_are_two() {
    assert_eq!(CopyOptions::default().format, CopyFormat::Text);
    assert_eq!(CopyOptions::csv().format, CopyFormat::Csv);
}
