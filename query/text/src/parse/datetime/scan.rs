//! The slow path of the date and time parser. Parses every form that PostgreSQL accepts and that is
//! still in use.

use stratalog_model::{Error, ErrorKind, Result};

use super::{
    DATE_YEAR_MAX, ParsedDatetime, TIMESTAMP_YEAR_MAX, ZonePart, bad_format, field_overflow,
    fraction_nanos, out_of_range,
};
use crate::{
    TextStyle, TimeZone,
    calendar::{Civil, DAY_NS, SECOND_NS, UNIX_EPOCH_JULIAN, days_of, is_valid},
    parse::{shortened, words},
    style::DateOrder,
};

/// The upper limit for a parsed Julian day. A greater day is out of range for every type.
const JULIAN_MAX: i64 = i32::MAX as i64 * 4;

/// The state of the parser: the position in the text, and the fields parsed up to this position.
struct Scanner<'a> {
    text: &'a str,
    type_name: &'a str,
    style: &'a TextStyle,
    rest: &'a [u8],
    year: Option<(i64, usize)>,
    month: Option<i64>,
    day: Option<i64>,
    days: Option<i64>,
    clock: Option<(i64, bool)>,
    afternoon: Option<bool>,
    before_christ: bool,
    place: Option<ZonePart>,
}

/// Parses a date, a time or a timestamp in any form.
pub(super) fn scan(text: &str, type_name: &str, style: &TextStyle) -> Result<ParsedDatetime> {
    let mut scanner = Scanner {
        text,
        type_name,
        style,
        rest: text.as_bytes(),
        year: None,
        month: None,
        day: None,
        days: None,
        clock: None,
        afternoon: None,
        before_christ: false,
        place: None,
    };
    while let Some(first) = scanner.rest.first().copied() {
        match first {
            b' ' | b'\t'..=b'\r' | b',' => {
                scanner.take(1);
            }
            b'0'..=b'9' => scanner.digits()?,
            b'+' | b'-' => scanner.offset()?,
            b'.' => {
                scanner.take(1);
            }
            byte if byte.is_ascii_alphabetic() => scanner.word()?,
            _ => return Err(scanner.bad()),
        }
    }
    scanner.finish()
}

impl<'a> Scanner<'a> {
    fn bad(&self) -> Error {
        bad_format(self.type_name, self.text)
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (head, tail) = self.rest.split_at_checked(count).unwrap_or((self.rest, &[]));
        self.rest = tail;
        head
    }

