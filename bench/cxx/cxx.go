// Package cxx holds the source of the contender in C++.
package cxx

import _ "embed"

// Source is one file.
//
//go:embed src/contender.cpp
var Source string
