//! The command `stratalog serve`.

use std::{io::Write as _, path::PathBuf, process::ExitCode};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, error::ErrorKind};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{
    Server, StartError, logging,
    settings::{KEYS, Layers, Settings, commented_toml},
};

/// The exit status if a second signal interrupts the shutdown.
const FORCED: u8 = 130;

/// The flags of `stratalog serve`: one flag for each setting, generated from the list of settings.
#[derive(Debug, Clone, Default)]
pub struct ServeArguments {
    /// The path of the TOML file.
    pub config: Option<PathBuf>,
    /// True to print the resulting settings and exit.
    pub print_config: bool,
    /// The flags given by the user, as pairs of setting name and text.
    pub flags: Vec<(String, String)>,
}

impl Args for ServeArguments {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .env("STRATALOG_CONFIG")
            .value_parser(clap::value_parser!(PathBuf))
            .help("TOML file with settings");
        let print = Arg::new("print_config")
            .long("print-config")
            .action(ArgAction::SetTrue)
            .help("Print the resulting settings of flags, environment and file, and exit");
        let command = command.arg(config).arg(print);
        let defaults = Settings::default();
        KEYS.iter().fold(command, |command, key| {
            let default = defaults.toml_value(key.name).map(|value| value.to_string());
            let default = default.unwrap_or_default();
            command.arg(
                Arg::new(key.name)
                    .long(key.flag())
                    .value_name(key.kind.to_uppercase())
                    .hide_possible_values(true)
                    .help(format!("{} [default: {}]", key.text(), default.trim_matches('"'))),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ServeArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut arguments = Self::default();
        arguments.update_from_arg_matches(matches)?;
        Ok(arguments)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let unread = |error: clap::parser::MatchesError| {
            clap::Error::raw(ErrorKind::InvalidValue, error.to_string())
        };
        self.config = matches.try_get_one::<PathBuf>("config").map_err(unread)?.cloned();
        self.print_config = matches.get_flag("print_config");
        let names = KEYS.iter().map(|key| key.name);
        for name in names {
            if let Some(text) = matches.try_get_one::<String>(name).map_err(unread)? {
                self.flags.push((name.to_string(), text.clone()));
            }
        }
        Ok(())
    }
}

/// Runs `stratalog serve` until SIGTERM or SIGINT. SIGHUP reloads the certificate.
pub fn run(arguments: &ServeArguments) -> ExitCode {
    match serve(arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("stratalog: {error}");
            ExitCode::from(error.exit_status())
        }
    }
}

fn serve(arguments: &ServeArguments) -> Result<ExitCode, StartError> {
    let environment = std::env::vars_os()
        .filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)));
    let layers = Layers {
        file: arguments.config.clone(),
        environment: environment.collect(),
        flags: arguments.flags.clone(),
    };
    let (settings, warnings) = layers.load()?;
    if arguments.print_config {
        print!("{}", commented_toml(&settings));
        return Ok(ExitCode::SUCCESS);
    }
    logging::start(&settings)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let failed =
        |error| StartError::from(stratalog_model::Error::io("cannot start threads", error));
    let runtime = crate::threads::runtime().map_err(failed)?;
    let result = runtime.block_on(until_stopped(&settings));
    // All data is on disk, so the remaining tasks can be dropped.
    runtime.shutdown_background();
    result
}

async fn until_stopped(settings: &Settings) -> Result<ExitCode, StartError> {
    let failed =
        |error| StartError::from(stratalog_model::Error::io("cannot listen for signals", error));
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    let server = tokio::select! {
        server = Server::open(settings) => server?,
        () = either(&mut terminate, &mut interrupt) => {
            eprintln!("stratalog: stopped while starting");
            return Ok(ExitCode::from(FORCED));
        }
    };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        data_dir = %server.embedded().directory().display(),
        "open for clients"
    );
    // Scripts wait for this line. If the write fails, nobody reads the output.
    let _ = writeln!(std::io::stdout(), "{}", server.ready_line());
    loop {
        tokio::select! {
            () = either(&mut terminate, &mut interrupt) => break,
            _ = hangup.recv() => server.reload().await,
        }
    }
    tracing::info!("stopping; a second signal stops at once");
    tokio::select! {
        closed = server.close() => closed?,
        () = either(&mut terminate, &mut interrupt) => {
            tracing::warn!("stopped at once; the next start recovers the data directory");
            return Ok(ExitCode::from(FORCED));
        }
    }
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
