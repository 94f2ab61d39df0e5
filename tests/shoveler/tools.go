//go:build tools

// Package tools names the program that the tests build, so that its version is fixed by go.mod and go.sum.
package tools

import _ "github.com/opensciencegrid/xrootd-monitoring-shoveler/cmd/shoveler"
