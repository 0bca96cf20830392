use super::Seal;

#[test]
fn what_was_changed_anywhere_is_not_opened() {
    let seal = Seal::random().unwrap();
    let sealed = seal.seal("ticket", b"select 1".to_vec());
    assert_eq!(seal.open("ticket", &sealed), Some(&b"select 1"[..]));
    assert_eq!(seal.open("token", &sealed), None, "another purpose");
    assert_eq!(Seal::random().unwrap().open("ticket", &sealed), None, "another process");
    for at in 0..sealed.len() {
        let mut forged = sealed.clone();
        forged[at] ^= 1;
        assert_eq!(seal.open("ticket", &forged), None, "byte {at}");
        assert_eq!(seal.open("ticket", &sealed[..at]), None, "cut at {at}");
    }
}
