//! The exchange on real threads: counts, order, and no leak. (`exchange.rs` itself is also compiled under loom.)

use super::exchange::{Adoption, exchange};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

struct Counted {
    generation: u64,
    live: Arc<AtomicI64>,
}

impl Counted {
    fn new(generation: u64, live: &Arc<AtomicI64>) -> Box<Self> {
        live.fetch_add(1, Ordering::SeqCst);
        Box::new(Self { generation, live: live.clone() })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn ten_thousand_publishes_against_a_running_servo() {
    const N: u64 = 10_000;
    let live = Arc::new(AtomicI64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let (mut publisher, mut adopter) = exchange::<Counted>(4);
    let servo = std::thread::spawn({
        let stop = stop.clone();
        move || {
            let (mut adopted, mut last, mut full) = (0u64, 0u64, 0u64);
            loop {
                let stopping = stop.load(Ordering::SeqCst);
                match adopter.adopt() {
                    Adoption::Adopted => {
                        let generation = adopter.current().unwrap().generation;
                        assert!(generation > last, "{generation} after {last}");
                        (adopted, last) = (adopted + 1, generation);
                    }
                    Adoption::ReturnFull => full += 1,
                    Adoption::Unchanged if stopping => return (adopter, adopted, last, full),
                    Adoption::Unchanged => std::hint::spin_loop(),
                }
            }
        }
    });
    let mut superseded = 0;
    for generation in 1..=N {
        superseded += u64::from(publisher.publish(Counted::new(generation, &live)).is_some());
        // Sometimes the ring fills up before it is emptied.
        if generation % 7 == 0 {
            while publisher.collect().is_some() {}
        }
        if generation % 64 == 0 {
            std::thread::yield_now();
        }
    }
    stop.store(true, Ordering::SeqCst);
    while !servo.is_finished() {
        drop(publisher.collect());
    }
    let (adopter, adopted, last, full) = servo.join().unwrap();
    while publisher.collect().is_some() {}
    assert_eq!(adopted + superseded, N, "adopted {adopted}, superseded {superseded}, full {full}");
    assert_eq!(last, N, "the last publish is adopted");
    assert_eq!(live.load(Ordering::SeqCst), 1, "only the value in use lives");
    drop((publisher, adopter));
    assert_eq!(live.load(Ordering::SeqCst), 0, "nothing leaks");
}

#[test]
fn a_full_ring_keeps_the_old_value_until_it_is_emptied() {
    let live = Arc::new(AtomicI64::new(0));
    let (mut publisher, mut adopter) = exchange::<Counted>(1);
    assert_eq!(adopter.adopt(), Adoption::Unchanged);
    for generation in 1..=2 {
        assert!(publisher.publish(Counted::new(generation, &live)).is_none());
        assert_eq!(adopter.adopt(), Adoption::Adopted);
    }
    assert!(publisher.publish(Counted::new(3, &live)).is_none());
    assert_eq!(adopter.adopt(), Adoption::ReturnFull);
    assert_eq!(adopter.current().unwrap().generation, 2);
    assert_eq!(publisher.publish(Counted::new(4, &live)).unwrap().generation, 3);
    assert_eq!(publisher.collect().unwrap().generation, 1);
    assert!(publisher.collect().is_none());
    assert_eq!(adopter.adopt(), Adoption::Adopted);
    assert_eq!(adopter.current().unwrap().generation, 4);
    drop(adopter);
    assert_eq!(publisher.collect().unwrap().generation, 2);
    drop(publisher);
    assert_eq!(live.load(Ordering::SeqCst), 0);
}

#[test]
fn whichever_end_goes_last_frees_what_is_left() {
    for publisher_first in [true, false] {
        let live = Arc::new(AtomicI64::new(0));
        let (mut publisher, mut adopter) = exchange::<Counted>(2);
        for generation in 1..=3 {
            publisher.publish(Counted::new(generation, &live));
            adopter.adopt();
        }
        publisher.publish(Counted::new(4, &live));
        if publisher_first {
            drop(publisher);
            drop(adopter);
        } else {
            drop(adopter);
            drop(publisher);
        }
        assert_eq!(live.load(Ordering::SeqCst), 0);
    }
}
