//! Unit tests of the memory cache and the keys. Whole compilations stand in `tests/scene.rs`.

use super::Want;
use super::key::GeometryKey;
use super::store::{Built, Store};
use super::thin::Fineness;
use crate::geometry::field::Field;
use crate::geometry::field::build::{FieldParams, FieldReport, Resolution};
use crate::geometry::{Point, Vec3, shapes};
use crate::scene::model::{GeometryDef, Meta, SourceMesh};
use std::sync::Arc;

fn def(edge: f64, resolution: Resolution) -> GeometryDef {
    GeometryDef {
        meta: Meta { id: 1, name: None, owner: 0, persistent: true },
        mesh: SourceMesh::new(shapes::cuboid(Vec3::repeat(edge)), "cube"),
        params: FieldParams { resolution, padding: 4 },
        method: None,
        hold_thin: false,
    }
}

/// The key of a geometry's field so scaled.
fn key_of(def: &GeometryDef, scale: &Vec3, params: &FieldParams) -> GeometryKey {
    let (scale, params, hold) = (*scale, *params, def.hold_thin);
    GeometryKey::of(&Want { id: Some(1), mesh: &def.mesh, scale, params, solid: false, hold })
}

fn key(n: u32) -> GeometryKey {
    let def = def(f64::from(n + 1), Resolution::Longest(16));
    key_of(&def, &Vec3::repeat(1.0), &def.params)
}

/// A field of 1,000 bytes.
fn built() -> Arc<Built> {
    let field = Field::from_fn(Point::origin(), 0.1, [5, 10, 10], |_| 0.0);
    let fine = Fineness::of(&shapes::icosphere(0.1, 1), &field, &FieldReport::default());
    Arc::new(Built {
        field: Arc::new(field),
        fine,
        centre: Point::origin(),
        radius: 1.0,
        solid: std::sync::OnceLock::new(),
    })
}

#[test]
fn the_least_recently_used_spare_field_goes_first() {
    let mut store = Store::default();
    for n in 0..4 {
        store.put(key(n), built());
    }
    store.get(&key(0));
    store.get(&key(1));
    let needed = |k: &GeometryKey| *k == key(1);
    // Use order now: 2, 3, 0, 1; key 1 is needed.
    store.shrink(3000, needed);
    assert_eq!([0, 1, 2, 3].map(|n| store.has(&key(n))), [true, true, false, true]);
    store.shrink(2000, needed);
    assert_eq!([0, 1, 2, 3].map(|n| store.has(&key(n))), [true, true, false, false]);
    store.shrink(0, needed);
    assert_eq!([0, 1, 2, 3].map(|n| store.has(&key(n))), [false, true, false, false], "what is needed stays");
}

#[test]
fn the_first_of_two_equal_builds_is_shared() {
    let mut store = Store::default();
    let first = store.put(key(0), built());
    let second = store.put(key(0), built());
    assert!(Arc::ptr_eq(&first, &second));
}

#[test]
fn whatever_decides_a_field_is_in_its_key() {
    let (one, flat) = (Vec3::repeat(1.0), Vec3::new(1.0, 1.0, 0.5));
    let base = def(0.1, Resolution::Longest(16));
    let padded = FieldParams { padding: 5, ..base.params };
    let keys = [
        key_of(&base, &one, &base.params),
        key_of(&base, &flat, &base.params),
        key_of(&base, &-one, &base.params),
        key_of(&base, &one, &padded),
        key_of(&base, &one, &FieldParams { resolution: Resolution::MemoryCap(16), padding: 4 }),
        key_of(&base, &one, &FieldParams { resolution: Resolution::Cell(0.01), padding: 4 }),
        key_of(&def(0.2, Resolution::Longest(16)), &one, &base.params),
        key_of(&GeometryDef { hold_thin: true, ..base.clone() }, &one, &base.params),
    ];
    for (i, a) in keys.iter().enumerate() {
        for (j, b) in keys.iter().enumerate() {
            assert_eq!(a == b, i == j, "{i} {j}");
        }
    }
    let again = key_of(&def(0.1, Resolution::Longest(16)), &one, &base.params);
    assert_eq!(keys[0], again, "identity is that of the content");
}
