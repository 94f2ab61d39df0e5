//! The task of a control connection.

use crate::{
    answers::NameRequest,
    control_line::ControlLine,
    identity::{TooManySessions, log_in},
    open::{self, read_only},
    options::ANSWERS_QUEUED_MAX,
    socket::{receive, send_text},
    state::{State, stopped},
};
use forebay_dcap_proto::{
    Command, ControlAnswer, ControlRequest, Errno, Hello, LineError, LineTooLong, Lines, NameError, Refusal,
};
use forebay_front::{ConnectionPlaces, DeliveryError, NewClient};
use forebay_telemetry::RequestKind;
use forebay_types::Side;
use std::{io, sync::Arc};
use tokio::{
    net::TcpStream,
    sync::{mpsc, watch},
    task::{JoinError, JoinSet},
    time::{Instant, sleep_until, timeout_at},
};

/// A control connection after its hello. Its drop ends its data connections.
struct Control {
    line: Arc<ControlLine>,
    stream: TcpStream,
    lines: Lines,
    /// Since when the client has to complete a line.
    line_began: Instant,
    answers: mpsc::Receiver<String>,
    /// Requests in progress, and open files.
    tasks: JoinSet<()>,
    stop: watch::Receiver<bool>,
}

/// Why a control connection ends.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("the client closed it")]
    Client,
    #[error("the server stops")]
    Server,
    #[error("the client did not complete a line in time")]
    Slow,
    #[error("the client did not begin with a hello")]
    NoHello,
    #[error(transparent)]
    TooManySessions(#[from] TooManySessions),
    #[error(transparent)]
    LongLine(#[from] LineTooLong),
    #[error("a line was refused: {0}")]
    Line(#[from] LineError),
    #[error("it cannot be read from: {0}")]
    Input(#[from] io::Error),
    #[error(transparent)]
    Delivery(#[from] DeliveryError),
}

/// Serves a client until it leaves or `stop` is true.
pub(crate) async fn serve(state: Arc<State>, client: NewClient, stop: watch::Receiver<bool>) {
    let _gauge = state.front.backend.metrics().open_connection();
    let peer = client.peer;
    let refusal_log = state.front.refusal_log.clone();
    match run(state, client, stop).await {
        // These are ordinary ends. Others are of interest to the administrator.
        end @ (End::Client | End::Server) => tracing::debug!(%peer, %end, "connection closed"),
        end if refusal_log.has_room() => tracing::info!(%peer, %end, side = %Side::Client, "connection closed"),
        _ => {}
    }
}

async fn run(state: Arc<State>, client: NewClient, mut stop: watch::Receiver<bool>) -> End {
    let NewClient { stream, peer, places, .. } = client;
    let ConnectionPlaces { in_total: _in_total, of_client, login } = places;
    let local = match stream.local_addr() {
        Ok(local) => local,
        Err(error) => return error.into(),
    };
    let mut lines = Lines::default();
    let began = Instant::now();
    let greeted = tokio::select! {
        greeted = timeout_at(began + state.options.request_time_max, hello(&stream, &mut lines)) => {
            greeted.unwrap_or(Err(End::Slow))
        }
        () = stopped(&mut stop) => Err(End::Server),
    };
    state.front.backend.metrics().add_client_request(RequestKind::Session);
    let logged_in = greeted.and_then(|hello| Ok((log_in(&state, peer, &hello)?, hello.version)));
    let ((proven, _session), version) = match logged_in {
        Ok(logged_in) => logged_in,
        Err(end) => return end,
    };
    drop(login);
    let (give, answers) = mpsc::channel(ANSWERS_QUEUED_MAX);
    let line = ControlLine::new(state, (peer, local), proven, of_client.handles().clone(), give);
    let (line, tasks) = (Arc::new(line), JoinSet::new());
    let mut control = Control { line, stream, lines, line_began: began, answers, tasks, stop };
    let served = match control.send(&ControlAnswer::welcome(version)).await {
        Ok(()) => control.serve().await,
        Err(error) => Err(error),
    };
    served.err().unwrap_or(End::Client)
}

/// The first line of a client.
async fn hello(stream: &TcpStream, lines: &mut Lines) -> Result<Hello, End> {
    loop {
        if let Some(line) = lines.poll_line()? {
            return match ControlRequest::parse(&line)?.command {
                Command::Hello(hello) => Ok(hello),
                _ => Err(End::NoHello),
            };
        }
        if !receive(stream, |bytes| lines.handle_bytes(bytes)).await? {
            return Err(End::Client);
        }
    }
}

impl Control {
    /// Serves requests; returns when the client has said goodbye.
    async fn serve(&mut self) -> Result<(), End> {
        let mut is_stopping = false;
        loop {
            while !is_stopping && let Some(line) = self.lines.poll_line()? {
                if !self.handle_line(&line).await? {
                    return Ok(());
                }
            }
            if is_stopping && self.tasks.is_empty() {
                while let Ok(answer) = self.answers.try_recv() {
                    self.send(&answer).await?;
                }
                return Err(End::Server);
            }
            is_stopping |= self.wait(is_stopping).await?;
        }
    }

    /// Waits for lines of the client, and sends answers; whether the server stops.
    async fn wait(&mut self, is_stopping: bool) -> Result<bool, End> {
        let is_within_line = self.lines.is_within_line();
        let deadline = self.line_began + self.line.state.options.request_time_max;
        let lines = &mut self.lines;
        tokio::select! {
            // The line itself keeps a sender.
            Some(answer) = self.answers.recv() => self.send(&answer).await?,
            Some(ended) = self.tasks.join_next() => log_panic(ended),
            received = receive(&self.stream, |bytes| lines.handle_bytes(bytes)) => {
                if !received? {
                    return Err(End::Client);
                }
                if !is_within_line {
                    self.line_began = Instant::now();
                }
            }
            () = sleep_until(deadline), if is_within_line && !is_stopping => return Err(End::Slow),
            () = stopped(&mut self.stop), if !is_stopping => return Ok(true),
        }
        Ok(false)
    }

    /// Answers a line, or starts a task that does; `false` if the client leaves.
    async fn handle_line(&mut self, line: &str) -> Result<bool, End> {
        let request = match ControlRequest::parse(line) {
            Ok(request) => request,
            Err(error @ LineError::ArgumentMissing { session, id }) => {
                let refusal = Refusal::new(Refusal::PROTOCOL, Errno::Invalid, error.to_string());
                self.send(&ControlAnswer { session, id }.failed(&refusal)).await?;
                return Ok(true);
            }
            Err(error) => return Err(error.into()),
        };
        self.line.state.front.backend.metrics().add_client_request(kind_of(&request.command));
        let answer = ControlAnswer { session: request.session, id: request.id };
        match request.command {
            Command::Hello(hello) => self.send(&ControlAnswer::welcome(hello.version)).await?,
            Command::Ping => self.send(&answer.pong()).await?,
            Command::Bye => {
                self.send(&ControlAnswer::bye()).await?;
                return Ok(false);
            }
            Command::Fail => {}
            Command::Stat(path) => self.start(answer, NameRequest::Stat, path).await?,
            Command::Check(path) => self.start(answer, NameRequest::Check, path).await?,
            Command::Stage(path) => self.start(answer, NameRequest::Stage, path).await?,
            // Before there is a task: the limit of sessions is that of the tasks.
            Command::Open(open) => match self.line.begin_session(answer.session) {
                Ok(session) => {
                    let (line, stop) = (Arc::clone(&self.line), self.stop.clone());
                    self.tasks.spawn(open::serve(line, answer, open, session, stop));
                }
                Err(refusal) => self.send(&answer.failed(&refusal)).await?,
            },
            Command::Change(_) => self.send(&answer.failed(&read_only())).await?,
            Command::Unsupported(verb) => {
                let text = format!("{verb} is not supported");
                self.send(&answer.failed(&Refusal::new(Refusal::PROTOCOL, Errno::Invalid, text))).await?;
            }
        }
        Ok(true)
    }

    /// Starts a request on a name, within the limit.
    async fn start(
        &mut self,
        answer: ControlAnswer,
        kind: NameRequest,
        path: Result<Vec<u8>, NameError>,
    ) -> Result<(), End> {
        let Ok(place) = Arc::clone(&self.line.requests).try_acquire_owned() else {
            let refusal = Refusal::new(Refusal::INTERNAL, Errno::Busy, "too many requests at the same time");
            return self.send(&answer.failed(&refusal)).await;
        };
        let line = Arc::clone(&self.line);
        self.tasks.spawn(async move {
            let _place = place;
            line.answer_name(answer, kind, path).await;
        });
        Ok(())
    }

    async fn send(&self, text: &str) -> Result<(), End> {
        Ok(send_text(&self.stream, text, self.line.state.options.write_stall_max).await?)
    }
}

/// The kind of a request on a control connection.
const fn kind_of(command: &Command) -> RequestKind {
    match command {
        Command::Hello(_) | Command::Bye => RequestKind::Session,
        Command::Stat(_) => RequestKind::Stat,
        Command::Check(_) => RequestKind::Locate,
        Command::Open(_) => RequestKind::Open,
        Command::Change(_) => RequestKind::Write,
        Command::Ping | Command::Stage(_) | Command::Fail | Command::Unsupported(_) => RequestKind::Other,
    }
}

fn log_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "an internal error ended a data connection");
    }
}
