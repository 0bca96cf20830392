use std::collections::BTreeSet;

use semver::Version;

use super::{
    advisories,
    binary::{Binary, Facts, parse_tree},
    date::Date,
    duplicates, licences,
    lockfile::{Id, Lockfile},
    policy::{Policy, Scope},
    range::Range,
    renew, sbom,
    snapshot::{AdvisoryKind, Snapshot},
};

const LOCK: &str = r#"
version = 4

[[package]]
name = "app"
version = "0.1.0"
dependencies = ["shim", "xml 0.39.4"]

[[package]]
name = "hash"
version = "0.2.1"
source = "registry"
checksum = "aa"

[[package]]
name = "shim"
version = "1.0.0"
source = "registry"
checksum = "bb"
dependencies = ["hash", "xml 0.41.0 (registry)"]

[[package]]
name = "xml"
version = "0.39.4"
source = "registry"
checksum = "cc"

[[package]]
name = "xml"
version = "0.41.0"
source = "registry"
checksum = "dd"
"#;

const SNAPSHOT: &str = r#"
date = "2026-10-09"
source = "a test"
packages = "hash shim xml"

[[advisory]]
id = "RUSTSEC-2025-0001"
package = "hash"
kind = "unmaintained"
date = "2025-01-01"
title = "hash is unmaintained"

[[advisory]]
id = "RUSTSEC-2026-0001"
package = "xml"
kind = "vulnerability"
date = "2026-01-01"
title = "xml loops"
patched = [">= 0.41.0"]
unaffected = ["< 0.2.0"]
"#;

fn id(name: &str, version: &str) -> Id {
    Id::new(name, version).unwrap()
}

fn policy(text: &str) -> Policy {
    let licences = r#"
        [[licence]]
        id = "MIT"
        reason = "r"
        [[licence]]
        id = "Apache-2.0"
        reason = "r"
        [[licence]]
        id = "Apache-2.0 WITH LLVM-exception"
        reason = "r"
        [[licence]]
        id = "MPL-2.0"
        scope = "tests"
        reason = "r"
    "#;
    Policy::parse(&format!("binary = \"app\"\ntarget = \"any\"\n{licences}\n{text}")).unwrap()
}

/// The findings and the warnings of the advisories, with a policy on a day.
fn audit(text: &str, day: &str) -> (Vec<String>, Vec<String>) {
    let locks = vec![("Cargo.lock".to_string(), Lockfile::parse("Cargo.lock", LOCK).unwrap())];
    let (mut findings, mut warnings) = (Vec::new(), Vec::new());
    advisories::check(
        &locks,
        &Snapshot::parse(SNAPSHOT).unwrap(),
        &policy(text),
        Date::parse(day).unwrap(),
        &mut findings,
        &mut warnings,
    );
    let lines = |list: Vec<crate::tidy::Finding>| list.iter().map(ToString::to_string).collect();
    (lines(findings), lines(warnings))
}

/// An acceptance of each advisory of the snapshot.
fn accepted(brought_by: &str, until: &str) -> String {
    format!(
        r#"
        [[accepted]]
        advisory = "RUSTSEC-2025-0001"
        package = "hash"
        brought_by = "{brought_by}"
        reason = "r"
        [[accepted]]
        advisory = "RUSTSEC-2026-0001"
        package = "xml"
        brought_by = "app"
        {until}
        reason = "r"
        "#
    )
}

#[test]
fn ranges_compare_pre_releases_by_their_order() {
    let cases = [
        (">= 0.41.0", vec!["0.41.0", "0.42.0-rc.1", "1.0.0"], vec!["0.40.9", "0.41.0-rc.1"]),
        (">= 0.11.6, < 0.12.0", vec!["0.11.6", "0.11.9"], vec!["0.12.0", "0.11.5"]),
        ("> 1.0.0, <= 1.2.0", vec!["1.0.1", "1.2.0"], vec!["1.0.0", "1.2.1"]),
        ("^0.3.26", vec!["0.3.26", "0.3.99"], vec!["0.3.25", "0.4.0", "0.4.0-rc.1"]),
        ("^1.2", vec!["1.2.0", "1.9.0"], vec!["1.1.9", "2.0.0", "2.0.0-alpha.1"]),
        ("^0.0.3", vec!["0.0.3"], vec!["0.0.4", "0.0.2"]),
        ("~1.2.3", vec!["1.2.3", "1.2.9"], vec!["1.3.0", "1.2.2"]),
        ("= 1.0.0", vec!["1.0.0", "1.0.0+build.5"], vec!["1.0.1"]),
        ("< 0.104.0-alpha.1", vec!["0.103.12"], vec!["0.104.0-alpha.1", "0.104.0"]),
    ];
    for (text, inside, outside) in cases {
        let range = Range::parse(text).unwrap();
        let contains = |version: &&str| range.contains(&Version::parse(version).unwrap());
        assert!(inside.iter().all(contains), "{text} must contain {inside:?}");
        assert!(!outside.iter().any(contains), "{text} must not contain {outside:?}");
    }
}

