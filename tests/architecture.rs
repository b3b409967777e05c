//! The module graph of `src/lib.rs`, enforced: wrong edges, words that have no place on the servo path, file sizes.
//!
//! The allowed edges are read from the text block "Module graph" in `src/lib.rs`, so that page and check cannot
//! disagree. Unit tests (`#[cfg(test)]` modules and their files) are exempt: they may build scenes to feel.

#[path = "architecture/graph.rs"]
mod graph;
#[path = "architecture/scan.rs"]
mod scan;

use graph::Graph;
use scan::{SourceFile, tokens};
use std::path::Path;

fn sources() -> Vec<SourceFile> {
    let files = scan::read_tree(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(files.len() > 20, "found only {} files: is this the right directory?", files.len());
    files
}

fn lib_text() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap()
}

#[test]
fn every_edge_stands_in_the_module_graph() {
    let graph = Graph::parse(&lib_text()).unwrap();
    let files = sources();
    let exports = graph::re_exports(&files);
    let wrong: Vec<String> = files.iter().flat_map(|f| graph.violations(f, &exports)).collect();
    assert!(wrong.is_empty(), "{} edges are not in src/lib.rs:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_module_graph_has_no_cycle_and_names_every_module() {
    let graph = Graph::parse(&lib_text()).unwrap();
    if let Some(cycle) = graph.cycle() {
        panic!("the graph in src/lib.rs has a cycle: {}", cycle.join(" -> "));
    }
    let known = graph.modules();
    for file in sources() {
        if let Some(top) = file.module.first().filter(|m| *m != "main") {
            assert!(known.contains(top.as_str()), "module '{top}' does not stand in the graph of src/lib.rs");
        }
    }
}

/// Where a word is forbidden: module prefix, exceptions below it.
struct Zone {
    modules: &'static [&'static str],
    except: &'static [&'static str],
    words: &'static [&'static str],
    why: &'static str,
}

const ZONES: &[Zone] = &[
    Zone {
        modules: &[
            "geometry",
            "contact",
            "haptics",
            "device",
            "servo",
            "scene",
            "protocol",
            "config",
            "recording",
        ],
        except: &[],
        words: &["tokio"],
        why: "only control and cli know the async runtime",
    },
    Zone {
        modules: &["geometry", "contact", "haptics", "device", "servo", "scene", "protocol", "recording"],
        except: &[],
        words: &["tracing", "println", "eprintln", "print", "eprint", "dbg"],
        why: "libraries report by values; only control and cli speak",
    },
    Zone {
        modules: &["geometry", "contact", "haptics"],
        except: &[],
        words: &["std::time", "std::net", "std::process", "std::env", "std::io::stdin", "std::io::stdout"],
        why: "pure maths: no clock, no I/O",
    },
    // The servo path. `rt`, `run` and `handle` hold what happens before, after and beside it.
    Zone {
        modules: &[
            "geometry",
            "contact",
            "haptics",
            "servo",
            "scene::exchange",
            "scene::snapshot",
            "scene::broad",
        ],
        except: &["servo::rt", "servo::run", "servo::handle"],
        words: &[
            "std::fs",
            "std::sync::Mutex",
            "std::sync::RwLock",
            "std::sync::Condvar",
            "std::sync::mpsc",
            "std::thread::sleep",
            "parking_lot",
            "crossbeam",
        ],
        why: "the servo path takes no lock, touches no file and waits for nobody",
    },
];

fn zone_violations(files: &[SourceFile]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files {
        let module = file.module.join("::");
        let below = |prefix: &&str| module == **prefix || module.starts_with(&format!("{prefix}::"));
        for zone in ZONES.iter().filter(|z| z.modules.iter().any(below) && !z.except.iter().any(below)) {
            for (line, path) in &file.std_paths() {
                if let Some(word) = zone.words.iter().find(|w| scan::path_matches(path, w)) {
                    wrong.push(format!("src/{}:{line}: '{word}' ({path}): {}", file.name, zone.why));
                }
            }
        }
    }
    wrong
}

