//go:build alone

package peers

// All is only capd's contenders, for a program without the peers' code, which would count as capd's memory.
var All = Own