    fn take_while(&mut self, keep: impl Fn(u8) -> bool) -> &'a [u8] {
        let count = self.rest.iter().take_while(|byte| keep(**byte)).count();
        self.take(count)
    }

    fn number(&self, digits: &[u8]) -> Result<i64> {
        std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| field_overflow(self.text))
    }

    fn has_date(&self) -> bool {
        self.days.is_some() || (self.year.is_some() && self.month.is_some() && self.day.is_some())
    }

    fn digits(&mut self) -> Result<()> {
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        match self.rest {
            [b':', ..] => self.time(digits),
            [separator @ (b'-' | b'/' | b'.'), next, ..]
                if next.is_ascii_alphanumeric() && !self.has_date() =>
            {
                self.date(digits, *separator)
            }
            _ => self.lone_number(digits),
        }
    }

    /// Parses a number without separators: a date such as `20240131`, a time such as `123000`, or
    /// the day or year next to the name of a month.
    fn lone_number(&mut self, digits: &[u8]) -> Result<()> {
        let part = |range: std::ops::Range<usize>| digits.get(range).unwrap_or_default();
        let length = digits.len();
        let time_alone = self.type_name == "time" && !self.has_date();
        if (self.has_date() || time_alone) && self.clock.is_none() && (length == 6 || length == 4) {
            let second = if length == 6 { self.number(part(4..6))? } else { 0 };
            let (hour, minute) = (self.number(part(0..2))?, self.number(part(2..4))?);
            return self.set_clock(hour, minute, second);
        }
        if self.month.is_none() && self.year.is_none() && self.days.is_none() {
            let year_length = match length {
                8 => 4,
                6 => 2,
                // One or two digits before the name of the month are the day.
                1 | 2 if self.day.is_none() => {
                    self.day = Some(self.number(digits)?);
                    return Ok(());
                }
                _ => return Err(self.bad()),
            };
            self.year = Some((self.number(part(0..year_length))?, year_length));
            self.month = Some(self.number(part(year_length..year_length + 2))?);
            self.day = Some(self.number(part(year_length + 2..length))?);
            return Ok(());
        }
        let value = self.number(digits)?;
        if length > 2 || self.day.is_some() {
            if self.year.replace((value, length)).is_some() {
                return Err(self.bad());
            }
        } else if self.day.replace(value).is_some() {
            return Err(self.bad());
        }
        Ok(())
    }

    /// Parses a date of three parts with equal separators, such as `2024-01-31`; `first` is the
    /// first part, which is already read. One part may be the name of a month.
    fn date(&mut self, first: &'a [u8], separator: u8) -> Result<()> {
        if self.day_of_year(first)? {
            return Ok(());
        }
        let mut parts = [first, &[][..], &[][..]];
        for part in parts.iter_mut().skip(1) {
            if self.take(1) != [separator] {
                return Err(self.bad());
            }
            let letters = self.rest.first().is_some_and(u8::is_ascii_alphabetic);
            *part = if letters {
                self.take_while(|byte| byte.is_ascii_alphabetic())
            } else {
                self.take_while(|byte| byte.is_ascii_digit())
            };
            if part.is_empty() {
                return Err(self.bad());
            }
        }
        let [a, b, c] = parts;
        let named = |part: &[u8]| {
            let word = String::from_utf8_lossy(part).to_ascii_lowercase();
            words::month(&word).map(i64::from)
        };
        if b.first().is_some_and(u8::is_ascii_alphabetic) {
            self.month = Some(named(b).ok_or_else(|| self.bad())?);
            let (year, day) = if a.len() > 2 { (a, c) } else { (c, a) };
            self.year = Some((self.number(year)?, year.len()));
            self.day = Some(self.number(day)?);
            return Ok(());
        }
        if !c.iter().all(u8::is_ascii_digit) {
            return Err(self.bad());
        }
        let (year, month, day) = if a.len() > 2 {
            (a, b, c)
        } else {
            match self.style.date_order {
                DateOrder::Ymd => (a, b, c),
                DateOrder::Dmy => (c, b, a),
                DateOrder::Mdy => (c, a, b),
            }
        };
        self.year = Some((self.number(year)?, year.len()));
        self.month = Some(self.number(month)?);
        self.day = Some(self.number(day)?);
        Ok(())
    }

    /// Parses a date in the form `year-ddd`, where `ddd` is the day of the year in three digits.
    /// The year is already read. Returns `false` if the date is not in this form.
    fn day_of_year(&mut self, year: &[u8]) -> Result<bool> {
        let behind = self.rest.get(1..).unwrap_or_default();
        let length = behind.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let ends = !matches!(behind.get(length), Some(b'-' | b'/' | b'.' | b':'));
        if year.len() < 3 || length != 3 || !ends {
            return Ok(false);
        }
        self.take(1);
        let digits = self.take(length);
        let (year_length, year, day) = (year.len(), self.number(year)?, self.number(digits)?);
        if !(1..=366).contains(&day) {
            return Err(self.bad());
        }
        self.days = Some(self.days_of(year, year_length, 1, 1)? + day - 1);
        Ok(true)
    }

    /// Parses the rest of `HH:MM[:SS[.fraction]]`; `hour` is already read.
    fn time(&mut self, hour: &[u8]) -> Result<()> {
        let hour = self.number(hour)?;
        self.take(1);
        let minute = self.take_while(|byte| byte.is_ascii_digit());
        let minute = if minute.is_empty() { return Err(self.bad()) } else { self.number(minute)? };
        let mut second = 0;
        if self.rest.first() == Some(&b':') {
            self.take(1);
            let digits = self.take_while(|byte| byte.is_ascii_digit());
            second = if digits.is_empty() { return Err(self.bad()) } else { self.number(digits)? };
        }
        self.set_clock(hour, minute, second)
    }

    /// Sets the time of day, and parses the fraction of the second that may follow.
    fn set_clock(&mut self, hour: i64, minute: i64, second: i64) -> Result<()> {
        let mut fraction = (0, false);
        if self.rest.first() == Some(&b'.') {
            self.take(1);
            let digits = self.take_while(|byte| byte.is_ascii_digit());
            fraction = fraction_nanos(digits).unwrap_or((0, false));
        }
        // Second 60 is the next minute, and 24:00:00 is the next midnight.
        if hour > 24 || minute > 59 || second > 60 {
            return Err(field_overflow(self.text));
        }
        let nanos = (hour * 3600 + minute * 60 + second) * SECOND_NS + fraction.0;
        if nanos > DAY_NS {
            return Err(field_overflow(self.text));
        }
        match self.clock.replace((nanos, fraction.1)) {
            None => Ok(()),
            Some(_) => Err(self.bad()),
        }
    }

    /// Parses an offset from UTC in the form `±HH[[:]MM[[:]SS]]`.
    fn offset(&mut self) -> Result<()> {
        let anchored = self.clock.is_some() || self.has_date();
        if !anchored
            && self.type_name != "time"
            && self.text.trim().eq_ignore_ascii_case("-infinity")
        {
            return Err(self.infinite());
        }
        if !anchored || matches!(self.place, Some(ZonePart::East(_))) {
            return Err(self.bad());
        }
        let negative = self.take(1) == b"-";
        let digits = self.take_while(|byte| byte.is_ascii_digit() || byte == b':');
        let mut fields = [0_i64; 3];
        if digits.contains(&b':') {
            for (at, part) in digits.split(|byte| *byte == b':').enumerate() {
                let field =
                    fields.get_mut(at).ok_or_else(|| bad_format(self.type_name, self.text))?;
                *field = self.number(part)?;
            }
        } else {
            let padded = if digits.len() % 2 == 1 { 1 } else { 2 };
            let (hours, rest) = digits.split_at_checked(padded).ok_or_else(|| self.bad())?;
            let parts = std::iter::once(hours).chain(rest.chunks(2));
            for (at, part) in parts.enumerate() {
                let field =
                    fields.get_mut(at).ok_or_else(|| bad_format(self.type_name, self.text))?;
                *field = self.number(part)?;
            }
        }
        let [hours, minutes, seconds] = fields;
        if hours > 15 || minutes > 59 || seconds > 59 {
            return Err(Error::new(
                ErrorKind::InvalidTimeZoneOffset,
                format!("time zone displacement out of range: \"{}\"", shortened(self.text)),
            ));
        }
        let east = i32::try_from(hours * 3600 + minutes * 60 + seconds).unwrap_or(0);
        self.place = Some(ZonePart::East(if negative { -east } else { east }));
        Ok(())
    }

    fn infinite(&self) -> Error {
        Error::new(
            ErrorKind::FeatureNotSupported,
            format!("{} cannot hold \"{}\"", self.type_name, shortened(self.text)),
        )
        .with_hint("infinite dates and timestamps are not supported: use NULL, or a date far away")
    }

    fn word(&mut self) -> Result<()> {
        if let [b'j' | b'J', b'0'..=b'9', ..] = self.rest {
            self.take(1);
            let digits = self.take_while(|byte| byte.is_ascii_digit());
            self.days = Some(self.number(digits)?.min(JULIAN_MAX) - UNIX_EPOCH_JULIAN);
            return Ok(());
        }
        let letters = self.rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let raw = self.rest.get(..letters).unwrap_or_default();
        let word = String::from_utf8_lossy(raw).to_ascii_lowercase();
        let next = self.rest.get(letters).copied();
        let zone_name = matches!(next, Some(b'/' | b'_'));
        if !zone_name && self.known_word(&word, next)? {
            self.take(letters);
            if let [b'-', b'0'..=b'9', ..] = self.rest
                && words::month(&word).is_some()
            {
                self.day_and_year()?;
            }
            return Ok(());
        }
        // The name of a zone in the tz database, for example Etc/GMT+5, America/Port-au-Prince or
        // Europe/Berlin.
        let raw = self.take_while(|byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_' | b'-' | b'+')
        });
        let mut name = String::from_utf8_lossy(raw).into_owned();
        let mut zone = TimeZone::named(&name);
        let (letters, offset) = name.split_at_checked(letters).unwrap_or((&name, ""));
        // A POSIX zone, for example GMT+8 or UTC-3:30. A positive offset lies west of Greenwich.
        if zone.is_none() && letters.len() >= 3 && offset.starts_with(['+', '-']) {
            let minutes = self.take_while(|byte| byte.is_ascii_digit() || byte == b':');
            name.push_str(&String::from_utf8_lossy(minutes));
            zone = TimeZone::parse_setting(&name).ok();
        }
        let plausible = self.clock.is_some() || self.has_date();
        match zone {
            Some(zone) if plausible && self.place.is_none() => {
                self.place = Some(ZonePart::Zone(zone));
                Ok(())
            }
            None if plausible && name.contains('/') => Err(Error::new(
                ErrorKind::InvalidParameterValue,
                format!("time zone \"{}\" not recognized", shortened(&name.to_lowercase())),
            )),
            _ => Err(self.bad()),
        }
    }

    /// Parses `-day-year` after the name of a month.
    fn day_and_year(&mut self) -> Result<()> {
        self.take(1);
        let day = self.take_while(|byte| byte.is_ascii_digit());
        if self.take(1) != b"-" || self.day.is_some() || self.year.is_some() {
            return Err(self.bad());
        }
        let year = self.take_while(|byte| byte.is_ascii_digit());
        self.day = Some(self.number(day)?);
        self.year = Some((self.number(year)?, year.len()));
        Ok(())
    }

    /// Applies a keyword, the name of a month or weekday, or the abbreviation of a zone. Returns
    /// `false` for any other word, and for an abbreviation directly before a sign, because the two
    /// begin a POSIX zone.
    fn known_word(&mut self, word: &str, next: Option<u8>) -> Result<bool> {
        match word {
            "t" if (self.has_date() || self.type_name == "time")
                && next.is_some_and(|byte| byte.is_ascii_digit()) => {}
            "am" => self.afternoon = Some(false),
            "pm" => self.afternoon = Some(true),
            "ad" => self.before_christ = false,
            "bc" => self.before_christ = true,
            "epoch" => {
                self.days = Some(0);
                self.clock = Some((0, false));
                self.place = Some(ZonePart::East(0));
            }
            "now" | "today" | "tomorrow" | "yesterday" => self.relative(word)?,
            "allballs" => {
                self.clock = Some((0, false));
                self.place = Some(ZonePart::East(0));
            }
            "infinity" if self.type_name != "time" => return Err(self.infinite()),
            _ => {
                if let Some(month) = words::month(word) {
                    if self.month.replace(i64::from(month)).is_some() {
                        return Err(self.bad());
                    }
                } else if let Some(zone) = words::abbreviated(word).filter(|_| self.clock.is_some())
                {
                    // With a sign directly after the word, as in "UTC+3", the word begins a POSIX
                    // zone.
                    self.place = Some(match zone {
                        TimeZone::Fixed { east_seconds } => ZonePart::East(east_seconds),
                        named => ZonePart::Zone(named),
                    });
                    if matches!(next, Some(b'+' | b'-')) {
                        self.place = None;
                        return Ok(false);
                    }
                } else if !words::is_weekday(word) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn relative(&mut self, word: &str) -> Result<()> {
        let now = self.style.now_ns.ok_or_else(|| {
            Error::new(ErrorKind::FeatureNotSupported, format!("\"{word}\" is not accepted here"))
                .with_hint("write the timestamp out, or use now() in an expression")
        })?;
        let offset = self.style.time_zone.offset_at(now.div_euclid(SECOND_NS));
        let local = now.saturating_add(i64::from(offset) * SECOND_NS);
        let days = local.div_euclid(DAY_NS);
        match word {
            "now" => {
                self.days = Some(days);
                self.clock = Some((local.rem_euclid(DAY_NS), false));
                self.place = Some(ZonePart::East(offset));
            }
            "today" => self.days = Some(days),
            "tomorrow" => self.days = Some(days + 1),
            _ => self.days = Some(days - 1),
        }
        Ok(())
    }

    fn finish(self) -> Result<ParsedDatetime> {
        let days = match (self.days, self.year, self.month, self.day) {
            (Some(days), None, None, None) => Some(days),
            (None, Some((year, length)), Some(month), Some(day)) => {
                Some(self.days_of(year, length, month, day)?)
            }
            (None, None, None, None) => None,
            _ => return Err(self.bad()),
        };
        if days.is_none() && self.clock.is_none() {
            return Err(self.bad());
        }
        let (mut nanos, round_up) = self.clock.unwrap_or((0, false));
        if let Some(afternoon) = self.afternoon {
            let hour = nanos / (3600 * SECOND_NS);
            if self.clock.is_none() || !(1..=12).contains(&hour) {
                return Err(field_overflow(self.text));
            }
            let half_day = DAY_NS / 2;
            nanos = nanos % half_day + if afternoon { half_day } else { 0 };
        }
        Ok(ParsedDatetime {
            days,
            nanos,
            round_up,
            has_time: self.clock.is_some(),
            place: self.place,
        })
    }

    fn days_of(&self, year: i64, year_length: usize, month: i64, day: i64) -> Result<i64> {
        let year = match (self.before_christ, year_length) {
            (true, _) if year > 0 => 1 - year,
            (false, ..=2) if year < 70 => year + 2000,
            (false, ..=2) => year + 1900,
            (false, _) if year > 0 => year,
            // The calendar has no year 0.
            _ => return Err(field_overflow(self.text)),
        };
        let year_max = if self.type_name == "date" { DATE_YEAR_MAX } else { TIMESTAMP_YEAR_MAX };
        if year > year_max {
            let what = if self.type_name == "date" { "date" } else { "timestamp" };
            return Err(out_of_range(what, self.text));
        }
        let civil = u32::try_from(month)
            .ok()
            .zip(u32::try_from(day).ok())
            .map(|(month, day)| Civil { year, month, day })
            .filter(|civil| is_valid(*civil));
        let Some(civil) = civil else {
            let error = field_overflow(self.text);
            return Err(if month > 12 {
                error.with_hint("Perhaps you need a different \"DateStyle\" setting.")
            } else {
                error
            });
        };
        Ok(days_of(civil))
    }
}
