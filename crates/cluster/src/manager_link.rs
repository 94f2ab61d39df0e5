//! One manager: connection, login, answers, and connection again after each failure.

use crate::{
    shared::{Announcement, Shared},
    verdict::{Pace, Verdict},
};
use forebay_cms::{Event, Held, Login, NodeSession, SILENCE_MAX, SessionError};
use forebay_engine::IndexState;
use forebay_net::ConnectError;
use forebay_telemetry::ClusterAnswer;
use forebay_types::{Endpoint, Lfn};
use std::{io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{Semaphore, broadcast, mpsc, watch},
    time::{Instant, interval, sleep, timeout, timeout_at},
};

/// Longest time to connect.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// Longest time until a manager answers the login.
const LOGIN_TIME_MAX: Duration = Duration::from_secs(30);

/// Longest time to send to a manager that does not read.
const SEND_TIME_MAX: Duration = Duration::from_secs(10);

/// Pauses before the next attempt: the first one, which doubles up to the last one. A manager that starts knows no file, so it is
/// found again soon.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// Pause after a refusal, which lasts until a person changes it.
const PAUSE_AFTER_REFUSAL: Duration = Duration::from_secs(60);

/// Interval of reports on load and space.
const REPORT_INTERVAL: Duration = Duration::from_secs(30);

/// Interval at which a node that reads its index looks whether it knows all of its files.
const INDEX_INTERVAL: Duration = Duration::from_millis(200);

/// Questions of one manager that wait for other members. Further ones are not answered, as if the file were unknown.
const WAITING_MAX: usize = 4096;

/// Bytes read at once.
const READ_LEN: usize = 16 << 10;

/// The reason for the end of a connection.
#[derive(Debug, thiserror::Error)]
enum LinkError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    #[error("the manager closed the connection; if this repeats, its log has the reason")]
    Closed,
    #[error("the manager has not sent anything for {} s", .0.as_secs())]
    Silent(Duration),
    #[error("the manager does not read")]
    Stalled,
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// One manager, for the whole life of the node.
pub(crate) struct ManagerLink {
    shared: Arc<Shared>,
    manager: Endpoint,
    /// Whether anything came after the login, which shows that the manager has accepted it.
    is_accepted: bool,
}

/// A connection to a manager.
struct Connection {
    shared: Arc<Shared>,
    stream: TcpStream,
    session: NodeSession,
    answers: mpsc::Sender<(u32, String)>,
    waiting: Arc<Semaphore>,
    pace: Pace,
    is_logged_in: bool,
    is_accepted: bool,
}

impl ManagerLink {
    pub(crate) fn new(shared: Arc<Shared>, manager: Endpoint) -> Self {
        Self { shared, manager, is_accepted: false }
    }

