//! Parses a pattern for times, for example `YYYY-MM-DD`, into elements.

/// The meaning of a field in a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Year(u8),
    YearWithComma,
    IsoYear(u8),
    Century,
    Quarter,
    Month,
    MonthName {
        short: bool,
    },
    RomanMonth,
    IsoWeek,
    Week,
    WeekOfMonth,
    DayOfYear,
    IsoDayOfYear,
    Day,
    DayOfWeek,
    IsoDayOfWeek,
    DayName {
        short: bool,
    },
    Julian,
    Hour24,
    Hour12,
    Minute,
    Second,
    SecondOfDay,
    Millisecond,
    Microsecond,
    Fraction(u8),
    HalfOfDay {
        dots: bool,
    },
    Era {
        dots: bool,
    },
    Zone,
    ZoneHours,
    ZoneMinutes,
    Offset,
    /// `FX`: the text must match the pattern exactly.
    Exact,
}

/// The case in which the name of a month or day, or another word, is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Upper,
    Capital,
    Lower,
}

/// A field in a pattern, with its prefix and suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PatternField {
    pub(super) field: Field,
    /// The spelling of the field in capital letters, for error messages.
    pub(super) name: &'static str,
    pub(super) case: Case,
    /// True for the prefix `FM` or `TM`: output is not padded with spaces or zeros.
    pub(super) bare: bool,
    pub(super) ordinal: Option<Case>,
}

/// An element of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    Field(PatternField),
    Space(char),
    Separator(char),
    Letter(char),
}

/// The spellings of the fields. A longer spelling comes before the spellings that are its prefixes.
const FIELDS: &[(&str, Field)] = &[
    ("A.D.", Field::Era { dots: true }),
    ("A.M.", Field::HalfOfDay { dots: true }),
    ("AD", Field::Era { dots: false }),
    ("AM", Field::HalfOfDay { dots: false }),
    ("B.C.", Field::Era { dots: true }),
    ("BC", Field::Era { dots: false }),
    ("CC", Field::Century),
    ("DAY", Field::DayName { short: false }),
    ("DDD", Field::DayOfYear),
    ("DD", Field::Day),
    ("DY", Field::DayName { short: true }),
    ("D", Field::DayOfWeek),
    ("FF1", Field::Fraction(1)),
    ("FF2", Field::Fraction(2)),
    ("FF3", Field::Fraction(3)),
    ("FF4", Field::Fraction(4)),
    ("FF5", Field::Fraction(5)),
    ("FF6", Field::Fraction(6)),
    ("FX", Field::Exact),
    ("HH24", Field::Hour24),
    ("HH12", Field::Hour12),
    ("HH", Field::Hour12),
    ("IDDD", Field::IsoDayOfYear),
    ("ID", Field::IsoDayOfWeek),
    ("IW", Field::IsoWeek),
    ("IYYY", Field::IsoYear(4)),
    ("IYY", Field::IsoYear(3)),
    ("IY", Field::IsoYear(2)),
    ("I", Field::IsoYear(1)),
    ("J", Field::Julian),
    ("MI", Field::Minute),
    ("MM", Field::Month),
    ("MONTH", Field::MonthName { short: false }),
    ("MON", Field::MonthName { short: true }),
    ("MS", Field::Millisecond),
    ("OF", Field::Offset),
    ("P.M.", Field::HalfOfDay { dots: true }),
    ("PM", Field::HalfOfDay { dots: false }),
    ("Q", Field::Quarter),
    ("RM", Field::RomanMonth),
    ("SSSSS", Field::SecondOfDay),
    ("SSSS", Field::SecondOfDay),
    ("SS", Field::Second),
    ("TZH", Field::ZoneHours),
    ("TZM", Field::ZoneMinutes),
    ("TZ", Field::Zone),
    ("US", Field::Microsecond),
    ("WW", Field::Week),
    ("W", Field::WeekOfMonth),
    ("Y,YYY", Field::YearWithComma),
    ("YYYY", Field::Year(4)),
    ("YYY", Field::Year(3)),
    ("YY", Field::Year(2)),
    ("Y", Field::Year(1)),
];

impl Field {
    /// True if the field is written with digits.
    pub(super) fn is_number(self) -> bool {
        !matches!(
            self,
            Field::MonthName { .. }
                | Field::DayName { .. }
                | Field::RomanMonth
                | Field::HalfOfDay { .. }
                | Field::Era { .. }
                | Field::Zone
                | Field::ZoneHours
                | Field::Offset
                | Field::Exact
        )
    }
}

/// If `text` starts with this spelling of a field: the case in which the spelling is written;
/// otherwise `None`.
fn case_of(text: &str, (name, field): &(&'static str, Field)) -> Option<Case> {
    let start = text.get(..name.len())?;
    if start == *name {
        return Some(Case::Upper);
    }
    if !start.eq_ignore_ascii_case(name) {
        return None;
    }
    let tail = start.get(1..)?;
    if !tail.chars().any(|letter| letter.is_ascii_uppercase()) {
        let capital = start.starts_with(|first: char| first.is_ascii_uppercase());
        return match field {
            Field::MonthName { .. } | Field::DayName { .. } if capital => Some(Case::Capital),
            _ if capital => None,
            _ => Some(Case::Lower),
        };
    }
    None
}

/// Parses a pattern into elements.
pub(super) fn read(pattern: &str) -> Vec<Node> {
    let mut nodes = Vec::new();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        if let Some((place, length)) = place(rest) {
            nodes.push(Node::Field(place));
            rest = rest.get(length..).unwrap_or("");
            continue;
        }
        // A prefix without a field after it is ignored.
        if starts(rest, "FM") || starts(rest, "TM") {
            rest = rest.get(2..).unwrap_or("");
            continue;
        }
        let mut after = rest.get(first.len_utf8()..).unwrap_or("");
        match first {
            '"' => after = quoted(after, &mut nodes),
            '\\' if after.starts_with('"') => {
                nodes.push(Node::Letter('"'));
                after = after.get(1..).unwrap_or("");
            }
            _ if first.is_whitespace() => nodes.push(Node::Space(first)),
            _ if first.is_ascii_punctuation() => nodes.push(Node::Separator(first)),
            _ => nodes.push(Node::Letter(first)),
        }
        rest = after;
    }
    nodes
}

fn starts(text: &str, word: &str) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// The field at the start of `text`, and the length of its spelling with prefix and suffix; `None`
/// if no field is there.
fn place(text: &str) -> Option<(PatternField, usize)> {
    let bare = starts(text, "FM") || starts(text, "TM");
    let prefix = if bare { 2 } else { 0 };
    let body = text.get(prefix..)?;
    let (found, case) = FIELDS.iter().find_map(|field| Some((field, case_of(body, field)?)))?;
    let (name, field) = *found;
    let after = body.get(name.len()..)?;
    let ordinal = match after.get(..2) {
        Some("TH") => Some(Case::Upper),
        Some("th") => Some(Case::Lower),
        _ => None,
    };
    let suffix = if ordinal.is_some() || after.starts_with("SP") { 2 } else { 0 };
    Some((PatternField { field, name, case, bare, ordinal }, prefix + name.len() + suffix))
}

/// Reads literal text up to the closing quote into `nodes`; returns the rest of the pattern.
fn quoted<'a>(text: &'a str, nodes: &mut Vec<Node>) -> &'a str {
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '"' if !escaped => return text.get(at + 1..).unwrap_or(""),
            '\\' if !escaped => escaped = true,
            letter => {
                nodes.push(Node::Letter(letter));
                escaped = false;
            }
        }
    }
    ""
}
