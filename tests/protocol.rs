//! Wire formats: golden byte vectors, golden JSON, refusals, and the examples in `docs/protocol.md`.
//!
//! The golden datagrams were packed by Python's `struct` and sealed by a BLAKE3 written from the specification
//! (checked against the official vectors of the BLAKE3 repository), not by this crate.

use hapticd::protocol::datagram::*;
use hapticd::protocol::edit::*;
use hapticd::protocol::messages::*;
use hapticd::protocol::rpc::*;
use hapticd::protocol::telemetry::State;
use proptest::prelude::*;
use serde_json::json;

const SESSION: u64 = 0x0001_0203_0405_0607;

const MOTION: &str = "485054430100010000007800feffffff070605040302010079df0d8648700000030001004000000007\
    00000000000000000000000000d03f000000000000e0bf000000000000c03f0000000000000000333333333333e33f000000000000\
    00009a9999999999e93fcb1d08e1ce65c76ce349bd61e6faf1af";
const STATE: &str = "4850544301000200000038010900000007060504030201000500000000000000000001000001\
    0000e80300000000000000ca9a3b000000002a0000000000000011000000000000000500000000000000050000004000000001000000\
    0700000001000200b80b00007b14ae47e17a843f7b14ae47e17a94bfb81e85eb51b89e3f0000000000000000333333333333e33f\
    00000000000000009a9999999999e93f9a9999999999b93f00000000000000009a9999999999b9bf0000000000000000000000000000\
    f03f0000000000000000000000000000000000000000000004400000000000000000000000000000c03f000000000000000000000000\
    00000000fca9f1d24d62503f000000000000f07f0000000000709740000000000000e03f50460000000000005276a574677f0c9f0733\
    1c3246dfd174";
const ATTACH: &str = "4850544301000300000038000000000007060504030201004d00000000000000000000000000\
    0000c4f6fd5afed09d77572ff453c8969520";

fn key() -> [u8; KEY] {
    std::array::from_fn(|i| i as u8)
}

fn unhex(s: &str) -> Vec<u8> {
    let digits: Vec<u8> = s.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|p| u8::from_str_radix(std::str::from_utf8(p).expect("ascii"), 16).expect("hex"))
        .collect()
}

fn pose() -> MotionPose {
    MotionPose { object: 7, position: [0.25, -0.5, 0.125], orientation: [0.0, 0.6, 0.0, 0.8] }
}

fn state() -> State {
    State {
        tick: 1000,
        time_ns: 1_000_000_000,
        generation: 42,
        motion_seq: 17,
        lost: 5,
        state: 5,
        flags: 64,
        buttons: 1,
        deepest: 7,
        touched: 1,
        queried: 2,
        work: 3000,
        position: [0.01, -0.02, 0.03],
        orientation: [0.0, 0.6, 0.0, 0.8],
        velocity: [0.1, 0.0, -0.1],
        angular_velocity: [0.0, 1.0, 0.0],
        force: [0.0, 2.5, 0.0],
        torque: [0.125, 0.0, 0.0],
        depth: 0.001,
        distance: f64::INFINITY,
        stiffness: 1500.0,
        ramp: 0.5,
        compute_ns: 18_000,
        ..State::default()
    }
}

/// Seals a tampered datagram again, so that only the check under test can refuse it.
fn reseal(bytes: &mut [u8]) {
    let end = bytes.len() - MAC;
    let tag = mac(&key(), &bytes[..end]);
    bytes[end..].copy_from_slice(&tag);
}

#[test]
fn blake3_keyed_mode_gives_the_official_vectors() {
    // https://github.com/BLAKE3-team/BLAKE3/blob/master/test_vectors/test_vectors.json, input_len 0 and 1.
    let key = *b"whats the Elvish word for friend";
    assert_eq!(mac(&key, b"").to_vec(), unhex("92b2b75604ed3c761f9d6f62392c8a92"));
    assert_eq!(mac(&key, b"\0").to_vec(), unhex("6d7878dfff2f485635d39013278ae14f"));
}

#[test]
fn golden_datagrams_are_written_byte_for_byte() {
    let key = key();
    let mut out = [0xAA; MAX_DATAGRAM];
    let sender = Sender { session: SESSION, key: &key, stream: 3 };
    let n = sender.motion(0xFFFF_FFFE, 123_456_789_012_345, &[pose()], &mut out).expect("one pose");
    assert_eq!(out[..n], unhex(MOTION));
    let sender = Sender { session: SESSION, key: &key, stream: 0 };
    let n = sender.state(9, 5, &state(), &mut out);
    assert_eq!(out[..n], unhex(STATE));
    let n = sender.attach(0, 77, &mut out);
    assert_eq!(out[..n], unhex(ATTACH));
}

