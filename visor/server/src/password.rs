//! Passwords for the command `user`: generated, from a file, or typed twice without an echo. A
//! password is never an argument, because other users of the machine can see arguments.

use std::{
    io::{IsTerminal as _, Read as _},
    path::PathBuf,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::rand::SecureRandom as _;
use stratalog_visor_core::access::PASSWORD_BYTES_MAX;

use crate::sql::error::SqlError;

/// The random bytes of a generated password, which has 24 characters.
const GENERATED_BYTES: usize = 18;

/// Where a password comes from.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct PasswordArguments {
    /// Generate a password, and print it alone on standard output.
    #[arg(long, conflicts_with = "password_file")]
    pub(crate) generate_password: bool,
    /// Read the password from the first line of this file; - is standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
}

/// A new password.
pub(crate) struct NewPassword {
    pub(crate) text: String,
    /// True if the user has not seen the password yet.
    pub(crate) is_generated: bool,
}

impl PasswordArguments {
    /// True if the arguments name a source.
    pub(crate) fn is_given(&self) -> bool {
        self.generate_password || self.password_file.is_some()
    }

    /// Gets the password for a user. Asks on the terminal if the arguments name no source.
    ///
    /// # Errors
    /// An unreadable file; no terminal; two different passwords; an unusable password.
    pub(crate) fn password(&self, user: &str) -> Result<NewPassword, SqlError> {
        if self.generate_password {
            let mut bytes = [0; GENERATED_BYTES];
            ring::rand::SystemRandom::new()
                .fill(&mut bytes)
                .map_err(|_| SqlError::local("the system has no random bytes"))?;
            let text = URL_SAFE_NO_PAD.encode(bytes);
            return Ok(NewPassword { text, is_generated: true });
        }
        let text = match &self.password_file {
            Some(path) => read_line(path)?,
            None => ask_twice(user)?,
        };
        if text.is_empty() {
            return Err(SqlError::local("the password is empty"));
        }
        if text.len() > PASSWORD_BYTES_MAX {
            let message = format!("the password is longer than {PASSWORD_BYTES_MAX} bytes");
            return Err(SqlError::local(message));
        }
        Ok(NewPassword { text, is_generated: false })
    }
}

fn read_line(path: &PathBuf) -> Result<String, SqlError> {
    let mut text = String::new();
    let read = match path.as_os_str() == "-" {
        true => std::io::stdin().read_to_string(&mut text).map(drop),
        false => std::fs::read_to_string(path).map(|read| text = read),
    };
    read.map_err(|error| SqlError::local(format!("cannot read {}: {error}", path.display())))?;
    Ok(text.lines().next().unwrap_or_default().to_string())
}

fn ask_twice(user: &str) -> Result<String, SqlError> {
    if !std::io::stdin().is_terminal() {
        return Err(SqlError::local("there is no terminal to ask for a password")
            .with_hint("use --generate-password or --password-file FILE"));
    }
    let ask = |prompt: String| {
        rpassword::prompt_password(prompt)
            .map_err(|error| SqlError::local(format!("cannot read the password: {error}")))
    };
    let first = ask(format!("Password for {user}: "))?;
    if first != ask("Password again: ".to_string())? {
        return Err(SqlError::local("the two passwords differ; nothing was changed"));
    }
    Ok(first)
}
