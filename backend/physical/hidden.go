package physical

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"capd/vfs"
)

// stagingPrefix begins the name of every staging directory. 32 hexadecimal digits
// follow.
const (
	stagingPrefix = ".capd-staging-"
	stagingDigits = 32
)

// hidden reports whether name is reserved: the name of a staging directory of any
// process, in every spelling that a file system might take for one by folding case or
// skipping invisible characters. No Dir shows or takes such a name.
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

// checkName checks a name to be looked up. A hidden name is not found.
func checkName(name string) error {
	if err := vfs.CheckName(name); err != nil {
		return err
	}
	if hidden(name) {
		return vfs.At("", vfs.NotFound)
	}
	return nil
}

// checkTarget checks a name, new or not, at which a change may put something.
func checkTarget(name string) error {
	if err := vfs.CheckName(name); err != nil {
		return err
	}
	if hidden(name) {
		return vfs.ErrReserved
	}
	return nil
}

// checkNew checks a name at which there is nothing yet.
func checkNew(name string) error {
	if err := checkTarget(name); err != nil {
		return err
	}
	return vfs.CheckNewName(name)
}

// isStaging reports whether name has exactly the form of this package's staging
// directories.
func isStaging(name string) bool {
	digits, ok := strings.CutPrefix(name, stagingPrefix)
	return ok && len(digits) == stagingDigits && strings.Trim(digits, "0123456789abcdef") == ""
}