#[test]
fn golden_datagrams_are_read_back() {
    let bytes = unhex(MOTION);
    let d = Datagram::parse(&bytes).expect("motion");
    d.verify(&key()).expect("mac");
    let h = d.header;
    assert_eq!((h.kind, h.seq, h.session, h.stream), (Kind::Motion, 0xFFFF_FFFE, SESSION, 3));
    assert_eq!(h.time_ns, 123_456_789_012_345);
    let mut poses = [pose(); MAX_POSES];
    poses[0].object = 0;
    assert_eq!(d.poses(&mut poses), Ok(1));
    assert_eq!(poses[0], pose());

    let bytes = unhex(STATE);
    let d = Datagram::parse(&bytes).expect("state");
    d.verify(&key()).expect("mac");
    assert_eq!(d.state(), Ok(state()));

    let bytes = unhex(ATTACH);
    let d = Datagram::parse(&bytes).expect("attach");
    d.verify(&key()).expect("mac");
    assert_eq!((d.header.kind, d.header.count), (Kind::Attach, 0));
}

#[test]
fn each_fault_is_refused_under_its_own_name() {
    let good = unhex(MOTION);
    let check = |edit: &dyn Fn(&mut Vec<u8>)| {
        let mut b = good.clone();
        edit(&mut b);
        Datagram::parse(&b).map(|_| ())
    };
    assert_eq!(check(&|_| ()), Ok(()));
    assert_eq!(check(&|b| b[0] = b'h'), Err(WireError::Magic));
    assert_eq!(check(&|b| b[4] = 0), Err(WireError::Version));
    assert_eq!(check(&|b| b[4] = 2), Err(WireError::Version));
    assert_eq!(check(&|b| b[6] = 9), Err(WireError::Kind));
    assert_eq!(check(&|b| b[8] = 1), Err(WireError::Reserved));
    assert_eq!(check(&|b| b[38] = 1), Err(WireError::Reserved));
    assert_eq!(check(&|b| b[10] += 1), Err(WireError::Length));
    assert_eq!(check(&|b| b[34] = 2), Err(WireError::Length), "more entries than bytes");
    assert_eq!(check(&|b| b[34] = 0), Err(WireError::Length), "no entry");
    assert_eq!(check(&|b| b[36] = 63), Err(WireError::Length), "short entries");
    assert_eq!(check(&|b| b.push(0)), Err(WireError::Length), "trailing byte");
    assert_eq!(check(&|b| b.truncate(119)), Err(WireError::Length));
    assert_eq!(check(&|b| b.truncate(3)), Err(WireError::Length));
    assert_eq!(check(&|b| b.clear()), Err(WireError::Length));
    assert_eq!(check(&|b| b.resize(1201, 0)), Err(WireError::Length));
    // Written on a big-endian machine: magic the same, everything else swapped.
    assert_eq!(check(&|b| b.swap(6, 7)), Err(WireError::Kind));
}

#[test]
fn every_flipped_bit_is_caught() {
    for good in [MOTION, STATE, ATTACH].map(unhex) {
        for bit in 0..good.len() * 8 {
            let mut b = good.clone();
            b[bit / 8] ^= 1 << (bit % 8);
            let refused = match Datagram::parse(&b) {
                Err(_) => true,
                Ok(d) => d.verify(&key()).is_err(),
            };
            assert!(refused, "flipped bit {bit} went unnoticed");
        }
    }
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    let with = |at: usize, x: f64| {
        let mut b = unhex(MOTION);
        b[at..at + 8].copy_from_slice(&x.to_le_bytes());
        reseal(&mut b);
        let d = Datagram::parse(&b).expect("header holds");
        d.verify(&key()).expect("sealed");
        d.poses(&mut [pose(); MAX_POSES])
    };
    let (position, w) = (HEADER + 8, HEADER + 56);
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(with(position, bad), Err(WireError::NonFinite));
        assert_eq!(with(w, bad), Err(WireError::NonFinite));
    }
    assert!(with(position, -1000.0).is_ok());
    for far in [1000.1, -1e4, 1e300] {
        for axis in 0..3 {
            assert_eq!(with(position + 8 * axis, far), Err(WireError::Range), "{far}");
        }
    }
    // |q| = sqrt(0.36 + w^2): these w put it just inside and just outside 1 +- 1e-3.
    let at = |norm: f64| (norm * norm - 0.36_f64).sqrt();
    assert_eq!(with(w, at(1.0009)), Ok(1));
    assert_eq!(with(w, at(0.9991)), Ok(1));
    assert_eq!(with(w, at(1.0011)), Err(WireError::Norm));
    assert_eq!(with(w, at(0.9989)), Err(WireError::Norm));
    assert_eq!(with(w, 1e308), Err(WireError::Norm));
    assert_eq!(unit([0.0; 4]), Err(WireError::Norm));
}

