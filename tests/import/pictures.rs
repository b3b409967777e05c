//! The pictures that `hapticd inspect` draws, decoded: what is to be seen on them is where the body is.

use super::inspect::{err, inspect, out};
use hapticd::geometry::{Vec3, shapes};
use std::f64::consts::PI;
use std::path::Path;

/// A picture: width, height, and three bytes a pixel.
struct Picture {
    width: usize,
    height: usize,
    rgb: Vec<u8>,
}

impl Picture {
    fn read(file: &Path) -> Self {
        let mut reader = png::Decoder::new(std::fs::File::open(file).unwrap()).read_info().unwrap();
        let mut rgb = vec![0; reader.output_buffer_size()];
        let info = reader.next_frame(&mut rgb).unwrap();
        assert_eq!((info.color_type, info.bit_depth), (png::ColorType::Rgb, png::BitDepth::Eight));
        Self { width: info.width as usize, height: info.height as usize, rgb }
    }

    fn at(&self, x: usize, y: usize) -> [u8; 3] {
        std::array::from_fn(|c| self.rgb[3 * (x + self.width * y) + c])
    }

    /// Pixels of a rectangle [x, y] to [x, y] for which `is` holds.
    fn count(
        &self,
        [left, top]: [usize; 2],
        [right, bottom]: [usize; 2],
        is: impl Fn([u8; 3]) -> bool,
    ) -> usize {
        (top..bottom).map(|y| (left..right).filter(|&x| is(self.at(x, y))).count()).sum()
    }

    fn all(&self, is: impl Fn([u8; 3]) -> bool) -> usize {
        self.count([0, 0], [self.width, self.height], is)
    }
}

fn drawn(colour: [u8; 3]) -> bool {
    colour != [255; 3]
}

/// A cut is 1,000 pixels wide at most, with a margin of 20; the longer side of a body's cut fills what is left.
const MARGIN: usize = 20;

