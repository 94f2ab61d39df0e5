//! A connection to a message broker.

use super::stomp::Frame;
use crate::failure::{AdminError, UsageError};
use anyhow::{Context, bail};
use forebay_net::{ClientTlsFiles, Credential, CrlPolicy, Stream, TlsConnector, TrustAnchors, connect};
use forebay_types::Endpoint;
use std::{fs, path::PathBuf, time::Duration};
use tokio::time::timeout;

/// The broker, and how this program proves who it is.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct BrokerArgs {
    /// The broker's STOMP listener
    #[arg(long, value_name = "HOST:PORT")]
    broker: String,
    /// Virtual host of the broker
    #[arg(long, value_name = "NAME", default_value = "/")]
    virtual_host: String,
    /// Encrypt the connection to the broker
    #[arg(long)]
    tls: bool,
    /// Directory of trusted authorities
    #[arg(long, value_name = "DIRECTORY", default_value = "/etc/grid-security/certificates", requires = "tls")]
    ca_dir: PathBuf,
    /// Certificate for the broker
    #[arg(long, value_name = "FILE", requires = "tls", requires = "key")]
    certificate: Option<PathBuf>,
    /// Private key of the certificate
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// User name at the broker
    #[arg(long, value_name = "NAME", requires = "password_file")]
    user: Option<String>,
    /// File with the password
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
}

/// Longest time to connect, and to wait for an answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// A broker that has accepted this program.
pub(super) struct Broker {
    stream: Stream,
    name: String,
    input: Vec<u8>,
    receipts: u64,
}

impl Broker {
    /// Connects and logs in.
    pub(super) async fn connect(args: &BrokerArgs) -> anyhow::Result<Self> {
        let endpoint: Endpoint =
            args.broker.parse().map_err(|error| UsageError(format!("--broker {}: {error}", args.broker)))?;
        let unreachable = |reason: String| AdminError::new(AdminError::UNREACHABLE, reason);
        let socket = connect(&endpoint, ANSWER_TIME_MAX).await;
        let socket =
            socket.map_err(|error| unreachable(format!("cannot connect to the broker {endpoint}: {error}")))?;
        let mut stream = Stream::from(socket);
        if let Some(connector) = tls(args)? {
            let handshake = timeout(ANSWER_TIME_MAX, stream.connect_tls(&connector, endpoint.host())).await;
            let done = handshake.map_err(|_| unreachable(format!("the broker {endpoint} does not answer")))?;
            done.with_context(|| format!("TLS with the broker {endpoint}"))?;
        }
        let mut broker = Self { stream, name: args.broker.clone(), input: Vec::new(), receipts: 0 };
        broker.log_in(args).await?;
        Ok(broker)
    }

    async fn log_in(&mut self, args: &BrokerArgs) -> anyhow::Result<()> {
        let password = match &args.password_file {
            Some(file) => fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?,
            None => String::new(),
        };
        let mut headers = vec![("accept-version", "1.2"), ("host", args.virtual_host.as_str()), ("heart-beat", "0,0")];
        if let Some(user) = &args.user {
            headers.extend([("login", user.as_str()), ("passcode", password.trim_end())]);
        }
        let answer = self.ask(&Frame::new("CONNECT", &headers)).await?;
        if answer.command == "CONNECTED" { Ok(()) } else { bail!(self.strange(&answer)) }
    }

    /// Sends a message, and waits until the broker has it.
    pub(super) async fn send(&mut self, destination: &str, body: Vec<u8>) -> anyhow::Result<()> {
        let receipt = self.next_receipt();
        let headers =
            [("destination", destination), ("content-type", "application/json"), ("receipt", receipt.as_str())];
        let answer = self.ask(&Frame { body, ..Frame::new("SEND", &headers) }).await?;
        self.expect_receipt(&answer, &receipt)
    }

    /// Logs out, and waits until the broker confirms it.
    pub(super) async fn close(mut self) -> anyhow::Result<()> {
        let receipt = self.next_receipt();
        let answer = self.ask(&Frame::new("DISCONNECT", &[("receipt", receipt.as_str())])).await?;
        self.expect_receipt(&answer, &receipt)
    }

    fn next_receipt(&mut self) -> String {
        self.receipts += 1;
        self.receipts.to_string()
    }

    fn expect_receipt(&self, answer: &Frame, receipt: &str) -> anyhow::Result<()> {
        let is_it = answer.command == "RECEIPT" && answer.header("receipt-id") == Some(receipt);
        if is_it { Ok(()) } else { bail!(self.strange(answer)) }
    }

    fn strange(&self, answer: &Frame) -> String {
        let Self { name, .. } = self;
        match answer.command.as_str() {
            "ERROR" => {
                let body = String::from_utf8_lossy(&answer.body);
                let message = answer.header("message").unwrap_or_default();
                format!("the broker {name} refuses: {message}: {}", body.trim().escape_debug())
            }
            command => format!("the broker {name} answers with an unexpected frame: {}", command.escape_debug()),
        }
    }

    /// Sends a frame, and waits for the next one of the broker.
    async fn ask(&mut self, frame: &Frame) -> anyhow::Result<Frame> {
        let name = self.name.clone();
        let exchange = async {
            self.stream.send_all(&frame.encode()).await.context("sending to the broker")?;
            self.next_frame().await
        };
        let answered = timeout(ANSWER_TIME_MAX, exchange).await;
        answered.map_err(|_| AdminError::new(AdminError::UNREACHABLE, format!("the broker {name} does not answer")))?
    }

    async fn next_frame(&mut self) -> anyhow::Result<Frame> {
        loop {
            if let Some((frame, len)) = Frame::decode(&self.input)? {
                self.input.drain(..len);
                return Ok(frame);
            }
            self.input.reserve(RECEIVE_LEN);
            match self.stream.try_receive(&mut self.input).context("receiving from the broker")? {
                Some(0) => bail!("the broker {} has closed the connection", self.name),
                Some(_) => {}
                None => self.stream.readable().await.context("receiving from the broker")?,
            }
        }
    }
}

/// Bytes that are received at a time.
const RECEIVE_LEN: usize = 4096;

fn tls(args: &BrokerArgs) -> anyhow::Result<Option<TlsConnector>> {
    if !args.tls {
        return Ok(None);
    }
    let credential = args.certificate.clone().zip(args.key.clone());
    let files = ClientTlsFiles {
        trust: TrustAnchors { ca_dir: args.ca_dir.clone(), crl: CrlPolicy::Ignore },
        credential: credential.map(|(certificate, key)| Credential { certificate, key }),
    };
    Ok(Some(TlsConnector::new(files).context("the files for TLS with the broker")?))
}
