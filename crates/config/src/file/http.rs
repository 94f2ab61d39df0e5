//! Settings of the HTTP front.

use super::declare::{Value, section};
use crate::{
    base::ClientCertificates,
    config::Config,
    value::{DnsName, List, Time},
};
use std::net::SocketAddr;

section! {
    /// The HTTP front: files and directories over `http://`, and over `https://` with `tls.certificate`. The limits of the table
    /// `server` hold for both fronts together.
    "http" RawHttp => Config {
        /// Serve HTTP on the addresses of `server.listen`, too. The protocol of a connection is recognized by its first byte. A manager serves
        /// `root://` only.
        shared: bool => http.is_shared = Value::default("true"),
        /// Further addresses, for HTTP and HTTPS only, each `ADDRESS:PORT`.
        listen: List<SocketAddr> => http.listen = Value::default("[]").sample(r#"["0.0.0.0:8443"]"#),
        /// Certificates of clients over HTTPS: `off` does not request them, which spares users of browsers a dialog; `ask` requests them
        /// and accepts clients without one; `require` refuses requests without a certificate of a trusted authority.
        client_certificates: ClientCertificates => http.client_certificates = Value::default(r#""ask""#),
        /// Offer HTTP/2 to clients of HTTPS. Files cost more processor time over HTTP/2 than over HTTP/1.1, and all requests of a client share one
        /// TCP connection.
        http2: bool => http.offers_http2 = Value::default("true"),
        /// Timeout for the header of a request, from its first byte on: the connection is closed.
        header_time_max: Time => http.options.header_time_max = Value::default(r#""10s""#),
        /// Close connections without a request after this time.
        idle_time_max: Time => http.options.idle_time_max = Value::default(r#""60s""#),
        /// Sites whose scripts may read files in browsers (CORS), each as `https://HOST` or `https://HOST:PORT`; `*` for all sites.
        cors_origins: List<DnsName> => http.options.cors_origins = Value::default("[]").sample(r#"["https://root.cern"]"#),
    }
}
