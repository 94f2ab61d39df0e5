//! Status codes.

/// A status code and its reason phrase.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Status(pub u16);

impl Status {
    pub const OK: Self = Self(200);
    pub const NO_CONTENT: Self = Self(204);
    pub const PARTIAL: Self = Self(206);
    pub const MULTI_STATUS: Self = Self(207);
    pub const MOVED: Self = Self(301);
    pub const NOT_MODIFIED: Self = Self(304);
    pub const BAD_REQUEST: Self = Self(400);
    pub const UNAUTHORIZED: Self = Self(401);
    pub const FORBIDDEN: Self = Self(403);
    pub const NOT_FOUND: Self = Self(404);
    pub const METHOD_NOT_ALLOWED: Self = Self(405);
    pub const TIMEOUT: Self = Self(408);
    pub const CONFLICT: Self = Self(409);
    pub const PRECONDITION_FAILED: Self = Self(412);
    pub const TOO_LARGE: Self = Self(413);
    pub const URI_TOO_LONG: Self = Self(414);
    pub const RANGE_NOT_SATISFIABLE: Self = Self(416);
    pub const EXPECTATION_FAILED: Self = Self(417);
    pub const TOO_MANY_REQUESTS: Self = Self(429);
    pub const INTERNAL: Self = Self(500);
    pub const NOT_IMPLEMENTED: Self = Self(501);
    pub const BAD_GATEWAY: Self = Self(502);
    pub const UNAVAILABLE: Self = Self(503);
    pub const GATEWAY_TIMEOUT: Self = Self(504);
    pub const VERSION_NOT_SUPPORTED: Self = Self(505);
    pub const LOOP: Self = Self(508);

    /// The reason phrase; empty for a code that this server does not send.
    pub const fn reason(self) -> &'static str {
        match self.0 {
            200 => "OK",
            204 => "No Content",
            206 => "Partial Content",
            207 => "Multi-Status",
            301 => "Moved Permanently",
            304 => "Not Modified",
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            408 => "Request Timeout",
            409 => "Conflict",
            412 => "Precondition Failed",
            413 => "Content Too Large",
            414 => "URI Too Long",
            416 => "Range Not Satisfiable",
            417 => "Expectation Failed",
            429 => "Too Many Requests",
            500 => "Internal Server Error",
            501 => "Not Implemented",
            502 => "Bad Gateway",
            503 => "Service Unavailable",
            504 => "Gateway Timeout",
            505 => "HTTP Version Not Supported",
            508 => "Loop Detected",
            _ => "",
        }
    }

    /// Whether an answer with this status never has a body, so that it has no length either.
    pub const fn has_no_body(self) -> bool {
        matches!(self.0, 204 | 304)
    }

    pub const fn is_error(self) -> bool {
        self.0 >= 400
    }
}
