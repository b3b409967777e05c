//! The servo as a whole: the real tick on the virtual clock against devices and scenes, and the proofs that it neither
//! touches the heap nor the kernel.

#[path = "servo/anew.rs"]
mod anew;
#[path = "servo/attached.rs"]
mod attached;
#[path = "servo/behind.rs"]
mod behind;
#[path = "servo/braking.rs"]
mod braking;
#[path = "servo/cone.rs"]
mod cone;
#[path = "servo/coupled.rs"]
mod coupled;
#[path = "servo/crash.rs"]
mod crash;
#[path = "servo/delay.rs"]
mod delay;
#[path = "servo/device.rs"]
mod device;
#[path = "servo/effects.rs"]
mod effects;
#[path = "servo/endurance.rs"]
mod endurance;
#[path = "servo/energy.rs"]
mod energy;
#[path = "servo/facets.rs"]
mod facets;
#[path = "servo/fade.rs"]
mod fade;
#[path = "servo/faults.rs"]
mod faults;
#[path = "servo/friction.rs"]
mod friction;
#[path = "servo/grip.rs"]
mod grip;
#[path = "servo/heap.rs"]
mod heap;
#[path = "servo/idle.rs"]
mod idle;
#[path = "servo/isolation.rs"]
mod isolation;
#[path = "servo/lapse.rs"]
mod lapse;
#[path = "servo/lapses.rs"]
mod lapses;
#[path = "servo/lifecycle.rs"]
mod lifecycle;
#[path = "servo/lists.rs"]
mod lists;
#[path = "servo/many.rs"]
mod many;
#[path = "servo/matrix.rs"]
mod matrix;
#[path = "servo/own.rs"]
mod own;
#[path = "servo/pin.rs"]
mod pin;
#[path = "servo/presets.rs"]
mod presets;
#[path = "servo/ramp.rs"]
mod ramp;
#[path = "servo/ripple.rs"]
mod ripple;
#[path = "servo/sealed.rs"]
mod sealed;
#[path = "servo/several.rs"]
mod several;
#[path = "servo/sharp.rs"]
mod sharp;
#[path = "meshes/sheets.rs"]
mod sheets;
#[path = "servo/spheres.rs"]
mod spheres;
#[path = "servo/stability.rs"]
mod stability;
#[path = "servo/stream.rs"]
mod stream;
#[path = "servo/texture.rs"]
mod texture;
#[path = "servo/thread.rs"]
mod thread;
#[path = "servo/view.rs"]
mod view;
#[path = "servo/walls.rs"]
mod walls;
#[path = "servo/world.rs"]
mod world;

/// Counts heap operations of every thread of this test binary.
#[global_allocator]
static ALLOCATOR: hapticd::servo::heap::CountingAllocator = hapticd::servo::heap::CountingAllocator;
