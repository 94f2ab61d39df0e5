//! Settings of the HTTP front.

use super::declare::{Value, section};
use crate::{
    base::ClientCertificates,
    config::Config,
    value::{DnsName, Line, List, Time},
};
use forebay_http::Bucket;
use forebay_types::Lfn;
use std::{net::SocketAddr, path::PathBuf};

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

section! {
    /// The S3 front: the same files as buckets and keys, for reading. It has addresses of its own.
    "s3" RawS3 => Config {
        /// Addresses for S3 over HTTP and, with `tls.certificate`, over HTTPS, each `ADDRESS:PORT`. Needs a `[[bucket]]`.
        listen: List<SocketAddr> => s3.listen = Value::default("[]").sample(r#"["0.0.0.0:9000"]"#),
        /// File of the access keys of clients, in the format of `~/.aws/credentials`; must not be readable by other users. The name of a profile is the
        /// user for `[[grant]]`, with the method `access-key`; `user = NAME` and `groups = /GROUP ...` in a profile replace it. Default:
        /// only requests without a signature are served.
        access_keys: PathBuf => security.access_keys = Value::none().sample(r#""/etc/forebay/s3-clients""#),
        /// Domain of which buckets are subdomains (virtual-host style), too.
        domain: DnsName => s3.options.domain = Value::none().sample(r#""s3.example.org""#),
    }
}

section! {
    /// Bucket of the S3 front. Can be repeated.
    "bucket" RawBucket => Bucket {
        /// Name, as in S3: 3 to 63 lower-case letters, digits, dots and hyphens.
        name: Line => name = Value::none().example(r#""data""#),
        /// Directory with its files, as clients of `root://` name it.
        path: Lfn => path = Value::none().example(r#""/store/data""#),
    }
}
