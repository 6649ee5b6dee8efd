package physical

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"capd/vfs"
)

// stagingPrefix begins the name of every staging directory; 32 hexadecimal
// digits follow.
const (
	stagingPrefix = ".capd-staging-"
	stagingDigits = 32
)

// hidden reports whether no Dir shows or takes name: the staging directories of
// this process and of any other, in any spelling that a file system which folds
// case or skips invisible characters might take for one.
func hidden(name string) bool {
	want := stagingPrefix
	for len(want) > 0 {
		r, n := utf8.DecodeRuneInString(name)
		if n == 0 {
			return false
		}
		name = name[n:]
		if unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) {
			continue
		}
		if !strings.EqualFold(string(r), want[:1]) {
			return false
		}
		want = want[1:]
	}
	return true
}

// checkName is for a name that is looked up: what is hidden is not found.
func checkName(name string) error {
	if err := vfs.CheckName(name); err != nil {
		return err
	}
	if hidden(name) {
		return vfs.At("", vfs.NotFound)
	}
	return nil
}

// checkTarget is for a name that a change may put something at, new or not.
func checkTarget(name string) error {
	if err := vfs.CheckName(name); err != nil {
		return err
	}
	if hidden(name) {
		return vfs.ErrReserved
	}
	return nil
}

// checkNew is for a name at which there is nothing yet.
func checkNew(name string) error {
	if err := checkTarget(name); err != nil {
		return err
	}
	return vfs.CheckNewName(name)
}

// isStaging reports whether name is exactly what this package gives a staging
// directory.
func isStaging(name string) bool {
	digits, ok := strings.CutPrefix(name, stagingPrefix)
	if !ok || len(digits) != stagingDigits {
		return false
	}
	for _, c := range digits {
		if !strings.ContainsRune("0123456789abcdef", c) {
			return false
		}
	}
	return true
}
