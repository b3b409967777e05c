//! Loom runs `src/scene/exchange.rs` itself through every interleaving and every stale read that the memory model
//! allows. Each of its four orderings, weakened to `Relaxed`, must be caught.
//!
//! The file is compiled here beside a shim of loom's atomics, so it runs in an ordinary `cargo test`.

#![allow(missing_docs, clippy::duplicate_mod)]

/// One copy of the exchange with the given orderings.
macro_rules! exchange_with {
    ($name:ident, $publish:ident, $take:ident, $give_back:ident, $collect:ident) => {
        #[path = "."]
        mod $name {
            mod atomic {
                pub use loom::sync::Arc;
                pub use loom::sync::atomic::AtomicPtr;
                use std::sync::atomic::Ordering;
                pub const PUBLISH: Ordering = Ordering::$publish;
                pub const TAKE: Ordering = Ordering::$take;
                pub const GIVE_BACK: Ordering = Ordering::$give_back;
                pub const COLLECT: Ordering = Ordering::$collect;
            }
            #[allow(dead_code)]
            #[path = "../src/scene/exchange.rs"]
            mod exchange;

            /// A publisher of `n` values against a servo that tries to adopt `m` times, ring of `returns`.
            pub fn run(n: u64, m: usize, returns: usize) {
                use exchange::Adoption;
                loom::model(move || {
                    let live = std::sync::Arc::new(std::sync::atomic::AtomicI64::new(0));
                    let (mut publisher, mut adopter) = exchange::exchange::<super::Value>(returns);
                    let servo = loom::thread::spawn(move || {
                        let (mut adopted, mut last) = (0u64, 0);
                        for _ in 0..m {
                            let what = adopter.adopt();
                            if let Some(value) = adopter.current() {
                                let generation = value.read();
                                assert_eq!(what == Adoption::Adopted, generation > last);
                                adopted += u64::from(what == Adoption::Adopted);
                                last = generation;
                            }
                        }
                        (adopter, adopted, last)
                    });
                    let mut superseded = 0;
                    for generation in 1..=n {
                        superseded +=
                            u64::from(publisher.publish(super::Value::new(generation, &live)).is_some());
                        drop(publisher.collect());
                    }
                    let (mut adopter, mut adopted, last) = servo.join().unwrap();
                    drop(publisher.collect());
                    if adopter.adopt() == Adoption::Adopted {
                        adopted += 1;
                        assert!(adopter.current().unwrap().read() > last);
                    }
                    assert_eq!(adopter.current().unwrap().read(), n, "the last publish is adopted");
                    assert_eq!(adopted + superseded, n);
                    drop((publisher, adopter));
                    assert_eq!(live.load(std::sync::atomic::Ordering::Relaxed), 0, "every value is freed");
                });
            }
        }
    };
}

/// A value that loom watches: unsynchronised access or a free that races with a read panics.
struct Value {
    generation: loom::cell::UnsafeCell<u64>,
    live: std::sync::Arc<std::sync::atomic::AtomicI64>,
}

// SAFETY: loom checks every access; that is the test.
unsafe impl Sync for Value {}
// SAFETY: as above.
unsafe impl Send for Value {}

impl Value {
    fn new(generation: u64, live: &std::sync::Arc<std::sync::atomic::AtomicI64>) -> Box<Self> {
        live.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let value = Box::new(Self { generation: loom::cell::UnsafeCell::new(0), live: live.clone() });
        // Written after construction, as a scene is: seen whole only through the exchange's ordering.
        // SAFETY: not shared yet; loom checks.
        value.generation.with_mut(|g| unsafe { *g = generation });
        value
    }

    fn read(&self) -> u64 {
        // SAFETY: loom checks that no write is concurrent.
        self.generation.with(|g| unsafe { *g })
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.live.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        if std::thread::panicking() {
            return; // loom has found its violation and unwinds
        }
        // A free is a write: it must come after the servo's last read.
        // SAFETY: loom checks that no read is concurrent.
        self.generation.with_mut(|g| unsafe { *g = u64::MAX });
    }
}

exchange_with!(sound, Release, Acquire, Release, Acquire);
exchange_with!(weak_publish, Relaxed, Acquire, Release, Acquire);
exchange_with!(weak_take, Release, Relaxed, Release, Acquire);
exchange_with!(weak_give_back, Release, Acquire, Relaxed, Acquire);
exchange_with!(weak_collect, Release, Acquire, Release, Relaxed);

#[test]
fn every_interleaving_is_sound() {
    sound::run(3, 3, 2);
}

#[test]
fn a_full_return_ring_leaves_the_mailbox_alone() {
    sound::run(3, 3, 1);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_relaxed_publish_is_caught() {
    weak_publish::run(2, 2, 2);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_relaxed_take_is_caught() {
    weak_take::run(2, 2, 2);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_relaxed_give_back_is_caught() {
    weak_give_back::run(3, 3, 2);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_relaxed_collect_is_caught() {
    weak_collect::run(3, 3, 2);
}
