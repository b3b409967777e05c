//! Reading TOML so that every error names file, line and key, and no unknown key slips through.
//!
//! A [`Table`] notes each key that it is asked for; [`Table::finish`] refuses the others, with a suggestion. This
//! module knows nothing of what is read: the configuration and scene files share it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What is wrong in a TOML file, where, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {key}: {cause}")]
pub struct SourceError {
    /// File, as the caller named it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Full key, e.g. `servo.priority`; `file` when no key is meant.
    pub key: String,
    /// What is wrong and what would be right.
    pub cause: String,
}

/// One TOML file in memory.
pub struct Source<'a> {
    file: &'a str,
    text: &'a str,
    root: DeTable<'a>,
    asked: RefCell<BTreeSet<String>>,
}

impl<'a> Source<'a> {
    /// Parses `text`; `file` is only used in messages.
    ///
    /// # Errors
    /// Where the text is not TOML.
    pub fn parse(file: &'a str, text: &'a str) -> Result<Self, SourceError> {
        match DeTable::parse(text) {
            Ok(root) => Ok(Self { file, text, root: root.into_inner(), asked: RefCell::default() }),
            Err(e) => Err(SourceError {
                file: file.into(),
                line: line_of(text, e.span().map_or(0, |s| s.start)),
                key: "file".into(),
                cause: e.message().trim().replace('\n', "; "),
            }),
        }
    }

    /// The top table.
    pub fn root(&self) -> Table<'_> {
        Table { source: self, path: String::new(), table: &self.root, at: 0, asked: RefCell::default() }
    }

    /// Full names of all keys that were asked for so far: what a reader of this file understands.
    pub fn asked(&self) -> BTreeSet<String> {
        self.asked.borrow().clone()
    }

    /// Full names of all values (not tables) in the file.
    pub fn given(&self) -> BTreeSet<String> {
        let mut out = BTreeSet::new();
        collect(&self.root, "", &mut out);
        out
    }
}

fn collect(table: &DeTable<'_>, path: &str, out: &mut BTreeSet<String>) {
    for (key, value) in table {
        let full = join(path, key.get_ref());
        match value.get_ref() {
            DeValue::Table(t) => collect(t, &full, out),
            _ => {
                out.insert(full);
            }
        }
    }
}

/// A table of a [`Source`].
pub struct Table<'s> {
    source: &'s Source<'s>,
    path: String,
    table: &'s DeTable<'s>,
    at: usize,
    asked: RefCell<BTreeSet<String>>,
}

impl<'s> Table<'s> {
    fn look(&self, key: &str) -> Option<(&'s Spanned<DeValue<'s>>, usize)> {
        self.asked.borrow_mut().insert(key.into());
        self.source.asked.borrow_mut().insert(join(&self.path, key));
        let (k, v) = self.table.get_key_value(key)?;
        Some((v, k.span().start))
    }

    fn error_at(&self, at: usize, key: String, cause: impl Into<String>) -> SourceError {
        let line = line_of(self.source.text, at);
        SourceError { file: self.source.file.into(), line, key, cause: cause.into() }
    }

    /// An error about `key` of this table.
    pub fn error(&self, key: &str, cause: impl Into<String>) -> SourceError {
        let at = self.table.get_key_value(key).map_or(self.at, |(k, _)| k.span().start);
        self.error_at(at, join(&self.path, key), cause)
    }

    /// An error about this table as a whole.
    pub fn error_here(&self, cause: impl Into<String>) -> SourceError {
        let key = if self.path.is_empty() { "file".into() } else { self.path.clone() };
        self.error_at(self.at, key, cause)
    }

    /// True when the key stands in the table.
    pub fn has(&self, key: &str) -> bool {
        self.look(key).is_some()
    }

    /// The value of `key`, if it is there.
    ///
    /// # Errors
    /// When the value has another type.
    pub fn opt<T: FromToml>(&self, key: &str) -> Result<Option<T>, SourceError> {
        let Some((value, at)) = self.look(key) else { return Ok(None) };
        let full = join(&self.path, key);
        T::from_toml(value.get_ref()).map(Some).map_err(|cause| self.error_at(at, full, cause))
    }

    /// The value of `key`, or `default` when it is not there.
    ///
    /// # Errors
    /// When the value has another type.
    pub fn or<T: FromToml>(&self, key: &str, default: T) -> Result<T, SourceError> {
        Ok(self.opt(key)?.unwrap_or(default))
    }

    /// The value of `key`, or `default`, which must lie in `range`.
    ///
    /// # Errors
    /// When the value has another type or lies outside.
    pub fn within<T>(
        &self,
        key: &str,
        default: T,
        range: std::ops::RangeInclusive<T>,
    ) -> Result<T, SourceError>
    where
        T: FromToml + PartialOrd + std::fmt::Display,
    {
        let value = self.or(key, default)?;
        if range.contains(&value) {
            return Ok(value);
        }
        let (lo, hi) = (range.start(), range.end());
        let [value, lo, hi] = [&value, lo, hi].map(|x| {
            let text = x.to_string();
            // 309 digits help nobody; whole numbers stay as they are.
            if text.len() <= 12 { text } else { text.parse().map_or(text, number) }
        });
        Err(self.error(key, format!("{value} is outside {lo} to {hi}")))
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// When it is missing or has another type.
    pub fn req<T: FromToml>(&self, key: &str) -> Result<T, SourceError> {
        if let Some(value) = self.opt(key)? {
            return Ok(value);
        }
        let hint = closest(key, self.table.keys().map(|k| k.get_ref().as_ref()))
            .map_or(String::new(), |k| format!("; did you mean it by '{k}'?"));
        Err(self.error(key, format!("missing{hint}")))
    }

    /// The table under `key`, if it is there.
    ///
    /// # Errors
    /// When the value is no table.
    pub fn table(&self, key: &str) -> Result<Option<Table<'s>>, SourceError> {
        let Some((value, at)) = self.look(key) else { return Ok(None) };
        let path = join(&self.path, key);
        match value.get_ref() {
            DeValue::Table(table) => {
                Ok(Some(Table { source: self.source, path, table, at, asked: RefCell::default() }))
            }
            other => Err(self.error_at(at, path, expected("a table", other))),
        }
    }

