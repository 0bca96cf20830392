//! The table format for people: columns side by side if they fit, otherwise one line per value.

use std::io;

use unicode_width::UnicodeWidthChar;

use super::{Output, Target};
use crate::sql::rows::{ResultColumn, TextRows};

/// The column widths are computed from this number of rows; later rows use the same widths.
const ROWS_MEASURED: usize = 1000;
/// Maximum bytes of rows that are kept in memory for this computation.
const BYTES_MEASURED: usize = 8 << 20;
/// A column that is cut has at least this width, in characters.
const WIDTH_MIN: usize = 6;

/// The options of the table format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TableOptions {
    /// True for one line per value (`\x`), even if the columns fit.
    pub expanded: bool,
    /// The width of the terminal in characters. `None` if the output is not a terminal; no value is
    /// cut then.
    pub width_max: Option<usize>,
}

/// The width of `text` on a terminal, in characters.
pub fn display_width(text: &str) -> usize {
    text.chars().map(|character| character.width().unwrap_or(0)).sum()
}

/// Writes a table. Keeps the first rows in memory until the widths are known.
pub(super) struct TableOutput {
    target: Target,
    options: TableOptions,
    columns: Vec<ResultColumn>,
    buffered: TextRows,
    layout: Option<Layout>,
    rows: u64,
}

enum Layout {
    /// Side by side, with the width of each column.
    Side(Vec<usize>),
    /// One line per value, with the width of the longest name.
    Under(usize),
}

impl TableOutput {
    pub(super) fn new(target: Target, options: TableOptions) -> Self {
        Self {
            target,
            options,
            columns: Vec::new(),
            buffered: TextRows::default(),
            layout: None,
            rows: 0,
        }
    }

    /// Chooses the layout from the rows kept so far, and writes these rows.
    fn start(&mut self) -> io::Result<()> {
        let layout = self.choose();
        if let Layout::Side(widths) = &layout {
            let mut line = String::new();
            for (at, (column, width)) in self.columns.iter().zip(widths).enumerate() {
                line.push_str(if at > 0 { "| " } else { " " });
                pad(&mut line, &column.name, *width, Align::Centre);
                line.push(' ');
            }
            let rule: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
            writeln!(self.target, "{}\n{}", line.trim_end(), rule.join("+"))?;
        }
        self.layout = Some(layout);
        let buffered = std::mem::take(&mut self.buffered);
        self.write(&buffered)
    }

    fn choose(&self) -> Layout {
        let mut widths: Vec<usize> =
            self.columns.iter().map(|column| display_width(&column.name)).collect();
        let under = Layout::Under(widths.iter().copied().max().unwrap_or(0));
        if self.options.expanded {
            return under;
        }
        for row in self.buffered.iter() {
            for (width, value) in widths.iter_mut().zip(row) {
                *width = display_width(&one_line(value.unwrap_or(""))).max(*width);
            }
        }
        let Some(width_max) = self.options.width_max else { return Layout::Side(widths) };
        // Each column needs its width, a space at each side, and a bar before the next column.
        let room = (width_max + 1).saturating_sub(widths.len() * 3);
        if room < widths.iter().map(|width| WIDTH_MIN.min(*width)).sum() {
            return under;
        }
        // The widest columns are cut first; numbers are never cut.
        while widths.iter().sum::<usize>() > room {
            let widest = widths
                .iter()
                .zip(&self.columns)
                .enumerate()
                .filter(|(_, (width, column))| **width > WIDTH_MIN && !column.is_number())
                .max_by_key(|(_, (width, _))| **width)
                .map(|(at, _)| at);
            match widest.and_then(|at| widths.get_mut(at)) {
                Some(width) => *width -= 1,
                None => return under,
            }
        }
        Layout::Side(widths)
    }

    fn write(&mut self, rows: &TextRows) -> io::Result<()> {
        let cut = self.options.width_max.is_some();
        let mut line = String::new();
        for row in rows.iter() {
            self.rows += 1;
            line.clear();
            match &self.layout {
                Some(Layout::Side(widths)) => {
                    for (at, ((value, width), column)) in
                        row.zip(widths).zip(&self.columns).enumerate()
                    {
                        line.push_str(if at > 0 { "| " } else { " " });
                        let value = one_line(value.unwrap_or(""));
                        let value = if cut { shorten(&value, *width) } else { value };
                        let align = if column.is_number() { Align::Right } else { Align::Left };
                        pad(&mut line, &value, *width, align);
                        line.push(' ');
                    }
                    line.truncate(line.trim_end().len());
                }
                Some(Layout::Under(width)) => {
                    line.push_str(&format!("-[ RECORD {} ]", self.rows));
                    for (value, column) in row.zip(&self.columns) {
                        line.push('\n');
                        pad(&mut line, &column.name, *width, Align::Left);
                        line.push_str(" | ");
                        let gap = format!("\n{} | ", " ".repeat(*width));
                        line.push_str(&value.unwrap_or("").replace('\n', &gap));
                    }
                }
                None => {}
            }
            writeln!(self.target, "{line}")?;
        }
        Ok(())
    }
}

impl Output for TableOutput {
    fn columns(&mut self, columns: &[ResultColumn]) -> io::Result<()> {
        self.columns = columns.to_vec();
        self.buffered = TextRows::new(columns.len());
        Ok(())
    }

    fn rows(&mut self, rows: &TextRows) -> io::Result<()> {
        if self.layout.is_some() {
            return self.write(rows);
        }
        for row in rows.iter() {
            row.for_each(|value| self.buffered.push(value));
        }
        if self.buffered.len() >= ROWS_MEASURED || self.buffered.bytes() >= BYTES_MEASURED {
            self.start()?;
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        if self.layout.is_none() {
            self.start()?;
        }
        let noun = if self.rows == 1 { "row" } else { "rows" };
        writeln!(self.target, "({} {noun})", self.rows)?;
        self.target.flush()
    }
}

enum Align {
    Left,
    Right,
    Centre,
}

fn pad(line: &mut String, text: &str, width: usize, align: Align) {
    let missing = width.saturating_sub(display_width(text));
    let before = match align {
        Align::Left => 0,
        Align::Right => missing,
        Align::Centre => missing / 2,
    };
    line.extend(std::iter::repeat_n(' ', before));
    line.push_str(text);
    line.extend(std::iter::repeat_n(' ', missing - before));
}

/// The text without control characters, which would break the table.
fn one_line(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_string();
    }
    text.chars()
        .map(|character| match character {
            '\n' => "\\n".to_string(),
            '\r' => "\\r".to_string(),
            '\t' => "\\t".to_string(),
            other if other.is_control() => format!("\\x{:02x}", u32::from(other)),
            other => other.to_string(),
        })
        .collect()
}

fn shorten(text: &str, width: usize) -> String {
    if display_width(text) <= width {
        return text.to_string();
    }
    let (mut kept, mut used) = (String::new(), 1);
    for character in text.chars() {
        used += character.width().unwrap_or(0);
        if used > width {
            break;
        }
        kept.push(character);
    }
    kept.push('…');
    kept
}
