use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use stratalog_journal::{Journal, JournalSettings, LocalDisk};
use stratalog_metrics::Door;
use stratalog_model::Clock;
use stratalog_visor_core::{
    access::{AccessCommand, RoleOptions, TokenScope},
    catalog::Command,
};

use super::*;

#[derive(Debug, Default)]
struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now_ns(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn monotonic_ns(&self) -> u64 {
        0
    }
}

/// Counts the recorded logins.
#[derive(Debug, Default)]
struct Counts(Mutex<Vec<(bool, String, String)>>);

impl LoginObserver for Counts {
    fn succeeded<'a>(&'a self, attempt: &'a LoginAttempt) -> BoxFuture<'a, Result<()>> {
        self.0.lock().push((true, attempt.user.clone(), attempt.method.keyword().to_string()));
        Box::pin(async { Ok(()) })
    }

    fn refused<'a>(
        &'a self,
        attempt: &'a LoginAttempt,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<()>> {
        self.0.lock().push((false, attempt.user.clone(), reason.to_string()));
        Box::pin(async { Ok(()) })
    }
}

struct Fixture {
    access: Arc<Authenticator>,
    catalog: Arc<Catalog>,
    clock: Arc<TestClock>,
    counts: Arc<Counts>,
    _directory: tempfile::TempDir,
}

impl Fixture {
    fn new(settings: AuthenticatorSettings) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let journal =
            Journal::open(Arc::new(LocalDisk), directory.path().into(), JournalSettings::default());
        let clock = Arc::new(TestClock(AtomicI64::new(1_000)));
        let catalog =
            Catalog::open(Arc::new(journal.unwrap()), Arc::clone(&clock) as Arc<dyn Clock>)
                .unwrap();
        let counts = Arc::new(Counts::default());
        let access = Authenticator::new(Arc::clone(&catalog), settings, b"secret")
            .with_observer(Arc::clone(&counts) as Arc<dyn LoginObserver>);
        Self { access: Arc::new(access), catalog, clock, counts, _directory: directory }
    }

    async fn run(&self, command: AccessCommand) {
        self.catalog.apply(Identity::System, Command::Access(command)).await.unwrap();
    }

    async fn role(&self, name: &str, options: RoleOptions) {
        self.run(AccessCommand::CreateRole {
            name: name.to_string(),
            options,
            member_of: Vec::new(),
            members: Vec::new(),
            admins: Vec::new(),
            if_not_exists: false,
        })
        .await;
    }

    async fn user(&self, name: &str) {
        self.role(name, user_options()).await;
    }

    async fn token(&self, name: &str, text: &str, expires_ns: Option<i64>) {
        self.run(AccessCommand::CreateToken {
            name: name.to_string(),
            role: "ann".to_string(),
            hash: token_hash(text),
            scope: TokenScope::Read,
            expires_ns,
        })
        .await;
    }
}

fn user_options() -> RoleOptions {
    RoleOptions {
        login: Some(true),
        password: Some(Some(Verifier::of_password("right", 4096).unwrap())),
        ..RoleOptions::default()
    }
}

fn origin(address: &str) -> ClientOrigin {
    let address = format!("{address}:5000").parse().unwrap();
    ClientOrigin { address, door: Door::Http, encrypted: true }
}

const NO_LIMIT: AuthenticatorSettings = AuthenticatorSettings {
    scram_iterations: 4096,
    failed_logins_per_minute_max: 0,
    connections_per_address_max: 0,
};

#[tokio::test]
async fn without_a_password_everybody_is_trusted() {
    let fixture = Fixture::new(NO_LIMIT);
    let (access, home) = (&fixture.access, origin("127.0.0.1"));
    assert!(!access.is_required());
    for value in [None, Some("Basic Ym9iOng="), Some("Bearer slt_x"), Some("Token x")] {
        let login = access.header(value, "guest", home).await.unwrap();
        assert_eq!(login.identity, Identity::Trusted);
    }
    fixture.user("ann").await;
    assert!(access.is_required());
    let error = access.header(None, "guest", home).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidAuthorization);
    assert!(access.trust("ann", home).await.is_err());
}

#[tokio::test]
async fn refusals_of_passwords_do_not_differ() {
    let fixture = Fixture::new(NO_LIMIT);
    let (access, home) = (&fixture.access, origin("127.0.0.1"));
    fixture.user("ann").await;
    fixture.role("nologin", RoleOptions { login: Some(false), ..user_options() }).await;
    fixture.role("nopassword", RoleOptions { login: Some(true), ..RoleOptions::default() }).await;
    let expired = RoleOptions { valid_until_ns: Some(Some(1_500)), ..user_options() };
    fixture.role("expiring", expired).await;
    let login = access.password("ann", "right", home).await.unwrap();
    let ann = fixture.catalog.state().access().role_named("ann").unwrap().id;
    assert_eq!((login.user.as_str(), login.identity), ("ann", Identity::of_role(ann)));
    assert!(access.password("expiring", "right", home).await.is_ok());
    fixture.clock.0.store(1_500, Ordering::Relaxed);
    for (user, password) in [
        ("ann", "wrong"),
        ("ann", ""),
        ("nobody", "right"),
        ("nologin", "right"),
        ("nopassword", "right"),
        ("nopassword", ""),
        ("expiring", "right"),
    ] {
        let error = access.password(user, password, home).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidPassword, "{user}");
        let expected = format!("password authentication failed for user \"{user}\"");
        assert_eq!((error.message(), error.hint()), (expected.as_str(), None));
    }
    let reasons: Vec<String> =
        fixture.counts.0.lock().iter().map(|(_, _, why)| why.clone()).collect();
    assert!(reasons.contains(&"no such role".to_string()));
    assert!(reasons.contains(&"the password has expired".to_string()));
}

