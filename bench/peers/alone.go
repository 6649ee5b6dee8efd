//go:build alone

package peers

// All is capd's contenders alone, in a program that holds no code of the peers: it would count as their memory.
var All = Own
