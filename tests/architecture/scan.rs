//! Reads Rust source just well enough to know which paths it names.

use std::path::Path;

/// One file of `src`.
pub struct SourceFile {
    /// Path below `src`.
    pub name: String,
    /// Module path, `["geometry", "field"]`.
    pub module: Vec<String>,
    /// Lines of text.
    pub lines: usize,
    tokens: Vec<(usize, String)>,
}

impl SourceFile {
    pub fn new(name: &str, text: &str) -> Self {
        let mut module: Vec<String> = name.trim_end_matches(".rs").split('/').map(Into::into).collect();
        if module.last().is_some_and(|m| m == "mod" || m == "lib") {
            module.pop();
        }
        let test_file =
            name.ends_with("_tests.rs") || name.ends_with("/tests.rs") || name.contains("/tests/");
        let tokens = if test_file { Vec::new() } else { without_tests(tokens(text)) };
        Self { name: name.into(), module, lines: text.lines().count(), tokens }
    }

    /// Paths inside the crate, resolved to the crate's root: (line, segments).
    pub fn crate_paths(&self) -> Vec<(usize, Vec<String>)> {
        self.paths()
            .into_iter()
            .filter(|p| p.1.first().is_some_and(|s| s == "crate"))
            .map(cut_first)
            .collect()
    }

    /// All other paths and macro names, as text: `std::fs::read`, `println`.
    pub fn std_paths(&self) -> Vec<(usize, String)> {
        let outside = self.paths().into_iter().filter(|p| p.1.first().is_some_and(|s| s != "crate"));
        outside.map(|(line, path)| (line, path.join("::"))).collect()
    }

    /// `pub use sub::Name as Other` -> (sub, Other), for names that come from a submodule.
    pub fn exports(&self) -> Vec<(String, String)> {
        let mut out = Vec::new();
        for at in 0..self.tokens.len() {
            if self.text(at) != "pub" || self.text(at + 1) != "use" {
                continue;
            }
            let end = (at..self.tokens.len()).find(|i| self.text(*i) == ";").unwrap_or(self.tokens.len());
            let mut trees = Vec::new();
            self.tree(at + 2, &[], &mut trees);
            for mut tree in trees.into_iter().filter(|t| t.len() > 1) {
                tree.retain(|s| s != "self");
                let name = tree[tree.len() - 1].clone();
                let renamed = (at..end).find(|i| self.text(*i) == name && self.text(i + 1) == "as");
                let visible = renamed.map_or(name.clone(), |i| self.text(i + 2).to_owned());
                out.push((tree[0].clone(), visible));
            }
        }
        out
    }

    fn paths(&self) -> Vec<(usize, Vec<String>)> {
        let mut found = Vec::new();
        // Inline modules: (name, brace depth at which it ends).
        let mut inline: Vec<(String, usize)> = Vec::new();
        let mut depth = 0;
        let mut at = 0;
        while at < self.tokens.len() {
            let (line, token) = &self.tokens[at];
            match token.as_str() {
                "{" => depth += 1,
                "}" => {
                    depth -= 1;
                    inline.pop_if(|m| m.1 == depth);
                }
                "mod" if self.text(at + 2) == "{" => {
                    inline.push((self.text(at + 1).into(), depth));
                    depth += 1;
                    at += 3;
                    continue;
                }
                word if is_word(word) && !KEYWORDS.contains(&word) => {
                    let here: Vec<String> =
                        self.module.iter().cloned().chain(inline.iter().map(|m| m.0.clone())).collect();
                    let import = at > 0 && matches!(self.text(at - 1), "use")
                        || at > 1 && self.text(at - 2) == "use" && self.text(at - 1) == "::";
                    let next = self.text(at + 1);
                    if import || next == "::" || next == "!" {
                        let mut trees = Vec::new();
                        let end = self.tree(at, &[], &mut trees);
                        found.extend(trees.into_iter().map(|t| (*line, resolve(t, &here))));
                        at = end;
                        continue;
                    }
                }
                _ => {}
            }
            at += 1;
        }
        found
    }

    /// Reads `a::b::{c, d::e}` from `at`; returns where it ends.
    fn tree(&self, mut at: usize, prefix: &[String], out: &mut Vec<Vec<String>>) -> usize {
        let mut path = prefix.to_vec();
        loop {
            let token = self.text(at);
            if token == "{" {
                at += 1;
                while self.text(at) != "}" && at < self.tokens.len() {
                    let before = at;
                    at = self.tree(at, &path, out);
                    // `as name`, commas, anything odd.
                    while !matches!(self.text(at), "," | "}") && at < self.tokens.len() {
                        at += 1;
                    }
                    if self.text(at) == "," || at == before {
                        at += 1;
                    }
                }
                return at + 1;
            }
            if !is_word(token) && token != "*" {
                break;
            }
            path.push(token.into());
            at += 1;
            if self.text(at) != "::" {
                break;
            }
            at += 1;
        }
        if path.len() > 1 && path.last().is_some_and(|s| s == "self") {
            path.pop();
        }
        out.push(path);
        at.max(1)
    }

    fn text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |t| t.1.as_str())
    }
}

/// Keywords that may stand before a path that begins with `::`.
const KEYWORDS: &[&str] =
    &["use", "as", "in", "return", "mut", "dyn", "impl", "for", "where", "else", "match", "if"];

fn cut_first((line, mut path): (usize, Vec<String>)) -> (usize, Vec<String>) {
    path.remove(0);
    (line, path)
}

