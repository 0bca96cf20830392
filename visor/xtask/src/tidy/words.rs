//! Checks the share of pro-forms (pronouns and similar words) in the comments of each crate and in
//! the documents. A high share is a sign of missing nouns.

use super::{Finding, manifest::members};
use crate::tree::Tree;

/// Maximum share of pro-forms among the words, in percent.
const SHARE_MAX: usize = 6;

/// A text with fewer words than this is not checked.
const WORDS_MIN: usize = 200;

/// The pro-forms.
const PRO_FORMS: [&str; 24] = [
    "what", "which", "who", "whom", "whose", "that", "those", "these", "it", "its", "they", "them",
    "one", "ones", "other", "others", "none", "nobody", "whoever", "whatever", "there", "so", "as",
    "such",
];

/// The number of words, and of pro-forms among them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    words: usize,
    pro_forms: usize,
}

impl Count {
    /// Adds the words of a text to the count; a code span counts as a single word.
    fn add(&mut self, text: &str) {
        for (number, span) in text.split('`').enumerate() {
            if number % 2 == 1 {
                self.words += 1;
                continue;
            }
            let words = span.split(|letter: char| !letter.is_ascii_alphabetic() && letter != '\'');
            for word in words.filter(|word| !word.is_empty()) {
                self.words += 1;
                self.pro_forms += usize::from(PRO_FORMS.contains(&word.to_lowercase().as_str()));
            }
        }
    }

    fn is_high(&self) -> bool {
        self.words >= WORDS_MIN && self.pro_forms * 100 > SHARE_MAX * self.words
    }
}

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let members = members(tree);
    for member in &members {
        let mut count = Count::default();
        for (path, text) in tree.ending(&[".rs"]) {
            if !path.contains("/tests") && owner(&members, path) == Some(member.as_str()) {
                count.add(&comments(text));
            }
        }
        report(member, &count, findings);
    }
    let mut all = Count::default();
    for (path, text) in tree.ending(&[".md"]) {
        if path.starts_with("docs/") {
            all.add(&sentences(text));
        } else if path == "README.md" {
            let mut count = Count::default();
            count.add(&sentences(text));
            report(path, &count, findings);
        }
    }
    report("docs", &all, findings);
}

fn report(path: &str, count: &Count, findings: &mut Vec<Finding>) {
    if count.is_high() {
        let message = format!(
            "{} of {} words are pro-forms (that, it, what, one …), more than {SHARE_MAX} %: write the nouns",
            count.pro_forms, count.words
        );
        findings.push(Finding::new(path, 0, message));
    }
}

/// The crate of a file: the member with the innermost folder around the file.
fn owner<'a>(members: &'a [String], path: &str) -> Option<&'a str> {
    let inside = |member: &&String| {
        path.strip_prefix(member.as_str()).is_some_and(|rest| rest.starts_with('/'))
    };
    members.iter().filter(inside).max_by_key(|member| member.len()).map(String::as_str)
}

/// The comments of a Rust file, without code blocks.
fn comments(source: &str) -> String {
    let mut found = String::new();
    let mut in_code = false;
    for line in source.lines() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            found.push('\n');
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!']).trim();
        if comment.starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            found.push_str(comment);
            found.push('\n');
        }
    }
    found
}

/// The sentences of a document, without code blocks, tables, headings and lists of links.
fn sentences(document: &str) -> String {
    let mut found = String::new();
    let mut in_code = false;
    for line in document.lines() {
        let text = line.trim();
        if text.starts_with("```") {
            in_code = !in_code;
        } else if !in_code && !["|", "#", "- [", "`"].iter().any(|mark| text.starts_with(mark)) {
            found.push_str(text);
            found.push('\n');
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pro_forms_are_counted_outside_of_code() {
        let mut count = Count::default();
        count.add(&comments(
            "//! It reads `that` row.\nlet what = 1;\n/// ```\n/// those\n/// ```\n// Ends.\n",
        ));
        assert_eq!(count, Count { words: 5, pro_forms: 1 });
        let mut count = Count::default();
        count.add(&sentences("# What\n\nThe row, which is new.\n\n| it | that |\n"));
        assert_eq!(count, Count { words: 5, pro_forms: 1 });
    }

    #[test]
    fn a_file_belongs_to_the_innermost_crate() {
        let members = ["query".to_string(), "query/text".to_string()];
        assert_eq!(owner(&members, "query/text/src/lib.rs"), Some("query/text"));
        assert_eq!(owner(&members, "query/src/lib.rs"), Some("query"));
        assert_eq!(owner(&members, "visor/src/lib.rs"), None);
    }
}
