//! `to_char` of times, with PostgreSQL's patterns.

use std::{fmt::Write as _, sync::Arc};

use arrow::{
    array::{Array as _, ArrayRef, AsArray},
    compute::cast,
    datatypes::{DataType, TimeUnit, TimestampMicrosecondType},
};
use chrono::{DateTime, Datelike, NaiveDateTime, Timelike};
use datafusion::{common::Result, logical_expr::Volatility};
use stratalog_model::{ColumnType, Error, ErrorKind};

use crate::{
    failed,
    function::{Arguments, Function, Parameter, Returns, text_at, text_rows},
};

/// The function.
pub fn functions() -> Vec<Function> {
    vec![Function {
        name: "to_char",
        aliases: &[],
        parameters: &[&[Parameter::Time, Parameter::Text]],
        returns: Returns::Type(ColumnType::Text),
        volatility: Volatility::Immutable,
        description: "A time in the form of a pattern such as 'YYYY-MM-DD HH24:MI:SS.MS', in the session's time zone.",
        run: Arc::new(to_char),
    }]
}

fn to_char(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let local = DataType::Timestamp(TimeUnit::Microsecond, None);
    let times = cast(arguments.array(0)?, &local)?;
    let times = times.as_primitive::<TimestampMicrosecondType>();
    let patterns = arguments.text(1)?;
    let mut known: Option<(String, Vec<Piece>)> = None;
    text_rows(arguments.rows, |row| {
        let Some(pattern) = text_at(patterns, row).filter(|_| times.is_valid(row)) else {
            return Ok(None);
        };
        let pieces = match &known {
            Some((last, pieces)) if last == pattern => pieces,
            _ => &known.insert((pattern.to_string(), read(pattern).map_err(failed)?)).1,
        };
        let time = DateTime::from_timestamp_micros(times.value(row)).ok_or_else(|| {
            failed(Error::new(ErrorKind::DatetimeOverflow, "timestamp out of range"))
        })?;
        Ok(Some(written(pieces, time.naive_utc())))
    })
}

/// How the letters of a name are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Upper,
    Capital,
    Lower,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Year(u32),
    YearWithComma,
    IsoYear(u32),
    Century,
    Quarter,
    Month,
    MonthName { short: bool },
    RomanMonth,
    IsoWeek,
    Week,
    WeekOfMonth,
    DayOfYear,
    IsoDayOfYear,
    Day,
    DayOfWeek,
    IsoDayOfWeek,
    DayName { short: bool },
    Julian,
    Hour24,
    Hour12,
    Minute,
    Second,
    SecondOfDay,
    Fraction(u32),
    HalfOfDay { dots: bool },
    Era { dots: bool },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Field { field: Field, case: Case, filled: bool, ordinal: Option<Case> },
}

/// Patterns that are numbers, in any case; a longer one comes before its beginnings.
const NUMBERS: &[(&str, Field)] = &[
    ("HH24", Field::Hour24),
    ("HH12", Field::Hour12),
    ("HH", Field::Hour12),
    ("MI", Field::Minute),
    ("SSSSS", Field::SecondOfDay),
    ("SSSS", Field::SecondOfDay),
    ("SS", Field::Second),
    ("MS", Field::Fraction(3)),
    ("US", Field::Fraction(6)),
    ("FF1", Field::Fraction(1)),
    ("FF2", Field::Fraction(2)),
    ("FF3", Field::Fraction(3)),
    ("FF4", Field::Fraction(4)),
    ("FF5", Field::Fraction(5)),
    ("FF6", Field::Fraction(6)),
    ("Y,YYY", Field::YearWithComma),
    ("YYYY", Field::Year(4)),
    ("YYY", Field::Year(3)),
    ("YY", Field::Year(2)),
    ("Y", Field::Year(1)),
    ("IYYY", Field::IsoYear(4)),
    ("IYY", Field::IsoYear(3)),
    ("IY", Field::IsoYear(2)),
    ("IDDD", Field::IsoDayOfYear),
    ("ID", Field::IsoDayOfWeek),
    ("IW", Field::IsoWeek),
    ("I", Field::IsoYear(1)),
    ("MM", Field::Month),
    ("DDD", Field::DayOfYear),
    ("DD", Field::Day),
    ("D", Field::DayOfWeek),
    ("WW", Field::Week),
    ("W", Field::WeekOfMonth),
    ("CC", Field::Century),
    ("J", Field::Julian),
    ("Q", Field::Quarter),
];

