package main

import (
	"fmt"
	"strings"

	"capd/locator"
	"capd/state"
	"capd/vfs"
)

// locatedJSON is a locator as --json prints it.
type locatedJSON struct {
	Via     string `json:"via"`
	Locator string `json:"locator"`
}

// located returns the locators of what text leads to, one for each way.
func located(text string, unix bool, ways []state.Way) (all []locatedJSON, err error) {
	loc, err := locator.Parse(text)
	if err != nil {
		return nil, err
	}
	if unix {
		all = append(all, locatedJSON{"unix", loc.String()})
	}
	for _, w := range ways {
		all = append(all, locatedJSON{w.String(), w.Locator(loc.Secret).String()})
	}
	return all, nil
}

// printLocated prints locators, a line each, or with asJSON the object that has them.
func printLocated(e *env, asJSON bool, all []locatedJSON, object any) error {
	if asJSON {
		return printJSON(e.stdout, object)
	}
	for _, l := range all {
		fmt.Fprintln(e.stdout, l.Locator)
	}
	return nil
}

// waysOf returns the ways of the running host that --via names.
func waysOf(f stateFlag, via string) (unix bool, ways []state.Way, err error) {
	if via == "unix" {
		return true, nil, nil
	}
	st, err := f.open()
	if err != nil {
		return false, nil, err
	}
	all, err := st.Ways()
	if err != nil || via == "all" {
		return true, all, err
	}
	have := []string{"unix"}
	for _, w := range all {
		if via == "tls" || via == w.String() {
			ways = append(ways, w)
		}
		have = append(have, w.String())
	}
	if len(ways) == 0 {
		return false, nil, vfs.Errorf(vfs.NotFound, "the host does not listen in this way; it listens at %s (see capd serve --listen)", strings.Join(have, ", "))
	}
	return false, ways, nil
}
