//! The allowed edges and the check of a file against them.

use super::scan::SourceFile;
use std::collections::{BTreeMap, BTreeSet};

/// Module -> what it may use, as path prefixes (`["scene", "snapshot"]`).
pub struct Graph {
    edges: BTreeMap<String, Vec<Vec<String>>>,
}

/// Top module -> exported name -> submodule that it really comes from.
pub type ReExports = BTreeMap<String, BTreeMap<String, String>>;

impl Graph {
    /// Reads the first ```` ```text ```` block that has arrows in it.
    pub fn parse(doc: &str) -> Result<Self, String> {
        let mut edges: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
        let block =
            doc.split("```text").nth(1).and_then(|b| b.split("```").next()).ok_or("no ```text block")?;
        for line in block.lines() {
            let line = line.trim_start_matches("//!").trim();
            let Some((from, to)) = line.split_once("->") else { continue };
            let targets = if to.trim() == "everything above" {
                let all: BTreeSet<String> = edges
                    .iter()
                    .flat_map(|(m, t)| t.iter().map(|p| p[0].clone()).chain([m.clone()]))
                    .collect();
                all.into_iter().map(|m| vec![m]).collect()
            } else {
                targets(to)
            };
            edges.entry(from.trim().into()).or_default().extend(targets);
        }
        if edges.is_empty() {
            return Err("no line with an arrow".into());
        }
        Ok(Self { edges })
    }

    /// Every module that the graph names.
    pub fn modules(&self) -> BTreeSet<&str> {
        self.edges.iter().flat_map(|(m, t)| t.iter().map(|p| p[0].as_str()).chain([m.as_str()])).collect()
    }

    /// A cycle between top modules, first = last.
    pub fn cycle(&self) -> Option<Vec<String>> {
        fn visit(graph: &Graph, at: &str, trail: &mut Vec<String>) -> Option<Vec<String>> {
            if let Some(start) = trail.iter().position(|m| m == at) {
                return Some(trail[start..].iter().cloned().chain([at.to_owned()]).collect());
            }
            trail.push(at.into());
            let next = graph.edges.get(at).into_iter().flatten();
            let found = next.filter(|p| p[0] != at).find_map(|p| visit(graph, &p[0], trail));
            trail.pop();
            found
        }
        self.edges.keys().find_map(|m| visit(self, m, &mut Vec::new()))
    }

    /// The edges of a file that are not allowed, as messages.
    pub fn violations(&self, file: &SourceFile, exports: &ReExports) -> Vec<String> {
        let Some(from) = file.module.first() else { return Vec::new() };
        let main = vec![vec!["cli".to_owned()]];
        let allowed = if from == "main" { Some(&main) } else { self.edges.get(from) };
        let mut wrong = Vec::new();
        for (line, path) in file.crate_paths() {
            let Some(to) = path.first().filter(|t| *t != from) else { continue };
            // A name that the module re-exports stands for the submodule that it comes from.
            let origin = path.get(1).and_then(|name| exports.get(to)?.get(name));
            let real: Vec<String> = match origin {
                Some(sub) => vec![to.clone(), sub.clone()],
                None => path.clone(),
            };
            let known = allowed.is_some_and(|a| a.iter().any(|p| real.starts_with(p)));
            if !known {
                wrong.push(format!("src/{}:{line}: {from} -> {}", file.name, path.join("::")));
            }
        }
        wrong
    }
}

/// `geometry::pose, scene::{snapshot, exchange} (remark)` -> prefixes.
fn targets(text: &str) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    let (mut depth, mut remark, mut item) = (0, 0, String::new());
    for c in text.chars().chain([',']) {
        match c {
            '(' => remark += 1,
            ')' => remark -= 1,
            _ if remark > 0 => {}
            '{' => {
                depth += 1;
                item.push(c);
            }
            '}' => {
                depth -= 1;
                item.push(c);
            }
            ',' if depth == 0 => out.extend(expand(&std::mem::take(&mut item))),
            c if c.is_whitespace() => {}
            c => item.push(c),
        }
    }
    out
}

fn expand(item: &str) -> Vec<Vec<String>> {
    let split = |s: &str| s.split("::").filter(|p| !p.is_empty()).map(Into::into).collect::<Vec<String>>();
    match item.split_once('{') {
        None => vec![split(item)].into_iter().filter(|p| !p.is_empty()).collect(),
        Some((prefix, list)) => list
            .trim_end_matches('}')
            .split(',')
            .map(|sub| split(prefix).into_iter().chain(split(sub)).collect())
            .collect(),
    }
}

/// Reads `pub use sub::{Name, Other as Named}` of the top modules' own files.
pub fn re_exports(files: &[SourceFile]) -> ReExports {
    let mut out = ReExports::new();
    for file in files.iter().filter(|f| f.module.len() == 1) {
        let names = out.entry(file.module[0].clone()).or_default();
        for (sub, name) in file.exports() {
            names.insert(name, sub);
        }
    }
    out
}
