//! Splits typed text into statements at semicolons.

/// The syntactic element that contains the end of the scanned text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum SplitterState {
    #[default]
    Nothing,
    /// A string `'…'`; with backslash escapes (`E'…'`) if the flag is set.
    Text(bool),
    /// A quoted name `"…"`.
    Identifier,
    /// A string `$tag$ … $tag$`; with its tag.
    Dollar(String),
    /// A comment `/* … */`; with the nesting depth.
    Comment(usize),
    /// A comment `-- …` up to the end of the line.
    LineComment,
}

/// Collects lines until they contain a complete statement.
#[derive(Debug, Default)]
pub struct Splitter {
    pending: String,
    /// The scan state after the last complete line of `pending`; later lines do not change it.
    lines: ScanState,
    /// The element that contains the end of `pending`.
    open: SplitterState,
}

/// The progress of a scan, and the element that contains its end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct ScanState {
    /// Number of scanned bytes.
    bytes: usize,
    /// The element at the end of these bytes.
    inside: SplitterState,
}

impl Splitter {
    /// Adds text; returns the statements that are now complete, without semicolons and leading
    /// comments.
    pub fn push(&mut self, text: &str) -> Vec<String> {
        self.pending.push_str(text);
        let (mut statements, mut start) = (Vec::new(), 0);
        let mut ends = Vec::new();
        // Only strings, quoted names and block comments can continue on the next line.
        let lines = self.pending.rfind('\n').map_or(0, |newline| newline + 1);
        self.lines.scan(&self.pending, lines, &mut ends);
        let mut all = self.lines.clone();
        all.scan(&self.pending, self.pending.len(), &mut ends);
        self.open = all.inside;
        for end in ends {
            let statement = without_comments(self.pending.get(start..end).unwrap_or("")).trim();
            if !statement.is_empty() {
                statements.push(statement.to_string());
            }
            start = end + 1;
        }
        if start > self.lines.bytes {
            self.lines = ScanState { bytes: start, inside: SplitterState::Nothing };
        }
        self.pending.drain(..start);
        self.lines.bytes -= start;
        if self.open == SplitterState::Nothing && is_blank(&self.pending) {
            self.clear();
        }
        statements
    }

    /// True if there is no incomplete statement.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns the incomplete statement as if it were complete, because the last statement of a
    /// file needs no semicolon.
    pub fn finish(&mut self) -> Option<String> {
        let Self { pending: rest, .. } = std::mem::take(self);
        let statement = without_comments(&rest).trim();
        (!statement.is_empty()).then(|| statement.to_string())
    }

    /// Discards the incomplete statement.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The character that the prompt shows: `=` before a statement, and `-` within a statement.
    /// Within a string, quoted name or comment: `'`, `"`, `$` or `*`, by the character that began
    /// it.
    pub fn prompt_sign(&self) -> char {
        if self.pending.is_empty() {
            return '=';
        }
        match self.open {
            SplitterState::Nothing | SplitterState::LineComment => '-',
            SplitterState::Text(_) => '\'',
            SplitterState::Identifier => '"',
            SplitterState::Dollar(_) => '$',
            SplitterState::Comment(_) => '*',
        }
    }
}

/// The first words of a statement, in upper case, without comments.
pub fn leading_words(statement: &str, count: usize) -> Vec<String> {
    without_comments(statement)
        .split(|character: char| !(character.is_alphanumeric() || character == '_'))
        .filter(|word| !word.is_empty())
        .take(count)
        .map(str::to_ascii_uppercase)
        .collect()
}

fn is_blank(text: &str) -> bool {
    without_comments(text).trim().is_empty()
}

/// The text without leading spaces and comments.
fn without_comments(text: &str) -> &str {
    let mut rest = text.trim_start();
    loop {
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |(_, after)| after).trim_start();
        } else if rest.starts_with("/*") {
            let mut depth = 0usize;
            let mut end = rest.len();
            let bytes = rest.as_bytes();
            let mut at = 0;
            while let Some(pair) = bytes.get(at..at + 2) {
                match pair {
                    b"/*" => depth += 1,
                    b"*/" => depth = depth.saturating_sub(1),
                    _ => {
                        at += 1;
                        continue;
                    }
                }
                at += 2;
                if depth == 0 {
                    end = at;
                    break;
                }
            }
            rest = rest.get(end..).unwrap_or("").trim_start();
        } else {
            return rest;
        }
    }
}

impl ScanState {
    /// Scans up to `end`, which is the end of a line or of the text. Appends the byte offset of
    /// each semicolon that ends a statement to `ends`.
    fn scan(&mut self, text: &str, end: usize, ends: &mut Vec<usize>) {
        let bytes = text.as_bytes();
        let byte_at = |at: usize| bytes.get(at).copied().unwrap_or(0);
        let Self { bytes: at, inside } = self;
        while *at < end {
            let (byte, next) = (byte_at(*at), byte_at(*at + 1));
            let mut step = 1;
            match inside {
                SplitterState::Nothing => match (byte, next) {
                    (b';', _) => ends.push(*at),
                    (b'\'', _) => {
                        let escape = *at > 0
                            && matches!(byte_at(*at - 1), b'E' | b'e')
                            && !(*at > 1 && is_word(byte_at(*at - 2)));
                        *inside = SplitterState::Text(escape);
                    }
                    (b'"', _) => *inside = SplitterState::Identifier,
                    (b'-', b'-') => (*inside, step) = (SplitterState::LineComment, 2),
                    (b'/', b'*') => (*inside, step) = (SplitterState::Comment(1), 2),
                    (b'$', _) if *at == 0 || !is_word(byte_at(*at - 1)) => {
                        if let Some(tag) = dollar_tag(text.get(*at..).unwrap_or("")) {
                            step = tag.len();
                            *inside = SplitterState::Dollar(tag.to_string());
                        }
                    }
                    _ => {}
                },
                SplitterState::Text(escape) => match (byte, next) {
                    (b'\\', _) if *escape => step = 2,
                    (b'\'', b'\'') => step = 2,
                    (b'\'', _) => *inside = SplitterState::Nothing,
                    _ => {}
                },
                SplitterState::Identifier if byte == b'"' => *inside = SplitterState::Nothing,
                SplitterState::Dollar(tag) => {
                    if bytes.get(*at..).is_some_and(|rest| rest.starts_with(tag.as_bytes())) {
                        step = tag.len();
                        *inside = SplitterState::Nothing;
                    }
                }
                SplitterState::Comment(depth) => match (byte, next) {
                    (b'/', b'*') => (*depth, step) = (*depth + 1, 2),
                    (b'*', b'/') => {
                        step = 2;
                        *depth -= 1;
                        if *depth == 0 {
                            *inside = SplitterState::Nothing;
                        }
                    }
                    _ => {}
                },
                SplitterState::LineComment if byte == b'\n' => *inside = SplitterState::Nothing,
                SplitterState::Identifier | SplitterState::LineComment => {}
            }
            *at += step;
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

/// The `$tag$` at the beginning of `text`, if there is one.
fn dollar_tag(text: &str) -> Option<&str> {
    let name = text.get(1..)?;
    let end = name.bytes().position(|byte| byte == b'$' || !is_word(byte))?;
    let valid = name.as_bytes().get(end) == Some(&b'$')
        && !name.starts_with(|first: char| first.is_ascii_digit());
    valid.then(|| text.get(..end + 2)).flatten()
}

#[cfg(test)]
mod tests;
