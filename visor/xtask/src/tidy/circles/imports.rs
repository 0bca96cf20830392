//! Finds the paths in a file to the modules of the same crate.

/// A path to an item, from the root of the crate.
#[derive(Debug, PartialEq, Eq)]
pub struct Import {
    /// The modules on the path, and the item.
    pub path: Vec<String>,
    /// The name of the item in the file; `None` for a path outside of a `use`.
    pub name: Option<String>,
}

/// The imports of a file. Only paths that begin with `crate`, `super`, `self` or a child module
/// count.
pub fn imports(text: &str, module: &[String]) -> Vec<Import> {
    let tokens = tokens(text);
    let children: Vec<&str> = tokens
        .windows(3)
        .filter_map(|window| match window {
            ["mod", name, ";"] => Some(*name),
            _ => None,
        })
        .collect();
    let mut found = Vec::new();
    let mut reader = Reader { tokens: &tokens, at: 0 };
    while let Some(token) = reader.next() {
        let before = reader.at.checked_sub(2).and_then(|at| tokens.get(at));
        if token == "use" && reader.peek() != Some("<") {
            let mut leaves = Vec::new();
            reader.tree(&[], &mut leaves);
            let paths = leaves.into_iter().filter_map(|(path, name)| {
                Some(Import { path: absolute(&path, module, &children)?, name: Some(name) })
            });
            found.extend(paths);
        } else if is_name(token) && reader.peek() == Some("::") && before != Some(&"::") {
            let mut path = vec![token.to_string()];
            while reader.peek() == Some("::")
                && let Some(name) = tokens.get(reader.at + 1).filter(|name| is_name(name))
            {
                path.push(name.to_string());
                reader.at += 2;
            }
            let path = absolute(&path, module, &children);
            found.extend(path.map(|path| Import { path, name: None }));
        }
    }
    found
}

/// The path from the root of the crate; `None` for a path into another crate.
fn absolute(path: &[String], module: &[String], children: &[&str]) -> Option<Vec<String>> {
    let (first, mut rest) = path.split_first()?;
    let base = match first.as_str() {
        "crate" => &[],
        "self" => module,
        "super" => {
            let mut base = parent(module);
            while let Some(("super", after)) = rest.split_first().map(|(up, all)| (&**up, all)) {
                (base, rest) = (parent(base), after);
            }
            base
        }
        child if children.contains(&child) => return Some([module, path].concat()),
        _ => return None,
    };
    Some([base, rest].concat())
}

fn parent(module: &[String]) -> &[String] {
    module.split_last().map_or(&[], |(_, parent)| parent)
}

fn is_name(token: &str) -> bool {
    token.starts_with(|letter: char| letter.is_alphabetic() || letter == '_')
}

/// Reads the tokens of a file in order.
struct Reader<'a> {
    tokens: &'a [&'a str],
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).copied()
    }

    fn next(&mut self) -> Option<&'a str> {
        let token = self.peek();
        self.at += 1;
        token
    }

    /// Reads one tree of a `use`. For each path in the tree, adds the path, and the name of the
    /// path's item in the file.
    fn tree(&mut self, prefix: &[String], found: &mut Vec<(Vec<String>, String)>) {
        let mut path = prefix.to_vec();
        while let Some(token) = self.next() {
            match token {
                "{" => {
                    while !matches!(self.peek(), None | Some("}")) {
                        self.tree(&path, found);
                        if self.peek() == Some(",") {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                "::" => {}
                token => {
                    if token != "self" || path.is_empty() {
                        path.push(token.to_string());
                    }
                    if self.peek() != Some("::") {
                        break;
                    }
                }
            }
        }
        let mut name = path.last().cloned().unwrap_or_default();
        if self.peek() == Some("as") {
            self.at += 1;
            name = self.next().unwrap_or_default().to_string();
        }
        found.push((path, name));
    }
}

/// The tokens of a file: names and punctuation, without comments and contents of string literals.
fn tokens(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let end = |length: Option<usize>| length.unwrap_or(rest.len());
        let length = if rest.starts_with("//") {
            end(rest.find('\n'))
        } else if let Some(length) = text_length(rest) {
            length
        } else if letter.is_alphanumeric() || letter == '_' {
            let length = end(rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_'));
            found.extend(rest.get(..length));
            length
        } else if rest.starts_with("::") {
            found.push("::");
            2
        } else {
            if !letter.is_whitespace() {
                found.extend(rest.get(..letter.len_utf8()));
            }
            letter.len_utf8()
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    found
}

/// The length in bytes of the string or character literal at the beginning of `rest`.
fn text_length(rest: &str) -> Option<usize> {
    let raw = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r')).unwrap_or_default();
    let signs = raw.len() - raw.trim_start_matches('#').len();
    if raw.get(signs..).is_some_and(|text| text.starts_with('"')) {
        let begin = rest.len() - raw.len() + signs + 1;
        let end = format!("\"{}", "#".repeat(signs));
        return Some(rest.get(begin..)?.find(&end).map_or(rest.len(), |at| begin + at + end.len()));
    }
    let quote = rest.chars().next().filter(|letter| matches!(letter, '"' | '\''))?;
    let mut letters = rest.char_indices().skip(1);
    let mut passed = 0;
    while let Some((at, letter)) = letters.next() {
        if letter == quote {
            return Some(at + 1);
        }
        // A lifetime, unlike a character literal, has no second quote after one character.
        if quote == '\''
            && letter != '\\'
            && passed == 0
            && !rest.get(at + letter.len_utf8()..)?.starts_with('\'')
        {
            return None;
        }
        if letter == '\\' {
            letters.next();
        }
        passed += 1;
    }
    Some(rest.len())
}
