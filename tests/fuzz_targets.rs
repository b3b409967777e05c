//! The fuzz targets of `fuzz/`, a workspace of its own for libFuzzer: here as modules, so that they cannot rot, each run on random input.

// The targets say `use libfuzzer_sys::fuzz_target`.
extern crate self as libfuzzer_sys;

use rand::Rng;
use rand_pcg::Pcg64Mcg;

/// A function in place of libfuzzer's entry.
#[macro_export]
macro_rules! fuzz_target {
    (|$data:ident: $kind:ty| $body:block) => {
        fn target($data: $kind) $body

        /// Runs it on so many random inputs.
        pub fn run(inputs: u32) {
            let mut rng = <rand_pcg::Pcg64Mcg as rand::SeedableRng>::seed_from_u64(21);
            (0..inputs).for_each(|_| target($crate::Any::any(&mut rng)));
        }
    };
}

/// Random input of a type, biased to what the protocols use.
pub trait Any {
    /// Any.
    fn any(rng: &mut Pcg64Mcg) -> Self;
}

impl Any for u8 {
    fn any(rng: &mut Pcg64Mcg) -> Self {
        let word = rng.next_u64();
        match word & 3 {
            0 => b'A' + (word >> 8) as u8 % 16,
            1 => *b"<>A\n\rCD,".get((word >> 8) as usize % 8).unwrap_or(&0),
            _ => (word >> 8) as u8,
        }
    }
}

impl Any for i32 {
    fn any(rng: &mut Pcg64Mcg) -> Self {
        let word = rng.next_u64();
        word as i32 >> (word >> 32 & 31)
    }
}

impl<T: Any> Any for [T; 3] {
    fn any(rng: &mut Pcg64Mcg) -> Self {
        std::array::from_fn(|_| T::any(rng))
    }
}

impl<T: Any> Any for Vec<T> {
    fn any(rng: &mut Pcg64Mcg) -> Self {
        (0..rng.next_u64() % 70).map(|_| T::any(rng)).collect()
    }
}

impl<A: Any, B: Any> Any for (A, B) {
    fn any(rng: &mut Pcg64Mcg) -> Self {
        (A::any(rng), B::any(rng))
    }
}

impl<A: Any, B: Any, C: Any> Any for (A, B, C) {
    fn any(rng: &mut Pcg64Mcg) -> Self {
        (A::any(rng), B::any(rng), C::any(rng))
    }
}

macro_rules! targets {
    ($($name:ident: $file:literal, $inputs:literal;)*) => {
        $(
            #[path = $file]
            #[allow(unused_attributes, unused_imports, reason = "no_main is for the root of a crate, and the macro is in sight already")]
            mod $name;
        )*

        /// Name of each file of targets that is known here.
        const KNOWN: &[&str] = &[$(stringify!($name)),*];

        #[test]
        fn every_target_runs() {
            $($name::run($inputs);)*
        }
    };
}

targets! {
    falcon: "../fuzz/fuzz_targets/falcon.rs", 200_000;
    falcon_boot: "../fuzz/fuzz_targets/falcon_boot.rs", 2_000;
    hid_haptic: "../fuzz/fuzz_targets/hid_haptic.rs", 200_000;
    spacemouse: "../fuzz/fuzz_targets/spacemouse.rs", 20_000;
}

#[test]
fn no_target_is_left_out() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let manifest = std::fs::read_to_string(dir.join("Cargo.toml")).expect("a manifest");
    let mut found = Vec::new();
    for file in std::fs::read_dir(dir.join("fuzz_targets")).expect("targets") {
        let path = file.expect("a file").path();
        if path.extension().is_none_or(|e| e != "rs") {
            continue;
        }
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        assert!(
            manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")),
            "{name} is not in fuzz/Cargo.toml"
        );
        found.push(name);
    }
    found.sort();
    assert_eq!(found, KNOWN);
}
