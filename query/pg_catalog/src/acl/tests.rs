use stratalog_model::ErrorKind;
use stratalog_visor_core::access::{AccessState, Privilege, RoleId};

use super::{AclItem, elements};

#[test]
fn an_item_has_postgresqls_text_and_elements() {
    let access = AccessState::genesis();
    let item = AclItem {
        grantee: Some(RoleId(3373)),
        grantor: RoleId::FOUNDER,
        privileges: vec![(Privilege::Insert, true), (Privilege::Select, false)],
    };
    let text = item.text(&access);
    assert_eq!(text, "pg_monitor=a*r/stratalog");
    assert_eq!(elements(&access, &text).unwrap(), ["10,3373,INSERT,t", "10,3373,SELECT,f"]);
    let public = AclItem { grantee: None, ..item };
    assert_eq!(public.text(&access), "=a*r/stratalog");
    assert_eq!(elements(&access, "=D/stratalog").unwrap(), ["10,0,TRUNCATE,f"]);
    assert_eq!(elements(&access, "\"pg_monitor\"=r/\"stratalog\"").unwrap(), ["10,3373,SELECT,f"]);
}

#[test]
fn other_texts_are_errors() {
    let access = AccessState::genesis();
    for wrong in ["", "a", "=r", "=!/stratalog", "\"a=r/stratalog"] {
        let error = elements(&access, wrong).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidTextRepresentation, "{wrong}");
    }
    let error = elements(&access, "nobody=r/stratalog").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UndefinedObject);
}
