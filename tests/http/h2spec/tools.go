//go:build tools

// Package h2spec fixes the version of the conformance tests for HTTP/2.
package h2spec

import _ "github.com/summerwind/h2spec/cmd/h2spec"
