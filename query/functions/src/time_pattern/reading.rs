//! Parses times by a pattern, for `to_timestamp` and `to_date`. Small differences between the text
//! and the pattern are accepted, as in PostgreSQL.

use stratalog_model::{Error, ErrorKind, Result};
use stratalog_text::calendar::Civil;

use super::{
    fields::{Field, Node, PatternField},
    writing::{DAYS, MONTHS, ROMAN},
};

mod settling;

use settling::{PatternCalendar, TimeFields};

/// The parsed date and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ParsedTime {
    pub(super) date: Civil,
    pub(super) second_of_day: i64,
    pub(super) micros: i64,
    /// The offset from UTC in seconds, positive to the east. `None` if the pattern has no field for
    /// the hours of an offset.
    pub(super) east_seconds: Option<i32>,
}

/// Parses `text` by a pattern.
///
/// # Errors
/// The text does not match the pattern, or is not a valid time.
pub(super) fn parsed(nodes: &[Node], text: &str) -> Result<ParsedTime> {
    let mut reader =
        TimeReader { text, rest: text, parts: TimeFields::default(), exact: false, skipped: 0 };
    reader.read(nodes)?;
    reader.parts.settled(text)
}

struct TimeReader<'a> {
    text: &'a str,
    rest: &'a str,
    parts: TimeFields,
    exact: bool,
    /// The number of skipped characters of the text, minus the number of skipped characters of the
    /// pattern.
    skipped: i64,
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidDatetimeFormat, message)
}

fn is_separator(letter: char) -> bool {
    letter.is_ascii_punctuation()
}

/// True if the digits of a field may have any number: the field has `FM` or `TH`, or the next
/// element of the pattern is not a digit.
fn ends_by_itself(place: &PatternField, next: Option<&Node>) -> bool {
    place.bare
        || place.ordinal.is_some()
        || match next {
            None => true,
            Some(Node::Field(next)) => !next.field.is_number(),
            Some(Node::Space(letter) | Node::Separator(letter) | Node::Letter(letter)) => {
                !letter.is_ascii_digit()
            }
        }
}

