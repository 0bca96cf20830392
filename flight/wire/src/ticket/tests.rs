use stratalog_model::ErrorKind;

use super::{SealedTicket, StatementWork, TicketWork};
use crate::seal::Seal;

#[test]
fn a_ticket_is_for_its_caller_and_for_a_while() {
    let seal = Seal::random().unwrap();
    let work = TicketWork::Statement(StatementWork {
        sql: "SELECT 1".to_string(),
        transaction: None,
        number: 7,
    });
    let sealed = SealedTicket { caller: b"me".to_vec(), expires_ns: 100, work: Some(work.clone()) };
    let handle = sealed.into_ticket(&seal).ticket;

    assert_eq!(SealedTicket::open(&handle, &seal, b"me", 99).unwrap(), work);
    for (caller, now, other) in
        [(&b"me"[..], 100, None), (b"you", 99, None), (b"me", 99, Some(Seal::random().unwrap()))]
    {
        let error =
            SealedTicket::open(&handle, other.as_ref().unwrap_or(&seal), caller, now).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidAuthorization);
    }
}
