package main

// makeFIFO is nil where there are no FIFOs in directories.
var makeFIFO func(path string) error
