use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use super::Guard;

fn checked(guard: &Guard, headers: &[(&'static str, &str)]) -> Result<Option<String>, String> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    }
    let arrival: IpAddr = "10.1.2.3".parse().unwrap();
    let checked = guard.check(&map, None, Some(arrival));
    checked.map(|origin| origin.map(str::to_string)).map_err(|error| error.message().to_string())
}

#[test]
fn hosts_are_addresses_of_the_server_and_listed_names() {
    let guard = Guard::new("db.example.com, other", "");
    for own in [
        "localhost",
        "LOCALHOST:8086",
        "a.localhost",
        "127.0.0.1:8086",
        "127.1.2.3",
        "[::1]:8086",
        "10.1.2.3:8086",
        "[::ffff:10.1.2.3]",
        "db.example.com:1",
        "Other.",
        "localhost.",
    ] {
        assert_eq!(checked(&guard, &[("host", own)]), Ok(None), "{own}");
    }
    assert_eq!(checked(&guard, &[]), Ok(None), "HTTP/1.0 has no Host");
    for foreign in [
        "evil.example",
        "evil.example:8086",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.1.2.4",
        "notlocalhost",
        "example.com",
        "169.254.169.254",
    ] {
        let said = checked(&guard, &[("host", foreign)]).unwrap_err();
        assert!(said.contains("is not a known name of this server"), "{foreign}: {said}");
    }
    assert!(checked(&guard, &[("host", "localhost"), ("host", "evil.example")]).is_err());
    assert_eq!(checked(&Guard::new("*", ""), &[("host", "evil.example")]), Ok(None));
}

#[test]
fn origins_are_the_servers_own_and_listed_ones() {
    let guard = Guard::new("db.example.com", "https://grafana.example.com/, http://localhost:3000");
    let with = |host: &str, origin: &str| checked(&guard, &[("host", host), ("origin", origin)]);
    assert_eq!(with("localhost:8086", "http://localhost:8086"), Ok(None));
    assert_eq!(with("db.example.com", "https://db.example.com"), Ok(None));
    assert_eq!(with("db.example.com:443", "https://db.example.com"), Ok(None));
    for origin in ["https://grafana.example.com", "http://localhost:3000"] {
        assert_eq!(with("localhost:8086", origin), Ok(Some(origin.to_string())));
    }
    for origin in [
        "null",
        "http://evil.example",
        "http://localhost:8087",
        "http://localhost",
        "https://localhost:80",
        "http://127.0.0.1:8086",
        "file://",
        "https://grafana.example.com.evil.example",
        "chrome-extension://localhost:8086",
    ] {
        let said = with("localhost:8086", origin).unwrap_err();
        assert!(said.contains("web page of"), "{origin}: {said}");
    }
    let several = [("origin", "http://localhost:3000"), ("origin", "http://evil.example")];
    assert!(checked(&guard, &several).is_err());
}

#[test]
fn requests_without_an_origin_are_of_this_site_or_of_no_browser() {
    let guard = Guard::default();
    for (site, taken) in [
        ("none", true),
        ("same-origin", true),
        ("same-site", false),
        ("cross-site", false),
        ("x", false),
    ] {
        assert_eq!(checked(&guard, &[("sec-fetch-site", site)]).is_ok(), taken, "{site}");
    }
    let twice = [("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")];
    assert!(checked(&guard, &twice).is_err());
}