    /// The tables of the array under `key` (`[[key]]`); none when it is not there.
    ///
    /// # Errors
    /// When the value is no array of tables.
    pub fn tables(&self, key: &str) -> Result<Vec<Table<'s>>, SourceError> {
        let Some((value, at)) = self.look(key) else { return Ok(Vec::new()) };
        let path = join(&self.path, key);
        let DeValue::Array(items) = value.get_ref() else {
            return Err(self.error_at(at, path, expected("an array of tables", value.get_ref())));
        };
        let one = |(i, item): (usize, &'s Spanned<DeValue<'s>>)| match item.get_ref() {
            DeValue::Table(table) => {
                // Spans of tables under [[..]] headers start at the header.
                let at = item.span().start.max(at);
                Ok(Table {
                    source: self.source,
                    path: format!("{path}[{i}]"),
                    table,
                    at,
                    asked: RefCell::default(),
                })
            }
            other => Err(self.error_at(item.span().start, path.clone(), expected("a table", other))),
        };
        items.iter().enumerate().map(one).collect()
    }

    /// Every key with its table, for tables whose keys are names.
    ///
    /// # Errors
    /// When a value is no table.
    pub fn named_tables(&self) -> Result<Vec<(String, Table<'s>)>, SourceError> {
        let mut keys: Vec<_> = self.table.keys().map(|k| (k.span().start, k.get_ref().to_string())).collect();
        keys.sort();
        keys.into_iter()
            .map(|(_, k)| {
                let table = self.table(&k)?.ok_or_else(|| self.error(&k, "missing"))?;
                Ok((k, table))
            })
            .collect()
    }

    /// Refuses keys that nobody asked for.
    ///
    /// # Errors
    /// The first unknown key in the file's order, with the closest known one.
    pub fn finish(self) -> Result<(), SourceError> {
        let asked = self.asked.borrow();
        let unknown = self.table.keys().filter(|k| !asked.contains(k.get_ref().as_ref()));
        let Some(key) = unknown.min_by_key(|k| k.span().start) else { return Ok(()) };
        let hint = match closest(key.get_ref(), asked.iter().map(String::as_str)) {
            Some(k) => format!("did you mean '{k}'?"),
            None => format!("known here: {}", asked.iter().cloned().collect::<Vec<_>>().join(", ")),
        };
        Err(self.error(key.get_ref(), format!("unknown key; {hint}")))
    }
}

/// What can be read from a TOML value.
pub trait FromToml: Sized {
    /// Reads the value.
    ///
    /// # Errors
    /// What was expected and what was found.
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String>;
}

fn expected(what: &str, found: &DeValue<'_>) -> String {
    let kind = match found {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    };
    format!("expected {what}, found {kind}")
}

impl FromToml for f64 {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let text = match value {
            DeValue::Float(f) => f.as_str(),
            DeValue::Integer(i) if i.radix() == 10 => i.as_str(),
            other => return Err(expected("a number", other)),
        };
        let number: f64 = text.replace('_', "").parse().map_err(|_| format!("'{text}' is no number"))?;
        if number.is_finite() { Ok(number) } else { Err(format!("'{text}' is not a finite number")) }
    }
}

/// A number for people: no hundreds of digits.
#[must_use]
pub fn number(x: f64) -> String {
    let plain = x == 0.0 || (1e-4..1e9).contains(&x.abs());
    if plain { x.to_string() } else { format!("{x:e}") }
}

impl FromToml for i64 {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let DeValue::Integer(i) = value else { return Err(expected("an integer", value)) };
        i64::from_str_radix(&i.as_str().replace('_', ""), i.radix())
            .map_err(|_| "an integer of this size cannot be used".to_owned())
    }
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl FromToml for $t {
            fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
                let i = i64::from_toml(value)?;
                <$t>::try_from(i).map_err(|_| format!("{i} is outside 0 to {}", <$t>::MAX))
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, usize);

impl FromToml for bool {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        value.as_bool().ok_or_else(|| expected("true or false", value))
    }
}

impl FromToml for String {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        value.as_str().map(Into::into).ok_or_else(|| expected("a string", value))
    }
}

impl<T: FromToml> FromToml for Vec<T> {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let DeValue::Array(items) = value else { return Err(expected("an array", value)) };
        items.iter().map(|v| T::from_toml(v.get_ref())).collect()
    }
}

impl<T: FromToml, const N: usize> FromToml for [T; N] {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let items = Vec::<T>::from_toml(value)?;
        let found = items.len();
        items.try_into().map_err(|_| format!("expected {N} values, found {found}"))
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.into() } else { format!("{path}.{key}") }
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|b| **b == b'\n').count() + 1
}

/// The candidate that is nearest to `word`, if it is near enough to be a misspelling.
pub fn closest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = 1 + word.len() / 4;
    candidates
        .filter(|c| *c != word)
        .map(|c| (edit_distance(word, c), c))
        .filter(|(d, _)| *d <= most)
        .min()
        .map(|(_, c)| c)
}

/// Levenshtein distance in bytes.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (diagonal + usize::from(ca != cb)).min(above + 1).min(row[j] + 1);
            diagonal = above;
        }
    }
    row[b.len()]
}