#[test]
fn no_forbidden_word_below_geometry_contact_haptics_and_the_servo_path() {
    let wrong = zone_violations(&sources());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Files that may be longer than 500 lines, each with its reason.
const LONG_FILES: &[(&str, &str)] = &[];

#[test]
fn files_are_short() {
    let files = sources();
    let mut sizes: Vec<usize> = files.iter().map(|f| f.lines).collect();
    sizes.sort_unstable();
    let median = sizes[sizes.len() / 2];
    assert!(median <= 200, "the median file has {median} lines, at most 200 are allowed");
    let long: Vec<String> = files
        .iter()
        .filter(|f| f.lines > 500 && !LONG_FILES.iter().any(|(name, _)| *name == f.name))
        .map(|f| format!("src/{} has {} lines", f.name, f.lines))
        .collect();
    assert!(long.is_empty(), "split, or give a reason in LONG_FILES:\n{}", long.join("\n"));
    for (name, reason) in LONG_FILES {
        assert!(reason.len() > 20, "{name}: give a real reason");
        assert!(files.iter().any(|f| f.name == *name && f.lines > 500), "{name}: entry no longer needed");
    }
}

// ---- the checks themselves are checked ----

fn file(name: &str, text: &str) -> SourceFile {
    SourceFile::new(name, text)
}

fn edges_of(name: &str, text: &str) -> Vec<String> {
    let graph = Graph::parse(
        "```text\nb -> a\nc -> a::{p, q}, b\nd -> a::p (a remark, with a comma)\ncli -> everything above\n```",
    )
    .unwrap();
    let exports =
        graph::re_exports(&[file("a/mod.rs", "pub mod p; pub mod q; pub use p::{Pose, Other as Named};")]);
    graph.violations(&file(name, text), &exports)
}

#[test]
fn a_right_edge_passes() {
    for (name, text) in [
        ("b/mod.rs", "use crate::a::x::Y; fn f() { crate::a::g() }"),
        ("c.rs", "use crate::{a::{p::Pose, q}, b};"),
        ("c/deep/er.rs", "use super::super::x; use super::y; use crate::c::z;"),
        ("d/x.rs", "use crate::a::p::{self, Pose}; use crate::a::Pose as P;"),
        ("d/x.rs", "use crate::a::Named;"),
        ("d/x.rs", "// crate::b is only named here\nconst S: &str = \"crate::b\"; /* crate::b */"),
        ("d/x.rs", "#[cfg(test)]\nmod tests { use crate::c; fn f() { { crate::b::g() } } }"),
        ("d/x_tests.rs", "use crate::c;"),
        ("cli/x.rs", "use crate::{a, b, c, d};"),
        ("main.rs", "fn main() { hapticd::cli::main() }"),
    ] {
        assert_eq!(edges_of(name, text), Vec::<String>::new(), "{name}: {text}");
    }
}

#[test]
fn a_wrong_edge_is_caught() {
    for (name, text, expect) in [
        ("a/mod.rs", "use crate::b::X;", "a -> b::X"),
        ("a/p.rs", "fn f() { let x = crate::c::g(); }", "a -> c::g"),
        ("b/mod.rs", "use crate::{a, c::{d, e}};", "b -> c::d"),
        ("c.rs", "use crate::a::r::Z;", "c -> a::r"),
        ("c.rs", "use crate::a::*;", "c -> a::*"),
        ("d/x.rs", "use crate::a::q;", "d -> a::q"),
        ("d/x.rs", "use super::super::b::f;", "d -> b::f"),
        ("d.rs", "pub(crate) use super::b;", "d -> b"),
        ("d/x.rs", "mod inner { use super::super::super::b::f; }", "d -> b::f"),
        ("d/x.rs", "macro_rules! m { () => { $crate::b::f() } }", "d -> b::f"),
        ("d/x.rs", "#[cfg(not(test))]\nmod tests { use crate::b; }", "d -> b"),
        ("d/x.rs", "fn f<'a>(x: &'a str) { let c = '\"'; crate::b::g(x) }", "d -> b::g"),
        ("d/x.rs", "const R: &str = r#\"a \" b\"#; use crate::b;", "d -> b"),
        ("a/p.rs", "use hapticd::b;", "a -> b"),
        ("main.rs", "fn main() { hapticd::a::f() }", "main -> a::f"),
        ("e/mod.rs", "use crate::a::p;", "e -> a::p"),
    ] {
        let found = edges_of(name, text);
        assert!(found.iter().any(|v| v.contains(expect)), "{name}: {text}: expected {expect}, got {found:?}");
    }
}

#[test]
fn a_wrong_line_is_named() {
    let found = edges_of("a/mod.rs", "//! Head.\n\nuse std::fmt;\nuse crate::b::X;\n");
    assert!(found[0].contains("src/a/mod.rs:4:"), "{found:?}");
}

#[test]
fn forbidden_words_are_caught_however_they_are_written() {
    for (name, text) in [
        ("servo/tick.rs", "use std::sync::Mutex;"),
        ("servo/tick.rs", "use std::{sync::{Arc, Mutex}, fs};"),
        ("servo/state.rs", "fn f() { std::fs::read(\"x\"); }"),
        ("haptics/guard.rs", "fn f() { println!(\"x\") }"),
        ("contact/vps/query.rs", "fn f() { tracing::info!(\"x\") }"),
        ("geometry/bvh.rs", "use std::time::Instant;"),
        ("scene/exchange.rs", "use crossbeam::queue::ArrayQueue;"),
        ("scene/compile.rs", "use tokio::task;"),
        ("servo/run.rs", "use ::tokio::task;"),
    ] {
        assert!(!zone_violations(&[file(name, text)]).is_empty(), "{name}: {text}");
    }
    for (name, text) in [
        ("servo/rt.rs", "use std::fs;"),
        ("servo/tick.rs", "use std::sync::Arc; // never std::sync::Mutex"),
        ("servo/tick.rs", "fn f(println: u8) -> u8 { println }"),
        ("control/x.rs", "use tokio::task; use tracing::info;"),
        ("servo/tick.rs", "#[cfg(test)] mod tests { use std::fs; }"),
    ] {
        assert_eq!(zone_violations(&[file(name, text)]), Vec::<String>::new(), "{name}: {text}");
    }
}

#[test]
fn a_cycle_is_caught() {
    let graph = Graph::parse("```text\na -> b\nb -> c::x\nc -> a\n```").unwrap();
    assert_eq!(graph.cycle().map(|c| c.len()), Some(4));
    assert_eq!(Graph::parse("```text\na -> b\nc -> a, b\n```").unwrap().cycle(), None);
    assert!(Graph::parse("no table at all").is_err());
}

#[test]
fn the_tokenizer_keeps_lines_and_drops_comments_strings_and_lifetimes() {
    let found: Vec<(usize, String)> = tokens("a /* x /* y */ z */ b\n\"s\\\"t\"\n'c' 'l r\"q\" b'\\'' :: {");
    let words: Vec<(usize, &str)> = found.iter().map(|(l, t)| (*l, t.as_str())).collect();
    assert_eq!(words, [(1, "a"), (1, "b"), (3, "::"), (3, "{")]);
}
