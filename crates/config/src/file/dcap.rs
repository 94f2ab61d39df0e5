//! Settings of the dCap front.

use super::declare::{Value, section};
use crate::{
    config::Config,
    value::{DnsName, List, Time},
};
use std::net::SocketAddr;

section! {
    /// The dCap front: the same files over `dcap://`, for reading. It has addresses of its own. The limits of the table `server` hold for it, too.
    "dcap" RawDcap => Config {
        /// Addresses for dCap, each `ADDRESS:PORT`, for control and data connections. Clients without a port in the URL use 22125.
        listen: List<SocketAddr> => dcap.listen = Value::default("[]").sample(r#"["0.0.0.0:22125"]"#),
        /// Host name or address to which clients make data connections, on the port of the control connection. Default: the address to which
        /// the client has made its control connection.
        data_host: DnsName => dcap.options.host_name = Value::none().sample(r#""cache.example.org""#),
        /// Timeout for the data connection of a file after its open: the open fails.
        data_connection_time_max: Time => dcap.options.data_connection_time_max = Value::default(r#""30s""#),
        /// Timeout for the first line of a connection, and for a line or a request from its first byte on: the connection is closed.
        request_time_max: Time => dcap.options.request_time_max = Value::default(r#""30s""#),
    }
}
