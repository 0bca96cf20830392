//! Translates PostgreSQL's regular expressions to the syntax of the crates `regex` and
//! `fancy_regex`.

use std::{iter::Peekable, str::Chars};

use stratalog_model::{Error, ErrorKind, Result};

use super::Flags;

/// A pattern in the syntax of the Rust crates, with facts about the original pattern.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct TranslatedExpression {
    pub(super) text: String,
    /// True if the pattern has back-references or look-around, so that the engine must backtrack.
    pub(super) hard: bool,
    /// True if the first quantifier is non-greedy. The shortest match then counts, and otherwise
    /// the longest match.
    pub(super) shortest: bool,
}

/// Translates a constant pattern to the syntax of the crate `regex`. `None` if the pattern is
/// invalid, or needs backtracking.
pub fn plain(pattern: &str) -> Option<String> {
    let translated = translate(pattern, Flags::default()).ok()?;
    (!translated.hard).then_some(translated.text)
}

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::InvalidRegularExpression, format!("invalid regular expression: {what}"))
}

/// Translates a pattern with the given flags; options at the start of the pattern change the flags.
///
/// # Errors
/// `InvalidRegularExpression` for an invalid pattern.
pub(super) fn translate(pattern: &str, mut flags: Flags) -> Result<TranslatedExpression> {
    let mut body = pattern;
    if let Some(literal) = body.strip_prefix("***=") {
        flags.quoted = true;
        body = literal;
    } else if let Some(rest) = body.strip_prefix("***:") {
        body = rest;
    } else if body.starts_with("***") {
        return Err(wrong("invalid regexp (reg version 0.8)"));
    }
    if !flags.quoted
        && let Some(options) = body.strip_prefix("(?")
        && let Some((letters, rest)) = options.split_once(')')
        && !letters.is_empty()
        && letters.bytes().all(|letter| letter.is_ascii_lowercase())
    {
        for letter in letters.chars() {
            flags.set(letter).ok_or_else(|| wrong("invalid embedded option"))?;
        }
        body = rest;
    }
    let mut translator = Translator {
        rest: body.chars().peekable(),
        flags,
        out: String::with_capacity(body.len() + 8),
        groups: 0,
        open: Vec::new(),
        hard: false,
        dots: false,
        levels: vec![GroupPreference::default()],
        quantifiable: false,
    };
    match flags.quoted {
        true => body.chars().for_each(|letter| literal(letter, &mut translator.out)),
        false => translator.all()?,
    }
    let mut options = String::new();
    if flags.any_case {
        options.push('i');
    }
    if flags.line_ends {
        options.push('m');
    }
    if translator.dots && !flags.lines {
        options.push('s');
    }
    let text = match options.is_empty() {
        true => translator.out,
        false => format!("(?{options}){}", translator.out),
    };
    let shortest = translator.levels.pop().and_then(GroupPreference::preference).unwrap_or(false);
    Ok(TranslatedExpression { text, hard: translator.hard, shortest })
}

/// Appends a literal character, escaped if necessary.
fn literal(letter: char, out: &mut String) {
    if r"\.+*?()|[]{}^$".contains(letter) {
        out.push('\\');
    }
    out.push(letter);
}

/// Appends a literal character inside a bracket expression, escaped if necessary. There, the engine
/// also has the operators `&&`, `--` and `~~`.
fn literal_in_class(letter: char, out: &mut String) {
    if r"\[]^-&~".contains(letter) {
        out.push('\\');
    }
    out.push(letter);
}

/// Whether a part of the pattern, for example a group, prefers the shortest match (`true`) or the
/// longest match (`false`). A part takes the preference of its first atom with a quantifier. A part
/// with several branches prefers the longest match.
#[derive(Debug, Default)]
struct GroupPreference {
    preferred: Option<bool>,
    /// The preference of the last atom; empty as soon as no quantifier can follow the atom.
    atom: Option<bool>,
    has_branches: bool,
}

impl GroupPreference {
    fn end_atom(&mut self) {
        if let Some(shortest) = self.atom.take() {
            self.preferred.get_or_insert(shortest);
        }
    }

    fn preference(mut self) -> Option<bool> {
        self.end_atom();
        if self.has_branches { Some(false) } else { self.preferred }
    }
}

struct Translator<'a> {
    rest: Peekable<Chars<'a>>,
    flags: Flags,
    out: String,
    groups: u32,
    /// One entry per open parenthesis: true if it begins a look-around.
    open: Vec<bool>,
    hard: bool,
    dots: bool,
    /// The preference of the whole pattern, and then of each open group.
    levels: Vec<GroupPreference>,
    /// True if a quantifier may follow at the current position.
    quantifiable: bool,
}

