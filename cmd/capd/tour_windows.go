package main

// makeFIFO is nil, since directories have no FIFOs here.
var makeFIFO func(path string) error