#[test]
fn an_accepted_quaternion_is_normalised() {
    let q = unit([0.0, 0.6005, 0.0, 0.8]).expect("within tolerance");
    let n: f64 = q.iter().map(|c| c * c).sum();
    assert!((n - 1.0).abs() < 1e-15, "{n}");
}

#[test]
fn a_newer_minor_may_append_to_entries() {
    let old = unhex(MOTION);
    let mut b = old[..HEADER + MOTION_ENTRY].to_vec();
    b.extend_from_slice(&[0xEE; 8]);
    b.extend_from_slice(&[0; MAC]);
    b[5] = 1;
    b[8] = 4;
    let total = b.len() as u16;
    b[10..12].copy_from_slice(&total.to_le_bytes());
    b[36] = 72;
    reseal(&mut b);
    let d = Datagram::parse(&b).expect("newer minor");
    d.verify(&key()).expect("sealed");
    let mut poses = [MotionPose { object: 0, ..pose() }; MAX_POSES];
    assert_eq!(d.poses(&mut poses), Ok(1));
    assert_eq!(poses[0], pose());
}

#[test]
fn a_full_datagram_fits() {
    let key = key();
    let sender = Sender { session: 1, key: &key, stream: 0 };
    let mut out = [0; MAX_DATAGRAM];
    let poses = [pose(); MAX_POSES];
    let n = sender.motion(1, 2, &poses, &mut out).expect("fits");
    let mut back = [MotionPose { object: 0, ..pose() }; MAX_POSES];
    assert_eq!(Datagram::parse(&out[..n]).expect("parses").poses(&mut back), Ok(MAX_POSES));
    assert_eq!(back, poses);
    assert!(sender.motion(1, 2, &[pose(); MAX_POSES + 1], &mut out).is_none());
    assert!(sender.motion(1, 2, &[], &mut out).is_none());
}

proptest! {
    #[test]
    fn any_bytes_are_survived(mut b in prop::collection::vec(any::<u8>(), 0..1300), dress: bool) {
        if dress && b.len() >= 40 {
            b[0..4].copy_from_slice(&MAGIC);
            b[4] = 1;
            b[7] = 0;
            let n = b.len() as u16;
            b[10..12].copy_from_slice(&n.to_le_bytes());
        }
        if let Ok(d) = Datagram::parse(&b) {
            prop_assert!(d.verify(&key()).is_err());
            let _ = d.state();
            let _ = d.poses(&mut [pose(); MAX_POSES]);
        }
    }

    #[test]
    fn any_line_is_survived(b in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse_request(&b);
    }

    #[test]
    fn poses_come_back_bit_for_bit(p in prop::array::uniform3(-1e3_f64..1e3), id: u32, seq: u32) {
        let key = key();
        let sent = MotionPose { object: id, position: p, orientation: [0.0, 0.0, 0.0, 1.0] };
        let mut out = [0; MAX_DATAGRAM];
        let n = Sender { session: 1, key: &key, stream: 2 }.motion(seq, 3, &[sent], &mut out).expect("one");
        let d = Datagram::parse(&out[..n]).expect("parses");
        let mut back = [pose(); MAX_POSES];
        prop_assert_eq!(d.poses(&mut back), Ok(1));
        prop_assert_eq!(back[0], sent);
        prop_assert_eq!(d.header.seq, seq);
    }
}

