//! The command `certificate`: makes a certificate for the server's TLS, with an authority of its
//! own that clients can trust.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use chrono::Datelike as _;
use clap::Subcommand;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

use crate::{directory::TLS, sql::error::SqlError};

/// Names of the server for clients on its machine.
const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The mode of certificates, which every client may read.
const PUBLIC: u32 = 0o644;

/// The mode of the key, which only the server may read.
const SECRET: u32 = 0o600;

/// Makes certificates for TLS.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CertificateArguments {
    #[command(subcommand)]
    action: CertificateAction,
}

#[derive(Debug, Clone, Subcommand)]
enum CertificateAction {
    /// Make tls/ca.crt, tls/server.crt and tls/server.key in the data directory
    Create(CreateCertificateArguments),
}

#[derive(Debug, Clone, clap::Args)]
struct CreateCertificateArguments {
    /// Names and addresses that clients use for the server, separated by commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',', required = true)]
    host: Vec<String>,
    /// Days until the certificate expires.
    #[arg(long, value_name = "N", default_value_t = 365,
        value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
    /// The data directory; the server uses the files of its directory without further settings.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
}

/// Runs `stratalog certificate`.
pub(crate) fn run(arguments: &CertificateArguments) -> ExitCode {
    let CertificateAction::Create(create) = &arguments.action;
    match create_files(create) {
        Ok(folder) => {
            let folder = folder.display();
            println!("made {folder}/server.crt and {folder}/server.key for the server,");
            println!("and {folder}/ca.crt, which clients need to verify the server");
            println!("(psql: sslmode=verify-full sslrootcert={folder}/ca.crt)");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}", error.render(""));
            ExitCode::FAILURE
        }
    }
}

fn create_files(arguments: &CreateCertificateArguments) -> Result<PathBuf, SqlError> {
    let folder = arguments.data_dir.join(TLS);
    let paths = ["ca.crt", "server.crt", "server.key"].map(|name| folder.join(name));
    if let Some(existing) = paths.iter().find(|path| path.exists()) {
        return Err(SqlError::local(format!("{} exists already", existing.display()))
            .with_hint("move the old files away first; the server reads new files at SIGHUP"));
    }
    let made = make(arguments)
        .map_err(|error| SqlError::local(format!("cannot make the certificate: {error}")))?;
    let failed = |path: &Path, error: io::Error| {
        SqlError::local(format!("cannot write {}: {error}", path.display()))
    };
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(&folder).map_err(|error| failed(&folder, error))?;
    for ((path, text), mode) in paths.iter().zip(&made).zip([PUBLIC, PUBLIC, SECRET]) {
        write_new(path, text, mode).map_err(|error| failed(path, error))?;
    }
    Ok(folder)
}

/// The authority's certificate, the server's certificate, and the server's key, in PEM. The
/// authority's key is forgotten: nobody can make further certificates with it.
fn make(arguments: &CreateCertificateArguments) -> Result<[String; 3], rcgen::Error> {
    let first = arguments.host.first().map_or("stratalog", String::as_str);
    let today = chrono::Utc::now().date_naive();
    let start = today.pred_opt().unwrap_or(today);
    let end = today.checked_add_days(chrono::Days::new(u64::from(arguments.days) + 1));
    let end = end.unwrap_or(today);
    let valid = |params: &mut CertificateParams| {
        let day = |date: chrono::NaiveDate| {
            let part = |number: u32| u8::try_from(number).unwrap_or(1);
            date_time_ymd(date.year(), part(date.month()), part(date.day()))
        };
        (params.not_before, params.not_after) = (day(start), day(end));
    };
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::default();
    valid(&mut authority);
    authority.distinguished_name.push(DnType::CommonName, format!("Stratalog CA of {first}"));
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority_text = authority.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(authority, authority_key);
    let mut names: Vec<String> = arguments.host.clone();
    names.extend(LOCAL_NAMES.iter().map(|name| (*name).to_string()));
    names.dedup();
    let mut server = CertificateParams::new(names)?;
    valid(&mut server);
    server.distinguished_name.push(DnType::CommonName, first);
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    server.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = server.signed_by(&key, &issuer)?;
    Ok([authority_text, certificate.pem(), key.serialize_pem()])
}

/// Writes a new file; an existing file is an error.
fn write_new(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    io::Write::write_all(&mut file, text.as_bytes())?;
    file.sync_all()
}