/// Patterns that are words, whose case says how they are written.
const WORDS: &[(&str, Field)] = &[
    ("MONTH", Field::MonthName { short: false }),
    ("MON", Field::MonthName { short: true }),
    ("DAY", Field::DayName { short: false }),
    ("DY", Field::DayName { short: true }),
    ("RM", Field::RomanMonth),
    ("A.M.", Field::HalfOfDay { dots: true }),
    ("P.M.", Field::HalfOfDay { dots: true }),
    ("AM", Field::HalfOfDay { dots: false }),
    ("PM", Field::HalfOfDay { dots: false }),
    ("B.C.", Field::Era { dots: true }),
    ("A.D.", Field::Era { dots: true }),
    ("BC", Field::Era { dots: false }),
    ("AD", Field::Era { dots: false }),
];

/// Patterns that need a time zone.
const ZONES: &[&str] = &["TZH", "TZM", "TZ", "OF"];

fn starts(text: &str, pattern: &str) -> bool {
    text.get(..pattern.len()).is_some_and(|start| start.eq_ignore_ascii_case(pattern))
}

fn read(pattern: &str) -> stratalog_model::Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').unwrap_or(quoted.len());
            text.push_str(quoted.get(..end).unwrap_or(quoted));
            rest = quoted.get(end + 1..).unwrap_or("");
            continue;
        }
        if let Some(after) = rest.strip_prefix('\\').filter(|after| after.starts_with('"')) {
            text.push('"');
            rest = after.get(1..).unwrap_or("");
            continue;
        }
        let filled = !starts(rest, "FM");
        let body = if filled { rest } else { rest.get(2..).unwrap_or("") };
        if let Some(zone) = ZONES.iter().find(|zone| starts(body, zone)) {
            return Err(Error::new(
                ErrorKind::FeatureNotSupported,
                format!("to_char has no pattern \"{zone}\": it does not know the zone of a time"),
            )
            .with_hint("append the zone yourself, or cast the time to text"));
        }
        let word = WORDS.iter().find(|(word, _)| starts(body, word));
        let found = word.or_else(|| NUMBERS.iter().find(|(number, _)| starts(body, number)));
        match found {
            Some((spelling, field)) => {
                if !text.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                }
                let (spelled, after) = body.split_at(spelling.len());
                let case = match spelled.get(1..).unwrap_or("") {
                    tail if !tail.chars().any(char::is_lowercase) => Case::Upper,
                    _ if spelled.starts_with(char::is_uppercase) => Case::Capital,
                    _ => Case::Lower,
                };
                let ordinal = match after.get(..2) {
                    Some("TH") => Some(Case::Upper),
                    Some("th") => Some(Case::Lower),
                    _ => None,
                }
                .filter(|_| word.is_none());
                rest = if ordinal.is_some() { after.get(2..).unwrap_or("") } else { after };
                pieces.push(Piece::Field { field: *field, case, filled, ordinal });
            }
            None if !filled => rest = body,
            None => {
                text.push(first);
                rest = rest.get(first.len_utf8()..).unwrap_or("");
            }
        }
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

fn written(pieces: &[Piece], time: NaiveDateTime) -> String {
    let mut out = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Field { field, case, filled, ordinal } => {
                write_field(&mut out, *field, *case, *filled, *ordinal, time);
            }
        }
    }
    out
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const ROMAN: [&str; 12] =
    ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// The year without its era: 1 BC is year 0 of the calendar.
fn year_of(time: NaiveDateTime) -> i64 {
    let year = i64::from(time.year());
    if year > 0 { year } else { 1 - year }
}

