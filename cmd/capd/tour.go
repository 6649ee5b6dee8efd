package main

type tourCommand struct{}

func (tourCommand) Run(e *env) error { return nil }