impl Translator<'_> {
    fn all(&mut self) -> Result<()> {
        while let Some(letter) = self.rest.next() {
            let quantifies = matches!(letter, '*' | '+' | '?' | '{')
                || self.flags.spaced && letter.is_whitespace();
            if !quantifies && let Some(level) = self.levels.last_mut() {
                level.end_atom();
            }
            match letter {
                '\\' => self.escape()?,
                '[' => self.class()?,
                '(' => self.group()?,
                ')' => {
                    let (Some(around), Some(level)) = (self.open.pop(), self.levels.pop()) else {
                        return Err(wrong("parentheses () not balanced"));
                    };
                    if let Some(outer) = self.levels.last_mut() {
                        outer.atom = level.preference().filter(|_| !around);
                    }
                    self.atom(")");
                }
                '|' => {
                    if let Some(level) = self.levels.last_mut() {
                        level.has_branches = true;
                    }
                    self.out.push('|');
                    self.quantifiable = false;
                }
                '*' | '+' | '?' => self.quantifier(letter.to_string(), false)?,
                '{' if self.rest.peek().is_some_and(char::is_ascii_digit) => self.bounds()?,
                '.' => {
                    self.dots = true;
                    self.atom(".");
                }
                '^' | '$' => {
                    self.out.push(letter);
                    self.quantifiable = false;
                }
                letter if self.flags.spaced && letter.is_whitespace() => {}
                '#' if self.flags.spaced => {
                    while self.rest.next().is_some_and(|letter| letter != '\n') {}
                }
                letter => {
                    literal(letter, &mut self.out);
                    self.quantifiable = true;
                }
            }
        }
        match self.open.is_empty() {
            true => Ok(()),
            false => Err(wrong("parentheses () not balanced")),
        }
    }

    fn atom(&mut self, text: &str) {
        self.out.push_str(text);
        self.quantifiable = true;
    }

    fn constraint(&mut self, text: &str) {
        self.out.push_str(text);
        self.quantifiable = false;
    }

    fn quantifier(&mut self, text: String, fixed: bool) -> Result<()> {
        if !self.quantifiable {
            return Err(wrong("quantifier operand invalid"));
        }
        self.out.push_str(&text);
        let lazy = self.rest.next_if_eq(&'?').is_some();
        if lazy {
            self.out.push('?');
        }
        if !fixed && let Some(level) = self.levels.last_mut() {
            level.atom = Some(lazy);
        }
        self.quantifiable = false;
        Ok(())
    }

    /// Translates the bounds `{m}`, `{m,}` or `{m,n}` of a quantifier.
    fn bounds(&mut self) -> Result<()> {
        let mut text = String::new();
        loop {
            match self.rest.next() {
                Some('}') => break,
                Some(letter) if letter.is_ascii_digit() || letter == ',' => text.push(letter),
                _ => return Err(wrong("braces {} not balanced")),
            }
        }
        let (from, to) = match text.split_once(',') {
            Some((from, to)) => (from, Some(to)),
            None => (text.as_str(), None),
        };
        let count = |digits: &str| digits.parse::<u32>().ok().filter(|count| *count <= 255);
        let invalid = || wrong("invalid repetition count(s)");
        let least = count(from).ok_or_else(invalid)?;
        let most = match to {
            None => Some(least),
            Some("") => None,
            Some(to) => Some(count(to).ok_or_else(invalid)?),
        };
        if most.is_some_and(|most| most < least) {
            return Err(invalid());
        }
        self.quantifier(format!("{{{text}}}"), to.is_none())
    }

    fn group(&mut self) -> Result<()> {
        let within = self.open.iter().any(|around| *around);
        if self.rest.next_if_eq(&'?').is_none() {
            // As in PostgreSQL, a group inside a look-around does not capture.
            match within {
                true => self.out.push_str("(?:"),
                false => {
                    self.groups += 1;
                    self.out.push('(');
                }
            }
            self.open.push(false);
            self.levels.push(GroupPreference::default());
            self.quantifiable = false;
            return Ok(());
        }
        let kind = match (self.rest.next(), self.rest.peek()) {
            (Some(':'), _) => ":",
            (Some('='), _) => "=",
            (Some('!'), _) => "!",
            (Some('<'), Some('=')) => "<=",
            (Some('<'), Some('!')) => "<!",
            (Some('#'), _) => {
                while self.rest.next().is_some_and(|letter| letter != ')') {}
                return Ok(());
            }
            _ => return Err(wrong("quantifier operand invalid")),
        };
        if kind.len() == 2 {
            self.rest.next();
        }
        self.out.push_str("(?");
        self.out.push_str(kind);
        self.hard |= kind != ":";
        self.open.push(kind != ":");
        self.levels.push(GroupPreference::default());
        self.quantifiable = false;
        Ok(())
    }

    fn hexadecimal(&mut self, most: usize, exactly: bool) -> Result<char> {
        let mut digits = String::new();
        while digits.len() < most
            && let Some(digit) = self.rest.next_if(char::is_ascii_hexdigit)
        {
            digits.push(digit);
        }
        if digits.is_empty() || exactly && digits.len() < most {
            return Err(wrong("invalid escape \\ sequence"));
        }
        u32::from_str_radix(&digits, 16)
            .ok()
            .and_then(char::from_u32)
            .ok_or_else(|| wrong("invalid escape \\ sequence"))
    }

    /// The character for the escape `\letter`; `None` if the escape has another meaning than one
    /// character.
    fn character(&mut self, letter: char) -> Result<Option<char>> {
        Ok(Some(match letter {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'B' => '\\',
            'e' => '\u{1b}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '0' => '\0',
            'c' => {
                let control = self.rest.next().and_then(|letter| u8::try_from(letter).ok());
                let control = control.ok_or_else(|| wrong("invalid escape \\ sequence"))?;
                char::from(control & 0x1f)
            }
            'u' => self.hexadecimal(4, true)?,
            'U' => self.hexadecimal(8, true)?,
            'x' => self.hexadecimal(8, false)?,
            letter if !letter.is_ascii_alphanumeric() => letter,
            _ => return Ok(None),
        }))
    }

    fn escape(&mut self) -> Result<()> {
        let invalid = || wrong("invalid escape \\ sequence");
        let letter = self.rest.next().ok_or_else(invalid)?;
        if let Some(character) = self.character(letter)? {
            literal(character, &mut self.out);
            self.quantifiable = true;
            return Ok(());
        }
        match letter {
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => self.atom(&format!("\\{letter}")),
            'm' => self.constraint("\\b{start}"),
            'M' => self.constraint("\\b{end}"),
            'y' => self.constraint("\\b"),
            'Y' => self.constraint("\\B"),
            'A' => self.constraint("\\A"),
            'Z' => self.constraint("\\z"),
            '1'..='9' => {
                let mut digits = letter.to_string();
                while let Some(digit) = self.rest.peek().filter(|digit| digit.is_ascii_digit())
                    && format!("{digits}{digit}")
                        .parse()
                        .is_ok_and(|group: u32| group <= self.groups)
                {
                    digits.push(*digit);
                    self.rest.next();
                }
                if digits.parse().map_or(true, |group: u32| group > self.groups) {
                    return Err(wrong("invalid backreference number"));
                }
                self.hard = true;
                self.atom(&format!("(?:\\{digits})"));
            }
            _ => return Err(invalid()),
        }
        Ok(())
    }

    fn class(&mut self) -> Result<()> {
        let unbalanced = || wrong("brackets [] not balanced");
        let ahead: String = self.rest.clone().take(6).collect();
        if let Some(word) = ["[:<:]]", "[:>:]]"].iter().position(|word| ahead == *word) {
            self.rest.by_ref().take(6).for_each(drop);
            self.constraint(if word == 0 { "\\b{start}" } else { "\\b{end}" });
            return Ok(());
        }
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
            if self.flags.lines {
                self.out.push_str("\\n");
            }
        }
        let mut first = true;
        loop {
            let letter = self.rest.next().ok_or_else(unbalanced)?;
            match letter {
                ']' if !first => break,
                '[' if matches!(self.rest.peek(), Some(':' | '.' | '=')) => self.named()?,
                '\\' => {
                    let escaped = self.rest.next().ok_or_else(unbalanced)?;
                    match self.character(escaped)? {
                        Some(character) => literal_in_class(character, &mut self.out),
                        None if "dswDSW".contains(escaped) => {
                            self.out.push('\\');
                            self.out.push(escaped);
                        }
                        None => return Err(wrong("invalid escape \\ sequence")),
                    }
                }
                // A hyphen between two characters forms a range.
                '-' if !first && !matches!(self.rest.peek(), Some(']') | None) => {
                    self.out.push('-');
                }
                letter => literal_in_class(letter, &mut self.out),
            }
            first = false;
        }
        self.atom("]");
        Ok(())
    }

    /// Translates a class `[:alpha:]`, a collating element `[.-.]` or an equivalence class `[=a=]`
    /// inside a bracket expression.
    fn named(&mut self) -> Result<()> {
        let kind = self.rest.next().unwrap_or(':');
        let mut name = String::new();
        loop {
            match self.rest.next() {
                Some(letter) if letter == kind && self.rest.peek() == Some(&']') => {
                    self.rest.next();
                    break;
                }
                Some(letter) => name.push(letter),
                None => return Err(wrong("brackets [] not balanced")),
            }
        }
        if kind == ':' {
            const NAMES: [&str; 14] = [
                "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print",
                "punct", "space", "upper", "word", "xdigit",
            ];
            if !NAMES.contains(&name.as_str()) {
                return Err(wrong("invalid character class"));
            }
            // `alpha` contains the letters of all scripts.
            let class = match name.as_str() {
                "alpha" => "\\p{Alphabetic}".to_string(),
                "alnum" => "\\p{Alphabetic}\\p{Nd}".to_string(),
                "lower" => "\\p{Lowercase}".to_string(),
                "upper" => "\\p{Uppercase}".to_string(),
                "space" => "\\s".to_string(),
                _ => format!("[:{name}:]"),
            };
            self.out.push_str(&class);
            return Ok(());
        }
        let mut letters = name.chars();
        match (letters.next(), letters.next()) {
            (Some(letter), None) => literal_in_class(letter, &mut self.out),
            _ => return Err(wrong("invalid collating element")),
        }
        Ok(())
    }
}
