//! A progress bar; hidden if the output is not a terminal.

use std::{io::IsTerminal as _, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};

use super::source::Size;

/// The progress of an import or an export.
pub(crate) struct RowProgress {
    bar: ProgressBar,
}

impl RowProgress {
    pub(crate) fn new(size: Size) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { bar: ProgressBar::hidden() };
        }
        let (bar, template) = match size {
            Size::Bytes(bytes) => {
                (ProgressBar::new(bytes), "{bar:30} {bytes}/{total_bytes} {msg}, {eta} left")
            }
            Size::Rows(rows) => {
                (ProgressBar::new(rows), "{bar:30} {human_pos}/{human_len} rows {msg}, {eta} left")
            }
            Size::Unknown => (ProgressBar::new_spinner(), "{spinner} {bytes} {msg}"),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar }
    }

    /// Updates the bar. `position` is the position in the input, in the unit of its size; `rows` is
    /// the number of rows so far.
    pub(crate) fn advance(&self, position: u64, rows: u64) {
        self.bar.set_position(position);
        let seconds = self.bar.elapsed().as_secs_f64().max(1e-9);
        self.bar.set_message(format!("{rows} rows, {:.0}/s", rows as f64 / seconds));
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
