//! The interactive line editor, whose history is stored in a file.

use std::{
    io::{self, BufRead},
    path::PathBuf,
};

use rustyline::{DefaultEditor, error::ReadlineError};

use super::shell::{NextAction, Shell};

/// Maximum number of lines in the history.
const HISTORY_LINES_MAX: usize = 10_000;

/// Reads lines from the terminal and passes them to the shell, until the end of input or `\q`.
///
/// # Errors
/// The terminal cannot be read.
pub fn converse(shell: &mut Shell) -> io::Result<()> {
    let config = rustyline::Config::builder()
        .max_history_size(HISTORY_LINES_MAX)
        .and_then(|builder| builder.history_ignore_dups(true))
        .map_err(io::Error::other)?
        .history_ignore_space(true)
        .build();
    let mut editor = DefaultEditor::with_config(config).map_err(io::Error::other)?;
    let history = history_path();
    if let Some(path) = &history {
        // At the first run no history file exists.
        let _ = editor.load_history(path);
    }
    println!("stratalog {}, {}", env!("CARGO_PKG_VERSION"), shell.place());
    println!("\\? for help, \\q to quit.");
    loop {
        match editor.readline(&shell.prompt()) {
            Ok(line) => {
                let _ = editor.add_history_entry(line.as_str());
                let mut typed = TypedLines { editor: &mut editor, line: Vec::new(), at: 0 };
                if shell.line(&line, &mut typed) == NextAction::Stop {
                    break;
                }
            }
            Err(ReadlineError::Interrupted) => shell.clear(),
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(io::Error::other(error)),
        }
    }
    if let Some(path) = &history
        && let Err(error) = editor.save_history(path)
    {
        eprintln!("the history could not be saved in {}: {error}", path.display());
    }
    Ok(())
}

/// The path of the history file: the value of `STRATALOG_HISTORY`, or `.stratalog_history` in the
/// home directory. `None` if the variable is empty, which disables the history.
fn history_path() -> Option<PathBuf> {
    match std::env::var_os("STRATALOG_HISTORY") {
        Some(path) if path.is_empty() => None,
        Some(path) => Some(PathBuf::from(path)),
        None => std::env::home_dir().map(|home| home.join(".stratalog_history")),
    }
}

/// The lines that a user types as the data of a COPY … FROM STDIN.
struct TypedLines<'a> {
    editor: &'a mut DefaultEditor,
    line: Vec<u8>,
    at: usize,
}

impl io::Read for TypedLines<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = io::Read::read(&mut self.fill_buf()?, buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for TypedLines<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at >= self.line.len() {
            self.at = 0;
            self.line = match self.editor.readline(">> ") {
                Ok(line) => format!("{line}\n").into_bytes(),
                Err(ReadlineError::Eof | ReadlineError::Interrupted) => Vec::new(),
                Err(error) => return Err(io::Error::other(error)),
            };
        }
        Ok(self.line.get(self.at..).unwrap_or_default())
    }

    fn consume(&mut self, count: usize) {
        self.at = self.at.saturating_add(count);
    }
}