#[test]
fn a_range_without_bounds_is_refused() {
    for text in ["*", "1.*", "", "later"] {
        assert!(Range::parse(text).is_err(), "{text:?} must be refused");
    }
}

#[test]
fn dates_are_read_and_written() {
    for (text, days) in [("1970-01-01", 0), ("2000-02-29", 11_016), ("2026-10-09", 20_735)] {
        let date = Date::parse(text).unwrap();
        assert_eq!(date.to_string(), text);
        assert_eq!(date.days_since(Date::of_seconds(0)), days);
        assert_eq!(date, Date::of_seconds(u64::try_from(days).unwrap() * 86_400 + 86_399));
    }
    for text in ["2026-02-30", "2026-13-01", "2026-1-1", "today", "2026-10-09-1", ""] {
        assert!(Date::parse(text).is_err(), "{text:?} must be refused");
    }
}

#[test]
fn licences_are_spdx_expressions() {
    let policy = policy("");
    let judge = |licence, scope| licences::judge(&id("p", "1.0.0"), licence, scope, &policy);
    for licence in [
        "MIT",
        "MIT/Apache-2.0",
        "GPL-3.0-only OR MIT",
        "(MIT OR GPL-2.0-only) AND Apache-2.0",
        "Apache-2.0 WITH LLVM-exception",
    ] {
        assert_eq!(judge(Some(licence), Scope::All), Ok(()), "{licence}");
    }
    for (licence, missing) in [
        ("GPL-3.0-only", "GPL-3.0-only"),
        ("MIT AND GPL-3.0-only", "GPL-3.0-only"),
        ("MPL-2.0", "MPL-2.0"),
        ("GPL-2.0-only WITH Classpath-exception-2.0", "GPL-2.0-only WITH Classpath-exception-2.0"),
        ("LicenseRef-own", "LicenseRef-own"),
    ] {
        let message = judge(Some(licence), Scope::All).unwrap_err();
        assert!(message.contains(&format!("{missing} is not allowed in the binary")), "{message}");
    }
    assert_eq!(judge(Some("MPL-2.0"), Scope::Tests), Ok(()));
    assert!(judge(None, Scope::Tests).unwrap_err().contains("p 1.0.0 states no licence"));
    let message = judge(Some("MIT or so"), Scope::All).unwrap_err();
    assert!(message.contains("is no SPDX expression"), "{message}");
}

#[test]
fn an_exception_is_for_a_single_package() {
    let policy = policy("[[exception]]\npackage = \"cert\"\nlicence = \"MPL-2.0\"\nreason = \"r\"");
    let judge = |name| licences::judge(&id(name, "1.0.0"), Some("MPL-2.0"), Scope::All, &policy);
    assert_eq!(judge("cert"), Ok(()));
    assert!(judge("other").is_err());
}

#[test]
fn a_decision_without_a_reason_is_refused() {
    let text = "binary = \"a\"\ntarget = \"b\"\n[[licence]]\nid = \"MIT\"\nreason = \" \"";
    assert!(Policy::parse(text).unwrap_err().contains("MIT has no reason"));
}

#[test]
fn an_advisory_needs_an_acceptance() {
    let (findings, _) = audit("", "2026-11-01");
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(findings[0].contains("hash 0.2.1: RUSTSEC-2025-0001 (unmaintained)"), "{findings:?}");
    assert!(findings[1].contains("xml 0.39.4: RUSTSEC-2026-0001 (vulnerability)"), "{findings:?}");
    assert!(findings[1].contains("a version with a fix is >= 0.41.0"), "{findings:?}");
}

#[test]
fn an_accepted_vulnerability_ends() {
    let text = accepted("shim", "until = \"2026-12-31\"");
    let (findings, warnings) = audit(&text, "2026-11-01");
    assert!(findings.is_empty(), "{findings:?}");
    assert!(warnings[0].contains("accepted until 2026-12-31"), "{warnings:?}");
    let (_, warnings) = audit(&text, "2026-12-15");
    assert!(warnings[0].contains("decide soon"), "{warnings:?}");
    assert_eq!(audit(&text, "2026-12-31").0.len(), 0);
    let (findings, _) = audit(&text, "2027-01-01");
    assert!(findings[0].contains("was accepted until 2026-12-31"), "{findings:?}");
    let (findings, _) = audit(&accepted("shim", ""), "2026-11-01");
    assert!(findings[0].contains("is accepted without an end"), "{findings:?}");
}

