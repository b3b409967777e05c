use super::*;
use crate::config::Core;
use crate::control::peer::Peer;
use crate::control::session::Applicant;
use crate::protocol::messages::Role;

fn bridge() -> (Bridge, Arc<Sessions>, std::thread::JoinHandle<()>) {
    let sessions = Arc::new(Sessions::default());
    let (bridge, thread) = spawn(BridgeOptions {
        socket: super::super::udp::open(0).unwrap(),
        sessions: sessions.clone(),
        cpus: Cpus::split(Core::Auto).unwrap(),
        flight: 0,
        dump: Box::new(|_, _| ()),
    })
    .unwrap();
    (bridge, sessions, thread)
}

fn session(sessions: &Sessions) -> Arc<Session> {
    let peer = Peer { pid: 1, uid: 2, groups: vec![] };
    let outbox = Arc::new(Outbox::default());
    let a = Applicant { peer: &peer, client: "t", role: Role::Owner, token: None, outbox };
    sessions.admit(a, 9).unwrap().0
}

fn code<T: std::fmt::Debug>(r: Result<T, RpcError>) -> i32 {
    r.unwrap_err().code
}

#[tokio::test]
async fn without_a_device_requests_are_refused_and_disarming_is_fine() {
    let (bridge, sessions, thread) = bridge();
    let s = session(&sessions);
    bridge.send(Request::Open(s.clone()));
    let arm = |reply| Request::Arm(arming::Arm { session: s.id, lease: None, takeover: false, reply });
    assert_eq!(code(bridge.ask(arm).await), codes::SERVO);
    assert_eq!(code(bridge.ask(|r| Request::Command(ServoCommand::ClearFault, r)).await), codes::SERVO);
    bridge.ask(|reply| Request::Disarm { session: s.id, any: false, reply }).await.unwrap();
    bridge.send(Request::Stop);
    thread.join().unwrap();
    assert_eq!(code(bridge.ask(|r| Request::Command(ServoCommand::ClearFault, r)).await), codes::LIMIT);
}

#[tokio::test]
async fn streams_are_opened_for_sessions_and_end_with_them() {
    let (bridge, sessions, thread) = bridge();
    let s = session(&sessions);
    bridge.send(Request::Open(s.clone()));
    let open = |reply| Request::Motion { session: s.id, delay_ns: 5_000_000, lease_ns: 1, reply };
    let first = bridge.ask(open).await.unwrap();
    assert_eq!((first.stream, first.delay_s), (1, 0.005));
    for _ in 1..super::super::motion::MAX_STREAMS {
        bridge.ask(open).await.unwrap();
    }
    assert_eq!(code(bridge.ask(open).await), codes::LIMIT);
    bridge.send(Request::Close(s.id));
    bridge.send(Request::Open(s.clone()));
    assert_eq!(bridge.ask(open).await.unwrap().stream, 1);
    bridge.send(Request::Stop);
    thread.join().unwrap();
}
