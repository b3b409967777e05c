//! Large pages for a field: fewer misses in the address translation.

use super::Field;

/// Size of a large page on x86-64 and most arm64 kernels, bytes.
const LARGE_PAGE: usize = 2 << 20;
/// `MADV_COLLAPSE` of Linux 6.1, missing in older headers (include/uapi/asm-generic/mman-common.h).
const MADV_COLLAPSE: i32 = 25;

impl Field {
    /// Asks the kernel to put the samples on large pages, now where it can (Linux 6.1), else in time. A query of
    /// 10,000 points on a 256^3 field touches more 4 KiB pages than the CPU's translation cache holds. Only a hint:
    /// false where the kernel refuses it. For the control side after a build or load, before the field is shared with
    /// the servo: it may copy the whole field.
    pub fn advise_large_pages(&self) -> bool {
        let mut advised = false;
        for part in self.memory() {
            let start = (part.as_ptr() as usize).next_multiple_of(LARGE_PAGE);
            let end = (part.as_ptr() as usize + part.len()) / LARGE_PAGE * LARGE_PAGE;
            if start >= end {
                continue;
            }
            // SAFETY: the range lies within this field's own allocation; both requests leave its contents as they are.
            advised |= unsafe {
                let hinted = libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) == 0;
                libc::madvise(start as *mut libc::c_void, end - start, MADV_COLLAPSE) == 0 || hinted
            };
        }
        advised
    }
}

#[cfg(test)]
mod tests {
    use super::super::Field;
    use crate::geometry::Point;

    #[test]
    fn the_samples_stay_what_they_are() {
        let make = || Field::from_fn(Point::origin(), 0.001, [130, 120, 150], |p| p.x - p.y * 0.5 + p.z);
        let field = make();
        println!("large pages: {}", field.advise_large_pages());
        assert_eq!(field, make());
        assert!(!Field::from_fn(Point::origin(), 0.1, [4, 4, 4], |p| p.x).advise_large_pages());
    }
}