#[test]
fn another_way_to_an_accepted_package_is_found() {
    let lock = Lockfile::parse("Cargo.lock", LOCK).unwrap();
    assert!(lock.reachable_without("nothing").contains(&id("hash", "0.2.1")));
    assert!(!lock.reachable_without("shim").contains(&id("hash", "0.2.1")));
    let (findings, _) = audit(&accepted("xml", "until = \"2026-12-31\""), "2026-11-01");
    assert!(findings[0].contains("as a dependency of xml alone"), "{findings:?}");
}

#[test]
fn an_acceptance_without_an_advisory_is_found() {
    let text = accepted("shim", "until = \"2026-12-31\"").replace("2025-0001", "2025-0002");
    let (findings, _) = audit(&text, "2026-11-01");
    assert!(findings.iter().any(|one| one.contains("delete the entry")), "{findings:?}");
}

#[test]
fn an_old_snapshot_is_a_warning() {
    let text = accepted("shim", "until = \"2027-12-31\"");
    let age = |day| audit(&text, day).1.iter().filter(|one| one.contains("days old")).count();
    assert_eq!(age("2027-04-07"), 0, "180 days");
    assert_eq!(age("2027-04-08"), 1, "181 days");
}

#[test]
fn a_package_after_the_snapshot_is_a_warning() {
    let locks = vec![("Cargo.lock".to_string(), Lockfile::parse("Cargo.lock", LOCK).unwrap())];
    let snapshot = Snapshot::parse(&SNAPSHOT.replace("hash shim xml", "hash xml")).unwrap();
    let (mut findings, mut warnings) = (Vec::new(), Vec::new());
    let today = Date::parse("2026-11-01").unwrap();
    advisories::check(&locks, &snapshot, &policy(""), today, &mut findings, &mut warnings);
    assert!(warnings[0].to_string().contains("not looked up: shim"), "{warnings:?}");
}

const ADVISORY: &str = r#"```toml
[advisory]
id = "RUSTSEC-2026-0007"
package = "bytes"
date = "2026-02-03"
informational = "unsound"
license = "CC-BY-4.0"
categories = ["memory-corruption"]

[affected]
functions = { "bytes::BytesMut::reserve" = ["< 1.11.1"] }