#[tokio::test]
async fn a_repeated_login_is_recorded_once_until_the_password_changes() {
    let fixture = Fixture::new(NO_LIMIT);
    fixture.user("ann").await;
    let (access, basic) = (&fixture.access, "Basic YW5uOnJpZ2h0");
    for _ in 0..3 {
        access.header(Some(basic), "", origin("127.0.0.1")).await.unwrap();
    }
    assert_eq!(fixture.counts.0.lock().len(), 1);
    access.header(Some(basic), "", origin("127.0.0.2")).await.unwrap();
    assert_eq!(fixture.counts.0.lock().len(), 2, "another address");
    let password = Some(Some(Verifier::of_password("new", 4096).unwrap()));
    let options = RoleOptions { password, ..RoleOptions::default() };
    fixture.run(AccessCommand::AlterRole { name: "ann".to_string(), options }).await;
    assert!(access.header(Some(basic), "", origin("127.0.0.1")).await.is_err());
}

#[tokio::test]
async fn tokens() {
    let fixture = Fixture::new(NO_LIMIT);
    let (access, home) = (&fixture.access, origin("127.0.0.1"));
    fixture.user("ann").await;
    fixture.token("t", "slt_good", None).await;
    fixture.token("short", "slt_short", Some(2_000)).await;
    for header in
        ["Bearer slt_good", "bearer  slt_good", "Token slt_good", "Basic YW5uOnNsdF9nb29k"]
    {
        let login = access.header(Some(header), "", home).await.unwrap();
        assert!(matches!(login.identity, Identity::Role(role) if role.token.is_some()), "{header}");
    }
    assert!(access.token("slt_short", home).await.is_ok());
    fixture.clock.0.store(2_000, Ordering::Relaxed);
    for wrong in
        ["Bearer slt_short", "Bearer slt_other", "Bearer ", "Digest x", "Basic !", "Token a:b"]
    {
        let status = access.header(Some(wrong), "", home).await.unwrap_err().kind().status();
        assert_eq!(status, stratalog_model::Status::Unauthenticated, "{wrong}");
    }
    // "bob:slt_good"
    assert!(access.header(Some("Basic Ym9iOnNsdF9nb29k"), "", home).await.is_err());
    let used =
        fixture.catalog.state().access().token_by_hash(&token_hash("slt_good")).unwrap().used_ns;
    assert_eq!(used, Some(1_000));
    let drops = AccessCommand::DropToken { name: "t".to_string(), role: "ann".to_string() };
    fixture.run(drops).await;
    assert!(access.token("slt_good", home).await.is_err());
}

#[tokio::test]
async fn certificates_log_in_as_the_role_of_their_name() {
    let fixture = Fixture::new(NO_LIMIT);
    let (access, home) = (&fixture.access, origin("127.0.0.1"));
    fixture.user("ann").await;
    fixture.role("nologin", RoleOptions { login: Some(false), ..user_options() }).await;
    let names = vec!["x.example".to_string(), "ann".to_string(), "nologin".to_string()];
    assert!(access.certificate(&names, "ann", home).await.unwrap().is_some());
    assert!(access.certificate(&names, "bob", home).await.unwrap().is_none());
    assert!(access.certificate(&names, "nologin", home).await.is_err());
    assert!(access.certificate(&names, "x.example", home).await.is_err(), "no such role");
    assert_eq!(access.certificate_user(&names), Some("ann"));
}

#[tokio::test]
async fn made_up_salts_are_stable_and_differ_by_name() {
    let fixture = Fixture::new(NO_LIMIT);
    fixture.user("ann").await;
    let state = fixture.catalog.state();
    let salt = |access: &Authenticator, name: &str| access.secret_of(&state, name).0.verifier.salt;
    let again = Authenticator::new(Arc::clone(&fixture.catalog), NO_LIMIT, b"secret");
    let other = Authenticator::new(Arc::clone(&fixture.catalog), NO_LIMIT, b"another secret");
    assert_eq!(salt(&fixture.access, "bob"), salt(&again, "bob"));
    assert_ne!(salt(&fixture.access, "bob"), salt(&other, "bob"));
    assert_ne!(salt(&fixture.access, "bob"), salt(&fixture.access, "eve"));
    assert_eq!(salt(&fixture.access, "bob").len(), salt(&fixture.access, "ann").len());
}

#[tokio::test]
async fn ten_thousand_failed_logins_do_not_starve_a_good_one() {
    let limits = AuthenticatorSettings { failed_logins_per_minute_max: 5, ..NO_LIMIT };
    let fixture = Fixture::new(limits);
    let (access, attacker) = (&fixture.access, origin("10.0.0.9"));
    fixture.user("ann").await;
    let began = Instant::now();
    let mut checked = 0;
    for _ in 0..10_000 {
        let error = access.password("ann", "wrong", attacker).await.unwrap_err();
        checked += usize::from(error.kind() == ErrorKind::InvalidPassword);
    }
    assert!(checked < 10, "{checked} passwords were checked");
    assert!(began.elapsed() < Duration::from_secs(20));
    assert!(access.password("ann", "right", attacker).await.is_err(), "the attacker is refused");
    assert!(access.password("ann", "right", origin("10.0.0.1")).await.is_ok());
    assert!(access.scram("ann", attacker, None).is_err());
    assert!(fixture.counts.0.lock().len() < 12, "refusals without a check are not recorded");
}
