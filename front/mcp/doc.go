// Package mcp serves a directory of a capd host to agents that speak the Model Context Protocol. It is a guest like any other: what the
// capability that it holds cannot do, no tool can.
//
// The tools of the reference server for files have its names, schemas and answers, so that prompts and habits go on working. Where the reference does
// harm they differ; docs/mcp.md says where. Further tools are what agents ask for: grep, read_lines, apply_patch, changes, undo and others.
package mcp
