//! Places along a space-filling curve (Morton 1966): bits of the coordinates, interleaved.

/// The place of (x, y, z), each of 21 bits at most; x has the lowest bit.
pub(crate) fn morton([x, y, z]: [u32; 3]) -> u64 {
    spread(x) | spread(y) << 1 | spread(z) << 2
}

/// The lowest 21 bits, two zero bits after each.
fn spread(v: u32) -> u64 {
    let v = u64::from(v) & 0x1F_FFFF;
    let v = (v | v << 32) & 0x001F_0000_0000_FFFF;
    let v = (v | v << 16) & 0x001F_0000_FF00_00FF;
    let v = (v | v << 8) & 0x100F_00F0_0F00_F00F;
    let v = (v | v << 4) & 0x10C3_0C30_C30C_30C3;
    (v | v << 2) & 0x1249_2492_4924_9249
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bit_goes_to_its_place() {
        assert_eq!(spread(0b11_1111_1111), 0b1001_0010_0100_1001_0010_0100_1001);
        for bit in 0..21 {
            for axis in 0..3 {
                let mut at = [0; 3];
                at[axis] = 1 << bit;
                assert_eq!(morton(at), 1 << (3 * bit + axis as u64));
            }
        }
        assert_eq!(morton([0x1F_FFFF; 3]), (1 << 63) - 1);
    }
}