    /// Stays connected until the node stops.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        tokio::select! {
            () = self.prepare() => {}
            () = stopped(&mut stop) => return,
        }
        let mut pause = PAUSE_MIN;
        loop {
            self.is_accepted = false;
            let manager = self.manager.clone();
            let Err(error) = self.visit(&manager, &mut stop).await else { return };
            tracing::warn!(%manager, %error, "the connection to a manager of the cluster has ended");
            if self.is_accepted {
                pause = PAUSE_MIN;
            }
            let wait = match error {
                LinkError::Session(
                    SessionError::Refused { .. } | SessionError::AuthenticationRequired | SessionError::Disconnected,
                ) => PAUSE_AFTER_REFUSAL,
                _ => pause,
            };
            tokio::select! {
                () = sleep(self.spread(wait)) => {}
                () = stopped(&mut stop) => return,
            }
            pause = pause.saturating_mul(2).min(PAUSE_MAX);
        }
    }

    /// Waits until this node knows its files and the other members: answers before that would make second copies.
    async fn prepare(&self) {
        let mut prepared = self.shared.is_prepared.subscribe();
        // An error means that the node stops.
        let _ = prepared.wait_for(|&is_prepared| is_prepared).await;
        while matches!(self.shared.engine.index_state(), IndexState::Loading | IndexState::Rebuilding { .. }) {
            sleep(INDEX_INTERVAL).await;
        }
    }

    /// A connection, also to the supervisors that the manager names. Ends well only if the node stops.
    async fn visit(&mut self, manager: &Endpoint, stop: &mut watch::Receiver<bool>) -> Result<(), LinkError> {
        let mut result = self.connect(manager, stop).await;
        if let Err(LinkError::Session(SessionError::Elsewhere { servers })) = &result {
            for supervisor in servers.clone() {
                tracing::info!(%manager, %supervisor, "the manager has no place left: logging in to a supervisor");
                result = self.connect(&supervisor, stop).await;
                if result.is_ok() || self.is_accepted {
                    break;
                }
            }
        }
        result
    }

    async fn connect(&mut self, manager: &Endpoint, stop: &mut watch::Receiver<bool>) -> Result<(), LinkError> {
        let stream = forebay_net::connect_from(self.shared.source, manager, CONNECT_TIME_MAX).await?;
        // Before the login, which states the present one.
        let suspension = self.shared.suspension.subscribe();
        let report = *self.shared.report.borrow();
        let session = NodeSession::new(&self.login(), report);
        let (sender, answers) = mpsc::channel(WAITING_MAX);
        let mut connection = Connection {
            shared: Arc::clone(&self.shared),
            stream,
            session,
            answers: sender,
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
            pace: Pace::within(Duration::ZERO),
            is_logged_in: false,
            is_accepted: false,
        };
        let result = connection.run(answers, suspension, stop).await;
        self.is_accepted |= connection.is_accepted;
        if connection.is_logged_in {
            self.shared.metrics.add_cluster_manager(-1);
        }
        result
    }

    fn login(&self) -> Login {
        let (options, report) = (&self.shared.options, *self.shared.report.borrow());
        let total_gib = self.shared.members.lock().own().weight;
        Login {
            process: std::process::id(),
            total_gib,
            free_mib: report.space.free_mib,
            free_min_mib: 1,
            used_percent: report.space.used_percent.into(),
            data_port: self.shared.data_port,
            // Managers recognize a node that returns by this: it is the same after a restart, and different on one host.
            instance: format!("forebay-{}", self.shared.data_port),
            host: options.host.clone(),
            paths: options.paths.clone(),
            is_suspended: self.shared.suspension.borrow().is_some(),
        }
    }

    /// Up to a quarter longer, so that nodes do not all come at the same time.
    fn spread(&self, pause: Duration) -> Duration {
        let part = u32::try_from(self.shared.next_token() >> 48).unwrap_or_default();
        pause.saturating_add(pause.saturating_mul(part) / (4 * 0x1_0000))
    }
}

impl Connection {
    async fn run(
        &mut self,
        mut answers: mpsc::Receiver<(u32, String)>,
        mut suspension: watch::Receiver<Option<&'static str>>,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<(), LinkError> {
        let (mut resets, mut report) = (self.shared.resets.subscribe(), self.shared.report.subscribe());
        let mut announcements = self.shared.announcements.subscribe();
        let mut reports = interval(REPORT_INTERVAL);
        reports.reset();
        let mut buffer = vec![0; READ_LEN];
        self.flush().await?;
        let mut silent_at = Instant::now() + LOGIN_TIME_MAX;
        loop {
            tokio::select! {
                read = timeout_at(silent_at, self.stream.read(&mut buffer)) => {
                    let len = read.map_err(|_| self.silence())??;
                    silent_at = Instant::now() + SILENCE_MAX;
                    self.receive(buffer.get(..len).unwrap_or_default())?;
                }
                Some((stream, path)) = answers.recv() => self.answer(stream, &path, Held::Pending),
                announcement = announcements.recv() => self.announce(announcement),
                _ = resets.changed() => self.session.reset(),
                _ = suspension.changed() => {
                    let is_suspended = suspension.borrow_and_update().is_some();
                    if is_suspended { self.session.suspend() } else { self.session.resume() }
                    // Both change which files this node answers for.
                    self.session.reset();
                }
                _ = reports.tick() => self.session.update(*report.borrow_and_update()),
                _ = report.changed() => self.session.update(*report.borrow_and_update()),
                () = stopped(stop) => {
                    self.session.disconnect();
                    return self.flush().await;
                }
            }
            self.flush().await?;
        }
    }