[versions]
patched = [">= 1.11.1"]
unaffected = ["< 1.2.1"]
```

# Integer overflow in `BytesMut::reserve`

Text.
"#;

#[test]
fn an_advisory_of_the_database_is_read() {
    let advisory = renew::parse(ADVISORY).unwrap().unwrap();
    assert_eq!((advisory.id.as_str(), advisory.kind), ("RUSTSEC-2026-0007", AdvisoryKind::Unsound));
    assert_eq!(advisory.title, "Integer overflow in `BytesMut::reserve`");
    assert_eq!(advisory.licence.as_deref(), Some("CC-BY-4.0"));
    let affects = |version| advisory.affects(&Version::parse(version).unwrap());
    assert!(affects("1.2.1") && affects("1.11.0"));
    assert!(!affects("1.2.0") && !affects("1.11.1"));

    let withdrawn = ADVISORY.replace("categories", "withdrawn = \"2026-03-01\"\ncategories");
    assert!(renew::parse(&withdrawn).unwrap().is_none());
    assert!(renew::parse("# A title").is_err());
}

#[test]
fn a_snapshot_is_read_as_written() {
    let advisory = renew::parse(ADVISORY).unwrap().unwrap();
    let packages = BTreeSet::from(["bytes", "serde"]);
    let (date, source) = ("2026-10-09".to_string(), "a \"test\"".to_string());
    let snapshot = Snapshot::new(date, source, &packages, vec![advisory]);
    let again = Snapshot::parse(&snapshot.text()).unwrap();
    assert_eq!(again.packages(), packages);
    assert_eq!(again.text(), snapshot.text());
}

const TREE: &str = "\
0app v0.1.0 (/folder)
1shim v1.0.0 (proc-macro)
2hash v0.2.1
2xml v0.41.0
1xml v0.39.4
1hash v0.2.1 (*)
";

#[test]
fn the_tree_of_cargo_is_read() {
    let (root, edges) = parse_tree(TREE).unwrap();
    assert_eq!(root, id("app", "0.1.0"));
    let to = |name: &str, version: &str| {
        edges[&id(name, version)].iter().map(Id::to_string).collect::<Vec<_>>()
    };
    assert_eq!(to("app", "0.1.0"), ["hash 0.2.1", "shim 1.0.0", "xml 0.39.4"]);
    assert_eq!(to("shim", "1.0.0"), ["hash 0.2.1", "xml 0.41.0"]);
    assert!(to("hash", "0.2.1").is_empty());
    assert!(parse_tree("app v0.1.0").is_err());
    assert!(parse_tree("0app v0.1.0\n2shim v1.0.0").is_err());
}

/// The binary of [`TREE`].
fn binary() -> Binary {
    let (root, edges) = parse_tree(TREE).unwrap();
    let facts = |id: &Id| Facts {
        licence: Some("MIT/Apache-2.0".to_string()),
        description: Some("Text\n  of two lines.".to_string()),
        own: id.name == "app",
    };
    let facts = edges.keys().map(|id| (id.clone(), facts(id))).collect();
    let linked = edges.keys().filter(|id| id.name != "shim").cloned().collect();
    Binary { root: Some(root), edges, linked, facts }
}

#[test]
fn a_duplicate_needs_a_reason() {
    let check = |text: &str| {
        let mut findings = Vec::new();
        duplicates::check(&binary(), &policy(text), &mut findings);
        findings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let entry = |package, versions| {
        format!("[[duplicate]]\npackage = \"{package}\"\nversions = {versions}\nreason = \"r\"\n")
    };
    assert!(check("")[0].contains("xml in the versions 0.39 and 0.41"));
    assert!(check(&entry("xml", r#"["0.41", "0.39"]"#)).is_empty());
    assert_eq!(check(&entry("xml", r#"["0.40", "0.41"]"#)).len(), 1);
    let findings =
        check(&(entry("xml", r#"["0.39", "0.41"]"#) + &entry("hash", r#"["0.1", "0.2"]"#)));
    assert!(findings[0].contains("hash occurs once in the binary"), "{findings:?}");
}

#[test]
fn a_line_ends_at_the_part_that_breaks_compatibility() {
    for (version, line) in [("1.2.3", "1"), ("0.22.1", "0.22"), ("0.0.3", "0.0.3")] {
        assert_eq!(duplicates::line(&Version::parse(version).unwrap()), line);
    }
}

#[test]
fn the_bill_of_materials_says_what_is_kept_and_why() {
    let text = accepted("shim", "until = \"2026-12-31\"")
        + "[[duplicate]]\npackage = \"xml\"\nversions = [\"0.39\", \"0.41\"]\nreason = \"two readers\"\n";
    let supply = super::Supply {
        policy: policy(&text),
        snapshot: Snapshot::parse(SNAPSHOT).unwrap(),
        locks: vec![("Cargo.lock".to_string(), Lockfile::parse("Cargo.lock", LOCK).unwrap())],
        binary: binary(),
    };
    let text = sbom::text(&supply, Some("1791547384")).unwrap();
    assert_eq!(text, sbom::text(&supply, Some("1791547384")).unwrap());
    let bom: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(bom["metadata"]["timestamp"], "2026-10-09T12:03:04Z");
    assert_eq!(bom["metadata"]["component"]["bom-ref"], "app@0.1.0");
    let component = |reference: &str| {
        let components = bom["components"].as_array().unwrap();
        components.iter().find(|one| one["bom-ref"] == reference).unwrap().clone()
    };
    let hash = component("hash@0.2.1");
    assert_eq!(hash["purl"], "pkg:cargo/hash@0.2.1");
    assert_eq!(hash["hashes"][0]["content"], "aa");
    assert_eq!(hash["licenses"][0]["expression"], "MIT OR Apache-2.0");
    assert_eq!(hash["description"], "Text of two lines.");
    assert_eq!(hash["properties"][0]["name"], "stratalog:advisory");
    assert_eq!(component("shim@1.0.0")["scope"], "excluded");
    assert_eq!(component("xml@0.39.4")["properties"][1]["value"], "two readers");
    assert_eq!(bom["vulnerabilities"][0]["affects"][0]["ref"], "xml@0.39.4");
    assert_eq!(bom["dependencies"].as_array().unwrap().len(), 5);
    assert!(sbom::text(&supply, Some("today")).unwrap_err().contains("SOURCE_DATE_EPOCH"));
}
