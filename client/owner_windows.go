package client

func ownerOf(string) string { return "" }

func thisUser() string { return "" }