impl TimeReader<'_> {
    fn skip_blanks(&mut self) {
        while let Some(letter) = self.rest.chars().next().filter(|letter| letter.is_whitespace()) {
            self.advance(letter);
            self.skipped += 1;
        }
    }

    fn advance(&mut self, letter: char) {
        self.rest = self.rest.get(letter.len_utf8()..).unwrap_or("");
    }

    fn read(&mut self, nodes: &[Node]) -> Result<()> {
        for (at, node) in nodes.iter().enumerate() {
            if self.rest.is_empty() {
                break;
            }
            let place = match node {
                Node::Field(place) => Some(place),
                _ => None,
            };
            let is_exact = place.is_some_and(|place| place.field == Field::Exact);
            if !self.exact && !is_exact && (place.is_some() || at == 0) {
                self.skip_blanks();
            }
            match (place, node) {
                (Some(place), _) => {
                    self.field(place, nodes.get(at + 1))?;
                    if !self.exact {
                        self.skipped = 0;
                        self.skip_blanks();
                    }
                }
                (None, Node::Space(_) | Node::Separator(_)) => self.separator(),
                (None, _) => self.letter(),
            }
        }
        Ok(())
    }

    /// Matches a space or separator of the pattern: skips one space or separator of the text, if
    /// there is one.
    fn separator(&mut self) {
        let Some(letter) = self.rest.chars().next() else { return };
        if self.exact {
            self.advance(letter);
            return;
        }
        self.skipped -= 1;
        if letter.is_whitespace() || is_separator(letter) {
            self.advance(letter);
            self.skipped += 1;
        }
    }

    /// Matches any other character of the pattern: skips one character of the text.
    fn letter(&mut self) {
        let Some(letter) = self.rest.chars().next() else { return };
        if !self.exact && self.skipped > 0 {
            self.skipped -= 1;
        } else {
            self.advance(letter);
        }
    }

    fn field(&mut self, place: &PatternField, next: Option<&Node>) -> Result<()> {
        if let Some(calendar) = calendar_of(place.field) {
            let known = *self.parts.calendar.get_or_insert(calendar);
            if known != calendar {
                return Err(invalid("invalid combination of date conventions".to_string())
                    .with_hint("Do not mix Gregorian and ISO week date conventions in a formatting template."));
            }
        }
        let number = |reader: &mut Self, length: usize| reader.number(place, length, next);
        match place.field {
            Field::Exact => self.exact = true,
            Field::HalfOfDay { dots } => {
                let words = if dots { ["a.m.", "p.m."] } else { ["am", "pm"] };
                let afternoon = self.word(place, &words, false)? == 1;
                self.set(place, |parts| &mut parts.half, afternoon)?;
                self.parts.twelve = true;
            }
            Field::Era { dots } => {
                let words = if dots { ["a.d.", "b.c."] } else { ["ad", "bc"] };
                self.parts.before_christ = self.word(place, &words, false)? == 1;
            }
            Field::Hour12 | Field::Hour24 => {
                let (hour, _) = number(self, 2)?;
                self.set(place, |parts| &mut parts.hour, hour)?;
                self.parts.twelve |= place.field == Field::Hour12;
            }
            Field::Minute => {
                let (minute, _) = number(self, 2)?;
                self.set(place, |parts| &mut parts.minute, minute)?;
            }
            Field::Second => {
                let (second, _) = number(self, 2)?;
                self.set(place, |parts| &mut parts.second, second)?;
            }
            Field::Millisecond => {
                let (millis, length) = number(self, 3)?;
                let scaled = millis * [100, 10].get(length.wrapping_sub(1)).unwrap_or(&1);
                self.set(place, |parts| &mut parts.millis, scaled)?;
            }
            Field::Microsecond | Field::Fraction(_) => {
                let digits = match place.field {
                    Field::Fraction(digits) => usize::from(digits),
                    _ => 6,
                };
                let (micros, length) = number(self, digits)?;
                let missing = u32::try_from(6_usize.saturating_sub(length)).unwrap_or(0);
                self.set(place, |parts| &mut parts.micros, micros * 10_i64.pow(missing))?;
            }
            Field::SecondOfDay => {
                let (seconds, _) = number(self, place.name.len())?;
                self.set(place, |parts| &mut parts.second_of_day, seconds)?;
            }
            Field::Zone | Field::Offset => {
                return Err(Error::new(
                    ErrorKind::FeatureNotSupported,
                    format!("formatting field \"{}\" is only supported in to_char", place.name),
                ));
            }
            Field::ZoneHours => self.zone_hours(place, next)?,
            Field::ZoneMinutes => {
                self.parts.zone_sign.get_or_insert(1);
                let (minutes, _) = number(self, 2)?;
                self.set(place, |parts| &mut parts.zone_minutes, minutes)?;
            }
            Field::MonthName { short } => {
                let month = self.word(place, &MONTHS, short)? + 1;
                self.set(place, |parts| &mut parts.month, month)?;
            }
            Field::RomanMonth => {
                let month = self.roman(place)?;
                self.set(place, |parts| &mut parts.month, month)?;
            }
            Field::DayName { short } => {
                let day = self.word(place, &DAYS, short)? + 1;
                self.set(place, |parts| &mut parts.day_of_week, day)?;
            }
            Field::YearWithComma => self.year_with_comma(place)?,
            Field::Year(digits) | Field::IsoYear(digits) => {
                let (year, length) = number(self, usize::from(digits))?;
                let year = if digits < 4 && length < 4 { near_2020(year) } else { year };
                self.set(place, |parts| &mut parts.year, year)?;
                self.parts.year_digits = digits;
            }
            Field::IsoDayOfWeek => {
                let (day, _) = number(self, 1)?;
                self.set(place, |parts| &mut parts.day_of_week, day % 7 + 1)?;
            }
            Field::Quarter => {
                number(self, 1)?;
            }
            field => {
                let (value, _) = number(self, place.name.len())?;
                self.set(place, |parts| slot(parts, field), value)?;
            }
        }
        if place.ordinal.is_some() {
            for _ in 0..2 {
                self.rest.chars().next().into_iter().for_each(|letter| self.advance(letter));
            }
        }
        Ok(())
    }

    /// Sets a field; a field that is already set must have the same value.
    fn set<T: Copy + PartialEq>(
        &mut self,
        place: &PatternField,
        slot: impl FnOnce(&mut TimeFields) -> &mut Option<T>,
        value: T,
    ) -> Result<()> {
        let slot = slot(&mut self.parts);
        if slot.is_some_and(|before| before != value) {
            return Err(invalid(format!(
                "conflicting values for \"{}\" field in formatting string",
                place.name
            ))
            .with_detail("This value contradicts a previous setting for the same field type."));
        }
        *slot = Some(value);
        Ok(())
    }

    /// Parses a number of `length` digits, or of any length if [`ends_by_itself`] is true. Returns
    /// the number and its length in characters.
    fn number(
        &mut self,
        place: &PatternField,
        length: usize,
        next: Option<&Node>,
    ) -> Result<(i64, usize)> {
        let trimmed = self.rest.trim_start();
        let open = ends_by_itself(place, next);
        let available: String = trimmed.chars().take(length).collect();
        let digits = match open {
            true => number_at(trimmed),
            false => number_at(&available),
        };
        let name = place.name;
        let hint = "If your source string is not fixed-width, try using the \"FM\" modifier.";
        if !open && available.len() < length {
            return Err(invalid(format!(
                "source string too short for \"{name}\" formatting field"
            ))
            .with_detail(format!(
                "Field requires {length} characters, but only {} remain.",
                available.len()
            ))
            .with_hint(hint));
        }
        if digits.is_empty() {
            return Err(invalid(format!("invalid value \"{available}\" for \"{name}\""))
                .with_detail("Value must be an integer."));
        }
        if !open && digits.len() < length {
            return Err(invalid(format!("invalid value \"{available}\" for \"{name}\""))
                .with_detail(format!(
                    "Field requires {length} characters, but only {} could be parsed.",
                    digits.len()
                ))
                .with_hint(hint));
        }
        let value = digits.trim_start_matches('+').parse::<i32>().map_err(|_| {
            Error::new(
                ErrorKind::DatetimeOverflow,
                format!("value for \"{name}\" in source string is out of range"),
            )
            .with_detail("Value must be in the range -2147483648 to 2147483647.")
        })?;
        let taken = digits.len();
        self.rest = trimmed.get(taken..).unwrap_or("");
        Ok((i64::from(value), taken))
    }

    /// Parses one of `words` at the start of the text, in upper or lower case, and returns its
    /// index. If `short`, only the first three letters of each word are compared.
    fn word(&mut self, place: &PatternField, words: &[&str], short: bool) -> Result<i64> {
        let spelled =
            words.iter().map(|word| if short { word.get(..3).unwrap_or(word) } else { word });
        for (at, word) in spelled.enumerate() {
            if self.rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)) {
                self.rest = self.rest.get(word.len()..).unwrap_or("");
                return Ok(i64::try_from(at).unwrap_or(0));
            }
        }
        Err(self.no_word(place))
    }

    fn no_word(&self, place: &PatternField) -> Error {
        let shown: String =
            self.rest.chars().take_while(|letter| !letter.is_whitespace()).collect();
        invalid(format!("invalid value \"{shown}\" for \"{}\"", place.name))
            .with_detail("The given value did not match any of the allowed values for this field.")
    }

    /// Parses a Roman numeral. The longest possible numeral counts: `VIII` is not read as `V`.
    fn roman(&mut self, place: &PatternField) -> Result<i64> {
        let found = ROMAN
            .iter()
            .enumerate()
            .filter(|(_, numeral)| {
                self.rest
                    .get(..numeral.len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(numeral))
            })
            .max_by_key(|(_, numeral)| numeral.len());
        let Some((at, numeral)) = found else { return Err(self.no_word(place)) };
        self.rest = self.rest.get(numeral.len()..).unwrap_or("");
        Ok(i64::try_from(at).unwrap_or(0) + 1)
    }

    fn zone_hours(&mut self, place: &PatternField, next: Option<&Node>) -> Result<()> {
        let sign = match self.rest.chars().next() {
            Some(sign @ ('+' | '-' | ' ')) => {
                self.advance(sign);
                if sign == '-' { -1 } else { 1 }
            }
            // A separator of the pattern may have skipped the minus sign of the offset.
            _ => {
                let read = self.text.len() - self.rest.len();
                let before = self.text.get(..read).unwrap_or("");
                if self.skipped > 0 && before.ends_with('-') { -1 } else { 1 }
            }
        };
        self.parts.zone_sign = Some(sign);
        let (hours, _) = self.number(place, 2, next)?;
        self.set(place, |parts| &mut parts.zone_hours, hours)
    }

    fn year_with_comma(&mut self, place: &PatternField) -> Result<()> {
        let wrong = || invalid("invalid input string for \"Y,YYY\"".to_string());
        let thousands = number_at(self.rest);
        let after = self.rest.get(thousands.len()..).unwrap_or("");
        let rest = after.strip_prefix(',').ok_or_else(wrong)?;
        let shown: String = rest.chars().take(3).collect();
        let ones = number_at(&shown);
        let value = |digits: &str| digits.parse::<i32>().map(i64::from).map_err(|_| wrong());
        let year = value(&ones)? + value(&thousands)? * 1_000;
        self.rest = rest.get(ones.len()..).unwrap_or("");
        self.set(place, |parts| &mut parts.year, year)?;
        self.parts.year_digits = 4;
        Ok(())
    }
}