#[test]
fn the_inner_spheres_are_told_and_drawn_where_they_are() {
    let dir = tempfile::tempdir().unwrap();
    // Hardly anything fits into a ball beside the one sphere that fills it.
    std::fs::write(dir.path().join("ball.stl"), shapes::write_stl(&shapes::icosphere(50.0, 4))).unwrap();
    let args = ["ball.stl", "--unit", "mm", "--cells", "0", "--ist", "1", "--png", "ball.png"];
    let got = inspect(dir.path(), &args);
    assert!(got.status.success(), "{}", err(&got));
    assert!(out(&got).contains("spheres:    1 fill"), "{}", out(&got));
    let picture = Picture::read(&dir.path().join("ball.png"));
    assert!((998..=1000).contains(&picture.width) && (998..=1000).contains(&picture.height));
    let (seen, disc) = (picture.all(drawn) as f64, PI * 480f64.powi(2));
    assert!((seen / disc - 1.0).abs() < 0.03, "{seen} pixels of {disc}");
    assert!(drawn(picture.at(500, 500)) && !drawn(picture.at(60, 60)) && !drawn(picture.at(940, 940)));

    // A slab of 100 x 60 x 20 mm: seen across its shortest side it is 960 x 576 pixels, and its largest spheres are 192 wide.
    let slab = shapes::cuboid(Vec3::new(100.0, 60.0, 20.0));
    std::fs::write(dir.path().join("slab.stl"), shapes::write_stl(&slab)).unwrap();
    let args = ["slab.stl", "--unit", "mm", "--cells", "0", "--ist", "2000"];
    let got = inspect(dir.path(), &[&args[..], &["--png", "slab.png"]].concat());
    assert!(got.status.success(), "{}", err(&got));
    let picture = Picture::read(&dir.path().join("slab.png"));
    let (width, height) = (picture.width, picture.height);
    assert!((998..=1000).contains(&width) && (614..=616).contains(&height), "{width} x {height}");
    let inner = [MARGIN - 2, MARGIN - 2];
    let within = picture.count(inner, [width - inner[0], height - inner[1]], drawn);
    assert_eq!(picture.all(drawn), within, "spheres beside the body");
    // Discs that do not overlap leave a tenth and more of the plane; the largest alone cover a third of it.
    let part = within as f64 / (960.0 * 576.0);
    assert!(part > 0.5 && part < 0.97, "{part}");
    // All over it: no tenth of the length without.
    for tenth in 0..10 {
        let from = MARGIN + 96 * tenth;
        let some = picture.count([from, MARGIN], [from + 96, height - MARGIN], drawn) as f64;
        assert!(some > 0.3 * 96.0 * 576.0, "{tenth}: {some}");
    }

    // The figures: spheres that lie apart inside fill less than all; the largest fits between the faces and nearly fills their gap.
    let json = inspect(dir.path(), &[&args[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let figures = &json["ist"];
    let number = |key: &str| figures[key].as_f64().unwrap_or_else(|| panic!("{key}: {json}"));
    assert!(number("spheres") > 1000.0 && number("spheres") <= 2000.0, "{figures}");
    assert!(number("fill") > 0.6 && number("fill") < 1.0 && figures["exact"] == true, "{figures}");
    assert!(number("largest_m") <= 0.01 + 1e-6 && number("largest_m") > 0.0095, "{figures}");
    assert!(number("smallest_m") > 0.0 && number("smallest_m") <= number("largest_m"), "{figures}");
    // Ended before: at a fill, at a radius, and where the cells run out before the fill.
    let until = |more: &[&str]| {
        let got = inspect(dir.path(), &[&args[..], &["--json"], more].concat());
        assert!(got.status.success(), "{}", err(&got));
        serde_json::from_slice::<serde_json::Value>(&got.stdout).unwrap()["ist"].clone()
    };
    let half = until(&["--fill", "0.5"]);
    let fill = half["fill"].as_f64().unwrap();
    assert!((0.5..0.6).contains(&fill) && half["fill_missed"].is_null(), "{half}");
    assert!(
        half["spheres"].as_f64().unwrap() < number("spheres") && half["cells"] == figures["cells"],
        "{half}"
    );
    let large = until(&["--smallest-radius-mm", "2", "--split", "median"]);
    assert!(large["smallest_m"].as_f64().is_some_and(|r| (0.002..0.003).contains(&r)), "{large}");
    assert_eq!(until(&["--fill", "1"])["fill_missed"], 1.0);
    let text = inspect(dir.path(), &[&args[..], &["--fill", "1"]].concat());
    assert!(out(&text).contains("the cells ran out before 100.0 %"), "{}", out(&text));
    // All of the volume is in cells: as many as it takes, and those that the surface cuts.
    let cells = 100e-3 * 60e-3 * 20e-3 / number("cell_m").powi(3);
    assert!(number("cells") >= cells && number("cells") < 2.5 * cells, "{figures}: {cells}");
    assert!(
        number("depth") >= 2.0 && number("nodes") > 10.0 && number("memory_bytes") > 64.0 * number("nodes")
    );
    assert!(number("build_s") > 0.0);
}

#[test]
fn field_and_points_are_drawn_where_they_are() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("ball.stl"), shapes::write_stl(&shapes::icosphere(50.0, 4))).unwrap();
    let args = ["ball.stl", "--unit", "mm", "--cells", "0", "--vps", "--points", "3000", "--voxel", "0.002"];
    let got = inspect(dir.path(), &[&args[..], &["--png", "cut.png"]].concat());
    assert!(got.status.success(), "{}", err(&got));
    let picture = Picture::read(&dir.path().join("cut.png"));
    assert!((998..=1000).contains(&picture.width) && (998..=1000).contains(&picture.height));
    // Blue inside, grey outside, by the exact circle of 480 pixels; points and their normals are red.
    let red = |[r, g, b]: [u8; 3]| r > 150 && g < 120 && b < 60;
    let blue = |[r, _, b]: [u8; 3]| i32::from(b) > i32::from(r) + 15;
    let (mut wrong, mut seen, mut near) = (0, 0, 0);
    for y in 0..picture.height {
        for x in 0..picture.width {
            let off = (x as f64 - 500.0).hypot(y as f64 - 500.0) - 480.0;
            let colour = picture.at(x, y);
            if red(colour) {
                // A point lies on the surface, its normal is 12 pixels long and points inwards; the cut shows points a little above and
                // below it, which are nearer to the middle.
                near += 1;
                assert!(off < 5.0 && off > -25.0, "a point at {x}, {y}: {off} pixels beyond the surface");
            } else if off.abs() > 4.0 {
                seen += 1;
                wrong += usize::from(blue(colour) != (off < 0.0));
            }
        }
    }
    assert!(wrong * 200 < seen, "{wrong} of {seen} pixels are on the wrong side");
    // Points 3.2 mm apart, in a slice as thick: a hundred, each with a dot of 13 pixels and a line.
    assert!(near > 1000 && near < 6000, "{near}");
}