/// Whether null wants an answer cannot be told, so it is refused rather than carried out in silence.
#[test]
fn an_id_of_null_is_refused() {
    let (id, e) = parse_request(br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#).expect_err("refused");
    assert_eq!((id, e.code), (None, codes::INVALID_REQUEST));
    assert!(e.message.contains("neither a whole number nor a string"), "{e}");
    assert_eq!(parse_request(br#"{"jsonrpc":"2.0","method":"ping"}"#).expect("a notification").id, None);
}

#[test]
fn golden_json_requests() {
    let line = br#"{"jsonrpc":"2.0","id":1,"method":"hello","params":{"min":1,"max":1,"client":"demo"}}"#;
    let r = parse_request(line).expect("a request");
    assert_eq!((r.id, r.method.as_str()), (Some(Id::Number(1)), "hello"));
    let h: Hello = serde_json::from_value(r.params).expect("hello");
    assert_eq!(h, Hello { min: 1, max: 1, client: "demo".into(), token: None, role: None });

    let text = r#"{"edits":[
        {"op":"material.set","name":"wood","stiffness":800.0},
        {"op":"mesh.load","name":"bunny","source":{"path":"/srv/bunny.ply"},"format":"ply","unit":"m",
         "resolution":{"longest":128}},
        {"op":"mesh.load","name":"b2","source":"descriptor","format":"stl","unit":"mm","scale":2.0,"strict":true},
        {"op":"object.create","name":"b","mesh":"bunny","material":"wood",
         "pose":{"position":[0.0,0.1,0.0],"orientation":[0.0,0.0,0.0,1.0]},"moving":true},
        {"op":"object.update","object":"b","pose":{"position":[0.0,0.2,0.0]},"method":"ist","shell":"object",
         "proxy":"mesh"},
        {"op":"object.delete","object":7},
        {"op":"tool.set","tool":{"sphere":{"radius":0.005}}},
        {"op":"device.place","scale":2.0}],"expect_generation":4}"#;
    let t: Transaction = serde_json::from_str(text).expect("a transaction");
    assert_eq!(t.edits.len(), 8);
    assert_eq!(t.expect_generation, Some(4));
    assert_eq!(
        t.edits[4],
        Edit::ObjectUpdate {
            object: ObjectRef::Name("b".into()),
            material: None,
            pose: Some(PoseJson { position: [0.0, 0.2, 0.0], orientation: [0.0, 0.0, 0.0, 1.0] }),
            mesh: None,
            scale: None,
            resolution: None,
            method: Some(MethodName::Ist),
            shell: Some(ShellName::Object),
            proxy: Some(ProxyName::Mesh),
            moving: None,
            persistent: None,
        }
    );
    assert_eq!(t.edits[5], Edit::ObjectDelete { object: ObjectRef::Id(7) });
    assert_eq!(
        t.edits[6],
        Edit::ToolSet { tool: ToolJson::Sphere { radius: 0.005, offset: None }, device: None }
    );
    // Written and read again, it is the same.
    let again: Transaction =
        serde_json::from_value(serde_json::to_value(&t).expect("writes")).expect("reads");
    assert_eq!(again, t);
}

#[test]
fn golden_json_answers() {
    let ok = Response::ok(Some(Id::Number(3)), json!({"generation": 12}));
    assert_eq!(
        serde_json::to_string(&ok).expect("writes"),
        r#"{"jsonrpc":"2.0","id":3,"result":{"generation":12}}"#
    );
    let e = RpcError::new(codes::REJECTED, "no mesh 'x'").field("edits[1].mesh").generation(11);
    assert_eq!(
        serde_json::to_string(&Response::err(None, e)).expect("writes"),
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":6,"message":"no mesh 'x'","data":{"field":"edits[1].mesh","generation":11}}}"#
    );
    let note = Notification::new("event", json!({"event": "fault"}));
    assert_eq!(
        serde_json::to_string(&note).expect("writes"),
        r#"{"jsonrpc":"2.0","method":"event","params":{"event":"fault"}}"#
    );
}

#[test]
fn wrong_json_is_named() {
    let code = |s: &str| parse_request(s.as_bytes()).map_err(|(id, e)| (id, e.code));
    assert_eq!(code("{").unwrap_err(), (None, codes::PARSE));
    assert_eq!(code("\u{0}").unwrap_err(), (None, codes::PARSE));
    assert_eq!(code("[]").unwrap_err(), (None, codes::INVALID_REQUEST));
    assert_eq!(code("7").unwrap_err(), (None, codes::INVALID_REQUEST));
    assert_eq!(
        code(r#"{"id":4,"method":"x"}"#).unwrap_err(),
        (Some(Id::Number(4)), codes::INVALID_REQUEST),
        "jsonrpc missing"
    );
    assert_eq!(
        code(r#"{"jsonrpc":"1.0","id":"a","method":"x"}"#).unwrap_err(),
        (Some(Id::Text("a".into())), codes::INVALID_REQUEST)
    );
    assert_eq!(
        code(r#"{"jsonrpc":"2.0","id":4,"method":"x","extra":1}"#).unwrap_err(),
        (Some(Id::Number(4)), codes::INVALID_REQUEST)
    );
    // JSON all right, but not to be kept: the client learns which request it was.
    for big in ["1e999", &"9".repeat(400), &format!("{}{}", "[".repeat(200), "]".repeat(200))] {
        let line = format!(r#"{{"params":{{"to":[{big},0,0]}},"jsonrpc":"2.0","method":"recentre","id":5}}"#);
        assert_eq!(code(&line).unwrap_err(), (Some(Id::Number(5)), codes::INVALID_PARAMS), "{big}");
    }
    let deep = "[".repeat(100_000);
    assert_eq!(code(&deep).unwrap_err(), (None, codes::PARSE), "nesting is bounded");
}

#[test]
fn wrong_arguments_are_named_and_in_plain_words() {
    let cases = [
        (json!({"op":"material.set","name":"w","stiffness":"hard"}), "stiffness"),
        (json!({"op":"material.set","name":"w","stiffness":[1]}), "stiffness"),
        (json!({"op":"material.set","name":"w"}), "stiffness"),
        (json!({"op":"material.set","name":"w","stiffness":1,"colour":1}), "colour"),
        (
            json!({"op":"object.create","name":"w","mesh":"m","material":"x","pose":{"position":[0,0]}}),
            "pose",
        ),
        (json!({"op":"object.create","name":"w","mesh":"m","material":"x","scale":"big"}), "scale"),
        (json!({"op":"object.create","name":"w","mesh":"m","material":"x","pose":7}), "pose"),
        (json!({"op":"object.delete","object":-1}), "object"),
        (json!({"op":"object.update","object":[],"moving":true}), "object"),
    ];
    for (params, field) in cases {
        let e = arguments::<Edit>(params.clone()).expect_err("refused");
        let named = e.data.and_then(|d| d.field);
        assert_eq!(
            (e.code, named.as_deref()),
            (codes::INVALID_PARAMS, Some(field)),
            "{params}: {}",
            e.message
        );
        for word in ["f64", "u32", "enum", "struct", "variant"] {
            assert!(!e.message.contains(word), "{params}: {}", e.message);
        }
    }
    for list in [json!([]), json!([1]), json!(1), json!("x"), json!(true)] {
        assert_eq!(arguments::<Arm>(list).expect_err("refused").code, codes::INVALID_PARAMS);
    }
    for scale in [json!(2.0), json!([2.0, 2.0, 2.0])] {
        let params = json!({"op":"object.create","name":"w","mesh":"m","material":"x","scale":scale});
        let Ok(Edit::ObjectCreate { scale: Some(f), .. }) = arguments(params) else { panic!("not read") };
        assert_eq!(f.each(), [2.0; 3]);
    }
}

#[test]
fn what_clients_wrote_is_shown_short_and_without_control_characters() {
    for bad in ['\u{1b}', '\0', '\n', '\u{7f}', '\u{9b}', '\u{200e}', '\u{202e}', '\u{2066}'] {
        let text = shown(&format!("a{bad}b"));
        assert!(!text.contains(bad) && text.starts_with('a') && text.ends_with('b'), "{text}");
    }
    assert_eq!(shown("Hülse 3"), "Hülse 3");
    assert!(shown(&"x".repeat(500_000)).len() < 100);
}

#[test]
fn unknown_fields_and_wrong_types_are_refused() {
    let bad = [
        r#"{"op":"material.set","name":"w","stiffness":"hard"}"#,
        r#"{"op":"material.set","name":"w","stiffness":1.0,"colour":"red"}"#,
        r#"{"op":"material.set","name":"w"}"#,
        r#"{"op":"mesh.load","name":"w","source":"descriptor","format":"step","unit":"mm"}"#,
        r#"{"op":"mesh.load","name":"w","source":"descriptor","format":"stl"}"#,
        r#"{"op":"object.paint","object":1}"#,
        r#"{"op":"object.create","name":"w","mesh":"m","material":"x","pose":{"position":[0,0]}}"#,
        r#"{"op":"object.delete","object":-1}"#,
    ];
    for b in bad {
        assert!(serde_json::from_str::<Edit>(b).is_err(), "{b}");
    }
    assert!(PoseJson { position: [f64::NAN, 0.0, 0.0], ..PoseJson::default() }.checked().is_err());
    assert!(PoseJson { orientation: [0.0, 0.0, 0.0, 1.1], ..PoseJson::default() }.checked().is_err());
}

/// Fenced blocks of the protocol's page whose info string is `info`, one item a block.
fn blocks(info: &str) -> Vec<String> {
    let text = include_str!("../docs/protocol.md");
    let mut out = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line == format!("```{info}") {
            out.push(lines.by_ref().take_while(|l| *l != "```").collect::<Vec<_>>().join("\n"));
        }
    }
    out
}

#[test]
fn every_example_of_the_protocol_s_page_is_read() {
    fn args<T: serde::de::DeserializeOwned>(r: &Request) {
        let params = if r.params.is_null() { json!({}) } else { r.params.clone() };
        serde_json::from_value::<T>(params).unwrap_or_else(|e| panic!("{}: {e}", r.method));
    }
    let mut seen = std::collections::BTreeSet::new();
    for line in blocks("json request").iter().flat_map(|b| b.lines()) {
        let r = parse_request(line.as_bytes()).unwrap_or_else(|e| panic!("{line}: {e:?}"));
        seen.insert(r.method.clone());
        match r.method.as_str() {
            "hello" => args::<Hello>(&r),
            "transaction" => args::<Transaction>(&r),
            "arm" | "takeover" => args::<Arm>(&r),
            "limits" => args::<Limits>(&r),
            "clutch" => args::<Clutch>(&r),
            "recentre" => args::<Recentre>(&r),
            "subscribe" => args::<Subscribe>(&r),
            "state_stream" => args::<StateStream>(&r),
            "motion.open" => args::<MotionOpen>(&r),
            "motion.close" => args::<MotionClose>(&r),
            "cancel" => args::<Cancel>(&r),
            "record" => args::<Record>(&r),
            "disarm" | "clear_fault" | "calibrate" | "ping" | "status" | "scene" | "shutdown" => {
                assert!(r.params.is_null());
            }
            op => {
                assert!(Edit::OPS.contains(&op), "{op}");
                let mut params = if r.params.is_null() { json!({}) } else { r.params.clone() };
                params["op"] = json!(op);
                serde_json::from_value::<Edit>(params).unwrap_or_else(|e| panic!("{op}: {e}"));
            }
        }
    }
    for op in Edit::OPS {
        assert!(seen.contains(op), "{op} has no example");
    }
    let answers: Vec<Response> = blocks("json answer")
        .iter()
        .flat_map(|b| b.lines())
        .map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{l}: {e}")))
        .collect();
    serde_json::from_value::<Welcome>(answers[0].result.clone().expect("a result")).expect("a welcome");
    let opened = answers.last().and_then(|a| a.result.clone()).expect("a result");
    let opened: MotionOpened = serde_json::from_value(opened).expect("opened");
    let delay = hapticd::servo::handle::motion_delay_ns(2_000_000, 5_000_000);
    assert_eq!((opened.delay_s * 1e9).round(), delay as f64);
    for line in blocks("json note").iter().flat_map(|b| b.lines()) {
        let n: Notification = serde_json::from_str(line).expect("a notification");
        match n.method.as_str() {
            "telemetry" => drop(serde_json::from_value::<TelemetryNote>(n.params).expect("telemetry")),
            "event" => drop(serde_json::from_value::<EventNote>(n.params).expect("an event")),
            "progress" => drop(serde_json::from_value::<ProgressNote>(n.params).expect("progress")),
            other => panic!("{other}"),
        }
    }
    let hex = blocks("hex motion").concat();
    assert_eq!(unhex(&hex), unhex(MOTION));
}

#[test]
fn the_page_names_every_code_as_telemetry_does() {
    use hapticd::control::names;
    use hapticd::servo::record::{Fault, ServoState, ZeroReason};
    let page = include_str!("../docs/protocol.md");
    for (i, z) in ZeroReason::ALL.iter().enumerate() {
        let fault = Fault::ALL.get(i).map_or(String::new(), |f| format!("`{}` ", names::fault(*f)));
        let row = format!("| {i} | `{}` | {fault}|", names::zero(*z));
        assert!(page.contains(&row), "{row}");
    }
    for s in ServoState::ALL {
        assert!(page.contains(&format!("{} {}", s as u8, names::state(s))), "{s:?}");
    }
    for (bit, name) in names::FLAGS {
        let text = format!("{bit} `{name}`");
        assert!(page.replace('\n', " ").contains(&text), "{text}");
    }
}
