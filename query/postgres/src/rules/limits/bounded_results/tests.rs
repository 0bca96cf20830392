use datafusion::execution::SessionStateDefaults;

use super::*;

#[test]
fn every_function_that_grows_is_known_by_its_name() {
    let functions = SessionStateDefaults::default_scalar_functions();
    for name in ["array_repeat", "array_resize"] {
        let function = functions.iter().find(|function| function.name() == name).unwrap();
        assert_eq!(bound(Arc::clone(function)).name(), name);
        assert!(growth_of(name).is_some());
    }
}
