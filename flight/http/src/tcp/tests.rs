use super::{is_http, may_be_http};

#[test]
fn requests_of_http_are_told_from_lines() {
    for request in [
        &b"GET / HTTP/1.1\r\nHost: x\r\n"[..],
        b"POST /v=1 HTTP/1.1\r\n",
        b"OPTIONS * HTTP/1.0\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /v=\"x HTTP/1.1\r\nHost: x\r\n\r\n\" 1\nm v=1 1\n",
    ] {
        assert!(is_http(request), "{}", String::from_utf8_lossy(request));
    }
    for lines in [
        &b"POST v=1 1\nGET / HTTP/1.1\r\n"[..],
        b"cpu,host=a usage=1 1\n",
        b"GET,a=b v=\"HTTP/1.1\" 1\n",
        b"# GET / HTTP/1.1\n",
        b"m v=1 HTTP/1.1\n",
        b"",
    ] {
        assert!(!is_http(lines), "{}", String::from_utf8_lossy(lines));
    }
    assert!(may_be_http(Some(b"PO")) && may_be_http(Some(b"POST /")));
    assert!(!may_be_http(Some(b"po")) && !may_be_http(Some(b"CPU,")));
}
