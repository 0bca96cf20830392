use stratalog_text::TimeZone;

use super::*;

fn of(micros: i64, pattern: &str) -> String {
    writing::text(&read(pattern), &TimePieces::of_time(micros, None)).unwrap()
}

fn date(year: i64, month: u32, day: u32) -> i64 {
    days_of(stratalog_text::calendar::Civil { year, month, day }) * DAY_SECONDS * SECOND_US
}

// The expected values are the results of PostgreSQL 15.
#[test]
fn patterns_are_postgresqls() {
    let time = date(2024, 2, 29) + (13 * 3_600 + 4 * 60 + 5) * SECOND_US + 67_089;
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
        ("\"at \"HH24\"h\" \"\\\"a\\\"\"", "at 13h \"a\""),
        ("RM|FMrm AD", "II  |ii AD"),
        ("TZ|TZH|TZM|OF", "|+00|00|+00"),
    ] {
        assert_eq!(of(time, pattern), wanted, "{pattern}");
    }
    assert_eq!(of(date(2024, 1, 1), "HH12 HH24 FMHH24 FMMI"), "12 00 0 0");
    assert_eq!(of(date(-96, 2, 16), "CC IYYY YYYY BC"), "-01 0097 0097 BC");
}

#[test]
fn zones_are_told() {
    let zone = TimeZone::parse_setting("America/St_Johns").unwrap();
    let shown = TimePieces::of_time(date(2024, 7, 1), Some(&zone));
    let text = writing::text(&read("TZ tz TZH TZM OF HH24"), &shown).unwrap();
    assert_eq!(text, "NDT ndt -02 30 -02:30 21");
}

#[test]
fn texts_are_read_as_postgresql_reads_them() {
    let read_by = |text: &str, pattern: &str| {
        let parsed = reading::parsed(&read(pattern), text).map_err(|error| error.kind())?;
        let micros =
            (days_of(parsed.date) * DAY_SECONDS + parsed.second_of_day) * SECOND_US + parsed.micros;
        Ok(of(micros, "YYYY-MM-DD HH24:MI:SS.US BC"))
    };
    for (text, pattern, wanted) in [
        ("0097/Feb/16 --> 08:14:30", "YYYY/Mon/DD --> HH:MI:SS", "0097-02-16 08:14:30.000000 AD"),
        ("97/2/16 8:14:30", "FMYYYY/FMMM/FMDD FMHH:FMMI:FMSS", "0097-02-16 08:14:30.000000 AD"),
        ("1985 January 12", "YYYY FMMonth DD", "1985-01-12 00:00:00.000000 AD"),
        (
            "15 \"text between quote marks\" 98 54 45",
            "HH24 \"\\text between quote marks\\\"\" YY MI SS",
            "1998-01-01 15:54:45.000000 AD",
        ),
        ("20000-1116", "YYYY-MMDD", "20000-11-16 00:00:00.000000 AD"),
        ("1997 BC 11 16", "YYYY BC MM DD", "1997-11-16 00:00:00.000000 BC"),
        ("9-1116", "Y-MMDD", "2009-11-16 00:00:00.000000 AD"),
        ("2005527", "IYYYIWID", "2006-01-01 00:00:00.000000 AD"),
        ("2006364", "IYYYIDDD", "2006-12-31 00:00:00.000000 AD"),
        ("2011-12-18 11:38 PM", "YYYY-MM-DD HH12:MI PM", "2011-12-18 23:38:00.000000 AD"),
        ("44-02-01 BC", "YYYY-MM-DD BC", "0044-02-01 00:00:00.000000 BC"),
    ] {
        assert_eq!(read_by(text, pattern), Ok(wanted.to_string()), "{text} {pattern}");
    }
    use ErrorKind as E;
    for (text, pattern, wanted) in [
        ("2005527", "YYYYIWID", E::InvalidDatetimeFormat),
        ("19971", "YYYYMMDD", E::InvalidDatetimeFormat),
        ("19971)24", "YYYYMMDD", E::InvalidDatetimeFormat),
        ("Friday 1-January-1999", "DY DD MON YYYY", E::InvalidDatetimeFormat),
        ("2016-13-10", "YYYY-MM-DD", E::DatetimeOverflow),
        ("2016-02-30", "YYYY-MM-DD", E::DatetimeOverflow),
        ("2015-02-11 86400", "YYYY-MM-DD SSSS", E::DatetimeOverflow),
        ("2016-06-13 15:50:55", "YYYY-MM-DD HH:MI:SS", E::InvalidDatetimeFormat),
    ] {
        assert_eq!(read_by(text, pattern), Err(wanted), "{text} {pattern}");
    }
}
