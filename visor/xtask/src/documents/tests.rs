use super::{check, joined};
use crate::tree::Tree;

fn found(files: &[(&str, &str)]) -> Vec<String> {
    let files = files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect();
    let mut findings = Vec::new();
    check(&Tree { files, ..Tree::default() }, &mut findings);
    findings.iter().map(ToString::to_string).collect()
}

const REGISTRY: &str = "promises! {\n    One = 1: \"Kept.\";\n    Two = 2: \"Also kept.\";\n}\n";
const OPTIONS: &str = "pub const OPTIONS: [&str; 1] = [\"late\"];\npub const OPTIONS_LATER: [&str; 1] = [\n    \"codec\",\n];\n";

#[test]
fn what_is_described_is_fine_and_what_is_not_is_found() {
    let files = [
        ("Cargo.toml", "members = [\n  \"a\",\n]\n"),
        ("a.rs", "fn good() {} fn a() {}"),
        ("storage/model/src/invariant.rs", REGISTRY),
        ("visor/core/src/catalog/option.rs", OPTIONS),
        ("docs/ARCHITECTURE.md", "`a` is [one](sql/create-table.md#here)"),
        (
            "docs/guarantees.md",
            "## CL-1 x\nKept.\n- Tests: `good`,\n  `a`\n## CL-2 y\nAlso kept.\n",
        ),
        ("docs/sql/create-table.md", "`late` and `codec`, see [up](../ARCHITECTURE.md)"),
        ("docs/recipes.md", "`storage/model/src/invariant.rs`, `a/b`, `cargo run -p x/y`"),
        ("CONTRIBUTING.md", "`docs/recipes.md`"),
    ];
    assert_eq!(found(&files), [""; 0]);

    let mut files = files.to_vec();
    files[0] = ("Cargo.toml", "members = [\n  \"a\",\n  \"b\",\n]\n");
    files[5] = (
        "docs/guarantees.md",
        "## CL-1 x\nKept.\n- Tests: `good`, `bad`\n## CL-2 y\n[gone](nowhere.md)\n",
    );
    files[6] = ("docs/sql/create-table.md", "`late`");
    files[7] = ("docs/recipes.md", "`storage/gone.rs`");
    assert_eq!(
        found(&files),
        [
            "docs/ARCHITECTURE.md: does not describe `b`",
            "docs/guarantees.md: CL-2 does not say, as the registry does: Also kept.",
            "docs/guarantees.md:3: no test `bad`",
            "docs/sql/create-table.md: does not describe option `codec`",
            "docs/guarantees.md:5: link to nowhere.md, which does not exist",
            "docs/recipes.md:1: names storage/gone.rs, which does not exist",
        ]
    );
}

#[test]
fn links_are_relative_to_their_page() {
    assert_eq!(joined("docs/sql", "../a.md"), "docs/a.md");
    assert_eq!(joined("", "./b.md"), "b.md");
}
