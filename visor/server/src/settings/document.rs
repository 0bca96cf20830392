//! Writes settings as text: as a commented TOML file, and as a page of the manual.

use std::fmt::Write as _;

use super::{KEYS, Settings};

/// The settings as a TOML file, with the description of each setting in a comment above it.
pub fn commented_toml(settings: &Settings) -> String {
    let mut text = String::new();
    for key in KEYS {
        for line in key.description {
            let _ = writeln!(text, "# {}", line.trim());
        }
        if let Some(value) = settings.toml_value(key.name) {
            let _ = writeln!(text, "{} = {value}\n", key.name);
        }
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// Generates the content of `docs/settings.md`; a test compares it with the file.
pub fn settings_page() -> String {
    let defaults = Settings::default();
    let mut page = String::from(
        "# Settings\n\n\
         <!-- Written by `stratalog docs settings` from visor/server/src/settings.rs. Do not edit. -->\n\n\
         A setting can be given in three places; the first in this list wins:\n\n\
         1. a flag of `stratalog serve`,\n\
         2. an environment variable,\n\
         3. the TOML file that `--config FILE` (or `STRATALOG_CONFIG`) names.\n\n\
         The server refuses an unknown name, and suggests the most similar name. \
         `stratalog serve --print-config` prints the resulting settings as a TOML file.\n\n\
         Bytes are written as a number or with a unit: `64MiB` (2^20), `500MB` (10^6). The \
         memory of which a percentage is taken is the machine's, or that of the control group \
         if it is smaller.\n",
    );
    for key in KEYS {
        let default = defaults.toml_value(key.name).map(|value| value.to_string());
        let _ = write!(
            page,
            "\n## {}\n\n{}\n\n| | |\n|---|---|\n| value | {} |\n| default | `{}` |\n| flag | `--{}` |\n| variable | `{}` |\n",
            key.name,
            key.text(),
            key.kind,
            default.unwrap_or_default(),
            key.flag(),
            key.variable(),
        );
    }
    page
}