/// `super::`, `self::` and `hapticd::` become `crate::`.
fn resolve(path: Vec<String>, here: &[String]) -> Vec<String> {
    let mut base: Vec<String> = match path[0].as_str() {
        "hapticd" | "crate" => {
            return std::iter::once("crate".into()).chain(path.into_iter().skip(1)).collect();
        }
        "self" | "super" => here.to_vec(),
        _ => return path,
    };
    let mut rest = path.into_iter().peekable();
    while let Some(step) = rest.next_if(|s| s == "super" || s == "self") {
        if step == "super" {
            base.pop();
        }
    }
    std::iter::once("crate".into()).chain(base).chain(rest).collect()
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// True when `path` is `word` or lies below it, or `word` is a single name standing alone.
pub fn path_matches(path: &str, word: &str) -> bool {
    path.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// All `.rs` files below a directory.
pub fn read_tree(root: &Path) -> Vec<SourceFile> {
    fn walk(dir: &Path, root: &Path, out: &mut Vec<SourceFile>) {
        let mut entries: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                walk(&path, root, out);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                out.push(SourceFile::new(&name, &std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut out = Vec::new();
    walk(root, root, &mut out);
    out
}

/// Drops the items that follow `#[cfg(test)]` (or `cfg(all(test, ...))`).
fn without_tests(tokens: Vec<(usize, String)>) -> Vec<(usize, String)> {
    let text = |at: usize| tokens.get(at).map_or("", |t: &(usize, String)| t.1.as_str());
    let mut out = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        let test = text(at) == "#"
            && text(at + 2) == "cfg"
            && (text(at + 4) == "test" || (text(at + 4) == "all" && text(at + 6) == "test"));
        if !test {
            out.push(tokens[at].clone());
            at += 1;
            continue;
        }
        // To the end of the item: a `;` or a closed brace at depth 0.
        let mut depth = 0;
        while at < tokens.len() {
            match text(at) {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth -= 1,
                _ => {}
            }
            at += 1;
            if depth == 0 && matches!(text(at - 1), "}" | ";") {
                break;
            }
        }
    }
    out
}

/// Words and marks with their lines; comments, strings, characters, numbers' suffixes and lifetimes are dropped.
pub fn tokens(text: &str) -> Vec<(usize, String)> {
    let chars: Vec<char> = text.chars().collect();
    let get = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let (mut out, mut i, mut line) = (Vec::new(), 0, 1);
    while i < chars.len() {
        let c = chars[i];
        let start = i;
        if c == '/' && get(i + 1) == '/' {
            while i < chars.len() && chars[i] != '\n' {
                i += 1;
            }
        } else if c == '/' && get(i + 1) == '*' {
            let mut depth = 0;
            loop {
                match (get(i), get(i + 1)) {
                    ('/', '*') => (depth, i) = (depth + 1, i + 2),
                    ('*', '/') => (depth, i) = (depth - 1, i + 2),
                    _ => i += 1,
                }
                if depth == 0 || i >= chars.len() {
                    break;
                }
            }
        } else if let Some(end) = string_end(&chars, i) {
            i = end;
        } else if c == '\'' || (c == 'b' && get(i + 1) == '\'') {
            i = char_end(&chars, i + usize::from(c == 'b'));
        } else if c.is_alphabetic() || c == '_' {
            while get(i).is_alphanumeric() || get(i) == '_' {
                i += 1;
            }
            out.push((line, chars[start..i].iter().collect()));
        } else if c.is_ascii_digit() {
            while get(i).is_alphanumeric() || get(i) == '_' {
                i += 1;
            }
        } else if c == ':' && get(i + 1) == ':' {
            out.push((line, "::".into()));
            i += 2;
        } else {
            if !c.is_whitespace() {
                out.push((line, c.to_string()));
            }
            i += 1;
        }
        line += chars[start..i.min(chars.len())].iter().filter(|c| **c == '\n').count();
    }
    out
}

/// End of a string literal of any kind that begins at `i`.
fn string_end(chars: &[char], i: usize) -> Option<usize> {
    let get = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut j = i;
    while matches!(get(j), 'b' | 'c') && j < i + 1 {
        j += 1;
    }
    let raw = get(j) == 'r' && matches!(get(j + 1), '"' | '#');
    if raw {
        let hashes = (j + 1..).take_while(|k| get(*k) == '#').count();
        j += 1 + hashes;
        if get(j) != '"' {
            return None;
        }
        j += 1;
        while j < chars.len() {
            if get(j) == '"' && (1..=hashes).all(|k| get(j + k) == '#') {
                return Some(j + 1 + hashes);
            }
            j += 1;
        }
        return Some(j);
    }
    if get(j) != '"' {
        return None;
    }
    j += 1;
    while j < chars.len() && get(j) != '"' {
        j += if get(j) == '\\' { 2 } else { 1 };
    }
    Some(j + 1)
}

/// End of a character literal or lifetime that begins at `i`.
fn char_end(chars: &[char], i: usize) -> usize {
    let get = |i: usize| chars.get(i).copied().unwrap_or('\0');
    if get(i + 1) == '\\' {
        let mut j = i + 3;
        while j < chars.len() && get(j) != '\'' {
            j += 1;
        }
        return j + 1;
    }
    if get(i + 2) == '\'' {
        return i + 3;
    }
    let mut j = i + 1;
    while get(j).is_alphanumeric() || get(j) == '_' {
        j += 1;
    }
    j
}