fn write_field(
    out: &mut String,
    field: Field,
    case: Case,
    filled: bool,
    ordinal: Option<Case>,
    time: NaiveDateTime,
) {
    let name = |names: &[&'static str], at: u32| -> &'static str {
        usize::try_from(at).ok().and_then(|at| names.get(at)).copied().unwrap_or("")
    };
    let word: Option<(&str, usize)> = match field {
        Field::MonthName { short } => {
            let name = name(&MONTHS, time.month0());
            Some(if short { (name.get(..3).unwrap_or(name), 0) } else { (name, 9) })
        }
        Field::DayName { short } => {
            let name = name(&DAYS, time.weekday().num_days_from_monday());
            Some(if short { (name.get(..3).unwrap_or(name), 0) } else { (name, 9) })
        }
        Field::RomanMonth => Some((name(&ROMAN, time.month0()), 4)),
        Field::HalfOfDay { dots } => Some(match (time.hour() < 12, dots) {
            (true, false) => ("AM", 0),
            (true, true) => ("A.M.", 0),
            (false, false) => ("PM", 0),
            (false, true) => ("P.M.", 0),
        }),
        Field::Era { dots } => Some(match (time.year() > 0, dots) {
            (true, false) => ("AD", 0),
            (true, true) => ("A.D.", 0),
            (false, false) => ("BC", 0),
            (false, true) => ("B.C.", 0),
        }),
        _ => None,
    };
    if let Some((word, width)) = word {
        let word = match case {
            Case::Upper => word.to_uppercase(),
            Case::Capital => word.to_string(),
            Case::Lower => word.to_lowercase(),
        };
        let width = if filled { width } else { 0 };
        let _ = write!(out, "{word:<width$}");
        return;
    }
    let (value, width) = number_of(field, time);
    let width = if filled || matches!(field, Field::Fraction(_)) { width } else { 0 };
    if field == Field::YearWithComma {
        let _ = write!(out, "{},{:03}", value / 1_000, value % 1_000);
    } else {
        let _ = write!(out, "{value:0width$}");
    }
    if let Some(case) = ordinal {
        let suffix = match (value % 100, value % 10) {
            (11..=13, _) => "th",
            (_, 1) => "st",
            (_, 2) => "nd",
            (_, 3) => "rd",
            _ => "th",
        };
        match case {
            Case::Upper => out.push_str(&suffix.to_uppercase()),
            _ => out.push_str(suffix),
        }
    }
}

/// The value of a field that is a number, and the digits it fills.
fn number_of(field: Field, time: NaiveDateTime) -> (i64, usize) {
    let last_digits = |year: i64, digits: u32| {
        let value = if digits < 4 { year % 10_i64.pow(digits) } else { year };
        (value, usize::try_from(digits).unwrap_or(0))
    };
    let day_of_year = i64::from(time.ordinal());
    let micros = i64::from(time.nanosecond() / 1_000);
    match field {
        Field::Year(digits) => last_digits(year_of(time), digits),
        Field::YearWithComma => (year_of(time), 0),
        Field::IsoYear(digits) => last_digits(i64::from(time.iso_week().year()), digits),
        Field::Century => ((year_of(time) + 99) / 100, 2),
        Field::Quarter => (i64::from(time.month0() / 3 + 1), 1),
        Field::Month => (i64::from(time.month()), 2),
        Field::IsoWeek => (i64::from(time.iso_week().week()), 2),
        Field::Week => ((day_of_year - 1) / 7 + 1, 2),
        Field::WeekOfMonth => (i64::from(time.day0() / 7 + 1), 1),
        Field::DayOfYear => (day_of_year, 3),
        Field::IsoDayOfYear => {
            let week = i64::from(time.iso_week().week());
            ((week - 1) * 7 + i64::from(time.weekday().number_from_monday()), 3)
        }
        Field::Day => (i64::from(time.day()), 2),
        Field::DayOfWeek => (i64::from(time.weekday().number_from_sunday()), 1),
        Field::IsoDayOfWeek => (i64::from(time.weekday().number_from_monday()), 1),
        Field::Julian => (i64::from(time.num_days_from_ce()) + 1_721_425, 7),
        Field::Hour24 => (i64::from(time.hour()), 2),
        Field::Hour12 => (i64::from(time.hour12().1), 2),
        Field::Minute => (i64::from(time.minute()), 2),
        Field::Second => (i64::from(time.second()), 2),
        Field::SecondOfDay => (i64::from(time.num_seconds_from_midnight()), 0),
        Field::Fraction(digits) => (
            micros / 10_i64.pow(6_u32.saturating_sub(digits)),
            usize::try_from(digits).unwrap_or(6),
        ),
        // The others are words.
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(time: &str, pattern: &str) -> String {
        let time = NaiveDateTime::parse_from_str(time, "%Y-%m-%d %H:%M:%S%.f").unwrap();
        written(&read(pattern).unwrap(), time)
    }

    // What PostgreSQL 15 answers.
    #[test]
    fn patterns_are_postgresqls() {
        let time = "2024-02-29 13:04:05.067089";
        for (pattern, wanted) in [
            ("YYYY-MM-DD HH24:MI:SS", "2024-02-29 13:04:05"),
            ("yyyy-mm-dd hh24:mi:ss.ms", "2024-02-29 13:04:05.067"),
            ("Mon DD, YYYY", "Feb 29, 2024"),
            ("MONTH|Month|month|FMMonth|MON|mon", "FEBRUARY |February |february |February|FEB|feb"),
            ("Day|DAY|FMday|Dy|DY|dy", "Thursday |THURSDAY |thursday|Thu|THU|thu"),
            ("HH12:MI AM|HH:MI p.m.", "01:04 PM|01:04 p.m."),
            ("US FF1 FF3", "067089 0 067"),
            ("DDD D ID IW WW W Q CC J", "060 5 4 09 09 5 1 21 2460370"),
            ("FMDDth FMMMTH SSSS", "29th 2ND 47045"),
            ("Y,YYY YY Y IYYY", "2,024 24 4 2024"),
            ("\"at \"HH24\"h\"", "at 13h"),
            ("RM|FMrm AD", "II  |ii AD"),
        ] {
            assert_eq!(of(time, pattern), wanted, "{pattern}");
        }
        assert_eq!(of("2024-01-01 00:00:00.0", "HH12 HH24 FMHH24 FMMI"), "12 00 0 0");
        assert!(read("TZ").is_err());
    }
}
