package state

var makeFIFO func(path string) error