    fn silence(&self) -> LinkError {
        LinkError::Silent(if self.is_logged_in { SILENCE_MAX } else { LOGIN_TIME_MAX })
    }

    fn receive(&mut self, received: &[u8]) -> Result<(), LinkError> {
        if received.is_empty() {
            return Err(LinkError::Closed);
        }
        self.session.handle(received);
        self.is_accepted |= self.is_logged_in;
        while let Some(event) = self.session.poll_event()? {
            match event {
                Event::LoggedIn(reply) => self.logged_in(reply.fast_window),
                Event::State { stream, path, is_refresh } => self.question(stream, path, is_refresh),
                // To fetch a file takes the authorization of its client, which the manager does not pass on.
                Event::Prepare { path } => tracing::debug!(path, "a client of the manager wants a file to be fetched"),
            }
        }
        Ok(())
    }

    fn logged_in(&mut self, fast_window: Duration) {
        self.is_logged_in = true;
        self.pace = Pace::within(fast_window);
        self.shared.metrics.add_cluster_manager(1);
        let manager = self.stream.peer_addr().ok();
        tracing::info!(?manager, fast_window_ms = fast_window.as_millis(), "logged in to a manager of the cluster");
        // A manager remembers the files of a node that returns, which may be elsewhere by now.
        self.session.reset();
    }

    fn question(&mut self, stream: u32, path: String, is_refresh: bool) {
        // A name that is not valid here is not here.
        let Ok(lfn) = Lfn::parse(&path) else { return };
        match self.shared.decide(&lfn, is_refresh, self.pace) {
            Verdict::Have(held) => self.answer(stream, &path, held),
            Verdict::Silent => self.shared.metrics.add_cluster_answer(ClusterAnswer::Silent),
            Verdict::Ask { after } => {
                let Ok(place) = Arc::clone(&self.waiting).try_acquire_owned() else {
                    return self.shared.metrics.add_cluster_answer(ClusterAnswer::Silent);
                };
                let (shared, answers, time_max) =
                    (Arc::clone(&self.shared), self.answers.clone(), self.pace.question_time_max);
                tokio::spawn(async move {
                    let _place = place;
                    if !after.is_zero() {
                        sleep(after).await;
                    }
                    if shared.is_held_elsewhere(lfn.as_str(), time_max).await || !shared.promise(lfn.as_str()) {
                        return shared.metrics.add_cluster_answer(ClusterAnswer::Silent);
                    }
                    // A closed queue means that the connection has ended.
                    let _ended = answers.send((stream, path)).await;
                });
            }
        }
    }

    fn answer(&mut self, stream: u32, path: &str, held: Held) {
        self.session.answer(stream, path, held);
        self.shared.metrics.add_cluster_answer(match held {
            Held::Online => ClusterAnswer::Online,
            Held::Pending => ClusterAnswer::Pending,
        });
    }

    fn announce(&mut self, announcement: Result<Announcement, broadcast::error::RecvError>) {
        match announcement {
            Ok(Announcement::Online(path)) => self.session.announce(&path, Held::Online),
            Ok(Announcement::Pending(path)) => self.session.announce(&path, Held::Pending),
            Ok(Announcement::Gone(path)) => self.session.retract(&path),
            Err(error) => tracing::debug!(%error, "announcements to a manager are lost"),
        }
    }

    async fn flush(&mut self) -> Result<(), LinkError> {
        let output = self.session.poll_output();
        if output.is_empty() {
            return Ok(());
        }
        let sent = timeout(SEND_TIME_MAX, self.stream.write_all(&output)).await;
        Ok(sent.map_err(|_| LinkError::Stalled)??)
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the membership was dropped, which ends it, too.
    let _ = stop.wait_for(|&is_stopping| is_stopping).await;
}