/// The sign and the digits at the start of a text; an empty text if there are no digits.
fn number_at(text: &str) -> String {
    let sign = usize::from(text.starts_with(['+', '-']));
    let digits = text.bytes().skip(sign).take_while(u8::is_ascii_digit).count();
    match digits {
        0 => String::new(),
        digits => text.get(..sign + digits).unwrap_or("").to_string(),
    }
}

fn slot(parts: &mut TimeFields, field: Field) -> &mut Option<i64> {
    match field {
        Field::Century => &mut parts.century,
        Field::Month => &mut parts.month,
        Field::IsoWeek | Field::Week => &mut parts.week,
        Field::WeekOfMonth => &mut parts.week_of_month,
        Field::DayOfYear | Field::IsoDayOfYear => &mut parts.day_of_year,
        Field::DayOfWeek => &mut parts.day_of_week,
        Field::Julian => &mut parts.julian,
        _ => &mut parts.day,
    }
}

fn calendar_of(field: Field) -> Option<PatternCalendar> {
    match field {
        Field::IsoYear(_) | Field::IsoWeek | Field::IsoDayOfYear | Field::IsoDayOfWeek => {
            Some(PatternCalendar::IsoWeek)
        }
        Field::Year(_)
        | Field::YearWithComma
        | Field::Month
        | Field::MonthName { .. }
        | Field::RomanMonth
        | Field::Week
        | Field::WeekOfMonth
        | Field::DayOfYear
        | Field::Day
        | Field::DayOfWeek => Some(PatternCalendar::Gregorian),
        _ => None,
    }
}

/// Completes a year with fewer than four digits: of the years with these last digits, returns the
/// year nearest to 2020.
fn near_2020(year: i64) -> i64 {
    match year {
        0..70 => year + 2_000,
        70..100 => year + 1_900,
        100..520 => year + 2_000,
        520..1_000 => year + 1_000,
        year => year,
    }
}
